//! The thread of [group commit](super::group_commit): makes all waiting batches durable in one commit.
//!
//! The thread that serves requests never waits for the disk. It [submits](Committer::submit) batches, keeps the responses, and
//! sends them once [`durable`](Committer::durable) has reached their number. [`progressed`](Committer::progressed) wakes it.
//! While one commit is being written, the next one collects batches, so that all requests of that time share the cost of a
//! commit.
use super::group_commit::{CommitQueue, GroupCommit, ImageOrder, QueuedBatch};
use super::{Batch, Storage, StorageError, StorageMetrics};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Time after which the log reports that the shutdown waits for the disk.
const SHUTDOWN_LOG_DELAY: Duration = Duration::from_secs(5);

/// Limits of the committer.
#[derive(Debug, Clone, Copy)]
pub struct CommitterOptions {
    /// Maximum number of waiting bytes of keys and values, plus a small constant per write. A batch is accepted below the
    /// limit even if it exceeds it, so that any batch fits at some time.
    pub max_queued_bytes: usize,
    /// Time that submitted batches have to become durable when the committer is shut down or dropped.
    pub shutdown_timeout: Duration,
}

impl Default for CommitterOptions {
    fn default() -> Self {
        Self {
            max_queued_bytes: 64 << 20,
            shutdown_timeout: Duration::from_secs(60),
        }
    }
}

/// Reason why a batch was rejected.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Too many bytes wait for the disk. Check [`Committer::has_capacity`] first to avoid this error.
    #[error("too many writes wait for the disk")]
    Full,
    /// An earlier commit failed. Batches that were not durable then never become durable; the process should end.
    #[error(transparent)]
    Failed(#[from] Arc<StorageError>),
}

/// Progress of the committer thread.
#[derive(Debug, Clone, Default)]
struct Progress {
    durable: u64,
    is_full: bool,
    failure: Option<Arc<StorageError>>,
}

#[derive(Debug, Default)]
struct Queue {
    batches: Mutex<CommitQueue>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, CommitQueue> {
        // The state is consistent after each statement that holds the lock.
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A committer, which makes batches durable in the order in which they are submitted.
#[derive(Debug)]
pub struct Committer {
    backend: CommitBackend,
    submitted: u64,
    metrics: Arc<StorageMetrics>,
}

#[derive(Debug)]
enum CommitBackend {
    /// The storage is not durable: a commit takes no time.
    Direct(Box<dyn Storage>),
    Thread {
        queue: Arc<Queue>,
        progress: watch::Receiver<Progress>,
        options: CommitterOptions,
        thread: Option<JoinHandle<()>>,
        /// Disconnected when the thread ends, which may wait for the disk forever.
        end: Receiver<()>,
    },
}

impl Committer {
    /// Starts a committer for a storage that has been [loaded](Storage::load). A durable storage gets a thread of its own.
    pub fn start(
        storage: Box<dyn Storage>,
        options: CommitterOptions,
    ) -> Result<Self, StorageError> {
        let metrics = storage.metrics();
        let backend = if storage.is_durable() {
            let queue = Arc::new(Queue::default());
            let (report, progress) = watch::channel(Progress::default());
            let (alive, end) = channel();
            let mut worker = Worker {
                commits: GroupCommit::new(storage),
                metrics: Arc::clone(&metrics),
                queue: Arc::clone(&queue),
                progress: report,
                _alive: alive,
            };
            // Prepares the first commit, so that the caller of `start` knows immediately whether the disk has room.
            worker.advance()?;
            let thread = std::thread::Builder::new()
                .name("committer".into())
                .spawn(move || worker.run())
                .map_err(StorageError::io(|| {
                    "cannot start the committer thread".into()
                }))?;
            CommitBackend::Thread {
                queue,
                progress,
                options,
                thread: Some(thread),
                end,
            }
        } else {
            CommitBackend::Direct(storage)
        };
        Ok(Self {
            backend,
            submitted: 0,
            metrics,
        })
    }

    /// Returns the counters of the storage.
    pub fn metrics(&self) -> Arc<StorageMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Returns the bytes of memory that waiting batches take, and a merge of a store with `keys` keys.
    pub fn memory_bytes(&self, keys: u64) -> u64 {
        self.metrics.memory_bytes(keys)
    }

    /// Submits a batch and returns its number, counted from 1. Does not wait for the disk.
    ///
    /// An empty batch takes no number of its own: the number of the preceding batch is returned. Submit once per turn of an
    /// event loop rather than once per request.
    pub fn submit(&mut self, batch: Batch) -> Result<u64, SubmitError> {
        if !batch.is_empty() && !self.has_capacity() {
            return Err(SubmitError::Full);
        }
        self.submit_unlimited(batch)
    }

    /// Submits a batch like [`submit`](Self::submit), but without a limit: for the shutdown, which cannot wait for room.
    pub fn submit_unlimited(&mut self, batch: Batch) -> Result<u64, SubmitError> {
        if batch.is_empty() {
            return Ok(self.submitted);
        }
        match &mut self.backend {
            CommitBackend::Direct(storage) => storage.commit(&[batch]).map_err(Arc::new)?,
            CommitBackend::Thread {
                queue, progress, ..
            } => {
                if let Some(failure) = &progress.borrow().failure {
                    return Err(SubmitError::Failed(Arc::clone(failure)));
                }
                let batch = QueuedBatch::from(batch);
                let mut waiting = queue.lock();
                let is_first = waiting.is_empty();
                waiting.push(batch);
                self.metrics.set_waiting(waiting.bytes());
                drop(waiting);
                if is_first {
                    queue.changed.notify_one();
                }
            }
        }
        self.submitted += 1;
        Ok(self.submitted)
    }

    /// Orders an image of all batches submitted so far. Does not wait for it.
    pub fn order_image(&mut self, order: ImageOrder) {
        match &mut self.backend {
            CommitBackend::Direct(storage) => {
                // The receiver may have been dropped.
                let _ = order.send(storage.image());
            }
            CommitBackend::Thread { queue, .. } => {
                queue.lock().order_image(order);
                queue.changed.notify_one();
            }
        }
    }

    /// Returns whether the next batch will be accepted. If not, stop executing requests until [`progressed`](Self::progressed)
    /// returns.
    pub fn has_capacity(&self) -> bool {
        match &self.backend {
            CommitBackend::Direct(_) => true,
            CommitBackend::Thread { queue, options, .. } => {
                queue.lock().bytes() < options.max_queued_bytes
            }
        }
    }

    /// Returns the number of the last submitted batch; 0 before the first.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Returns the number up to which all batches are durable (or as durable as the storage can make them).
    pub fn durable(&self) -> u64 {
        match &self.backend {
            CommitBackend::Direct(_) => self.submitted,
            CommitBackend::Thread { progress, .. } => progress.borrow().durable,
        }
    }

    /// Returns whether the disk is full. Submitted batches are kept, and committed when there is room. Until then, submit only
    /// writes that cannot be refused.
    pub fn is_full(&self) -> bool {
        match &self.backend {
            CommitBackend::Direct(_) => false,
            CommitBackend::Thread { progress, .. } => progress.borrow().is_full,
        }
    }

    /// Waits until more batches are durable than at the last call that returned, or [`is_full`](Self::is_full) has changed.
    /// Returns [`durable`](Self::durable).
    ///
    /// # Errors
    /// A commit failed. Batches that are not durable then never become durable, and must not be acknowledged.
    ///
    /// # Cancel safety
    /// Cancel safe. Without a durable storage there is nothing to wait for, and the call never returns.
    pub async fn progressed(&mut self) -> Result<u64, Arc<StorageError>> {
        let CommitBackend::Thread { progress, .. } = &mut self.backend else {
            return std::future::pending().await;
        };
        // The thread ends early only after it reported a failure.
        let ended = progress.changed().await.is_err();
        let now = progress.borrow_and_update().clone();
        match now.failure {
            Some(failure) => Err(failure),
            None if ended => Err(Arc::new(thread_stopped())),
            None => Ok(now.durable),
        }
    }

    /// Makes all submitted batches durable, and closes the storage. Blocks meanwhile, but not longer than the
    /// [patience](CommitterOptions::shutdown_timeout).
    ///
    /// # Errors
    /// A commit failed, or the disk has not answered in time; then the thread is left running. Batches that were not
    /// [durable](Self::durable) before must not be acknowledged.
    pub fn shutdown(mut self) -> Result<(), Arc<StorageError>> {
        self.close()
    }

    fn close(&mut self) -> Result<(), Arc<StorageError>> {
        let CommitBackend::Thread {
            queue,
            progress,
            options,
            thread,
            end,
        } = &mut self.backend
        else {
            return Ok(());
        };
        queue.lock().close();
        queue.changed.notify_one();
        if let Some(thread) = thread.take() {
            let timeout = options.shutdown_timeout;
            if !has_ended(end, timeout) {
                return Err(Arc::new(shutdown_timed_out(timeout)));
            }
            if thread.join().is_err() {
                return Err(Arc::new(thread_stopped()));
            }
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

/// Waits until the thread ends, but not longer than `timeout`. Returns whether it has ended.
fn has_ended(end: &Receiver<()>, timeout: Duration) -> bool {
    let is_over = |wait| end.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected);
    let first = timeout.min(SHUTDOWN_LOG_DELAY);
    if is_over(first) {
        return true;
    }
    if timeout > first {
        let left = timeout.saturating_sub(first);
        tracing::warn!(
            "the disk has not taken the last writes for {} s; it gets {} s more",
            first.as_secs(),
            left.as_secs()
        );
    }
    is_over(timeout.saturating_sub(first))
}

fn shutdown_timed_out(timeout: Duration) -> StorageError {
    let seconds = timeout.as_secs_f64();
    StorageError::Io {
        what: format!("the last writes are not known to be durable after {seconds} s"),
        source: std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            "the disk does not answer; all acknowledged writes are durable",
        ),
    }
}

fn thread_stopped() -> StorageError {
    StorageError::Io {
        what: "cannot commit".into(),
        source: std::io::Error::other("the committer thread stopped unexpectedly"),
    }
}

/// State of the committer thread.
struct Worker {
    commits: GroupCommit,
    metrics: Arc<StorageMetrics>,
    queue: Arc<Queue>,
    progress: watch::Sender<Progress>,
    /// Dropped after the storage.
    _alive: Sender<()>,
}

impl Worker {
    /// Commits waiting batches until the queue is closed and empty, or a commit fails.
    fn run(mut self) {
        if let Err(error) = self.commit_all() {
            self.progress
                .send_modify(|progress| progress.failure = Some(Arc::new(error)));
        }
    }

    fn commit_all(&mut self) -> Result<(), StorageError> {
        while self.take() {
            self.advance()?;
        }
        Ok(())
    }

    /// Waits for work and takes all of it; `false` after the last batch.
    fn take(&mut self) -> bool {
        let (changed, waiting) = (&self.queue.changed, self.queue.lock());
        let rests = |waiting: &mut CommitQueue| self.commits.is_idle(waiting);
        let mut waiting = if let Some(timeout) = self.commits.max_wait() {
            let result = changed.wait_timeout_while(waiting, timeout, rests);
            result.unwrap_or_else(PoisonError::into_inner).0
        } else {
            let result = changed.wait_while(waiting, rests);
            result.unwrap_or_else(PoisonError::into_inner)
        };
        self.commits.take(&mut waiting)
    }

    /// Makes all progress that is possible without waiting for new batches, and reports it.
    fn advance(&mut self) -> Result<(), StorageError> {
        while let Some(achieved) = self.commits.advance()? {
            // Frees the room first: a task that the progress wakes may need it.
            if achieved.released_bytes > 0 {
                let mut waiting = self.queue.lock();
                waiting.release(achieved.released_bytes);
                self.metrics.set_waiting(waiting.bytes());
            }
            self.progress.send_if_modified(|progress| {
                progress.durable += achieved.durable;
                let was_full = std::mem::replace(&mut progress.is_full, achieved.is_full);
                achieved.durable > 0 || was_full != achieved.is_full
            });
        }
        Ok(())
    }
}
