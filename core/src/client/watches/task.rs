//! The task that keeps the store's watches in line with the observers.
use super::super::call::Call;
use super::super::detached;
use super::super::observer::End;
use super::super::shared::Shared;
use super::{Step, Waiting};
use crate::Entry;
use crate::LostReason;
use crate::error::{Error, ErrorKind, Outcome};
use crate::intents;
use crate::request::{Message, Outgoing};
use bytes::Bytes;
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{CommandRef, Hlc, Notification, Reply, property};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Maximum number of requests under way.
const AT_A_TIME: usize = 64;
/// Delay before a failed request is repeated.
const PAUSE: Duration = Duration::from_secs(1);

impl Shared {
    /// Handles a message to this client id that is not a response.
    pub(in super::super) fn notified(&self, message: &Message, client_id: &str) {
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
                    .notified(notification, |version| self.merge(version));
            }
            Err(error) => {
                self.watches.registry().malformed += 1;
                tracing::warn!(%error, "a message is neither a response nor a notification");
            }
        }
    }

    /// Sends the request of a step.
    async fn ask(&self, key: &Bytes, step: Step) -> Result<Option<(Bytes, Hlc)>, Error> {
        let command = match step {
            Step::Begin { .. } => CommandRef::Watch { key },
            Step::Read { .. } => CommandRef::Get {
                key,
                remaining: false,
                eventual: false,
            },
            Step::Stop => CommandRef::Unwatch { key },
        };
        let timeout = match step {
            Step::Begin { until: Some(until) } => {
                let left = until.saturating_duration_since(Instant::now());
                Some(left.max(self.request_timeout()))
            }
            _ => None,
        };
        let request = Outgoing {
            waits_out_outages: true,
            ..Outgoing::new(command)
        };
        let mut call = Call::new(self, request, timeout);
        let response = (&mut call).await?;
        match (step, response.reply, response.version) {
            (Step::Read { .. }, Reply::Value(value), Some(version)) => {
                let found = Entry::new(detached(value), version);
                let found = if intents::is_marked(&found.value) {
                    Box::pin(self.read(key, Some(found), call.left(), false)).await?
                } else {
                    Some(found)
                };
                Ok(found.map(|entry| (entry.value, entry.version)))
            }
            (Step::Begin { .. } | Step::Stop, Reply::Ok, _)
            | (Step::Stop, Reply::Count(0), _)
            | (Step::Read { .. }, Reply::Nil, _) => Ok(None),
            _ => Err(call.invalid("the response is not one to this command")),
        }
    }

    /// Handles the response to a step. Returns whether to repeat the step after a pause.
    fn answered(
        &self,
        key: &Bytes,
        step: Step,
        connection: u64,
        answer: Result<Option<(Bytes, Hlc)>, Error>,
    ) -> bool {
        let mut registry = self.watches.registry();
        let current = registry.connection == connection;
        let Some(watch) = registry.keys.get_mut(key) else {
            return false;
        };
        watch.busy = false;
        let caught_up = std::mem::take(&mut watch.catching_up);
        let mut again = false;
        match (step, answer) {
            (Step::Begin { .. }, Ok(_)) => {
                watch.begun = current;
                if current {
                    for caller in watch.waiting.drain(..) {
                        // The receiver is gone if the caller gave up.
                        let _ = caller.begun.send(Ok(()));
                    }
                }
            }
            (Step::Read { observed, missed }, Ok(state)) => {
                if current {
                    watch.read(state, observed, missed, caught_up);
                }
            }
            // After an error the watch may continue at the store. That is harmless: its notifications are ignored, and a second
            // KEYNOTIFY has no further effect.
            (Step::Stop, _) => {}
            (Step::Begin { .. } | Step::Read { .. }, Err(error))
                if watch.gap && is_passing(&error) =>
            {
                again = true;
            }
            // The client is closed, and its observers end for the same reason.
            (Step::Begin { .. } | Step::Read { .. }, Err(error))
                if error.kind() == ErrorKind::Closed =>
            {
                return false;
            }
            // The last observation may still be true. After a transient failure, the key is read again.
            (Step::Read { missed, .. }, Err(error)) if !watch.gap => {
                watch.doubt |= is_passing(&error);
                watch.disbelieved |= missed;
            }
            (Step::Begin { .. }, Err(error)) if error.kind() == ErrorKind::TimedOut => {
                // Each caller ends at its own time. For later callers, the store is asked again.
                let now = Instant::now();
                let is_wanted = |caller: &Waiting| !caller.begun.is_closed() && caller.until > now;
                if !watch.observers.is_empty() && !watch.waiting.iter().any(is_wanted) {
                    return false;
                }
            }
            (Step::Begin { .. } | Step::Read { .. }, Err(error)) => {
                // Without the full error, which names the key.
                tracing::warn!(kind = ?error.kind(), "a watch ends");
                for caller in watch.waiting.drain(..) {
                    // The receiver is gone if the caller gave up.
                    let _ = caller.begun.send(Err(error.clone()));
                }
                for queue in watch.observers.drain(..) {
                    queue.end(End {
                        lost_reason: LostReason::Refused,
                        error: Some(error.clone()),
                    });
                }
            }
        }
        if !again {
            registry.mark(key);
        }
        again
    }
}

/// Returns whether a watch that was allowed before may be allowed again. After a rejection with 0x83, it would be rejected
/// again. That is the reason code if the response exceeds the Maximum Packet Size of this client.
fn is_passing(error: &Error) -> bool {
    if error.mqtt_reason() == Some(ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR) {
        return false;
    }
    error.is_retryable() || error.outcome() == Outcome::Unknown && error.kind() != ErrorKind::Closed
}

/// Keeps the store's watches in line with the observers until the client is closed.
pub(in super::super) async fn run(shared: Arc<Shared>) {
    let mut steps = JoinSet::new();
    loop {
        while steps.len() < AT_A_TIME {
            let next = shared.watches.registry().next();
            let Some((key, step, connection)) = next else {
                break;
            };
            let shared = shared.clone();
            steps.spawn(async move {
                let answer = shared.ask(&key, step).await;
                if shared.answered(&key, step, connection, answer) {
                    tokio::time::sleep(PAUSE).await;
                    shared.watches.registry().mark(&key);
                }
            });
        }
        let rested_at = {
            let mut registry = shared.watches.registry();
            if registry.closed {
                return;
            }
            let rested_at = registry.wake_rested();
            if !registry.due.is_empty() && steps.len() < AT_A_TIME {
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
