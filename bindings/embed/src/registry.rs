//! The operations of a client that are under way.
use crate::client::closed;
use crate::error::{Error, ErrorKind};
use crate::home::Home;
use crate::task::Task;
use slab::Slab;
use statestore::Outcome;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Most operations of one client that are under way or whose results nobody took yet. It is above what a client sends and
/// queues by default, so that it is met only by who does not take results.
const MOST: usize = 1 << 18;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    tasks: Mutex<Slab<Arc<Task>>>,
    /// Tasks that come from now on are too late.
    has_ended: AtomicBool,
    /// The last task has ended.
    emptied: Notify,
    /// Permits given out.
    permits: AtomicUsize,
    /// Called when the last permit comes back.
    on_idle: Mutex<Option<Arc<dyn Idle>>>,
}

/// Learns that nothing is under way.
pub(crate) trait Idle: std::fmt::Debug + Send + Sync {
    fn idle(&self);
}

/// Stands for an operation from its beginning until somebody has taken its result.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Home>);

impl Permit {
    /// # Errors
    /// [`ErrorKind::QueueFull`]: too many are out. [`ErrorKind::Closed`]: nobody may be there any more to take a result.
    pub(crate) fn take(home: &Arc<Home>, action: &str) -> Result<Self, Error> {
        let permit = Self(Arc::clone(home));
        let out = home.registry.permits.fetch_add(1, Ordering::SeqCst);
        // In this order: the thread of the callbacks, which ends when the client is closed and no permit is out, either sees
        // this one, or was told to end before, and then this sees that.
        if home.is_closed() {
            return Err(closed());
        }
        if out < MOST {
            return Ok(permit);
        }
        Err(Error::new(
            ErrorKind::QueueFull,
            Outcome::NotDone,
            action,
            format!("{MOST} operations are under way or wait for their results to be taken"),
        ))
    }
}

impl Registry {
    /// Whether every result was taken.
    pub(crate) fn is_idle(&self) -> bool {
        self.permits.load(Ordering::SeqCst) == 0
    }

    /// Who is told when every result was taken.
    pub(crate) fn on_idle(&self, idle: Option<Arc<dyn Idle>>) {
        let before = std::mem::replace(&mut *lock(&self.on_idle), idle);
        drop(before);
    }

    fn give_back(&self) {
        if self.permits.fetch_sub(1, Ordering::SeqCst) == 1 {
            let idle = lock(&self.on_idle).clone();
            if let Some(idle) = idle {
                idle.idle();
            }
        }
    }

    /// Enters a task that is made with its place; `make` must not enter another one.
    pub(crate) fn enter(&self, make: impl FnOnce(usize) -> Arc<Task>) -> Arc<Task> {
        let mut tasks = self.tasks();
        let entry = tasks.vacant_entry();
        let task = make(entry.key());
        entry.insert(Arc::clone(&task));
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

    /// Ends all tasks, as soon as the executor comes to them.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let tasks: Vec<_> = self
            .tasks()
            .iter()
            .map(|(_, task)| Arc::clone(task))
            .collect();
        for task in tasks {
            task.close();
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Slab<Arc<Task>>> {
        lock(&self.tasks)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.registry.give_back();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
