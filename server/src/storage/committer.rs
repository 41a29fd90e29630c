//! Group commit: a thread that makes batches durable, everything that waits in one commit.
//!
//! Whoever serves requests never waits for the disk: it [submits](Committer::submit) batches, keeps the
//! responses, and lets them go once [`durable`](Committer::durable) has reached their number.
//! [`progressed`](Committer::progressed) wakes it. While one commit is on its way to the disk the next
//! one gathers, so the time of a commit is shared by all requests of that time.
use super::{Batch, Storage, StorageError, Write};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// How much may wait for the disk.
#[derive(Debug, Clone, Copy)]
pub struct CommitterOptions {
    /// Bytes of keys and values, and a small constant per write, that may wait. One batch more is
    /// taken, so that any batch fits sometime.
    pub max_waiting_bytes: usize,
}

impl Default for CommitterOptions {
    fn default() -> Self {
        Self {
            max_waiting_bytes: 64 << 20,
        }
    }
}

/// Why a batch was not taken.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Too much waits for the disk. Whoever asks [`Committer::has_room`] first never sees this.
    #[error("too many writes wait for the disk")]
    Full,
    /// A commit failed before. Nothing that was not durable then will be; the process should end.
    #[error(transparent)]
    Failed(#[from] Arc<StorageError>),
}

/// What the thread has achieved.
#[derive(Debug, Clone, Default)]
struct Progress {
    durable: u64,
    is_full: bool,
    failure: Option<Arc<StorageError>>,
}

/// How often it is looked for room while there is none.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<(Batch, usize)>,
    /// Of the batches that wait and of those being committed.
    bytes: usize,
    is_closing: bool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // The state is whole after each statement that holds the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes batches durable in the order in which they are submitted.
#[derive(Debug)]
pub struct Committer {
    lane: Lane,
    submitted: u64,
}

#[derive(Debug)]
enum Lane {
    /// The storage keeps nothing durable: a commit takes no time.
    Direct(Box<dyn Storage>),
    Thread {
        queue: Arc<Queue>,
        progress: watch::Receiver<Progress>,
        max_waiting_bytes: usize,
        thread: Option<JoinHandle<()>>,
    },
}

impl Committer {
    /// Takes a storage that has been [loaded](Storage::load). A durable one gets a thread of its own.
    pub fn start(
        storage: Box<dyn Storage>,
        options: CommitterOptions,
    ) -> Result<Self, StorageError> {
        let lane = if storage.is_durable() {
            let queue = Arc::new(Queue::default());
            let (report, progress) = watch::channel(Progress::default());
            let mut worker = Worker {
                storage,
                queue: Arc::clone(&queue),
                report,
                batches: Vec::new(),
                bytes: 0,
                is_stuck: false,
            };
            // Whoever starts it knows at once whether there is room.
            worker.prepare()?;
            let thread = std::thread::Builder::new()
                .name("committer".into())
                .spawn(move || worker.run())
                .map_err(StorageError::io(|| {
                    "cannot start the committer thread".into()
                }))?;
            Lane::Thread {
                queue,
                progress,
                max_waiting_bytes: options.max_waiting_bytes,
                thread: Some(thread),
            }
        } else {
            Lane::Direct(storage)
        };
        Ok(Self { lane, submitted: 0 })
    }

    /// Hands over a batch and returns its number, counted from 1. Does not wait for the disk.
    ///
    /// An empty batch takes no number of its own: what it follows is what it waits for. Submit once per
    /// turn of an event loop rather than once per request.
    pub fn submit(&mut self, batch: Batch) -> Result<u64, SubmitError> {
        if !batch.is_empty() && !self.has_room() {
            return Err(SubmitError::Full);
        }
        self.submit_last(batch)
    }

    /// Like [`submit`](Self::submit), however much waits: for the end, when nobody can wait for room.
    pub fn submit_last(&mut self, batch: Batch) -> Result<u64, SubmitError> {
        if batch.is_empty() {
            return Ok(self.submitted);
        }
        match &mut self.lane {
            Lane::Direct(storage) => storage.commit(&[batch]).map_err(Arc::new)?,
            Lane::Thread {
                queue, progress, ..
            } => {
                if let Some(failure) = &progress.borrow().failure {
                    return Err(SubmitError::Failed(Arc::clone(failure)));
                }
                let bytes = weight(&batch);
                let mut waiting = queue.lock();
                let is_first = waiting.batches.is_empty();
                waiting.bytes += bytes;
                waiting.batches.push_back((batch, bytes));
                drop(waiting);
                if is_first {
                    queue.changed.notify_one();
                }
            }
        }
        self.submitted += 1;
        Ok(self.submitted)
    }

    /// Whether the next batch will be taken. If not, stop executing requests until
    /// [`progressed`](Self::progressed) returns.
    pub fn has_room(&self) -> bool {
        match &self.lane {
            Lane::Direct(_) => true,
            Lane::Thread {
                queue,
                max_waiting_bytes,
                ..
            } => queue.lock().bytes < *max_waiting_bytes,
        }
    }

    /// The number of the last submitted batch; 0 before the first.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Every batch up to this number is durable (or as durable as the storage can make it).
    pub fn durable(&self) -> u64 {
        match &self.lane {
            Lane::Direct(_) => self.submitted,
            Lane::Thread { progress, .. } => progress.borrow().durable,
        }
    }

    /// Whether the disk is full. What was submitted is kept and committed when there is room; until then, nothing more
    /// should be submitted than what cannot be refused.
    pub fn is_full(&self) -> bool {
        match &self.lane {
            Lane::Direct(_) => false,
            Lane::Thread { progress, .. } => progress.borrow().is_full,
        }
    }

    /// Waits until more batches are durable than at the last call that returned, or [`is_full`](Self::is_full) has
    /// changed, and returns [`durable`](Self::durable). Fails once a commit has failed: what is not durable then never will
    /// be, and nobody may be told otherwise.
    ///
    /// Cancel safe. Without a durable storage there is nothing to wait for, and it never returns.
    pub async fn progressed(&mut self) -> Result<u64, Arc<StorageError>> {
        let Lane::Thread { progress, .. } = &mut self.lane else {
            return std::future::pending().await;
        };
        // The thread ends early only after it reported a failure.
        let ended = progress.changed().await.is_err();
        let now = progress.borrow_and_update().clone();
        match now.failure {
            Some(failure) => Err(failure),
            None if ended => Err(Arc::new(stopped())),
            None => Ok(now.durable),
        }
    }

    /// Makes everything submitted durable, and closes the storage. Blocks meanwhile.
    pub fn shutdown(mut self) -> Result<(), Arc<StorageError>> {
        self.close()
    }

    fn close(&mut self) -> Result<(), Arc<StorageError>> {
        let Lane::Thread {
            queue,
            progress,
            thread,
            ..
        } = &mut self.lane
        else {
            return Ok(());
        };
        queue.lock().is_closing = true;
        queue.changed.notify_one();
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            return Err(Arc::new(stopped()));
        }
        match &progress.borrow().failure {
            Some(failure) => Err(Arc::clone(failure)),
            None => Ok(()),
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        if let Err(failure) = self.close() {
            tracing::error!("not everything became durable: {failure}");
        }
    }
}

fn stopped() -> StorageError {
    StorageError::Io {
        what: "cannot commit".into(),
        source: std::io::Error::other("the committer thread stopped unexpectedly"),
    }
}

/// What a batch counts for in the queue: its bytes and the size of its parts.
fn weight(batch: &Batch) -> usize {
    let content = |write: &Write| match write {
        Write::Put(record) => record.key.len() + record.value.len(),
        Write::Delete(key) => key.len(),
    };
    let parts = size_of::<Batch>() + batch.writes.len() * size_of::<Write>();
    parts + batch.writes.iter().map(content).sum::<usize>()
}

/// What the thread works with.
struct Worker {
    storage: Box<dyn Storage>,
    queue: Arc<Queue>,
    report: watch::Sender<Progress>,
    /// Taken from the queue, not yet committed.
    batches: Vec<Batch>,
    /// What they count for in the queue.
    bytes: usize,
    /// There was no room for them.
    is_stuck: bool,
}

impl Worker {
    /// Commits whatever waits, until the queue is closed and empty or a commit fails.
    fn run(mut self) {
        if let Err(error) = self.commit_all() {
            self.report
                .send_modify(|progress| progress.failure = Some(Arc::new(error)));
        }
    }

    fn commit_all(&mut self) -> Result<(), StorageError> {
        loop {
            let is_closing = self.take();
            if self.batches.is_empty() && is_closing {
                return Ok(());
            }
            if !self.batches.is_empty() {
                self.commit(is_closing)?;
            }
            self.prepare()?;
        }
    }

    /// Waits for something to do and takes all of it; says whether the queue is being closed.
    fn take(&mut self) -> bool {
        let queue = Arc::clone(&self.queue);
        let is_stuck = self.is_stuck;
        let is_idle =
            |waiting: &mut Waiting| !waiting.is_closing && (is_stuck || waiting.batches.is_empty());
        let mut waiting = if self.report.borrow().is_full {
            let (waiting, _) = queue
                .changed
                .wait_timeout_while(queue.lock(), LOOK_FOR_ROOM, is_idle)
                .unwrap_or_else(PoisonError::into_inner);
            waiting
        } else {
            queue
                .changed
                .wait_while(queue.lock(), is_idle)
                .unwrap_or_else(PoisonError::into_inner)
        };
        for (batch, bytes) in waiting.batches.drain(..) {
            self.bytes += bytes;
            self.batches.push(batch);
        }
        waiting.is_closing
    }

    /// Commits what was taken; keeps it if there is no room, unless this was the last attempt.
    fn commit(&mut self, is_last: bool) -> Result<(), StorageError> {
        match self.storage.commit(&self.batches) {
            Err(error @ StorageError::Full { .. }) if !is_last => {
                self.is_stuck = true;
                self.set_full(Some(&error));
                return Ok(());
            }
            result => result?,
        }
        self.is_stuck = false;
        // Room first: whoever is woken by the progress may need it.
        self.queue.lock().bytes -= std::mem::take(&mut self.bytes);
        let count = self.batches.len() as u64;
        self.batches.clear();
        self.report
            .send_modify(|progress| progress.durable += count);
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), StorageError> {
        match self.storage.prepare() {
            Err(error @ StorageError::Full { .. }) => self.set_full(Some(&error)),
            Err(error) => return Err(error),
            Ok(()) if self.is_stuck => {}
            Ok(()) => self.set_full(None),
        }
        Ok(())
    }

    /// Tells whether there is room, if that is news.
    fn set_full(&self, error: Option<&StorageError>) {
        let is_news = self.report.send_if_modified(|progress| {
            std::mem::replace(&mut progress.is_full, error.is_some()) != error.is_some()
        });
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
