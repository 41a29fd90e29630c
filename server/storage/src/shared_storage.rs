//! A storage over a shared engine: the engine keeps every entry, and a backup is a snapshot of it.
use super::record::Version;
use super::spool::Spool;
use super::{
    Batch, NewStore, RecordReceiver, RecordSource, RecordView, Restore, Storage, StorageError,
    StorageImage,
};
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A receiver of the state of a store at one revision: of records, and of changes made while these were read.
pub trait SnapshotReceiver {
    /// Discards everything received so far, since the snapshot starts again.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    fn restart(&mut self) -> Result<(), StorageError>;

    /// Takes a record as the engine has it. Each key comes once. A change of the key takes precedence, before or after.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError>;

    /// Takes a record as a change left it. The last change of a key counts.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    fn record_changed(&mut self, record: &RecordView<'_>) -> Result<(), StorageError>;

    /// Takes a change that removed a record.
    fn record_removed(&mut self, key: &[u8]);

    /// Takes the version of a deletion: versions after a restore are higher.
    fn deletion(&mut self, version: (u64, u64));

    /// Returns whether the snapshot is still wanted. Called after each answer of the engine.
    ///
    /// # Errors
    /// [`StorageError::Stopped`] if it is no longer wanted.
    fn check_wanted(&mut self) -> Result<(), StorageError>;
}

/// An engine that can take snapshots.
pub trait SnapshotSource: Debug + Send + Sync {
    /// Passes the state of the store at one revision between call and return to `to`. Blocks until it is complete.
    ///
    /// # Errors
    /// [`StorageError::Engine`], or an error of the receiver.
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    fn take(&self, to: &mut dyn SnapshotReceiver) -> Result<(), StorageError>;
}

/// A storage whose entries are in a shared engine.
#[derive(Debug)]
pub struct SharedStorage(Arc<dyn SnapshotSource>);

impl SharedStorage {
    /// Creates a storage whose images come from this source.
    pub fn new(source: Arc<dyn SnapshotSource>) -> Self {
        Self(source)
    }
}

impl Storage for SharedStorage {
    fn load(&mut self, _into: &mut dyn Restore) -> Result<Option<(u64, u64)>, StorageError> {
        Ok(None)
    }

    fn commit(&mut self, _batches: &[Batch]) -> Result<(), StorageError> {
        Ok(())
    }

    fn image(&mut self) -> Result<Box<dyn StorageImage>, StorageError> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed)
            .map_err(io::Error::other)
            .map_err(StorageError::io(|| "cannot get random numbers".into()))?;
        Ok(Box::new(SharedImage {
            source: Arc::clone(&self.0),
            seed: u64::from_ne_bytes(seed),
            spool: None,
        }))
    }

    fn is_durable(&self) -> bool {
        false
    }
}

/// A snapshot of an engine, taken when its records are first read.
#[derive(Debug)]
struct SharedImage {
    source: Arc<dyn SnapshotSource>,
    seed: u64,
    spool: Option<Spool>,
}

impl RecordSource for SharedImage {
    fn records(&mut self, to: &mut dyn RecordReceiver) -> Result<Option<Version>, StorageError> {
        let spool = if let Some(spool) = self.spool.take() {
            spool
        } else {
            let mut taking = SpoolingReceiver {
                spool: Spool::create()?,
                receiver: to,
            };
            self.source.take(&mut taking)?;
            taking.spool
        };
        self.spool.insert(spool).read(to)
    }

    fn seed(&self) -> u64 {
        self.seed
    }
}

impl StorageImage for SharedImage {
    fn copy_to(&self, directory: &Path) -> Result<(), StorageError> {
        let mut store = NewStore::create(directory, self.seed)?;
        let mut image = Self {
            source: Arc::clone(&self.source),
            seed: self.seed,
            spool: None,
        };
        let clock = image.records(&mut store)?;
        store.finish(clock)
    }
}

/// A snapshot being written to the temporary file.
struct SpoolingReceiver<'a> {
    spool: Spool,
    /// Final receiver of the records, which reports whether they are still wanted.
    receiver: &'a mut dyn RecordReceiver,
}

impl SnapshotReceiver for SpoolingReceiver<'_> {
    fn restart(&mut self) -> Result<(), StorageError> {
        self.spool.clear()
    }

    fn record(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.spool.add_record(record)
    }

    fn record_changed(&mut self, record: &RecordView<'_>) -> Result<(), StorageError> {
        self.spool.add_changed(record)
    }

    fn record_removed(&mut self, key: &[u8]) {
        self.spool.add_removed(key);
    }

    fn deletion(&mut self, version: (u64, u64)) {
        self.spool.deletion(version);
    }

    fn check_wanted(&mut self) -> Result<(), StorageError> {
        self.receiver.progressed(0)
    }
}
