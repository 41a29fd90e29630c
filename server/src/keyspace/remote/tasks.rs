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
mod deciding;

use super::answer;
use super::engine::{Ask, AskId, EngineError, Keys, Place, Put, Revision, Seen, Verdict};
use super::guesses::Guesses;
use super::maps::{ById, ByKey};
use super::plan::{Stamps, Work, refusal};
use super::record::{Record, WriteId};
use super::sights::Sights;
use super::task::{Attempt, Stage, Task, TaskId};
use crate::clock::Now;
use crate::keyspace::{End, RequestDigest, Ticket};
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Lifetime in milliseconds of a task without a deadline.
const MOST_MS: u64 = 60_000;

/// Time in milliseconds before an unanswered engine request is repeated: the first and the maximum.
const FIRST_PAUSE_MS: u64 = 20;
const MOST_PAUSE_MS: u64 = 1_000;

/// All tasks in progress.
#[derive(Debug)]
pub(super) struct Tasks {
    process: u128,
    ids: u64,
    writes: u64,
    by_id: ById<TaskId, Task>,
    /// The tasks of each key: the active one, and those behind it.
    queues: ByKey<SmallVec<[TaskId; 2]>>,
    asked: ById<AskId, TaskId>,
    /// The task of each commit.
    by_write: ById<u64, TaskId>,
    to_ask: VecDeque<TaskId>,
    /// Commits that wait until all changes are known.
    held: Vec<TaskId>,
    settling: Vec<TaskId>,
    timers: BTreeSet<(u64, TaskId)>,
    ended: Vec<(Ticket, End)>,
}

impl Tasks {
    pub(super) fn new(process: u128) -> Self {
        Self {
            process,
            ids: 0,
            writes: 0,
            by_id: ById::default(),
            queues: ByKey::default(),
            asked: ById::default(),
            by_write: ById::default(),
            to_ask: VecDeque::new(),
            held: Vec::new(),
            settling: Vec::new(),
            timers: BTreeSet::new(),
            ended: Vec::new(),
        }
    }

    /// Adds a task on these keys, which are sorted and unique, behind the tasks on them.
    pub(super) fn add(
        &mut self,
        ticket: Option<Ticket>,
        request: Option<RequestDigest>,
        deadline_ms: u64,
        keys: Keys,
        work: Work,
    ) {
        self.ids += 1;
        let id = TaskId(self.ids);
        let mut behind = 0;
        for key in &keys {
            let queue = self.queues.entry(key.clone()).or_default();
            behind += usize::from(!queue.is_empty());
            queue.push(id);
        }
        self.timers.insert((deadline_ms, id));
        let task = Task {
            ticket,
            request: request.filter(|_| work.may_change()),
            deadline_ms,
            keys,
            work,
            behind,
            stage: Stage::Behind,
            asks: None,
            later_ms: None,
        };
        self.by_id.insert(id, task);
        if behind == 0 {
            self.put_stage(id, Stage::ToRead);
        }
    }

    /// Returns the deadline of a request that has none.
    pub(super) fn deadline(now: Now) -> u64 {
        now.mono_ms.saturating_add(MOST_MS)
    }

    /// Returns whether a key has a task.
    pub(super) fn is_busy(&self, key: &[u8]) -> bool {
        self.queues.contains_key(key)
    }

    /// Returns whether commits wait until all changes are known.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Releases the commits that wait until all changes are known.
    pub(super) fn let_go(&mut self) {
        self.to_ask.extend(self.held.drain(..));
    }

    /// Returns the next engine request of a task. `is_live`: all changes are known, or will be.
    pub(super) fn next_ask(
        &mut self,
        (may_commit, is_live): (bool, bool),
        mut guesses: Option<&mut Guesses>,
        sights: &Sights,
        stamps: Stamps,
    ) -> Option<(TaskId, Ask)> {
        while let Some(id) = self.to_ask.pop_front() {
            if let Some(guesses) = &mut guesses {
                self.guess(id, guesses, sights, stamps);
            }
            let Some(task) = self.by_id.get_mut(&id) else {
                continue;
            };
            match std::mem::replace(&mut task.stage, Stage::Behind) {
                Stage::ToRead => {
                    task.stage = Stage::Reading;
                    return Some((id, task.question()));
                }
                Stage::ToCommit(attempt) if !may_commit => {
                    task.stage = Stage::ToCommit(attempt);
                    self.held.push(id);
                }
                Stage::ToCommit(mut attempt) => {
                    attempt.has_gap |= !is_live;
                    let ask = Ask::Commit(Arc::clone(&attempt.unit));
                    task.stage = Stage::Committing(attempt);
                    return Some((id, ask));
                }
                stage => task.stage = stage,
            }
        }
        None
    }

    /// Records that the task's engine request was sent with this id.
    pub(super) fn asked(&mut self, id: TaskId, ask: AskId) {
        if let Some(task) = self.by_id.get_mut(&id) {
            task.asks = Some(ask);
            self.asked.insert(ask, id);
        }
    }

    /// Returns the task of an engine request if the task still waits for the answer.
    fn answered(&mut self, ask: AskId) -> Option<TaskId> {
        let id = self.asked.remove(&ask)?;
        let task = self.by_id.get_mut(&id)?;
        task.asks.take_if(|asks| *asks == ask).map(|_| id)
    }

    /// Returns the keys of an engine request.
    pub(super) fn keys_of(&self, ask: AskId) -> Keys {
        let task = self.asked.get(&ask).and_then(|id| self.by_id.get(id));
        task.map_or_else(Keys::new, |task| task.keys.clone())
    }

    /// Returns the records that a commit puts.
    pub(super) fn records_of(&self, ask: AskId) -> Vec<(Bytes, Record)> {
        let task = self.asked.get(&ask).and_then(|id| self.by_id.get(id));
        // A late answer belongs to an earlier attempt.
        let task = task.filter(|task| task.asks == Some(ask));
        let Some(Stage::Committing(attempt)) = task.map(|task| &task.stage) else {
            return Vec::new();
        };
        let records = attempt.unit.puts.iter().filter_map(|put| match put {
            (Place::Entry(key), Put::Record(record)) => Some((key.clone(), record.clone())),
            _ => None,
        });
        records.collect()
    }

    /// Records the states of a task's keys, or the engine's failure to read them.
    pub(super) fn read(
        &mut self,
        ask: AskId,
        result: Result<Vec<Seen>, Option<EngineError>>,
        sights: &Sights,
        stamps: Stamps,
    ) {
        let Some(id) = self.answered(ask) else {
            return;
        };
        match self.by_id.get(&id).map(|task| &task.stage) {
            Some(Stage::Reading) => {}
            _ => return,
        }
        match result {
            Ok(seen) => self.decide(id, &seen, sights, stamps),
            Err(Some(error)) => self.end(id, refusal(&error)),
            Err(None) => {
                self.put_stage(id, Stage::ReadLater);
                self.go_on_later(id, stamps.now.mono_ms + FIRST_PAUSE_MS);
            }
        }
    }

    /// Records the outcome of a commit. All changes are known up to `known`. A refusal `is_own` if only the requested copy was sent.
    pub(super) fn committed(
        &mut self,
        ask: AskId,
        verdict: Verdict,
        (known, is_own): (Option<Revision>, bool),
        sights: &Sights,
        stamps: Stamps,
    ) {
        let Some(id) = self.answered(ask) else {
            return;
        };
        let Some(mut attempt) = self.take_attempt(id) else {
            return;
        };
        match verdict {
            Verdict::Done(_) => self.made(id, *attempt),
            Verdict::Refused(seen) => {
                let at = seen.iter().map(Seen::revision).max().unwrap_or_default();
                let own = WriteId {
                    process: self.process,
                    number: attempt.write,
                };
                let records = seen.iter().filter_map(|seen| seen.record.as_ref());
                if records.into_iter().any(|(record, _)| record.write == own) {
                    self.made(id, *attempt);
                } else if is_own && !attempt.is_open
                    // If a copy had been made, the request's answer would exist.
                    || attempt.unit.request().is_some()
                    || known.is_some_and(|known| known >= at) && !attempt.has_gap
                {
                    self.not_made(id, &attempt, &seen, sights, stamps);
                } else if attempt.has_gap {
                    self.end(id, End::Unknown);
                } else {
                    self.settling.push(id);
                    self.put_stage(id, Stage::Settling(attempt, seen, at));
                }
            }
            // A copy of this commit made it, or another server.
            Verdict::Answered(answer) => {
                let end = answer::decode(&answer);
                self.end(id, end.unwrap_or_else(|error| refusal(&error)));
            }
            Verdict::Failed(error) if !attempt.is_open => self.end(id, refusal(&error)),
            Verdict::Failed(_) | Verdict::Unclear | Verdict::Unsent => {
                attempt.is_open |= verdict != Verdict::Unsent;
                let at_ms = stamps.now.mono_ms + attempt.pause_ms;
                attempt.pause_ms = (2 * attempt.pause_ms).min(MOST_PAUSE_MS);
                self.put_stage(id, Stage::CommitLater(attempt));
                self.go_on_later(id, at_ms);
            }
        }
    }

    /// Takes the attempt of a task that is committing.
    fn take_attempt(&mut self, id: TaskId) -> Option<Box<Attempt>> {
        let task = self.by_id.get_mut(&id)?;
        match std::mem::replace(&mut task.stage, Stage::Behind) {
            Stage::Committing(attempt) => Some(attempt),
            stage => {
                task.stage = stage;
                None
            }
        }
    }

    fn made(&mut self, id: TaskId, attempt: Attempt) {
        self.by_write.remove(&attempt.write);
        match attempt.end {
            Some(end) => self.end(id, end),
            None => self.put_stage(id, Stage::ToRead),
        }
    }

    /// Continues a task whose commit was not made and will not be: its comparison failed.
    fn not_made(
        &mut self,
        id: TaskId,
        attempt: &Attempt,
        seen: &[Seen],
        sights: &Sights,
        stamps: Stamps,
    ) {
        self.by_write.remove(&attempt.write);
        let Some(task) = self.by_id.get(&id) else {
            return;
        };
        if matches!(task.work, Work::Finish(_)) || task.deadline_ms <= stamps.now.mono_ms {
            return self.end(id, End::Expired);
        }
        self.decide(id, seen, sights, stamps);
    }

    /// Records that a change of this commit was seen.
    pub(super) fn saw_write(&mut self, write: WriteId) {
        if write.process != self.process {
            return;
        }
        let Some(id) = self.by_write.get(&write.number).copied() else {
            return;
        };
        let Some(task) = self.by_id.get_mut(&id) else {
            return;
        };
        match std::mem::replace(&mut task.stage, Stage::Behind) {
            Stage::Committing(attempt)
            | Stage::CommitLater(attempt)
            | Stage::ToCommit(attempt)
            | Stage::Settling(attempt, ..) => self.made(id, *attempt),
            stage => task.stage = stage,
        }
    }

    /// Settles the commits whose changes up to this revision are known.
    pub(super) fn settle(&mut self, known: Revision, sights: &Sights, stamps: Stamps) {
        for id in std::mem::take(&mut self.settling) {
            let Some(task) = self.by_id.get_mut(&id) else {
                continue;
            };
            match std::mem::replace(&mut task.stage, Stage::Behind) {
                Stage::Settling(attempt, seen, at) if at <= known => {
                    self.not_made(id, &attempt, &seen, sights, stamps);
                }
                stage => {
                    if matches!(stage, Stage::Settling(..)) {
                        self.settling.push(id);
                    }
                    task.stage = stage;
                }
            }
        }
    }

    /// Records that changes may have been missed.
    pub(super) fn missed_changes(&mut self) {
        for task in self.by_id.values_mut() {
            if let Stage::Committing(attempt)
            | Stage::CommitLater(attempt)
            | Stage::ToCommit(attempt) = &mut task.stage
            {
                attempt.has_gap = true;
            }
        }
        for id in std::mem::take(&mut self.settling) {
            let stage = self.by_id.get(&id).map(|task| &task.stage);
            if matches!(stage, Some(Stage::Settling(..))) {
                self.end(id, End::Unknown);
            }
        }
    }

    /// Ends the tasks whose commits were not sent, because the engine is away.
    pub(super) fn give_up(&mut self) {
        let unsent = self.by_id.iter().filter(|(_, task)| match &task.stage {
            Stage::Behind | Stage::ToRead | Stage::Reading | Stage::ReadLater => true,
            Stage::ToCommit(attempt) | Stage::CommitLater(attempt) => !attempt.is_open,
            Stage::Committing(_) | Stage::Settling(..) => false,
        });
        let mut unsent: Vec<_> = unsent.map(|(id, _)| *id).collect();
        // The order must be the same in each run of a seed.
        unsent.sort_unstable();
        for id in unsent {
            self.end(id, End::Away);
        }
    }

    /// Advances the time.
    pub(super) fn pass(&mut self, now: Now) {
        while let Some(&(at_ms, id)) = self.timers.first()
            && at_ms <= now.mono_ms
        {
            self.timers.pop_first();
            let Some(task) = self.by_id.get_mut(&id) else {
                continue;
            };
            if task.deadline_ms <= now.mono_ms {
                let may_happen = match &task.stage {
                    Stage::Behind | Stage::ToRead | Stage::Reading | Stage::ReadLater => false,
                    Stage::ToCommit(attempt) | Stage::CommitLater(attempt) => attempt.is_open,
                    Stage::Committing(_) | Stage::Settling(..) => true,
                };
                self.end(
                    id,
                    if may_happen {
                        End::Unknown
                    } else {
                        End::Expired
                    },
                );
                continue;
            }
            task.later_ms = None;
            match std::mem::replace(&mut task.stage, Stage::Behind) {
                Stage::ReadLater => self.put_stage(id, Stage::ToRead),
                Stage::CommitLater(attempt) => self.put_stage(id, Stage::ToCommit(attempt)),
                stage => task.stage = stage,
            }
        }
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.timers.first().map(|(at_ms, _)| *at_ms)
    }

    /// Adds the outcome of a request that was no task.
    pub(super) fn put_ended(&mut self, ticket: Ticket, end: End) {
        self.ended.push((ticket, end));
    }

    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    pub(super) fn take_ended(&mut self) -> Vec<(Ticket, End)> {
        std::mem::take(&mut self.ended)
    }

    fn put_stage(&mut self, id: TaskId, stage: Stage) {
        if let Some(task) = self.by_id.get_mut(&id) {
            if matches!(stage, Stage::ToRead | Stage::ToCommit(_)) {
                self.to_ask.push_back(id);
            }
            task.stage = stage;
        }
    }

    fn go_on_later(&mut self, id: TaskId, at_ms: u64) {
        if let Some(task) = self.by_id.get_mut(&id) {
            task.later_ms = Some(at_ms);
            self.timers.insert((at_ms, id));
        }
    }

    fn end(&mut self, id: TaskId, end: End) {
        let Some(task) = self.by_id.remove(&id) else {
            return;
        };
        self.timers.remove(&(task.deadline_ms, id));
        if let Some(at_ms) = task.later_ms {
            self.timers.remove(&(at_ms, id));
        }
        if let Stage::ToCommit(attempt)
        | Stage::Committing(attempt)
        | Stage::CommitLater(attempt)
        | Stage::Settling(attempt, ..) = &task.stage
        {
            self.by_write.remove(&attempt.write);
        }
        if let Some(ticket) = task.ticket {
            self.ended.push((ticket, end));
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
                task.behind -= 1;
                if task.behind == 0 {
                    self.put_stage(next, Stage::ToRead);
                }
            }
        }
    }
}
