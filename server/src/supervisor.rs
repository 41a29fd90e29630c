//! Notifications to the service manager (`sd_notify(3)`). Without one, they have no effect.
use sd_notify::NotifyState;
use statestored::LivenessProbe;
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

/// Sends watchdog notifications, twice as often as required, each after a check. The notifications stop while a thread is stuck that
/// requests depend on.
pub(crate) async fn send_watchdog(probe: LivenessProbe) -> Infallible {
    match sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero()) {
        Some(interval) => {
            let check = || probe.check();
            send_while_alive(interval, check, || notify(&[NotifyState::Watchdog])).await
        }
        None => std::future::pending().await,
    }
}

async fn send_while_alive<F: Future<Output = ()>>(
    interval: Duration,
    check: impl Fn() -> F,
    send: impl Fn(),
) -> Infallible {
    let mut ticks = interval_at(Instant::now(), interval / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        check().await;
        send();
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the manager of services (NOTIFY_SOCKET)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::pin::pin;
    use tokio::sync::watch;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn notifications_stop_while_a_thread_is_stuck() {
        let (stuck, is_stuck) = watch::channel(false);
        let sent = Cell::new(0);
        let check = || {
            let mut is_stuck = is_stuck.clone();
            async move {
                // The sender lives as long as the test.
                let _ = is_stuck.wait_for(|is_stuck| !is_stuck).await;
            }
        };
        let sending = send_while_alive(Duration::from_secs(10), check, || sent.set(sent.get() + 1));
        let mut sending = pin!(sending);
        let mut sent_in = async |seconds| {
            let before = sent.get();
            let time = Duration::from_secs(seconds);
            assert!(timeout(time, &mut sending).await.is_err());
            sent.get() - before
        };
        assert_eq!(sent_in(12).await, 3);
        stuck.send_replace(true);
        assert_eq!(sent_in(100).await, 0);
        stuck.send_replace(false);
        assert!(sent_in(12).await >= 2);
    }
}
