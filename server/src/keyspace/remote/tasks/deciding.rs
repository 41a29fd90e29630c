//! The step from the states of a task's keys, read or cached, to its commit.
use super::{FIRST_PAUSE_MS, Tasks};
use crate::keyspace::End;
use crate::keyspace::remote::engine::{Seen, Unit};
use crate::keyspace::remote::guesses::Guesses;
use crate::keyspace::remote::plan::{Circumstances, Decision, Stamps};
use crate::keyspace::remote::record::WriteId;
use crate::keyspace::remote::sights::Sights;
use crate::keyspace::remote::task::{Attempt, Stage, Task, TaskId};
use std::sync::Arc;

impl Tasks {
    /// Continues with the commit at once if the states of the keys are cached and the work then changes something.
    pub(super) fn guess(
        &mut self,
        id: TaskId,
        guesses: &mut Guesses,
        sights: &Sights,
        stamps: Stamps,
    ) {
        let Some(task) = self.by_id.get(&id) else {
            return;
        };
        if !matches!(task.stage, Stage::ToRead) || !task.work.may_change() {
            return;
        }
        let Some(seen) = guesses.of(&task.keys) else {
            return;
        };
        let (unit, end) = match self.decision(task, &seen, sights, stamps) {
            // The cache does not decide outcomes.
            Decision::Ended(_) | Decision::ReadAgain => return,
            Decision::Commit(unit, end) => (unit, Some(end)),
            Decision::Expire(unit) => (unit, None),
        };
        let attempt = Box::new(self.attempt(id, unit, end));
        if let Some(task) = self.by_id.get_mut(&id) {
            task.stage = Stage::ToCommit(attempt);
        }
    }

    pub(super) fn decide(&mut self, id: TaskId, seen: &[Seen], sights: &Sights, stamps: Stamps) {
        let Some(task) = self.by_id.get(&id) else {
            return;
        };
        let (unit, end) = match self.decision(task, seen, sights, stamps) {
            Decision::Ended(end) => return self.end(id, end),
            Decision::ReadAgain => return self.put_stage(id, Stage::ToRead),
            Decision::Commit(unit, end) => (unit, Some(end)),
            Decision::Expire(unit) => (unit, None),
        };
        let attempt = Box::new(self.attempt(id, unit, end));
        self.put_stage(id, Stage::ToCommit(attempt));
    }

    /// Returns the next step of a task whose keys have these states. Its changes have the number of the next write.
    fn decision(&self, task: &Task, seen: &[Seen], sights: &Sights, stamps: Stamps) -> Decision {
        let circumstances = Circumstances {
            keys: &task.keys,
            seen,
            sights,
            stamps,
            write: WriteId {
                process: self.process,
                number: self.writes + 1,
            },
        };
        match task.request {
            Some(request) => circumstances.decide_for_all(&task.work, request),
            None => circumstances.decide(&task.work),
        }
    }

    /// Creates an attempt with the number of the next write.
    fn attempt(&mut self, id: TaskId, unit: Unit, end: Option<End>) -> Attempt {
        self.writes += 1;
        self.by_write.insert(self.writes, id);
        Attempt {
            write: self.writes,
            unit: Arc::new(unit),
            end,
            is_open: false,
            has_gap: false,
            pause_ms: FIRST_PAUSE_MS,
        }
    }
}
