//! Group commit without its thread: decides what is committed next, what is kept while the disk is full, and when the next
//! commits are prepared.
//!
//! The caller does the waiting: the [committer](super::committer) with a thread, the simulation with a simulated clock. It
//! repeats these steps:
//! 1. Rest as long as [`is_idle`](GroupCommit::is_idle) holds, but not longer than the [patience](GroupCommit::max_wait).
//! 2. [Take](GroupCommit::take) the waiting batches. Stop if that returns `false`.
//! 3. [Advance](GroupCommit::advance), and report the progress, until there is nothing left to do.
use super::{Batch, Storage, StorageError, StorageImage, StorageMetrics, Write};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Interval at which a full disk is checked for room, and a merge for its end.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A batch, and the number of bytes that it counts for while it waits.
#[derive(Debug)]
pub struct QueuedBatch {
    batch: Batch,
    bytes: usize,
}

impl From<Batch> for QueuedBatch {
    fn from(batch: Batch) -> Self {
        let content = |write: &Write| match write {
            Write::Put(record) => record.key.len() + record.value.len(),
            Write::Delete(key) => key.len(),
        };
        let parts = size_of::<Batch>() + batch.writes.len() * size_of::<Write>();
        let bytes = parts + batch.writes.iter().map(content).sum::<usize>();
        Self { batch, bytes }
    }
}

/// Sender for an image of the store; dropped if the store is closed before.
pub type ImageOrder = oneshot::Sender<Result<Box<dyn StorageImage>, StorageError>>;

/// Batches and images to be processed.
#[derive(Debug, Default)]
pub struct CommitQueue {
    batches: VecDeque<QueuedBatch>,
    images: Vec<ImageOrder>,
    bytes: usize,
    is_closing: bool,
}

impl CommitQueue {
    /// Adds a batch.
    pub fn push(&mut self, batch: QueuedBatch) {
        self.bytes += batch.bytes;
        self.batches.push_back(batch);
    }

    /// Orders an image of the earlier state and the batches added so far.
    pub fn order_image(&mut self, order: ImageOrder) {
        self.images.push(order);
    }

    /// Returns whether no batch waits.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the bytes of the batches that wait or are being committed: keys and values, and a small constant per write.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Subtracts the bytes of batches that have become durable.
    pub fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Closes the queue: no batch follows.
    pub fn close(&mut self) {
        self.is_closing = true;
    }
}

/// Progress since the last call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitProgress {
    /// Number of batches that have become durable.
    pub durable: u64,
    /// Bytes of these batches, to be [freed](CommitQueue::release).
    pub released_bytes: usize,
    /// Whether the disk is full now.
    pub is_full: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    Commit,
    Image,
    Prepare,
    Wait,
}

/// The state of group commit, which commits all waiting batches at once.
#[derive(Debug)]
pub struct GroupCommit {
    storage: Box<dyn Storage>,
    metrics: Arc<StorageMetrics>,
    /// Batches taken and not yet committed.
    batches: Vec<Batch>,
    /// Bytes of the batches.
    bytes: usize,
    /// Images to be taken after the batches are committed.
    images: Vec<ImageOrder>,
    /// Whether there was no room for the batches.
    is_blocked: bool,
    is_full: bool,
    is_closing: bool,
    next: NextStep,
}

impl GroupCommit {
    /// Creates the state for a storage that has been [loaded](Storage::load). Call [`advance`](Self::advance) first, to
    /// find out immediately whether the disk has room.
    pub fn new(storage: Box<dyn Storage>) -> Self {
        Self {
            metrics: storage.metrics(),
            storage,
            batches: Vec::new(),
            bytes: 0,
            images: Vec::new(),
            is_blocked: false,
            is_full: false,
            is_closing: false,
            next: NextStep::Prepare,
        }
    }

    /// Returns whether there is nothing to do yet.
    pub fn is_idle(&self, waiting: &CommitQueue) -> bool {
        !waiting.is_closing && waiting.images.is_empty() && (self.is_blocked || waiting.is_empty())
    }

    /// Returns the maximum time to rest. Without commits, [`advance`](Self::advance) installs the result of a merge.
    pub fn max_wait(&self) -> Option<Duration> {
        (self.is_full || self.metrics.is_merging()).then_some(LOOK_AGAIN)
    }

    /// Takes all waiting batches and orders; `false` if the queue is closed and no batch is left.
    pub fn take(&mut self, waiting: &mut CommitQueue) -> bool {
        for QueuedBatch { batch, bytes } in waiting.batches.drain(..) {
            self.bytes += bytes;
            self.batches.push(batch);
        }
        self.images.append(&mut waiting.images);
        self.is_closing = waiting.is_closing;
        self.next = NextStep::Commit;
        !(self.is_closing && self.batches.is_empty())
    }

    /// Executes the next step, which may block. Returns `None` if there is nothing left to do.
    ///
    /// # Errors
    /// A commit failed. Batches that are not durable then never become durable, and must not be acknowledged.
    pub fn advance(&mut self) -> Result<Option<CommitProgress>, StorageError> {
        match self.next {
            NextStep::Commit if !self.batches.is_empty() => {
                self.next = NextStep::Image;
                self.commit().map(Some)
            }
            NextStep::Commit | NextStep::Image if !self.images.is_empty() => {
                self.next = NextStep::Prepare;
                self.take_images();
                Ok(Some(self.progress(0, 0)))
            }
            NextStep::Commit | NextStep::Image | NextStep::Prepare => {
                self.next = NextStep::Wait;
                self.prepare().map(Some)
            }
            NextStep::Wait => Ok(None),
        }
    }

    /// Commits the batches that were taken. Keeps them if there is no room, unless the queue is closing.
    fn commit(&mut self) -> Result<CommitProgress, StorageError> {
        match self.storage.commit(&self.batches) {
            Err(error @ StorageError::Full { .. }) if !self.is_closing => {
                self.is_blocked = true;
                self.set_full(Some(&error));
                return Ok(self.progress(0, 0));
            }
            result => result?,
        }
        self.is_blocked = false;
        let durable = self.batches.len() as u64;
        let writes = self.batches.iter().map(|batch| batch.writes.len()).sum();
        self.metrics.committed(writes);
        self.batches.clear();
        let freed = std::mem::take(&mut self.bytes);
        Ok(self.progress(durable, freed))
    }

    /// Takes the ordered images.
    fn take_images(&mut self) {
        for order in self.images.drain(..) {
            // The receiver may have been dropped.
            let _ = order.send(self.storage.image());
        }
    }

    fn prepare(&mut self) -> Result<CommitProgress, StorageError> {
        match self.storage.prepare() {
            Err(error @ StorageError::Full { .. }) => self.set_full(Some(&error)),
            Err(error) => return Err(error),
            Ok(()) if self.is_blocked => {}
            Ok(()) => self.set_full(None),
        }
        Ok(self.progress(0, 0))
    }

    fn progress(&self, durable: u64, freed: usize) -> CommitProgress {
        CommitProgress {
            durable,
            released_bytes: freed,
            is_full: self.is_full,
        }
    }

    /// Stores whether there is room, and logs a change.
    fn set_full(&mut self, error: Option<&StorageError>) {
        let is_news = std::mem::replace(&mut self.is_full, error.is_some()) != error.is_some();
        match error {
            Some(error) if is_news => tracing::warn!(
                "{error}. The store is read-only until there is room; then it takes writes again by itself"
            ),
            None if is_news => {
                tracing::info!("there is room on the disk again: the store takes writes");
            }
            _ => {}
        }
    }
}
