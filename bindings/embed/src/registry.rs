//! What is under way for a client.
use slab::Slab;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What is under way until it is [removed](Registry::remove).
pub(crate) trait Underway: fmt::Debug + Send + Sync {
    /// Ends soon, because its client was closed.
    fn close(self: Arc<Self>);
}

#[derive(Debug, Default)]
pub(crate) struct Registry {
    tasks: Mutex<Slab<Arc<dyn Underway>>>,
    /// Tasks that come from now on are too late.
    has_ended: AtomicBool,
    /// The last task has ended.
    emptied: Notify,
}

impl Registry {
    /// Enters a task that is made with its place; `make` must not enter another one.
    pub(crate) fn enter<T: Underway + 'static>(
        &self,
        make: impl FnOnce(usize) -> Arc<T>,
    ) -> Arc<T> {
        let mut tasks = self.tasks();
        let entry = tasks.vacant_entry();
        let task = make(entry.key());
        let underway: Arc<dyn Underway> = Arc::clone(&task) as _;
        entry.insert(underway);
        task
    }

    /// Whether every task has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks().is_empty()
    }

    pub(crate) fn remove(&self, place: usize) {
        // A task drops its registry, so it is dropped outside of the lock.
        let task = self.tasks().try_remove(place);
        drop(task);
        if self.has_ended() && self.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// Ready when every task has ended; after [`end`](Self::end).
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

    /// Whether [`end`](Self::end) was called, which a task that was entered just now may have missed.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Closes all tasks.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let tasks: Vec<_> = self
            .tasks()
            .iter()
            .map(|(_, task)| Arc::clone(task))
            .collect();
        tasks.into_iter().for_each(Underway::close);
    }

    fn tasks(&self) -> MutexGuard<'_, Slab<Arc<dyn Underway>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
