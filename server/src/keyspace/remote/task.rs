//! One thing that is to be done, and how far it has come.
use super::engine::{Ask, AskId, Keys, Revision, Seen, Unit};
use super::plan::Work;
use crate::keyspace::{End, RequestDigest, Ticket};
use std::sync::Arc;

/// Names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TaskId(pub(super) u64);

/// One commit, of which any number of copies may have been sent.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) write: u64,
    pub(super) unit: Arc<Unit>,
    /// What it has come to once it is made; `None` if everything begins anew then.
    pub(super) end: Option<End>,
    /// A copy was sent whose answer did not come: it may be made at any time.
    pub(super) is_open: bool,
    /// Not all changes are known since the first copy was sent.
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
    /// It was refused with this, whose last change has this revision. All changes until then have to be known.
    Settling(Box<Attempt>, Vec<Seen>, Revision),
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) ticket: Option<Ticket>,
    /// Names the request if its answer is to be kept.
    pub(super) request: Option<RequestDigest>,
    pub(super) deadline_ms: u64,
    /// In order, no two equal.
    pub(super) keys: Keys,
    pub(super) work: Work,
    /// In how many queues others are before it.
    pub(super) behind: usize,
    pub(super) stage: Stage,
    /// The question whose answer it waits for. Those to earlier ones do not concern it any more.
    pub(super) asks: Option<AskId>,
    /// When it goes on, if that is not its deadline.
    pub(super) later_ms: Option<u64>,
}

impl Task {
    /// What it asks first.
    pub(super) fn question(&self) -> Ask {
        match &self.keys[..] {
            [key] if self.work.only_looks() => Ask::Look(key.clone()),
            _ => Ask::Read(self.keys.clone()),
        }
    }
}
