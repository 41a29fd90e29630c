//! The task that keeps a client connected.
use super::ConnectionState;
use super::backoff::Backoff;
use super::connection::Connection;
use super::connection_error::ConnectionError;
use super::deadline_timer::DeadlineTimer;
use super::endpoint_selector::EndpointSelector;
use super::shared::{Shared, saturating_after};
use crate::error::{Error, ErrorKind, Outcome};
use crate::transport;
use crate::{LostReason, Settings};
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Duration after which a connection counts as good: the next failure starts with an immediate attempt.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// Upper bound of the minimum delay between two connection attempts that callers request.
const MAX_FORCED_DELAY: Duration = Duration::from_secs(1);

/// Drives the client until it is closed. `first` receives the result of the first connection. An error there ends the driver.
/// If the client connects lazily, nothing receives the result.
pub(super) async fn run(shared: Arc<Shared>, first: oneshot::Sender<Result<(), Error>>) {
    let mut end = DriverGuard {
        shared: &shared,
        reason: None,
    };
    let mut first = Some(first);
    let driven = {
        let mut driving = pin!(drive(&shared, &mut first));
        poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| driving.as_mut().poll(context)));
            polled.unwrap_or_else(|panic| Poll::Ready(panicked(&*panic)))
        })
        .await
    };
    if let Some(first) = first {
        // The caller may have given up.
        let _ = first.send(Err(driven.1.clone()));
    }
    end.reason = Some(driven);
}

/// Describes a panic of the driver: the runtime lacks a feature, which tokio reports by panicking, or this library has a bug.
fn panicked(panic: &(dyn Any + Send)) -> (LostReason, Error) {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("an unknown panic");
    closed(&format!("its runtime cannot run it: {text}"))
}

/// Guard that ends the client when the driver ends, even if its runtime shuts down.
struct DriverGuard<'a> {
    shared: &'a Shared,
    reason: Option<(LostReason, Error)>,
}

impl Drop for DriverGuard<'_> {
    fn drop(&mut self) {
        let (lost_reason, error) = self
            .reason
            .take()
            .unwrap_or_else(|| closed("its runtime was shut down"));
        self.shared.close(lost_reason, error.reason());
        self.shared.watches.close(lost_reason, &error);
        self.shared.patterns.close(lost_reason, &error);
        self.shared
            .state
            .send_replace(ConnectionState::Closed { lost_reason, error });
    }
}

fn closed(reason: &str) -> (LostReason, Error) {
    let error = Error::new(ErrorKind::Closed, Outcome::NotDone, "the client", reason);
    (LostReason::Closed, error)
}

/// Describes a takeover: another connection has the session now. Reconnecting would take it back, and both clients would repeat
/// that forever.
fn taken_over(address: &str, cause: Error) -> (LostReason, Error) {
    let action = format!("the connection to {address}");
    let reason = "another connection with the same client id took the session over";
    let error = Error::new(ErrorKind::Closed, Outcome::NotDone, action, reason)
        .with_mqtt_reason(cause.mqtt_reason())
        .with_source(cause);
    (LostReason::TakenOver, error)
}

/// Describes the end of a client that reached the time limit for reconnecting.
fn gave_up(address: &str, limit: Duration, cause: Error) -> Error {
    let action = format!("connecting to {address}");
    let reason = format!("gave up after {limit:?}: {}", cause.reason());
    Error::new(cause.kind(), Outcome::NotDone, action, reason)
        .with_mqtt_reason(cause.mqtt_reason())
        .with_source(cause)
}

/// Connection failures that were logged since the last connection. Each is logged as a warning once, and its repetitions are
/// not.
#[derive(Debug, Default)]
struct ReportedFailures(Vec<String>);

impl ReportedFailures {
    /// Maximum number of texts kept; each broker causes a few.
    const MAX_TEXTS: usize = 32;

    fn insert(&mut self, error: &Error) -> bool {
        let text = error.to_string();
        if self.0.contains(&text) {
            return false;
        }
        if self.0.len() == Self::MAX_TEXTS {
            self.0.remove(0);
        }
        self.0.push(text);
        true
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Counter of the protocol errors since the last connection that held.
#[derive(Debug, Default)]
struct ProtocolErrors {
    consecutive: u32,
}

impl ProtocolErrors {
    /// Number of errors that ends the session. A broker redelivers unacknowledged packets in each connection of a session, even
    /// those that this client rejects. After this many errors, only a new session helps.
    const MAX_CONSECUTIVE: u32 = 3;

    /// Counts the end of a connection. Returns whether the session must be given up.
    fn count(&mut self, lost: &ConnectionError, was_stable: bool) -> bool {
        if was_stable {
            self.consecutive = 0;
        }
        self.consecutive += u32::from(lost.is_protocol_error());
        let is_enough = self.consecutive >= Self::MAX_CONSECUTIVE;
        if is_enough {
            self.consecutive = 0;
        }
        is_enough
    }
}

/// Connects until the client ends. Returns the reason for the end.
async fn drive(
    shared: &Shared,
    first: &mut Option<oneshot::Sender<Result<(), Error>>>,
) -> (LostReason, Error) {
    let mut backoff = Backoff::new(
        shared.settings.reconnect_delay_min,
        shared.settings.reconnect_delay_max,
    );
    let mut timer = DeadlineTimer::new(shared);
    let mut addresses = EndpointSelector::new(&shared.settings.endpoints);
    let mut lost_at = None;
    let mut protocol_errors = ProtocolErrors::default();
    let mut reported = ReportedFailures::default();
    loop {
        let (lost, held) = connect_and_run(shared, &mut timer, &mut addresses, first).await;
        let was_stable = held.is_some_and(|since| since.elapsed() >= STABLE_AFTER);
        let renews = protocol_errors.count(&lost, was_stable);
        if renews {
            tracing::warn!("the broker violated the protocol repeatedly: a new session begins");
        }
        let is_takeover = report_connection_lost(shared, &lost, renews);
        shared.watches.disconnected();
        shared.patterns.disconnected();
        if let ConnectionError::Closing = lost {
            return closed("it was closed");
        }
        if lost.is_unknown_session() {
            // MQTT-3.2.2-4: the client closes the connection. The next attempt requests a new session, so that this does not
            // happen again.
            tracing::info!(
                "the broker has a session of an earlier client with this client id, which ends now"
            );
            continue;
        }
        let address = addresses.current().to_string();
        let error = lost.into_error(&address, held.is_some());
        let is_first = first.is_some();
        let is_awaited = is_first && !shared.settings.lazy;
        let limit = retry_limit(&shared.settings, is_first);
        if is_takeover && !is_first {
            tracing::warn!(reason = %error, "the connection to the broker is lost");
            return taken_over(&address, error);
        }
        if held.is_some() {
            shared.connection_lost();
            lost_at = None;
            reported.clear();
            tracing::warn!(reason = %error, "the connection to the broker is lost");
        } else if !(is_awaited && limit.is_zero()) && reported.insert(&error) {
            tracing::warn!(reason = %error, "an attempt to connect to the broker failed");
        } else {
            // The caller receives the error of a single attempt, and a repeated error is not logged as a warning.
            tracing::debug!(reason = %error, "an attempt to connect to the broker failed");
        }
        let lost_at = *lost_at.get_or_insert_with(Instant::now);
        let error = if was_stable {
            backoff.reset();
            addresses.record_success();
            error
        } else if let Some(error) = addresses.record_failure(error.clone()) {
            error
        } else {
            if held.is_some() {
                let state = ConnectionState::Reconnecting(error);
                shared.state.send_replace(state);
            }
            continue;
        };
        let left = limit.saturating_sub(lost_at.elapsed());
        if let Some(first) =
            first.take_if(|_| left.is_zero() || error.kind() == ErrorKind::InvalidSettings)
        {
            let error = if limit.is_zero() || !left.is_zero() {
                error
            } else {
                gave_up(&shared.settings.address(), limit, error)
            };
            if shared.settings.lazy {
                return (LostReason::GaveUp, error);
            }
            // The receiver is gone if the caller gave up connecting.
            let _ = first.send(Err(error));
            return closed("it could not connect");
        }
        if left.is_zero() {
            let error = gave_up(&shared.settings.address(), limit, error);
            return (LostReason::GaveUp, error);
        }
        if !is_awaited {
            shared
                .state
                .send_replace(ConnectionState::Reconnecting(error));
        }
        let delay = backoff.next(shared.settings.platform.random().unwrap_or(u64::MAX));
        let wait = wait_for_retry(shared, delay.min(left));
        if timer.run_while_offline(shared, wait).await.is_none() {
            return closed("it was closed");
        }
    }
}

/// Returns how long failed attempts are repeated.
fn retry_limit(settings: &Settings, is_first: bool) -> Duration {
    if !is_first {
        settings.reconnect_limit.unwrap_or(Duration::MAX)
    } else if settings.lazy {
        settings.connect_limit.unwrap_or(Duration::MAX)
    } else {
        settings.connect_limit.unwrap_or(Duration::ZERO)
    }
}

/// Waits before the next connection attempt. [`Client::reconnect_now`](super::Client::reconnect_now) ends the delay except for
/// its first part, so that callers cannot flood a broker with attempts.
async fn wait_for_retry(shared: &Shared, delay: Duration) {
    // From here on, no call of `reconnect_now` is missed.
    let called = shared.reconnect.notified();
    let least = shared.settings.reconnect_delay_min.min(MAX_FORCED_DELAY);
    tokio::time::sleep(delay.min(least)).await;
    // The delay has passed, or a caller ended it.
    let _ = tokio::time::timeout(delay.saturating_sub(least), called).await;
}

/// Reports the end of a connection to the session. Returns whether a takeover ends the client.
fn report_connection_lost(shared: &Shared, lost: &ConnectionError, renews: bool) -> bool {
    let mut core = shared.lock_state();
    let counters = &mut core.exchange.counters;
    counters.protocol_errors += u64::from(lost.is_protocol_error());
    let session = core.exchange.session_mut();
    if renews || lost.is_unknown_session() {
        session.force_clean_start();
    }
    lost.is_takeover() && !session.explains_takeover(shared.now_ms())
}

/// Runs one connection, from the name lookup to its end. Returns the reason, and the time at which the connection became ready.
async fn connect_and_run(
    shared: &Shared,
    timer: &mut DeadlineTimer,
    addresses: &mut EndpointSelector<'_>,
    first: &mut Option<oneshot::Sender<Result<(), Error>>>,
) -> (ConnectionError, Option<Instant>) {
    let deadline = saturating_after(Instant::now(), shared.settings.connect_timeout);
    let connecting = tokio::time::timeout_at(
        deadline,
        transport::connect(&shared.settings, addresses.current(), addresses.work()),
    );
    let (io, credentials) = match timer.run_while_offline(shared, connecting).await {
        None => return (ConnectionError::Closing, None),
        Some(Err(_)) => return (ConnectionError::TimedOut, None),
        Some(Ok(Err(error))) => return (ConnectionError::Transport(error), None),
        Some(Ok(Ok(connected))) => connected,
    };
    let session = shared.lock_state().exchange.session().number();
    if addresses.is_outdated(session) {
        // This broker does not share sessions with the previously connected one.
        shared
            .lock_state()
            .exchange
            .session_mut()
            .force_clean_start();
    }
    let mut connection = Connection::new(shared, timer, io);
    let mut held = None;
    let lost = match connection.start(credentials) {
        Err(lost) => lost,
        Ok(()) => match tokio::time::timeout_at(deadline, connection.run(true)).await {
            Err(_) => ConnectionError::TimedOut,
            Ok(Err(lost)) => lost,
            Ok(Ok(())) => {
                held = Some(Instant::now());
                addresses.set_session(shared.lock_state().exchange.session().number());
                if first.is_some() {
                    tracing::debug!(address = %addresses.current(), "connected to the broker");
                } else {
                    // At the log level of the loss, so that a log contains both messages or neither.
                    tracing::warn!(address = %addresses.current(), "connected to the broker again");
                }
                shared.capabilities.connected();
                // After the line above, so that a task that sees the connection queries the new store.
                shared.state.send_replace(ConnectionState::Connected);
                shared.patterns.connected();
                if let Some(first) = first.take() {
                    // The receiver is gone if the caller gave up connecting.
                    let _ = first.send(Ok(()));
                } else {
                    shared.lock_state().exchange.counters.reconnects += 1;
                    shared.watches.resync();
                }
                connection.deliver();
                match connection.run(false).await {
                    Err(lost) => lost,
                    Ok(()) => ConnectionError::ClosedByBroker,
                }
            }
        },
    };
    connection.disconnect(&lost).await;
    (lost.with_explanation(&connection.io), held)
}
