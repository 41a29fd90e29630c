//! Synchronization primitives of a model's threads, in place of `bindings/embed/src/sync.rs`.
//!
//! Loom tries every order of the steps of the threads. It has no clock, so time is simulated. Either it [stands still](TestClock::Frozen)
//! and no wait times out, so every thread that proceeds was woken. Or it [flies](TestClock::Elapsing): each timed wait times out as soon as
//! its thread runs, unless the thread was notified before.
#![allow(
    clippy::unnecessary_wraps,
    reason = "the functions are those of the standard library"
)]
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LockResult, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestClock {
    Frozen,
    Elapsing,
}

thread_local! {
    // Loom runs all threads of a model on one thread.
    static TIME: Cell<Option<(TestClock, Instant)>> = const { Cell::new(None) };
}

/// Begins to count the time.
pub(crate) fn begin(time: TestClock) {
    TIME.set(Some((time, Instant::now())));
}

fn time() -> (TestClock, Instant) {
    TIME.get().expect("a model begins with it")
}

pub(crate) fn now() -> Instant {
    time().1
}

/// Unwraps a result of a lock. Locks are never poisoned: a model ends with the first panic.
fn unwrap_lock<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = unwrap_lock(self.0.lock());
        Ok(MutexGuard { mutex: self, guard })
    }
}

pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: loom::sync::MutexGuard<'a, T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar {
    condvar: loom::sync::Condvar,
    /// Number of notifications.
    notifications: AtomicUsize,
}

pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { mutex, guard } = guard;
        let guard = unwrap_lock(self.condvar.wait(guard));
        Ok(MutexGuard { mutex, guard })
    }

    pub(crate) fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        patience: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (time, now) = time();
        if time == TestClock::Frozen {
            return Ok((unwrap_lock(self.wait(guard)), WaitTimeoutResult(false)));
        }
        let notification_count = self.notifications.load(Ordering::Relaxed);
        let mutex = guard.mutex;
        drop(guard);
        // Others may have their turn in between.
        let guard = unwrap_lock(mutex.lock());
        let is_over = notification_count == self.notifications.load(Ordering::Relaxed);
        if is_over {
            TIME.set(Some((time, now.max(self::now()) + patience)));
        }
        Ok((guard, WaitTimeoutResult(is_over)))
    }

    pub(crate) fn notify_one(&self) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
        self.condvar.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
        self.condvar.notify_all();
    }
}
