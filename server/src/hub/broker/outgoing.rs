//! Responses and notifications on their way to the broker.
use super::super::Hub;
use super::super::fanout::Notification;
use super::super::message::Message;
use super::{BEHIND, Broker, WAITER};
use crate::clock::Now;
use crate::service::Commit;
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::session::{SessionError, Terms};
use statestore_protocol::mqtt::{EncodeError, ReasonCode};
use statestore_protocol::topic;
use std::sync::Arc;

/// A broker that does not acknowledge a message for so many milliseconds is broken.
pub(super) const MOST_MS: u64 = 60_000;

/// A message to a client behind the broker.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: Message,
    /// The commit that must be durable before it may leave; 0 for none.
    pub(super) hold: Commit,
    pub(super) what: What,
    /// Of several servers only the [keeper](super::group) publishes it.
    pub(super) is_kept: bool,
    /// Its place among all.
    pub(super) number: u64,
}

#[derive(Debug)]
pub(super) enum What {
    /// The response to the request of this number, which is acknowledged behind it.
    Response(u64),
    /// What only this server says to the request of this number, which is acknowledged before it: whoever is told so knows that no
    /// other server is given the request.
    Refusal(u64),
    /// A notification to this client.
    Notification {
        client: Arc<str>,
        key: Bytes,
        /// How many requests of all clients had come when it was published.
        requests: u64,
    },
    /// An entry of the log of the group; of the request of this number, which is acknowledged behind it, if it is one.
    Entry(Option<u64>),
}

impl Broker {
    /// Adds something to what waits. The queue has the messages of many, and takes what it must: the caller looks for room.
    pub(super) fn enqueue(
        &mut self,
        message: Message,
        hold: Commit,
        what: What,
        is_kept: bool,
        now: Now,
    ) {
        self.numbered += 1;
        let outgoing = Outgoing {
            message,
            hold,
            what,
            is_kept,
            number: self.numbered,
        };
        self.is_dirty = true;
        if let What::Refusal(number) = outgoing.what {
            self.unacknowledged.finish(number, ReasonCode::SUCCESS);
            self.refusals.insert(number, outgoing);
            return;
        }
        if is_kept
            && !self.keeps(now)
            && let Some(group) = &mut self.group
        {
            if let What::Response(number) = outgoing.what {
                self.unacknowledged.finish(number, ReasonCode::SUCCESS);
            }
            return group.set_aside(outgoing, now);
        }
        self.outgoing_bytes += outgoing.message.bytes();
        self.queue.push_back(outgoing);
    }

    /// Adds something in front of all that waits.
    pub(super) fn enqueue_first(&mut self, message: Message, what: What) {
        self.outgoing_bytes += message.bytes();
        self.queue.push_front(Outgoing {
            message,
            hold: 0,
            what,
            is_kept: false,
            number: 0,
        });
        self.is_dirty = true;
    }

    /// Acknowledges the requests that are done, and lets the refusals of these leave.
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

    /// Nobody knows what the broker has of what it has not acknowledged: it is published again. A refusal is not: the broker may not
    /// have its acknowledgement either, and give the request to another server.
    pub(super) fn published_in_vain(&mut self) {
        while let Some((_, outgoing)) = self.in_flight.pop_last() {
            self.queue.push_front(outgoing);
        }
        self.refusals.clear();
        let bytes = &mut self.outgoing_bytes;
        self.queue.retain(|outgoing| {
            let is_refusal = matches!(outgoing.what, What::Refusal(_));
            if is_refusal {
                *bytes -= outgoing.message.bytes();
            }
            !is_refusal
        });
    }
}

impl Broker {
    /// A message is not in flight any more.
    pub(super) fn landed(&mut self, tag: u64) -> Option<Outgoing> {
        let outgoing = self.in_flight.remove(&tag)?;
        self.outgoing_bytes -= outgoing.message.bytes();
        Some(outgoing)
    }

    /// Some of what waited does not any more.
    pub(super) fn count_outgoing(&mut self) {
        let outgoing = self.queue.iter().chain(self.in_flight.values());
        self.outgoing_bytes = outgoing.map(|it| it.message.bytes()).sum();
    }
}

impl Hub {
    /// Whether the broker has taken so much of what was published before that requests can make more.
    pub(super) fn has_room_for_broker(&self) -> bool {
        self.broker.as_ref().is_some_and(|broker| {
            broker.queue.len() < self.limits.max_queued_messages
                && broker.outgoing_bytes < self.limits.max_queued_bytes
        })
    }

    /// Notifies a client behind the broker.
    pub(in super::super) fn notify_behind_broker(
        &mut self,
        client: &Arc<str>,
        notification: &Notification,
        now: Now,
    ) {
        if !self.has_room_for_broker() {
            self.statistics.dropped_full += 1;
            return;
        }
        let Some(broker) = &mut self.broker else {
            return;
        };
        let client_id = client.strip_prefix(BEHIND).unwrap_or(client);
        let message = notification.message(topic::notification(client_id, &notification.key));
        self.statistics.notifications += 1;
        let what = What::Notification {
            client: Arc::clone(client),
            key: notification.key.clone(),
            requests: 0,
        };
        let is_kept = broker.group.is_some();
        broker.enqueue(message, notification.hold, what, is_kept, now);
    }

    /// Publishes what waits and may leave, as far as the broker takes it, and acknowledges the requests that are done.
    pub(super) fn publish_outgoing(&mut self, now: Now) -> Result<(), SessionError> {
        let Some(broker) = &mut self.broker else {
            return Ok(());
        };
        if broker.session.is_none() {
            return Ok(());
        }
        let keeps = broker.keeps(now);
        broker.acknowledge()?;
        while let Some(session) = &mut broker.session
            && session.room() > 0
            && let Some(mut outgoing) = broker.queue.pop_front()
        {
            if outgoing.is_kept && !keeps {
                broker.outgoing_bytes -= outgoing.message.bytes();
                if let What::Response(number) = outgoing.what {
                    broker.unacknowledged.finish(number, ReasonCode::SUCCESS);
                }
                if let Some(group) = &mut broker.group {
                    group.set_aside(outgoing, now);
                }
                continue;
            }
            let hold = self.service.pending(outgoing.hold);
            if hold > 0 {
                broker.queue.push_front(outgoing);
                if broker.awaited != hold {
                    broker.awaited = hold;
                    self.service.wait(hold, WAITER);
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
                Terms {
                    tag,
                    deadline_ms: now.mono_ms.saturating_add(MOST_MS),
                    is_harmless: true,
                },
            );
            if let Err(EncodeError::NoRoom) = published {
                broker.queue.push_front(outgoing);
                break;
            }
            match &mut outgoing.what {
                What::Response(number) | What::Entry(Some(number)) => {
                    let reason = match published {
                        Ok(_) => ReasonCode::SUCCESS,
                        Err(_) => ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
                    };
                    broker.unacknowledged.finish(*number, reason);
                }
                What::Notification { requests, .. } => *requests = broker.requests,
                What::Refusal(_) | What::Entry(None) => {}
            }
            if let Err(error) = published {
                broker.outgoing_bytes -= outgoing.message.bytes();
                self.statistics.dropped_too_large += 1;
                tracing::debug!(%error, "a message is too large for the broker");
            } else {
                broker.in_flight.insert(tag, outgoing);
            }
            broker.acknowledge()?;
        }
        broker.acknowledge()
    }

    /// The broker has acknowledged a message.
    pub(super) fn broker_acknowledged(&mut self, tag: u64, reason: ReasonCode, now: Now) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        let Some(outgoing) = broker.landed(tag) else {
            return;
        };
        if reason == ReasonCode::NO_MATCHING_SUBSCRIBERS
            && let What::Notification {
                client, requests, ..
            } = &outgoing.what
        {
            // It may have come back since, and watch again.
            let last = broker.answers.last_request(client);
            if last.is_none_or(|last| last <= *requests) {
                broker.figures.unwanted += 1;
                let requests = *requests;
                self.end_watches(client, None, requests, now);
            }
        } else if reason.is_failure() {
            broker.figures.refused += 1;
            tracing::debug!(%reason, "the broker refuses a message");
        }
    }
}
