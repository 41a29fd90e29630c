//! Tasks and waits of a client that are under way.
use slab::Slab;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A task that is under way until it is [removed](Registry::remove).
pub(crate) trait RegisteredTask: fmt::Debug + Send + Sync {
    /// Ends soon, because its client was closed.
    fn close(self: Arc<Self>);
}

#[derive(Debug, Default)]
pub(crate) struct Registry {
    tasks: Mutex<Tasks>,
    /// Number of threads that wait for requests.
    blocked: AtomicUsize,
    /// Whether further tasks are refused.
    has_ended: AtomicBool,
    /// The last task has ended.
    emptied: Notify,
    /// Notified when no task is left that ends by itself.
    drained: Notify,
}

#[derive(Debug, Default)]
struct Tasks {
    all: Slab<(Arc<dyn RegisteredTask>, OperationKind)>,
    /// How many of them are requests.
    requests: usize,
}

/// The event that a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationKind {
    /// Answers: it ends by itself.
    Request,
    /// Something that may never happen.
    Event,
}

/// A thread that waits for a request.
#[derive(Debug)]
pub(crate) struct BlockedThreadGuard<'a>(&'a Registry);

impl Drop for BlockedThreadGuard<'_> {
    fn drop(&mut self) {
        if self.0.blocked.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.drained.notify_waiters();
        }
    }
}

impl Registry {
    /// Enters a task that is made with its place; `make` must not enter another one.
    pub(crate) fn register<T: RegisteredTask + 'static>(
        &self,
        kind: OperationKind,
        make: impl FnOnce(usize) -> Arc<T>,
    ) -> Arc<T> {
        let mut tasks = self.tasks();
        let entry = tasks.all.vacant_entry();
        let task = make(entry.key());
        let registered: Arc<dyn RegisteredTask> = Arc::clone(&task) as _;
        entry.insert((registered, kind));
        tasks.requests += usize::from(kind == OperationKind::Request);
        task
    }

    /// Registers a thread that waits for a request.
    pub(crate) fn register_blocked(&self) -> BlockedThreadGuard<'_> {
        self.blocked.fetch_add(1, Ordering::SeqCst);
        BlockedThreadGuard(self)
    }

    /// Returns whether every task has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks().all.is_empty()
    }

    pub(crate) fn remove(&self, index: usize) {
        let (task, is_last) = {
            let mut tasks = self.tasks();
            let task = tasks.all.try_remove(index);
            let is_request = matches!(task, Some((_, OperationKind::Request)));
            tasks.requests -= usize::from(is_request);
            (task, is_request && tasks.requests == 0)
        };
        // A task drops its registry, so it is dropped outside of the lock.
        drop(task);
        if is_last {
            self.drained.notify_waiters();
        }
        if self.has_ended() && self.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// Waits until every task has ended; for use after [`close_tasks`](Self::close_tasks).
    pub(crate) async fn emptied(&self) {
        loop {
            let mut emptied = pin!(self.emptied.notified());
            // From here on it is noticed.
            emptied.as_mut().enable();
            if self.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    /// Waits until no request is under way.
    pub(crate) async fn drained(&self) {
        loop {
            let mut drained = pin!(self.drained.notified());
            // From here on it is noticed.
            drained.as_mut().enable();
            if self.tasks().requests == 0 && self.blocked.load(Ordering::SeqCst) == 0 {
                return;
            }
            drained.await;
        }
    }

    /// Returns whether [`close_tasks`](Self::close_tasks) was called, which a task that was entered just now may have missed.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Closes all tasks.
    pub(crate) fn close_tasks(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let tasks: Vec<_> = self
            .tasks()
            .all
            .iter()
            .map(|(_, (task, _))| Arc::clone(task))
            .collect();
        tasks.into_iter().for_each(RegisteredTask::close);
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
