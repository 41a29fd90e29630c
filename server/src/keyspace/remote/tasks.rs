//! What is under way: for each key one after the other, but for reads behind each other, each from its question to what became of it.
//!
//! ```text
//!                       ┌── a guess ───────┐
//!                       │                  ▼
//!   behind others ─▶ to read ─▶ reading ─▶ to commit ─▶ committing ─▶ ended
//!                       ▲  ▲        │          ▲            │  │
//!                       │  └ later ◀┘          │   no answer│  │refused
//!                       │                      └─── later ◀─┘  ▼
//!                       └──────────── it was not made ◀─── settling
//! ```
mod confirming;
mod deciding;
mod queue;
mod timing;

use super::answer;
use super::engine::{Ask, AskId, EngineError, Keys, Place, Put, Revision, Seen, Verdict};
use super::guesses::Guesses;
use super::maps::{ById, ByKey};
use super::plan::{Stamps, Work, refusal};
use super::record::{Record, WriteId};
use super::sights::Sights;
use super::task::{Attempt, Stage, Task, TaskId};
use crate::keyspace::{End, RequestDigest, Ticket};
use bytes::Bytes;
use confirming::Confirming;
use queue::Queue;
use statestore_protocol::Reply;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// How long what got no answer is not asked again, at first, and at most.
const FIRST_PAUSE_MS: u64 = 20;
const MOST_PAUSE_MS: u64 = 1_000;

/// All that is under way.
#[derive(Debug)]
pub(super) struct Tasks {
    process: u128,
    ids: u64,
    writes: u64,
    by_id: ById<TaskId, Task>,
    /// Who works on a key, and those behind.
    queues: ByKey<Queue>,
    asked: ById<AskId, TaskId>,
    /// Whose commit was that?
    by_write: ById<u64, TaskId>,
    to_ask: VecDeque<TaskId>,
    /// Commits that wait until all changes are known.
    held: Vec<TaskId>,
    settling: Vec<TaskId>,
    timers: BTreeSet<(u64, TaskId)>,
    pub(super) confirming: Confirming,
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
            confirming: Confirming::default(),
            ended: Vec::new(),
        }
    }

    /// Adds what is to be done on these keys, which are in order and different, behind what is to be done on them already.
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
        let (mut behind, shares) = (0, work.only_reads());
        for key in &keys {
            let queue = self.queues.entry(key.clone()).or_default();
            behind += usize::from(queue.is_behind(shares));
            queue.push(id, shares);
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
            is_plain: false,
            asks: None,
            later_ms: None,
        };
        self.by_id.insert(id, task);
        if behind == 0 {
            self.put_stage(id, Stage::ToRead);
        }
    }

    /// Whether anything is to be done on a key.
    pub(super) fn is_busy(&self, key: &[u8]) -> bool {
        self.queues.contains_key(key)
    }

    /// Whether commits wait until all changes are known.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Commits do not wait any longer.
    pub(super) fn let_go(&mut self) {
        self.to_ask.extend(self.held.drain(..));
    }

    /// What a task has to ask now. There are no guesses unless all changes are known.
    pub(super) fn next_ask(
        &mut self,
        may_commit: bool,
        mut guesses: Option<&mut Guesses>,
        sights: &Sights,
        stamps: Stamps,
    ) -> Option<(TaskId, Ask)> {
        let is_live = guesses.is_some();
        while let Some(id) = self.to_ask.pop_front() {
            if let Some(guesses) = &mut guesses {
                self.guess(id, guesses, sights, stamps);
                if self.confirm(id, guesses) {
                    continue;
                }
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

    /// It was asked under this name.
    pub(super) fn asked(&mut self, id: TaskId, ask: AskId) {
        if let Some(task) = self.by_id.get_mut(&id) {
            task.asks = Some(ask);
            self.asked.insert(ask, id);
        }
    }

    /// Whose question it is, if that waits for the answer still.
    fn answered(&mut self, ask: AskId) -> Option<TaskId> {
        let id = self.asked.remove(&ask)?;
        let task = self.by_id.get_mut(&id)?;
        task.asks.take_if(|asks| *asks == ask).map(|_| id)
    }

    /// The keys that a question was about.
    pub(super) fn keys_of(&self, ask: AskId) -> Keys {
        let task = self.asked.get(&ask).and_then(|id| self.by_id.get(id));
        task.map_or_else(Keys::new, |task| task.keys.clone())
    }

    /// The records that a commit puts.
    pub(super) fn records_of(&self, ask: AskId) -> Vec<(Bytes, Record)> {
        let task = self.asked.get(&ask).and_then(|id| self.by_id.get(id));
        // A late answer is about an attempt before this one.
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

    /// What the keys of a task hold, if the engine has answered.
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
            Err(Some(error)) => self.end(id, error_end(&error)),
            Err(None) => {
                self.put_stage(id, Stage::ReadLater);
                self.go_on_later(id, stamps.now.mono_ms + FIRST_PAUSE_MS);
            }
        }
    }

    /// What became of a commit. All changes are known up to `known`; a refusal `is_own` if no copy was sent but the one that was asked.
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
                    // If a copy was made, there was its answer.
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
            // By a copy of this, or by another server.
            Verdict::Answered(answer) => {
                let end = answer::decode(&answer);
                self.end(id, end.unwrap_or_else(|error| error_end(&error)));
            }
            Verdict::Failed(error) if !attempt.is_open => self.end(id, error_end(&error)),
            Verdict::Failed(_) | Verdict::Unclear => {
                attempt.is_open = true;
                let at_ms = stamps.now.mono_ms + attempt.pause_ms;
                attempt.pause_ms = (2 * attempt.pause_ms).min(MOST_PAUSE_MS);
                self.put_stage(id, Stage::CommitLater(attempt));
                self.go_on_later(id, at_ms);
            }
        }
    }

    /// The attempt of a task that is committing.
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

    /// No copy was made, and none will be: what it compared has changed.
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

    /// A change was seen that this commit made.
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

    /// All changes are known up to this revision.
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

    /// Changes may have been missed.
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
            let freed = queue.remove(id);
            if queue.is_empty() {
                self.queues.remove(&key);
            }
            for next in freed {
                let Some(task) = self.by_id.get_mut(&next) else {
                    continue;
                };
                task.behind -= 1;
                if task.behind == 0 {
                    self.put_stage(next, Stage::ToRead);
                }
            }
        }
    }
}

fn error_end(error: &EngineError) -> End {
    End::reply(Reply::Error(refusal(error)))
}
