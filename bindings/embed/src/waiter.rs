//! A thread of the foreign side that waits for a result. It drives the runtime meanwhile, or sleeps while another thread
//! drives.
use crate::driver_handoff::{DriveRuntime, DriverHandoff};
use crate::executor::Poller;
use crate::sync::{self, Condvar, Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

/// A waiting thread, and how it is woken. A thread handle of the standard library would also work. However, the handle of a
/// foreign thread is never freed if it is the first thread, and is unavailable when the thread ends.
#[derive(Default)]
pub(crate) struct Waiter {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !std::mem::replace(&mut *self.is_woken(), true) {
            self.changed.notify_one();
        }
    }
}

impl Waiter {
    /// Polls until ready, until `until`, or until another thread is to drive. Drives the runtime meanwhile if no other thread
    /// has to.
    pub(crate) fn wait<R: DriveRuntime>(
        self: &Arc<Self>,
        handoff: &Arc<DriverHandoff<R>>,
        poll: &mut Poller<'_>,
        until: Option<Instant>,
    ) -> Poll<()> {
        if let Some(drive_guard) = handoff.try_acquire() {
            return drive_guard.drive(poll, until);
        }
        if self.poll(poll).is_ready() {
            return Poll::Ready(());
        }
        if let Some(drive_guard) = handoff.request(until) {
            return drive_guard.drive(poll, until);
        }
        let _passive = handoff.wait_passively();
        self.sleep(poll, until)
    }

    /// Polls, and sleeps until it is woken for that again or until `until`.
    pub(crate) fn sleep(
        self: &Arc<Self>,
        poll: &mut Poller<'_>,
        until: Option<Instant>,
    ) -> Poll<()> {
        loop {
            if self.poll(poll).is_ready() {
                return Poll::Ready(());
            }
            let mut is_woken = self.is_woken();
            while !*is_woken {
                let Some(until) = until else {
                    let waited = self.changed.wait(is_woken);
                    is_woken = waited.unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let time = until.saturating_duration_since(sync::now());
                if time.is_zero() {
                    return Poll::Pending;
                }
                let waited = self.changed.wait_timeout(is_woken, time);
                is_woken = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Polls once.
    pub(crate) fn poll(self: &Arc<Self>, poll: &mut Poller<'_>) -> Poll<()> {
        *self.is_woken() = false;
        let waker = Waker::from(Arc::clone(self));
        poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> MutexGuard<'_, bool> {
        self.is_woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
