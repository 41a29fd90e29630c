//! Responses to the requests for watches.
use super::{WatchRequest, WatchWaiter, Watches};
use crate::TransactionRecord;
use crate::error::{Error, ErrorKind, Outcome};
use bytes::Bytes;
use statestore_protocol::Hlc;
use statestore_protocol::mqtt::ReasonCode;
use tokio::time::Instant;

impl Watches {
    /// Handles the response to a step. Returns whether to repeat the step after a pause.
    pub(in super::super) fn handle_response(
        &self,
        key: &Bytes,
        step: WatchRequest,
        connection: u64,
        answer: Result<Option<(Bytes, Hlc)>, Error>,
    ) -> bool {
        let mut registry = self.registry();
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
pub(in super::super) fn is_transient(error: &Error) -> bool {
    if error.mqtt_reason() == Some(ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR) {
        return false;
    }
    error.is_retryable() || error.outcome() == Outcome::Unknown && error.kind() != ErrorKind::Closed
}
