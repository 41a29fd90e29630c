//! Group commit without its thread: what is committed next, what is kept while the disk is full, and when the next
//! commits are prepared.
//!
//! Whoever runs it brings the waiting: the [committer](super::committer) with a thread, the simulation with a clock of its
//! own. It goes round like this:
//! 1. Rest as long as it [rests](GroupCommit::rests), but not longer than its [patience](GroupCommit::patience).
//! 2. [Take](GroupCommit::take) what waits. If that was the end, stop.
//! 3. [Advance](GroupCommit::advance), and tell what it achieved, until there is nothing more to do.
use super::{Batch, Image, Storage, StorageError, StorageFigures, Write};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often it is looked for room while there is none.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(1);

/// A batch, and what it counts for while it waits.
#[derive(Debug)]
pub struct Weighed {
    batch: Batch,
    bytes: usize,
}

impl From<Batch> for Weighed {
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

/// Where an image of the store is wanted; nowhere if the store is closed before.
pub type ImageOrder = oneshot::Sender<Result<Box<dyn Image>, StorageError>>;

/// What is to be committed.
#[derive(Debug, Default)]
pub struct Waiting {
    batches: VecDeque<Weighed>,
    images: Vec<ImageOrder>,
    bytes: usize,
    is_closing: bool,
}

impl Waiting {
    /// Adds a batch.
    pub fn push(&mut self, batch: Weighed) {
        self.bytes += batch.bytes;
        self.batches.push_back(batch);
    }

    /// An image is to be taken of what was there before, and of the batches added so far.
    pub fn order_image(&mut self, order: ImageOrder) {
        self.images.push(order);
    }

    /// Whether no batch waits.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// What the batches count for that wait, and those being committed: keys and values, and a small constant per write.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Batches are durable that counted for so much.
    pub fn free(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// Nothing more will come.
    pub fn close(&mut self) {
        self.is_closing = true;
    }
}

/// What was achieved since the last time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Achieved {
    /// So many more batches are durable.
    pub durable: u64,
    /// What they counted for, to be [freed](Waiting::free).
    pub freed: usize,
    /// There is no room on the disk now.
    pub is_full: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Commit,
    Image,
    Prepare,
    Rest,
}

/// Commits what waits, all of it at a time.
#[derive(Debug)]
pub struct GroupCommit {
    storage: Box<dyn Storage>,
    figures: Arc<StorageFigures>,
    /// Taken, not yet committed.
    batches: Vec<Batch>,
    /// What they count for.
    bytes: usize,
    /// To be taken after them.
    images: Vec<ImageOrder>,
    /// There was no room for them.
    is_stuck: bool,
    is_full: bool,
    is_closing: bool,
    next: Next,
}

impl GroupCommit {
    /// Takes a storage that has been [loaded](Storage::load). To be [advanced](Self::advance) first, so that whoever
    /// starts it knows at once whether there is room.
    pub fn new(storage: Box<dyn Storage>) -> Self {
        Self {
            figures: storage.figures(),
            storage,
            batches: Vec::new(),
            bytes: 0,
            images: Vec::new(),
            is_stuck: false,
            is_full: false,
            is_closing: false,
            next: Next::Prepare,
        }
    }

    /// Whether there is nothing to do yet.
    pub fn rests(&self, waiting: &Waiting) -> bool {
        !waiting.is_closing && waiting.images.is_empty() && (self.is_stuck || waiting.is_empty())
    }

    /// How long it rests at most.
    pub fn patience(&self) -> Option<Duration> {
        self.is_full.then_some(LOOK_FOR_ROOM)
    }

    /// Takes all that waits; `false` if it was closed and nothing is left.
    pub fn take(&mut self, waiting: &mut Waiting) -> bool {
        for Weighed { batch, bytes } in waiting.batches.drain(..) {
            self.bytes += bytes;
            self.batches.push(batch);
        }
        self.images.append(&mut waiting.images);
        self.is_closing = waiting.is_closing;
        self.next = Next::Commit;
        !(self.is_closing && self.batches.is_empty())
    }

    /// Does what is to be done next, which may block; none if that is to rest.
    ///
    /// # Errors
    /// Nothing that is not durable now ever will be, and nobody may be told otherwise.
    pub fn advance(&mut self) -> Result<Option<Achieved>, StorageError> {
        match self.next {
            Next::Commit if !self.batches.is_empty() => {
                self.next = Next::Image;
                self.commit().map(Some)
            }
            Next::Commit | Next::Image if !self.images.is_empty() => {
                self.next = Next::Prepare;
                self.take_images();
                Ok(Some(self.achieved(0, 0)))
            }
            Next::Commit | Next::Image | Next::Prepare => {
                self.next = Next::Rest;
                self.prepare().map(Some)
            }
            Next::Rest => Ok(None),
        }
    }

    /// Commits what was taken; keeps it if there is no room, unless this was the last attempt.
    fn commit(&mut self) -> Result<Achieved, StorageError> {
        match self.storage.commit(&self.batches) {
            Err(error @ StorageError::Full { .. }) if !self.is_closing => {
                self.is_stuck = true;
                self.set_full(Some(&error));
                return Ok(self.achieved(0, 0));
            }
            result => result?,
        }
        self.is_stuck = false;
        let durable = self.batches.len() as u64;
        let writes = self.batches.iter().map(|batch| batch.writes.len()).sum();
        self.figures.committed(writes);
        self.batches.clear();
        let freed = std::mem::take(&mut self.bytes);
        Ok(self.achieved(durable, freed))
    }

    /// Takes the images that are wanted.
    fn take_images(&mut self) {
        for order in self.images.drain(..) {
            // Who wanted it may have given up.
            let _ = order.send(self.storage.image());
        }
    }

    fn prepare(&mut self) -> Result<Achieved, StorageError> {
        match self.storage.prepare() {
            Err(error @ StorageError::Full { .. }) => self.set_full(Some(&error)),
            Err(error) => return Err(error),
            Ok(()) if self.is_stuck => {}
            Ok(()) => self.set_full(None),
        }
        Ok(self.achieved(0, 0))
    }

    fn achieved(&self, durable: u64, freed: usize) -> Achieved {
        Achieved {
            durable,
            freed,
            is_full: self.is_full,
        }
    }

    /// Notes whether there is room, and tells the operator if that is news.
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
