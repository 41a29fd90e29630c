//! A task and its progress.
use super::engine::{Ask, AskId, Keys, Revision, Seen, Unit};
use super::plan::Work;
use crate::keyspace::{End, RequestDigest, Ticket};
use std::sync::Arc;

/// Identifies a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TaskId(pub(super) u64);

/// A commit, of which any number of copies may have been sent.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) write: u64,
    pub(super) unit: Arc<Unit>,
    /// The outcome once the commit is made; `None` if the task starts again then.
    pub(super) end: Option<End>,
    /// Whether a copy was sent whose answer did not arrive: it may be made at any time.
    pub(super) is_open: bool,
    /// Whether changes may have been missed since the first copy was sent.
    pub(super) has_gap: bool,
    pub(super) pause_ms: u64,
}

#[derive(Debug)]
pub(super) enum Stage {
    Behind,
    ToRead,
    Reading,
    ReadLater,
    ToCommit(Box<Attempt>),
    Committing(Box<Attempt>),
    CommitLater(Box<Attempt>),
    /// The commit was refused with these states, whose last change has this revision. The task waits until all changes
    /// up to it are known.
    Settling(Box<Attempt>, Vec<Seen>, Revision),
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) ticket: Option<Ticket>,
    /// Identifies the request if its answer is to be kept.
    pub(super) request: Option<RequestDigest>,
    pub(super) deadline_ms: u64,
    /// The keys, sorted and unique.
    pub(super) keys: Keys,
    pub(super) work: Work,
    /// Number of queues in which other tasks are before this one.
    pub(super) behind: usize,
    pub(super) stage: Stage,
    /// The engine request whose answer the task waits for. Answers to earlier ones are ignored.
    pub(super) asks: Option<AskId>,
    /// Time at which the task continues, if that is not its deadline.
    pub(super) later_ms: Option<u64>,
}

impl Task {
    /// Returns the first engine request of the task.
    pub(super) fn question(&self) -> Ask {
        match &self.keys[..] {
            [key] if self.work.only_looks() => Ask::Look(key.clone()),
            _ => Ask::Read(self.keys.clone()),
        }
    }
}
