//! A task and its progress.
use super::engine::{EngineCommit, EngineRequest, EngineRequestId, KeyState, Keys, Revision};
use super::plan::TaskAction;
use statestored_store::keyspace::{Completion, RequestDigest, Ticket};
use std::sync::Arc;

/// Identifies a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TaskId(pub(super) u64);

/// A commit, of which any number of copies may have been sent.
#[derive(Debug)]
pub(super) struct CommitAttempt {
    pub(super) write_number: u64,
    pub(super) commit: Arc<EngineCommit>,
    /// The outcome once the commit is made; `None` if the task starts again then.
    pub(super) completion: Option<Completion>,
    /// Whether a copy was sent whose answer did not arrive: it may be made at any time.
    pub(super) has_unanswered_copy: bool,
    /// Whether changes may have been missed since the first copy was sent.
    pub(super) has_gap: bool,
    pub(super) pause_ms: u64,
}

#[derive(Debug)]
pub(super) enum TaskStage {
    Queued,
    ToRead,
    Reading,
    WaitingToRead,
    ToCommit(Box<CommitAttempt>),
    Committing(Box<CommitAttempt>),
    WaitingToCommit(Box<CommitAttempt>),
    /// The commit was refused with these states, whose last change has this revision. The task waits until all changes
    /// up to it are known.
    Settling(Box<CommitAttempt>, Vec<KeyState>, Revision),
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) request_id: Option<Ticket>,
    /// Identifies the request if its answer is to be kept.
    pub(super) digest: Option<RequestDigest>,
    pub(super) deadline_ms: u64,
    /// The keys, each once.
    pub(super) keys: Keys,
    pub(super) action: TaskAction,
    /// Number of queues in which other tasks are before this one.
    pub(super) blocking_queues: usize,
    pub(super) stage: TaskStage,
    /// The engine request whose answer the task waits for. Answers to earlier ones are ignored.
    pub(super) awaited_request: Option<EngineRequestId>,
    /// Time at which the task continues, if that is not its deadline.
    pub(super) resume_ms: Option<u64>,
}

impl Task {
    /// Returns the first engine request of the task.
    pub(super) fn first_request(&self) -> EngineRequest {
        match &self.keys[..] {
            [key] if self.action.is_read() => EngineRequest::ReadRecord(key.clone()),
            _ if self.action.is_read() => EngineRequest::ReadRecords(self.keys.clone()),
            _ => EngineRequest::Read(self.keys.clone()),
        }
    }
}
