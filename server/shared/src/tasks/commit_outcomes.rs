//! Outcomes of the commits of tasks, reported by the engine or learned from its changes.
use super::{MAX_PAUSE_MS, Tasks};
use crate::engine::{CommitOutcome, EngineRequestId, KeyState, Revision};
use crate::expiry_index::ExpiryIndex;
use crate::plan::{TaskAction, VersionClock, rejection};
use crate::record::WriteId;
use crate::stored_reply;
use crate::task::{CommitAttempt, TaskId, TaskStage};
use statestored_store::keyspace::Completion;

impl Tasks {
    /// Records the outcome of a commit. All changes are known up to `known`. A refusal `is_own` if only the requested copy was sent.
    pub(in super::super) fn commit_answered(
        &mut self,
        ask: EngineRequestId,
        verdict: CommitOutcome,
        (known, is_own): (Option<Revision>, bool),
        sights: &ExpiryIndex,
        stamps: VersionClock,
    ) {
        let Some(id) = self.take_requester(ask) else {
            return;
        };
        let Some(mut attempt) = self.take_attempt(id) else {
            return;
        };
        match verdict {
            CommitOutcome::Committed(_) => self.commit_made(id, *attempt),
            CommitOutcome::Conflict(seen) => {
                let at = seen
                    .iter()
                    .map(KeyState::revision)
                    .max()
                    .unwrap_or_default();
                let own = WriteId {
                    process: self.process,
                    number: attempt.write_number,
                };
                let records = seen.iter().filter_map(|seen| seen.record.as_ref());
                if records.into_iter().any(|(record, _)| record.write == own) {
                    self.commit_made(id, *attempt);
                } else if is_own && !attempt.has_unanswered_copy
                    // If a copy had been made, the request's answer would exist.
                    || attempt.commit.request().is_some()
                    || known.is_some_and(|known| known >= at) && !attempt.has_gap
                {
                    self.commit_not_made(id, &attempt, &seen, sights, stamps);
                } else if attempt.has_gap {
                    self.complete(id, Completion::Unknown);
                } else {
                    self.settling.push(id);
                    self.set_stage(id, TaskStage::Settling(attempt, seen, at));
                }
            }
            // A copy of this commit made it, or another server.
            CommitOutcome::AlreadyAnswered(answer) => {
                let end = stored_reply::decode(&answer);
                self.complete(id, end.unwrap_or_else(|error| rejection(&error)));
            }
            CommitOutcome::Failed(error) if !attempt.has_unanswered_copy => {
                self.complete(id, rejection(&error));
            }
            CommitOutcome::Failed(_) | CommitOutcome::Unknown | CommitOutcome::NotSent => {
                attempt.has_unanswered_copy |= verdict != CommitOutcome::NotSent;
                let at_ms = stamps.now.mono_ms + attempt.pause_ms;
                attempt.pause_ms = (2 * attempt.pause_ms).min(MAX_PAUSE_MS);
                self.set_stage(id, TaskStage::WaitingToCommit(attempt));
                self.resume_at(id, at_ms);
            }
        }
    }

    /// Takes the attempt of a task that is committing.
    fn take_attempt(&mut self, id: TaskId) -> Option<Box<CommitAttempt>> {
        let task = self.by_id.get_mut(&id)?;
        match std::mem::replace(&mut task.stage, TaskStage::Queued) {
            TaskStage::Committing(attempt) => Some(attempt),
            stage => {
                task.stage = stage;
                None
            }
        }
    }

    fn commit_made(&mut self, id: TaskId, attempt: CommitAttempt) {
        self.by_write.remove(&attempt.write_number);
        match attempt.completion {
            Some(end) => self.complete(id, end),
            None => self.set_stage(id, TaskStage::ToRead),
        }
    }

    /// Continues a task whose commit was not made and will not be: its comparison failed.
    fn commit_not_made(
        &mut self,
        id: TaskId,
        attempt: &CommitAttempt,
        seen: &[KeyState],
        sights: &ExpiryIndex,
        stamps: VersionClock,
    ) {
        self.by_write.remove(&attempt.write_number);
        let Some(task) = self.by_id.get(&id) else {
            return;
        };
        if matches!(task.action, TaskAction::RemoveExpired(_))
            || task.deadline_ms <= stamps.now.mono_ms
        {
            return self.complete(id, Completion::Expired);
        }
        if matches!(task.action, TaskAction::GetMany { .. }) {
            // The commit compared only the expired keys.
            return self.set_stage(id, TaskStage::ToRead);
        }
        self.decide(id, seen, sights, stamps);
    }

    /// Records that a change of this commit was seen.
    pub(in super::super) fn observe_write(&mut self, write: WriteId) {
        if write.process != self.process {
            return;
        }
        let Some(id) = self.by_write.get(&write.number).copied() else {
            return;
        };
        let Some(task) = self.by_id.get_mut(&id) else {
            return;
        };
        match std::mem::replace(&mut task.stage, TaskStage::Queued) {
            TaskStage::Committing(attempt)
            | TaskStage::WaitingToCommit(attempt)
            | TaskStage::ToCommit(attempt)
            | TaskStage::Settling(attempt, ..) => self.commit_made(id, *attempt),
            stage => task.stage = stage,
        }
    }

    /// Settles the commits whose changes up to this revision are known.
    pub(in super::super) fn settle(
        &mut self,
        known: Revision,
        sights: &ExpiryIndex,
        stamps: VersionClock,
    ) {
        for id in std::mem::take(&mut self.settling) {
            let Some(task) = self.by_id.get_mut(&id) else {
                continue;
            };
            match std::mem::replace(&mut task.stage, TaskStage::Queued) {
                TaskStage::Settling(attempt, seen, at) if at <= known => {
                    self.commit_not_made(id, &attempt, &seen, sights, stamps);
                }
                stage => {
                    if matches!(stage, TaskStage::Settling(..)) {
                        self.settling.push(id);
                    }
                    task.stage = stage;
                }
            }
        }
    }

    /// Records that changes may have been missed.
    pub(in super::super) fn missed_changes(&mut self) {
        for task in self.by_id.values_mut() {
            if let TaskStage::Committing(attempt)
            | TaskStage::WaitingToCommit(attempt)
            | TaskStage::ToCommit(attempt) = &mut task.stage
            {
                attempt.has_gap = true;
            }
        }
        for id in std::mem::take(&mut self.settling) {
            let stage = self.by_id.get(&id).map(|task| &task.stage);
            if matches!(stage, Some(TaskStage::Settling(..))) {
                self.complete(id, Completion::Unknown);
            }
        }
    }
}
