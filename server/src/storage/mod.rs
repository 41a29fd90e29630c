//! Where the engine's writes go: one trait, one conformance suite (`tests/storage/conformance.rs`).
//!
//! The engine holds every record; a storage is told of each change, and hands all records back at start.
pub mod committer;
pub mod durable;
pub mod memory;

pub use committer::{Committer, CommitterOptions, SubmitError};
pub use durable::{DurableOptions, DurableStorage};
pub use memory::MemoryStorage;

use bytes::Bytes;
use statestore::protocol::Hlc;

/// One key with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Not empty.
    pub key: Bytes,
    /// Any bytes.
    pub value: Bytes,
    /// Wall clock and counter of the version; its node id is always `StateStore`.
    pub version: (u64, u64),
    /// The fencing token that protects the key.
    pub fence: Option<Hlc>,
    /// When it expires.
    pub expiry: Option<Expiry>,
}

/// An expiry that survives a restart and a wall clock that jumped meanwhile:
/// at load, the time left is `at_wall_ms - now`, but never more than `ttl_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The wall clock at which it ends, as seen when it was set.
    pub at_wall_ms: u64,
    /// The PX of the SET that made it.
    pub ttl_ms: u64,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Insert or replace.
    Put(Record),
    /// Remove.
    Delete(Bytes),
}

/// Changes that become durable together, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// In the order in which they happened; a key may occur more than once.
    pub writes: Vec<Write>,
    /// The highest version (wall clock, counter) that a deletion was given so far, if the batch has a deletion. Those
    /// of entries stand in their records.
    pub clock: Option<(u64, u64)>,
}

impl Batch {
    /// Whether there is nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.clock.is_none()
    }
}

/// Why a storage could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, on which path.
        what: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The files are not what this storage wrote, or are damaged. Nothing was changed.
    #[error("{0}")]
    Damaged(String),
    /// Another process uses the same data.
    #[error("{0}")]
    InUse(String),
}

impl StorageError {
    /// Makes an [`Io`](Self::Io) of a failed system call; `what` is only put into words then.
    pub(crate) fn io(what: impl FnOnce() -> String) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io {
            what: what(),
            source,
        }
    }
}

/// Keeps records. Used by one thread at a time; every call may block.
pub trait Storage: Send + std::fmt::Debug {
    /// Hands over every record and then returns the stored clock. Called once, before the first commit.
    fn load(&mut self, visit: &mut dyn FnMut(Record)) -> Result<Option<(u64, u64)>, StorageError>;
    /// Applies the batches in order; when it returns, all of them are durable as one atomic step.
    ///
    /// After an error it is not known whether the batches are kept: nobody may be told that they are,
    /// and every later commit fails too, until the storage is opened again.
    fn commit(&mut self, batches: &[Batch]) -> Result<(), StorageError>;
    /// Whether a commit takes time, so that it wants a thread of its own.
    fn is_durable(&self) -> bool;
}
