//! Timers and tasks of calls.
use crate::platform::{Platform, Task};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, Timeout};

/// Factory of timers and tasks for calls. Calls may be awaited outside of tokio; there, timers and tasks belong to the runtime
/// in which the client was connected.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeHandle(Handle);

impl RuntimeHandle {
    /// Returns the timers of the current runtime; `None` outside of tokio.
    pub(crate) fn try_current() -> Option<Self> {
        Handle::try_current().ok().map(Self)
    }

    pub(crate) fn sleep(&self, time: Duration) -> Sleep {
        self.enter(|| tokio::time::sleep(time))
    }

    pub(crate) fn sleep_until(&self, until: Instant) -> Sleep {
        self.enter(|| tokio::time::sleep_until(until))
    }

    pub(crate) fn timeout<F: Future>(&self, time: Duration, future: F) -> Timeout<F> {
        self.enter(|| tokio::time::timeout(time, future))
    }

    pub(crate) fn timeout_at<F: Future>(&self, until: Instant, future: F) -> Timeout<F> {
        self.enter(|| tokio::time::timeout_at(until, future))
    }

    pub(crate) fn spawn(&self, platform: &dyn Platform, task: Task) {
        self.enter(|| platform.spawn(task));
    }

    fn enter<T>(&self, make: impl FnOnce() -> T) -> T {
        let is_within = Handle::try_current().is_ok();
        let _entered = (!is_within).then(|| self.0.enter());
        make()
    }
}
