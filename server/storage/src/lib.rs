//! Storages, which make the writes of the engine durable: one trait, one conformance suite (`tests/storage/conformance.rs`).
//!
//! The engine holds every record. A storage receives each change, and returns all records at start.
#![forbid(unsafe_code)]

pub mod backup;
pub mod committer;
mod damage;
mod descriptor_reserve;
pub mod disk;
pub mod durable;
pub mod environment;
mod frame;
pub mod group_commit;
pub mod json_lines;
pub mod memory;
pub mod metrics;
mod record;
pub mod shared_storage;
mod spool;

pub use committer::{Committer, CommitterOptions, SubmitError};
pub use damage::Damage;
pub use disk::{Disk, FileSystem};
pub use durable::{DurableOptions, DurableStorage, NewStore, StoppedStore, StoreRewriter};
pub use memory::MemoryStorage;
pub use metrics::StorageMetrics;
pub use shared_storage::{SharedStorage, SnapshotReceiver, SnapshotSource};

use bytes::Bytes;
use statestore_protocol::Hlc;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// A key with its value and metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Key, which is not empty.
    pub key: Bytes,
    /// Value, of any bytes.
    pub value: Bytes,
    /// Wall clock and counter of the version; its node id is always `StateStore`.
    pub version: (u64, u64),
    /// Fencing token that protects the key.
    pub fence: Option<Hlc>,
    /// Expiry, if there is one.
    pub expiry: Option<Expiry>,
}

impl Record {
    /// Returns a borrowed view of the record.
    pub fn view(&self) -> RecordView<'_> {
        RecordView {
            key: &self.key,
            value: &self.value,
            version: self.version,
            fence: self.fence.clone(),
            expiry: self.expiry,
        }
    }
}

/// A borrowed [`Record`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// As in [`Record::key`].
    pub key: &'a [u8],
    /// As in [`Record::value`].
    pub value: &'a [u8],
    /// As in [`Record::version`].
    pub version: (u64, u64),
    /// As in [`Record::fence`].
    pub fence: Option<Hlc>,
    /// As in [`Record::expiry`].
    pub expiry: Option<Expiry>,
}

/// An expiry that survives a restart and a wall clock that jumped meanwhile.
///
/// At load, the time left is `at_wall_ms - now`, but never more than `ttl_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// Wall clock at which the entry expires, as calculated when it was set.
    pub at_wall_ms: u64,
    /// PX of the SET that set it.
    pub ttl_ms: u64,
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Insert or replace an entry.
    Put(Record),
    /// Remove an entry.
    Delete(Bytes),
}

/// Changes that become durable together, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Changes in the order in which they happened; a key may occur more than once.
    pub writes: Vec<Write>,
    /// Highest version (wall clock, counter) that a deletion was given so far, if the batch has a deletion. The versions of
    /// entries are in their records.
    pub clock: Option<(u64, u64)>,
}

impl Batch {
    /// Adds a deletion, and the highest version that a deletion was given so far.
    pub fn delete(&mut self, key: &Bytes, floor: (u64, u64)) {
        self.writes.push(Write::Delete(key.clone()));
        self.clock = self.clock.max(Some(floor));
    }

    /// Returns whether the batch has no change.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.clock.is_none()
    }
}

/// An error of a storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed, and its path.
        what: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The disk is full, or no file descriptor is left. The operation had no effect, and can be retried later.
    #[error("{what}: {source}; {}", remedy(source))]
    Full {
        /// The operation that failed, and its path.
        what: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The files were not written by this storage, or are damaged. Nothing was changed.
    #[error("{0}")]
    Damaged(Damage),
    /// Another process uses the same data.
    #[error("{0}")]
    InUse(String),
    /// The shared engine does not answer, or holds another store.
    #[error("cannot take a snapshot of the store: {0}")]
    Engine(String),
    /// A shared engine does not take the records of a backup, or has other data in their place.
    #[error("cannot restore: {0}")]
    Restore(String),
    /// [`Restore::progressed`] stopped the load, or the caller stopped another long operation.
    #[error("it was stopped before its end")]
    Stopped,
}

impl StorageError {
    /// Makes an [`Io`](Self::Io) of a failed system call; `what` is called only then.
    pub fn io(what: impl FnOnce() -> String) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io {
            what: what(),
            source,
        }
    }

    /// Makes a [`Full`](Self::Full) if there is no room, else an [`Io`](Self::Io): for calls that have no effect without
    /// room.
    pub(crate) fn io_or_full(what: impl FnOnce() -> String) -> impl FnOnce(std::io::Error) -> Self {
        move |source| {
            let what = what();
            if is_full(&source) {
                Self::Full { what, source }
            } else {
                Self::Io { what, source }
            }
        }
    }

    /// Makes a [`Full`](Self::Full) if there is no room or no file descriptor, else an [`Io`](Self::Io): for calls that can
    /// wait.
    pub(crate) fn io_or_postponed(
        what: impl FnOnce() -> String,
    ) -> impl FnOnce(std::io::Error) -> Self {
        move |source| {
            if descriptor_reserve::is_out_of_descriptors(&source) {
                let what = what();
                Self::Full { what, source }
            } else {
                Self::io_or_full(what)(source)
            }
        }
    }
}

/// Returns the advice that belongs to a [`StorageError::Full`].
fn remedy(source: &std::io::Error) -> &'static str {
    if descriptor_reserve::is_out_of_descriptors(source) {
        "raise the limit of open files (`ulimit -n`, or LimitNOFILE= of systemd)"
    } else if source.kind() == std::io::ErrorKind::FileTooLarge {
        "raise the limit of the file size (`ulimit -f`, or LimitFSIZE= of systemd)"
    } else {
        "free some space on this disk"
    }
}

/// Returns whether an error of the system means that there is no room.
fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A receiver of the content of a storage.
///
/// The changes come in the order in which they happened: the last change of a key counts. A key may be put more than once, or
/// deleted without having been put.
pub trait Restore {
    /// Announces the keys of the next records and removals, some dozens, so that they can be looked up concurrently.
    fn announce(&mut self, _keys: &mut dyn Iterator<Item = &[u8]>) {}
    /// Inserts or replaces a record.
    fn put(&mut self, record: &RecordView<'_>);
    /// Removes a key, if it exists.
    fn delete(&mut self, key: &[u8]);
    /// Called every few milliseconds. [`Break`](ControlFlow::Break) ends the load with [`StorageError::Stopped`].
    fn progressed(&mut self, _progress: LoadProgress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Progress of a load, in bytes of the storage's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadProgress {
    /// Bytes read so far.
    pub done: u64,
    /// Bytes to read in total.
    pub total: u64,
}

/// A receiver of records, each once.
pub trait RecordReceiver {
    /// Takes the next record.
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError>;
    /// Called every few milliseconds with the number of file bytes read since the last call.
    fn progressed(&mut self, _bytes: u64) -> Result<(), StorageError> {
        Ok(())
    }
}

/// The whole content of a store at one moment.
pub trait RecordSource {
    /// Passes each record to `to` once, in any order, and returns the stored clock. Stops at the first error of `to`. May be
    /// called again, with the same result.
    fn records(&mut self, to: &mut dyn RecordReceiver) -> Result<Option<(u64, u64)>, StorageError>;
    /// As of [`Storage::seed`].
    fn seed(&self) -> u64;
}

/// The content of a [`Storage`] at one moment. Its files are kept until the image is dropped.
pub trait StorageImage: RecordSource + std::fmt::Debug + Send {
    /// Copies the content to a directory from which another store can start. The directory must be missing or empty, and on
    /// the same file system.
    fn copy_to(&self, directory: &Path) -> Result<(), StorageError>;
}

/// A storage of records. It is used by one thread at a time; every call may block.
pub trait Storage: Send + std::fmt::Debug {
    /// Passes all changes that count to `into`, and returns the stored clock. Called once, before the first commit.
    ///
    /// After an error, such as [`Stopped`](StorageError::Stopped), the content passed so far is incomplete. Nothing was
    /// changed, and a stopped load can be started again.
    fn load(&mut self, into: &mut dyn Restore) -> Result<Option<(u64, u64)>, StorageError>;
    /// Applies the batches in order; when it returns, all of them are durable as one atomic step.
    ///
    /// After [`StorageError::Full`] no batch is kept, and all can be committed later. After any other error it is unknown
    /// whether they are kept: they must not be acknowledged, and every later commit fails until the storage is opened again.
    fn commit(&mut self, batches: &[Batch]) -> Result<(), StorageError>;
    /// Makes the next commits fast and safe, as far as that does not take long. Call it after commits, once no request waits
    /// for them, and about every second while it fails with [`StorageError::Full`].
    ///
    /// After that error, commit only batches already submitted: some space is kept for them.
    fn prepare(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
    /// Returns the durable content, readable on another thread while this storage continues. Takes constant time.
    fn image(&mut self) -> Result<Box<dyn StorageImage>, StorageError> {
        Err(StorageError::Io {
            what: "cannot copy the store".into(),
            source: io::Error::new(io::ErrorKind::Unsupported, "it is kept in memory only"),
        })
    }
    /// Returns a secret random number that was created with the data and stays with it.
    fn seed(&self) -> Option<u64> {
        None
    }
    /// Returns the counters of the storage. The default implementation counts nothing.
    fn metrics(&self) -> Arc<StorageMetrics> {
        Arc::default()
    }
    /// Returns whether a commit takes time, so that it needs a thread of its own.
    fn is_durable(&self) -> bool;
}
