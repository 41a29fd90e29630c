//! Notifications to the service manager (`sd_notify(3)`). Without one, they have no effect.
use sd_notify::NotifyState;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Additional time for the start, requested repeatedly while data is read, however much there is.
const START_EXTENSION: Duration = Duration::from_secs(30);

/// Reports that clients can connect.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// Reports that the server stops in order.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

/// Reports a reload of the configuration; [`ready`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "there is no time"),
    }
}

/// Requests more time to start, as long as it is polled.
pub(crate) async fn extend_start_timeout() -> Infallible {
    let microseconds = u32::try_from(START_EXTENSION.as_micros()).unwrap_or(u32::MAX);
    let mut ticks = interval_at(Instant::now(), START_EXTENSION / 3);
    loop {
        ticks.tick().await;
        notify(&[NotifyState::ExtendTimeoutUsec(microseconds)]);
    }
}

/// Sends watchdog notifications, twice as often as required. Poll it on the thread that serves the clients, so that the notifications
/// stop when that thread is stuck.
pub(crate) async fn send_watchdog() -> Infallible {
    let Some(interval) = sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero())
    else {
        return std::future::pending().await;
    };
    let mut ticks = interval_at(Instant::now(), interval / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the manager of services (NOTIFY_SOCKET)");
    }
}
