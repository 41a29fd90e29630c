//! Synchronization primitives of a model's threads, in place of `bindings/embed/src/sync.rs`.
//!
//! Loom tries every order of the steps of the threads. It has no clock, so time is simulated. Either it [stands still](Time::Stands)
//! and no wait times out, so every thread that proceeds was woken. Or it [flies](Time::Flies): each timed wait times out as soon as
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
pub(crate) enum Time {
    Stands,
    Flies,
}

thread_local! {
    // Loom runs all threads of a model on one thread.
    static TIME: Cell<Option<(Time, Instant)>> = const { Cell::new(None) };
}

/// Begins to count the time.
pub(crate) fn begin(time: Time) {
    TIME.set(Some((time, Instant::now())));
}

fn time() -> (Time, Instant) {
    TIME.get().expect("a model begins with it")
}

pub(crate) fn now() -> Instant {
    time().1
}

/// Unwraps a result of a lock. Locks are never poisoned: a model ends with the first panic.
fn sound<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = sound(self.0.lock());
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
    told: AtomicUsize,
}

pub(crate) struct TimedOut(bool);

impl TimedOut {
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
        let guard = sound(self.condvar.wait(guard));
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
    ) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
        let (time, now) = time();
        if time == Time::Stands {
            return Ok((sound(self.wait(guard)), TimedOut(false)));
        }
        let told = self.told.load(Ordering::Relaxed);
        let mutex = guard.mutex;
        drop(guard);
        // Others may have their turn in between.
        let guard = sound(mutex.lock());
        let is_over = told == self.told.load(Ordering::Relaxed);
        if is_over {
            TIME.set(Some((time, now.max(self::now()) + patience)));
        }
        Ok((guard, TimedOut(is_over)))
    }

    pub(crate) fn notify_one(&self) {
        self.told.fetch_add(1, Ordering::Relaxed);
        self.condvar.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.told.fetch_add(1, Ordering::Relaxed);
        self.condvar.notify_all();
    }
}
