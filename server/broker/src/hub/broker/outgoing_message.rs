//! Responses and notifications on their way to the broker.
use super::super::Hub;
use super::super::fanout::NotificationFanout;
use super::super::message::Message;
use super::{BROKER_CLIENT_PREFIX, BROKER_WAITER, Broker};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::session::{PublishOptions, SessionError};
use statestore_protocol::mqtt::{EncodeError, ReasonCode};
use statestore_protocol::topic;
use statestored_common::ClockReading;
use statestored_store::service::{CommitIndex, NotificationScope};
use std::sync::Arc;

/// Milliseconds without an acknowledgement of a message after which a broker counts as broken.
pub(super) const ACK_TIMEOUT_MS: u64 = 60_000;

/// A message to a client behind the broker.
#[derive(Debug)]
pub(super) struct OutgoingMessage {
    pub(super) message: Message,
    /// The commit that must be durable before the message may leave; 0 for none.
    pub(super) commit_index: CommitIndex,
    pub(super) kind: OutgoingKind,
    /// Whether only the [leader](super::group) of several servers publishes it.
    pub(super) is_leader_only: bool,
    /// Number of the message among all.
    pub(super) number: u64,
}

#[derive(Debug)]
pub(super) enum OutgoingKind {
    /// The response to the request of this number, which is acknowledged after it.
    Response(u64),
    /// A refusal by this server alone of the request of this number, which is acknowledged first. So the client knows that no other server
    /// is given the request.
    Refusal(u64),
    /// A notification to this client.
    Notification {
        client: Arc<str>,
        key: Bytes,
        scope: NotificationScope,
        /// Number of requests of all clients that had arrived when it was published.
        requests: u64,
    },
    /// An entry of the group's log. If it has a request, that is the request's number; the request is acknowledged after the entry.
    Entry(Option<u64>),
}

impl Broker {
    /// Adds a message to the queue. The queue has messages of many clients and accepts every message: the caller checks for room.
    pub(super) fn enqueue(
        &mut self,
        message: Message,
        commit_index: CommitIndex,
        kind: OutgoingKind,
        is_kept: bool,
        now: ClockReading,
    ) {
        self.message_count += 1;
        let outgoing = OutgoingMessage {
            message,
            commit_index,
            kind,
            is_leader_only: is_kept,
            number: self.message_count,
        };
        self.is_dirty = true;
        if let OutgoingKind::Refusal(number) = outgoing.kind {
            self.unacknowledged.finish(number, ReasonCode::SUCCESS);
            self.refusals.insert(number, outgoing);
            return;
        }
        if is_kept
            && !self.is_active(now)
            && let Some(group) = &mut self.group
        {
            if let OutgoingKind::Response(number) = outgoing.kind {
                self.unacknowledged.finish(number, ReasonCode::SUCCESS);
            }
            return group.buffer_message(outgoing, now);
        }
        self.outgoing_bytes += outgoing.message.bytes();
        self.queue.push_back(outgoing);
    }

    /// Adds a message at the front of the queue.
    pub(super) fn enqueue_front(&mut self, message: Message, kind: OutgoingKind) {
        self.outgoing_bytes += message.bytes();
        self.queue.push_front(OutgoingMessage {
            message,
            commit_index: 0,
            kind,
            is_leader_only: false,
            number: 0,
        });
        self.is_dirty = true;
    }

    /// Acknowledges the requests that are done, and queues their refusals.
    fn acknowledge(&mut self) -> Result<(), SessionError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        self.unacknowledged.acknowledge(session)?;
        let first = self.unacknowledged.first();
        while let Some(entry) = self.refusals.first_entry()
            && *entry.key() < first
        {
            let outgoing = entry.remove();
            self.outgoing_bytes += outgoing.message.bytes();
            self.queue.push_back(outgoing);
            self.is_dirty = true;
        }
        Ok(())
    }

    /// Queues messages that the broker has not acknowledged, to publish them again: it may not have them. A refusal is dropped: the broker
    /// may not have its acknowledgement either, and give the request to another server.
    pub(super) fn requeue_in_flight(&mut self) {
        while let Some((_, outgoing)) = self.in_flight.pop_last() {
            self.queue.push_front(outgoing);
        }
        self.refusals.clear();
        let bytes = &mut self.outgoing_bytes;
        self.queue.retain(|outgoing| {
            let is_refusal = matches!(outgoing.kind, OutgoingKind::Refusal(_));
            if is_refusal {
                *bytes -= outgoing.message.bytes();
            }
            !is_refusal
        });
    }
}

impl Broker {
    /// Removes a message that is no longer in flight.
    pub(super) fn remove_in_flight(&mut self, tag: u64) -> Option<OutgoingMessage> {
        let outgoing = self.in_flight.remove(&tag)?;
        self.outgoing_bytes -= outgoing.message.bytes();
        Some(outgoing)
    }

    /// Counts the bytes of the queue anew, after messages were removed.
    pub(super) fn recount_outgoing(&mut self) {
        let outgoing = self.queue.iter().chain(self.in_flight.values());
        self.outgoing_bytes = outgoing.map(|it| it.message.bytes()).sum();
    }
}

impl Hub {
    /// Returns whether the broker has taken enough of the published messages, so that requests may add more.
    pub(super) fn has_broker_capacity(&self) -> bool {
        self.broker.as_ref().is_some_and(|broker| {
            broker.queue.len() < self.limits.max_queued_messages
                && broker.outgoing_bytes < self.limits.max_queued_bytes
        })
    }

    /// Notifies a client behind the broker.
    pub(in super::super) fn notify_broker_client(
        &mut self,
        client: &Arc<str>,
        notification: &NotificationFanout,
        now: ClockReading,
    ) {
        if notification.scope == NotificationScope::Matching
            && !self.broker_client_may_read(client, &notification.key)
        {
            return;
        }
        if !self.has_broker_capacity() {
            self.metrics.dropped_full += 1;
            return self.record_lost_notification(client);
        }
        let Some(broker) = &mut self.broker else {
            return;
        };
        let client_id = client.strip_prefix(BROKER_CLIENT_PREFIX).unwrap_or(client);
        let message = notification.message(topic::notification(client_id, &notification.key));
        self.metrics.notifications += 1;
        let what = OutgoingKind::Notification {
            client: Arc::clone(client),
            key: notification.key.clone(),
            scope: notification.scope,
            requests: 0,
        };
        let is_kept = broker.group.is_some();
        broker.enqueue(message, notification.commit_index, what, is_kept, now);
    }

    /// Publishes queued messages that may leave, as far as the broker takes them, and acknowledges the requests that are done.
    pub(super) fn publish_outgoing(&mut self, now: ClockReading) -> Result<(), SessionError> {
        let Some(broker) = &mut self.broker else {
            return Ok(());
        };
        if broker.session.is_none() {
            return Ok(());
        }
        let keeps = broker.is_active(now);
        broker.acknowledge()?;
        while let Some(session) = &mut broker.session
            && session.capacity() > 0
            && let Some(mut outgoing) = broker.queue.pop_front()
        {
            if outgoing.is_leader_only && !keeps {
                broker.outgoing_bytes -= outgoing.message.bytes();
                if let OutgoingKind::Response(number) = outgoing.kind {
                    broker.unacknowledged.finish(number, ReasonCode::SUCCESS);
                }
                if let Some(group) = &mut broker.group {
                    group.buffer_message(outgoing, now);
                }
                continue;
            }
            let commit_index = self.service.pending_index(outgoing.commit_index);
            if commit_index > 0 {
                broker.queue.push_front(outgoing);
                if broker.awaited_commit != commit_index {
                    broker.awaited_commit = commit_index;
                    self.service.register_waiter(commit_index, BROKER_WAITER);
                }
                break;
            }
            broker.next_tag += 1;
            let tag = broker.next_tag;
            let payload = outgoing.message.payload();
            let published = session.publish(
                &outgoing.message.header(),
                payload.len(),
                |out: &mut BytesMut| out.extend_from_slice(payload),
                PublishOptions {
                    tag,
                    deadline_ms: now.mono_ms.saturating_add(ACK_TIMEOUT_MS),
                    is_harmless: true,
                },
            );
            if let Err(EncodeError::WindowFull) = published {
                broker.queue.push_front(outgoing);
                break;
            }
            match &mut outgoing.kind {
                OutgoingKind::Response(number) | OutgoingKind::Entry(Some(number)) => {
                    let reason = match published {
                        Ok(_) => ReasonCode::SUCCESS,
                        Err(_) => ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
                    };
                    broker.unacknowledged.finish(*number, reason);
                }
                OutgoingKind::Notification { requests, .. } => *requests = broker.request_count,
                OutgoingKind::Refusal(_) | OutgoingKind::Entry(None) => {}
            }
            if let Err(error) = published {
                broker.outgoing_bytes -= outgoing.message.bytes();
                self.metrics.dropped_too_large += 1;
                broker.record_too_large(&outgoing.kind);
                tracing::debug!(%error, "a message is too large for the broker");
            } else {
                broker.in_flight.insert(tag, outgoing);
            }
            broker.acknowledge()?;
        }
        broker.acknowledge()
    }

    /// Processes the acknowledgement of a message by the broker.
    pub(super) fn broker_acknowledged(&mut self, tag: u64, reason: ReasonCode, now: ClockReading) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        let Some(outgoing) = broker.remove_in_flight(tag) else {
            return;
        };
        if reason == ReasonCode::NO_MATCHING_SUBSCRIBERS
            && let OutgoingKind::Notification {
                client, requests, ..
            } = &outgoing.kind
        {
            // The client may have come back since, and watch again.
            let last = broker.replay_clients.last_request(client);
            if last.is_none_or(|last| last <= *requests) {
                broker.metrics.unmatched_notifications += 1;
                let requests = *requests;
                self.end_watches(client, None, requests, now);
            }
        } else if reason.is_failure() {
            broker.metrics.refused_messages += 1;
            tracing::debug!(%reason, "the broker refuses a message");
            if let OutgoingKind::Entry(request) = outgoing.kind {
                broker.warn_of_refused_entry(request.is_some(), reason);
            }
        }
    }
}
