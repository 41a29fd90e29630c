//! The tasks in progress. The tasks of a key run one after the other, each from its first engine request to its outcome.
//!
//! ```text
//!                       ┌── cached record ─┐
//!                       │                  ▼
//!   behind others ─▶ to read ─▶ reading ─▶ to commit ─▶ committing ─▶ ended
//!                       ▲  ▲        │          ▲            │  │
//!                       │  └ later ◀┘          │   no answer│  │refused
//!                       │                      └─── later ◀─┘  ▼
//!                       └──────────── it was not made ◀─── settling
//! ```
mod commit_outcomes;
mod decisions;

use super::engine::{
    EngineError, EngineKey, EngineRequest, EngineRequestId, EngineValue, KeyState, Keys,
};
use super::expiry_index::ExpiryIndex;
use super::maps::{ById, ByKey};
use super::plan::{TaskAction, VersionClock, rejection};
use super::record::Record;
use super::record_cache::RecordCache;
use super::task::{Task, TaskId, TaskStage};
use bytes::Bytes;
use smallvec::SmallVec;
use statestored_common::ClockReading;
use statestored_store::keyspace::{Completion, RequestDigest, Ticket};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Lifetime in milliseconds of a task without a deadline.
const MAX_LIFETIME_MS: u64 = 60_000;

/// Time in milliseconds before an unanswered engine request is repeated: the first and the maximum.
const FIRST_PAUSE_MS: u64 = 20;
const MAX_PAUSE_MS: u64 = 1_000;

/// All tasks in progress.
#[derive(Debug)]
pub(super) struct Tasks {
    process: u128,
    last_id: u64,
    last_write: u64,
    by_id: ById<TaskId, Task>,
    /// The tasks of each key: the active one, and those behind it.
    queues: ByKey<SmallVec<[TaskId; 2]>>,
    by_request: ById<EngineRequestId, TaskId>,
    /// The task of each commit.
    by_write: ById<u64, TaskId>,
    ready: VecDeque<TaskId>,
    /// Commits that wait until all changes are known.
    held_commits: Vec<TaskId>,
    settling: Vec<TaskId>,
    timers: BTreeSet<(u64, TaskId)>,
    completed: Vec<(Ticket, Completion)>,
}

impl Tasks {
    pub(super) fn new(process: u128) -> Self {
        Self {
            process,
            last_id: 0,
            last_write: 0,
            by_id: ById::default(),
            queues: ByKey::default(),
            by_request: ById::default(),
            by_write: ById::default(),
            ready: VecDeque::new(),
            held_commits: Vec::new(),
            settling: Vec::new(),
            timers: BTreeSet::new(),
            completed: Vec::new(),
        }
    }

    /// Adds a task on these keys, each of which is there once, behind the tasks on them.
    pub(super) fn add(
        &mut self,
        ticket: Option<Ticket>,
        request: Option<RequestDigest>,
        deadline_ms: u64,
        keys: Keys,
        work: TaskAction,
    ) {
        self.last_id += 1;
        let id = TaskId(self.last_id);
        let mut behind = 0;
        for key in &keys {
            let queue = self.queues.entry(key.clone()).or_default();
            behind += usize::from(!queue.is_empty());
            queue.push(id);
        }
        self.timers.insert((deadline_ms, id));
        let task = Task {
            request_id: ticket,
            digest: request.filter(|_| work.may_change()),
            deadline_ms,
            keys,
            action: work,
            blocking_queues: behind,
            stage: TaskStage::Queued,
            awaited_request: None,
            resume_ms: None,
        };
        self.by_id.insert(id, task);
        if behind == 0 {
            self.set_stage(id, TaskStage::ToRead);
        }
    }

    /// Returns the deadline of a request that has none.
    pub(super) fn deadline(now: ClockReading) -> u64 {
        now.mono_ms.saturating_add(MAX_LIFETIME_MS)
    }

    /// Returns whether a key has a task.
    pub(super) fn is_busy(&self, key: &[u8]) -> bool {
        self.queues.contains_key(key)
    }

    /// Returns whether commits wait until all changes are known.
    pub(super) fn has_held_commits(&self) -> bool {
        !self.held_commits.is_empty()
    }

    /// Releases the commits that wait until all changes are known.
    pub(super) fn release_held_commits(&mut self) {
        self.ready.extend(self.held_commits.drain(..));
    }

    /// Returns the next engine request of a task. `is_live`: all changes are known, or will be.
    pub(super) fn next_request(
        &mut self,
        (may_commit, is_live): (bool, bool),
        mut guesses: Option<&mut RecordCache>,
        sights: &ExpiryIndex,
        stamps: VersionClock,
    ) -> Option<(TaskId, EngineRequest)> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(guesses) = &mut guesses {
                self.decide_from_cache(id, guesses, sights, stamps);
            }
            let Some(task) = self.by_id.get_mut(&id) else {
                continue;
            };
            match std::mem::replace(&mut task.stage, TaskStage::Queued) {
                TaskStage::ToRead => {
                    task.stage = TaskStage::Reading;
                    return Some((id, task.first_request()));
                }
                TaskStage::ToCommit(attempt) if !may_commit => {
                    task.stage = TaskStage::ToCommit(attempt);
                    self.held_commits.push(id);
                }
                TaskStage::ToCommit(mut attempt) => {
                    attempt.has_gap |= !is_live;
                    let ask = EngineRequest::Commit(Arc::clone(&attempt.commit));
                    task.stage = TaskStage::Committing(attempt);
                    return Some((id, ask));
                }
                stage => task.stage = stage,
            }
        }
        None
    }

    /// Records that the task's engine request was sent with this id.
    pub(super) fn request_sent(&mut self, id: TaskId, ask: EngineRequestId) {
        if let Some(task) = self.by_id.get_mut(&id) {
            task.awaited_request = Some(ask);
            self.by_request.insert(ask, id);
        }
    }

    /// Returns the task of an engine request if the task still waits for the answer.
    fn take_requester(&mut self, ask: EngineRequestId) -> Option<TaskId> {
        let id = self.by_request.remove(&ask)?;
        let task = self.by_id.get_mut(&id)?;
        task.awaited_request
            .take_if(|asks| *asks == ask)
            .map(|_| id)
    }

    /// Returns the keys of an engine request.
    pub(super) fn keys_of(&self, ask: EngineRequestId) -> Keys {
        let task = self.by_request.get(&ask).and_then(|id| self.by_id.get(id));
        task.map_or_else(Keys::new, |task| task.keys.clone())
    }

    /// Returns the records that a commit puts.
    pub(super) fn records_of(&self, ask: EngineRequestId) -> Vec<(Bytes, Record)> {
        let task = self.by_request.get(&ask).and_then(|id| self.by_id.get(id));
        // A late answer belongs to an earlier attempt.
        let task = task.filter(|task| task.awaited_request == Some(ask));
        let Some(TaskStage::Committing(attempt)) = task.map(|task| &task.stage) else {
            return Vec::new();
        };
        let records = attempt.commit.puts.iter().filter_map(|put| match put {
            (EngineKey::Entry(key), EngineValue::Record(record)) => {
                Some((key.clone(), record.clone()))
            }
            _ => None,
        });
        records.collect()
    }

    /// Records the states of a task's keys, or the engine's failure to read them.
    pub(super) fn states_received(
        &mut self,
        ask: EngineRequestId,
        result: Result<Vec<KeyState>, Option<EngineError>>,
        sights: &ExpiryIndex,
        stamps: VersionClock,
    ) {
        let Some(id) = self.take_requester(ask) else {
            return;
        };
        match self.by_id.get(&id).map(|task| &task.stage) {
            Some(TaskStage::Reading) => {}
            _ => return,
        }
        match result {
            Ok(seen) => self.decide(id, &seen, sights, stamps),
            Err(Some(error)) => self.complete(id, rejection(&error)),
            Err(None) => {
                self.set_stage(id, TaskStage::WaitingToRead);
                self.resume_at(id, stamps.now.mono_ms + FIRST_PAUSE_MS);
            }
        }
    }

    /// Ends the tasks whose commits were not sent, because the engine is away.
    pub(super) fn reject_unsent(&mut self) {
        let unsent = self.by_id.iter().filter(|(_, task)| match &task.stage {
            TaskStage::Queued
            | TaskStage::ToRead
            | TaskStage::Reading
            | TaskStage::WaitingToRead => true,
            TaskStage::ToCommit(attempt) | TaskStage::WaitingToCommit(attempt) => {
                !attempt.has_unanswered_copy
            }
            TaskStage::Committing(_) | TaskStage::Settling(..) => false,
        });
        let mut unsent: Vec<_> = unsent.map(|(id, _)| *id).collect();
        // The order must be the same in each run of a seed.
        unsent.sort_unstable();
        for id in unsent {
            self.complete(id, Completion::Unavailable);
        }
    }

    /// Advances the time.
    pub(super) fn advance(&mut self, now: ClockReading) {
        while let Some(&(at_ms, id)) = self.timers.first()
            && at_ms <= now.mono_ms
        {
            self.timers.pop_first();
            let Some(task) = self.by_id.get_mut(&id) else {
                continue;
            };
            if task.deadline_ms <= now.mono_ms {
                let may_happen = match &task.stage {
                    TaskStage::Queued
                    | TaskStage::ToRead
                    | TaskStage::Reading
                    | TaskStage::WaitingToRead => false,
                    TaskStage::ToCommit(attempt) | TaskStage::WaitingToCommit(attempt) => {
                        attempt.has_unanswered_copy
                    }
                    TaskStage::Committing(_) | TaskStage::Settling(..) => true,
                };
                self.complete(
                    id,
                    if may_happen {
                        Completion::Unknown
                    } else {
                        Completion::Expired
                    },
                );
                continue;
            }
            task.resume_ms = None;
            match std::mem::replace(&mut task.stage, TaskStage::Queued) {
                TaskStage::WaitingToRead => self.set_stage(id, TaskStage::ToRead),
                TaskStage::WaitingToCommit(attempt) => {
                    self.set_stage(id, TaskStage::ToCommit(attempt));
                }
                stage => task.stage = stage,
            }
        }
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.timers.first().map(|(at_ms, _)| *at_ms)
    }

    /// Adds the outcome of a request that was no task.
    pub(super) fn add_completed(&mut self, ticket: Ticket, end: Completion) {
        self.completed.push((ticket, end));
    }

    pub(super) fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    pub(super) fn take_completed(&mut self) -> Vec<(Ticket, Completion)> {
        std::mem::take(&mut self.completed)
    }

    fn set_stage(&mut self, id: TaskId, stage: TaskStage) {
        if let Some(task) = self.by_id.get_mut(&id) {
            if matches!(stage, TaskStage::ToRead | TaskStage::ToCommit(_)) {
                self.ready.push_back(id);
            }
            task.stage = stage;
        }
    }

    fn resume_at(&mut self, id: TaskId, at_ms: u64) {
        if let Some(task) = self.by_id.get_mut(&id) {
            task.resume_ms = Some(at_ms);
            self.timers.insert((at_ms, id));
        }
    }

    fn complete(&mut self, id: TaskId, end: Completion) {
        let Some(task) = self.by_id.remove(&id) else {
            return;
        };
        self.timers.remove(&(task.deadline_ms, id));
        if let Some(at_ms) = task.resume_ms {
            self.timers.remove(&(at_ms, id));
        }
        if let TaskStage::ToCommit(attempt)
        | TaskStage::Committing(attempt)
        | TaskStage::WaitingToCommit(attempt)
        | TaskStage::Settling(attempt, ..) = &task.stage
        {
            self.by_write.remove(&attempt.write_number);
        }
        if let Some(ticket) = task.request_id {
            self.completed.push((ticket, end));
        }
        for key in task.keys {
            let Some(queue) = self.queues.get_mut(&key) else {
                continue;
            };
            let was_first = queue.first() == Some(&id);
            queue.retain(|other| *other != id);
            let Some(next) = queue.first().copied() else {
                self.queues.remove(&key);
                continue;
            };
            if was_first && let Some(task) = self.by_id.get_mut(&next) {
                task.blocking_queues -= 1;
                if task.blocking_queues == 0 {
                    self.set_stage(next, TaskStage::ToRead);
                }
            }
        }
    }
}
