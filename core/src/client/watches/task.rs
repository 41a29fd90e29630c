//! The task that keeps the store's watches in line with the observers.
use super::super::call::Call;
use super::super::detach;
use super::super::shared::Shared;
use super::{WatchRequest, WatchWaiter};
use crate::TransactionRecord;
use crate::error::{Error, ErrorKind, Outcome};
use crate::request::{Message, OutgoingRequest};
use bytes::Bytes;
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{CommandRef, Hlc, Notification, Reply, property};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Maximum number of requests under way.
const MAX_CONCURRENT: usize = 64;
/// Delay before a failed request is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Shared {
    /// Handles a message to this client id that is not a response.
    pub(in super::super) fn handle_notification(&self, message: &Message, client_id: &str) {
        let timestamp = message
            .publish
            .user_properties()
            .find(|(name, _)| *name == property::TIMESTAMP);
        let notification = Notification::decode(
            client_id,
            message.topic(),
            timestamp.map(|(_, value)| value),
            &message.publish.payload(),
        );
        match notification {
            Ok(notification) => {
                self.watches
                    .handle_notification(notification, |version| self.merge(version));
            }
            Err(error) => {
                self.watches.registry().malformed += 1;
                tracing::warn!(%error, "a message is neither a response nor a notification");
            }
        }
    }

    /// Sends the request of a step.
    async fn send_watch_request(
        &self,
        key: &Bytes,
        step: WatchRequest,
    ) -> Result<Option<(Bytes, Hlc)>, Error> {
        let command = match step {
            WatchRequest::Start { .. } => CommandRef::Watch { key },
            WatchRequest::Read { .. } => CommandRef::Get {
                key,
                remaining: false,
                eventual: false,
            },
            WatchRequest::Stop => CommandRef::Unwatch { key },
        };
        let timeout = match step {
            WatchRequest::Start { until: Some(until) } => {
                let left = until.saturating_duration_since(Instant::now());
                Some(left.max(self.request_timeout()))
            }
            _ => None,
        };
        let request = OutgoingRequest {
            ignores_fail_fast: true,
            ..OutgoingRequest::new(command)
        };
        let mut call = Call::new(self, request, timeout);
        let response = (&mut call).await?;
        match (step, response.reply, response.version) {
            (WatchRequest::Read { .. }, Reply::Value(value), Some(version)) => {
                TransactionRecord::reject(&value, &version, || call.action())?;
                Ok(Some((detach(value), version)))
            }
            (WatchRequest::Start { .. } | WatchRequest::Stop, Reply::Ok, _)
            | (WatchRequest::Stop, Reply::Count(0), _)
            | (WatchRequest::Read { .. }, Reply::Nil, _) => Ok(None),
            _ => Err(call.invalid("the response is not one to this command")),
        }
    }

    /// Handles the response to a step. Returns whether to repeat the step after a pause.
    fn handle_watch_response(
        &self,
        key: &Bytes,
        step: WatchRequest,
        connection: u64,
        answer: Result<Option<(Bytes, Hlc)>, Error>,
    ) -> bool {
        let mut registry = self.watches.registry();
        let current = registry.connection == connection;
        let Some(watch) = registry.keys.get_mut(key) else {
            return false;
        };
        watch.in_flight = false;
        let caught_up = std::mem::take(&mut watch.catching_up);
        let mut retry = false;
        match (step, answer) {
            (WatchRequest::Start { .. }, Ok(_)) => {
                watch.started = current;
                if current {
                    for caller in watch.waiters.drain(..) {
                        // The receiver is gone if the caller gave up.
                        let _ = caller.started.send(Ok(()));
                    }
                }
            }
            (WatchRequest::Read { observed, missed }, Ok(state)) => {
                if current {
                    watch.handle_read(state, observed, missed, caught_up);
                }
            }
            // After an error the watch may continue at the store. That is harmless: its notifications are ignored, and a second
            // KEYNOTIFY has no further effect.
            (WatchRequest::Stop, _) => {}
            (WatchRequest::Start { .. } | WatchRequest::Read { .. }, Err(error))
                if watch.gap && is_transient(&error) =>
            {
                retry = true;
            }
            // The client is closed, and its observers end for the same reason.
            (WatchRequest::Start { .. } | WatchRequest::Read { .. }, Err(error))
                if error.kind() == ErrorKind::Closed =>
            {
                return false;
            }
            // The last observation may still be true. After a transient failure, the key is read again.
            (WatchRequest::Read { missed, .. }, Err(error))
                if !watch.gap && TransactionRecord::of(&error).is_none() =>
            {
                watch.needs_read |= is_transient(&error);
                watch.distrusted |= missed;
            }
            (WatchRequest::Start { .. }, Err(error)) if error.kind() == ErrorKind::TimedOut => {
                // Each caller ends at its own time. For later callers, the store is asked again.
                let now = Instant::now();
                let is_wanted =
                    |caller: &WatchWaiter| !caller.started.is_closed() && caller.until > now;
                if !watch.observers.is_empty() && !watch.waiters.iter().any(is_wanted) {
                    return false;
                }
            }
            (WatchRequest::Start { .. } | WatchRequest::Read { .. }, Err(error)) => {
                watch.end(&error);
            }
        }
        if !retry {
            registry.mark_due(key);
        }
        retry
    }
}

/// Returns whether a watch that was allowed before may be allowed again. After a rejection with 0x83, it would be rejected
/// again. That is the reason code if the response exceeds the Maximum Packet Size of this client.
fn is_transient(error: &Error) -> bool {
    if error.mqtt_reason() == Some(ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR) {
        return false;
    }
    error.is_retryable() || error.outcome() == Outcome::Unknown && error.kind() != ErrorKind::Closed
}

/// Keeps the store's watches in line with the observers until the client is closed.
pub(in super::super) async fn run(shared: Arc<Shared>) {
    let mut steps = JoinSet::new();
    loop {
        while steps.len() < MAX_CONCURRENT {
            let next = shared.watches.registry().next_request();
            let Some((key, step, connection)) = next else {
                break;
            };
            let shared = shared.clone();
            steps.spawn(async move {
                let answer = shared.send_watch_request(&key, step).await;
                if shared.handle_watch_response(&key, step, connection, answer) {
                    tokio::time::sleep(RETRY_DELAY).await;
                    shared.watches.registry().mark_due(&key);
                }
            });
        }
        let rested_at = {
            let mut registry = shared.watches.registry();
            if registry.closed {
                return;
            }
            let rested_at = registry.expire_recent_reads();
            if !registry.due.is_empty() && steps.len() < MAX_CONCURRENT {
                continue;
            }
            rested_at
        };
        tokio::select! {
            // In a fixed order, so that simulations are reproducible.
            biased;
            () = shared.watches.changed.notified() => {}
            Some(_) = steps.join_next() => {}
            () = sleep_until(rested_at.unwrap_or_else(Instant::now)), if rested_at.is_some() => {}
        }
    }
}
