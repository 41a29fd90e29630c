//! The step from the states of a task's keys, read or cached, to its commit.
use super::{FIRST_PAUSE_MS, Tasks};
use crate::engine::{EngineCommit, KeyState};
use crate::expiry_index::ExpiryIndex;
use crate::plan::{Decision, PlanContext, VersionClock};
use crate::record::WriteId;
use crate::record_cache::RecordCache;
use crate::task::{CommitAttempt, Task, TaskId, TaskStage};
use statestored_store::keyspace::Completion;
use std::sync::Arc;

impl Tasks {
    /// Continues with the commit at once if the states of the keys are cached and the work then changes something.
    pub(super) fn decide_from_cache(
        &mut self,
        id: TaskId,
        guesses: &mut RecordCache,
        sights: &ExpiryIndex,
        stamps: VersionClock,
    ) {
        let Some(task) = self.by_id.get(&id) else {
            return;
        };
        if !matches!(task.stage, TaskStage::ToRead) || !task.action.may_change() {
            return;
        }
        let Some(seen) = guesses.states_of(&task.keys) else {
            return;
        };
        let (unit, end) = match self.decision(task, &seen, sights, stamps) {
            // The cache does not decide outcomes.
            Decision::Complete(_) | Decision::ReadAgain => return,
            Decision::Commit(unit, end) => (unit, Some(end)),
            Decision::Expire(unit) => (unit, None),
        };
        let attempt = Box::new(self.new_attempt(id, unit, end));
        if let Some(task) = self.by_id.get_mut(&id) {
            task.stage = TaskStage::ToCommit(attempt);
        }
    }

    pub(super) fn decide(
        &mut self,
        id: TaskId,
        seen: &[KeyState],
        sights: &ExpiryIndex,
        stamps: VersionClock,
    ) {
        let Some(task) = self.by_id.get(&id) else {
            return;
        };
        let (unit, end) = match self.decision(task, seen, sights, stamps) {
            Decision::Complete(end) => return self.complete(id, end),
            Decision::ReadAgain => return self.set_stage(id, TaskStage::ToRead),
            Decision::Commit(unit, end) => (unit, Some(end)),
            Decision::Expire(unit) => (unit, None),
        };
        let attempt = Box::new(self.new_attempt(id, unit, end));
        self.set_stage(id, TaskStage::ToCommit(attempt));
    }

    /// Returns the next step of a task whose keys have these states. Its changes have the number of the next write.
    fn decision(
        &self,
        task: &Task,
        seen: &[KeyState],
        sights: &ExpiryIndex,
        stamps: VersionClock,
    ) -> Decision {
        let circumstances = PlanContext {
            keys: &task.keys,
            states: seen,
            expiry_index: sights,
            clock: stamps,
            write: WriteId {
                process: self.process,
                number: self.last_write + 1,
            },
        };
        match task.digest {
            Some(request) => circumstances.decide_with_reply(&task.action, request),
            None => circumstances.decide(&task.action),
        }
    }

    /// Creates an attempt with the number of the next write.
    fn new_attempt(
        &mut self,
        id: TaskId,
        unit: EngineCommit,
        end: Option<Completion>,
    ) -> CommitAttempt {
        self.last_write += 1;
        self.by_write.insert(self.last_write, id);
        CommitAttempt {
            write_number: self.last_write,
            commit: Arc::new(unit),
            completion: end,
            has_unanswered_copy: false,
            has_gap: false,
            pause_ms: FIRST_PAUSE_MS,
        }
    }
}
