//! The task that keeps the store's watches in line with the observers.
use super::call::Call;
use super::detach;
use super::shared::Shared;
use super::watches::WatchRequest;
use crate::TransactionRecord;
use crate::error::Error;
use crate::request::{Message, OutgoingRequest};
use bytes::Bytes;
use statestore_protocol::{CommandRef, Event, Hlc, Notification, Reply, property, topic};
use std::cell::OnceCell;
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
    pub(super) fn handle_notification(&self, message: &Message, client_id: &str) {
        let timestamp = message
            .publish
            .user_properties()
            .find(|(name, _)| *name == property::TIMESTAMP);
        let payload = message.publish.payload();
        // The report of a gap may have no timestamp.
        if let Ok(Event::Resync) = Event::decode(&payload)
            && let Some(pattern) = topic::notification_key(client_id, message.topic())
        {
            return self.patterns.handle_gap(&pattern);
        }
        let notification = Notification::decode(
            client_id,
            message.topic(),
            timestamp.map(|(_, value)| value),
            &payload,
        );
        match notification {
            Ok(notification) => {
                let merged = OnceCell::new();
                let merge = |version: &Hlc| *merged.get_or_init(|| self.merge(version));
                let is_observed = self.patterns.handle_notification(&notification, merge);
                self.watches
                    .handle_notification(notification, is_observed, merge);
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
}

/// Keeps the store's watches in line with the observers until the client is closed.
pub(super) async fn run(shared: Arc<Shared>) {
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
                if shared
                    .watches
                    .handle_response(&key, step, connection, answer)
                {
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
