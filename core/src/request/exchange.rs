//! Requests over a session. Input: bytes, requests and times. Output: bytes, responses and messages.
use super::coalescing_index::CoalescingIndex;
use super::delayed_acks::DelayedAcks;
use super::{
    Admission, Completion, EncodedRequest, Failure, NewRequest, OutgoingRequest, RequestId,
    RequestStatus, RequestTable, ResendPolicy,
};
use crate::Counters;
use crate::error::{ErrorKind, Outcome};
use bytes::BytesMut;
use statestore_protocol::mqtt::session::{Event, PublishOptions, Session, SessionError};
use statestore_protocol::mqtt::{EncodedProperties, Publish, PublishHeader};
use statestore_protocol::property::{EncodedTimestamp, RequestPairs};
use statestore_protocol::{Hlc, property, topic};
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A message that is not a response.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) publish: Publish,
    /// The topic, if the message has a topic alias in its place.
    alias_topic: Option<Arc<str>>,
}

impl Message {
    pub(crate) fn topic(&self) -> &str {
        self.alias_topic.as_deref().unwrap_or(self.publish.topic())
    }
}

/// Result of one batch of received packets, besides responses.
#[derive(Debug, Default)]
pub(crate) struct ReceivedBatch {
    /// Tasks to wake after all locks are released.
    pub(crate) wakers: Vec<Waker>,
    /// Messages that are not responses.
    pub(crate) messages: Vec<Message>,
    /// Set when the session became ready on this connection; `true` if it is the previous session.
    pub(crate) ready: Option<bool>,
}

/// A session together with its requests.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(super) session: Session<RequestId>,
    pub(super) requests: RequestTable,
    /// Requests of the lost session that certainly did not reach the broker, in their order.
    unsent: Vec<(RequestId, Box<EncodedRequest>)>,
    pub(super) coalescing: CoalescingIndex,
    delayed_acks: DelayedAcks,
    response_topic: String,
    /// The properties that all requests share.
    pub(super) common_properties: EncodedProperties,
    /// Encoded timestamp of the current request.
    pub(super) timestamp: EncodedTimestamp,
    pub(super) max_buffered_bytes: usize,
    pub(crate) counters: Counters,
}

/// Approximate size of a request besides its payload, in bytes.
const REQUEST_OVERHEAD: usize = 512;

impl Exchange {
    pub(crate) fn new(
        session: Session<RequestId>,
        requests: RequestTable,
        max_buffered_bytes: usize,
    ) -> Self {
        let mut exchange = Self {
            session,
            requests,
            unsent: Vec::new(),
            coalescing: CoalescingIndex::default(),
            delayed_acks: DelayedAcks::default(),
            response_topic: String::new(),
            common_properties: EncodedProperties::default(),
            timestamp: EncodedTimestamp::default(),
            max_buffered_bytes,
            counters: Counters::default(),
        };
        exchange.update_client_id();
        exchange
    }

    pub(crate) fn session(&self) -> &Session<RequestId> {
        &self.session
    }
    pub(crate) fn session_mut(&mut self) -> &mut Session<RequestId> {
        &mut self.session
    }
    pub(crate) fn in_flight(&self) -> usize {
        self.requests.in_flight()
    }
    pub(crate) fn queued(&self) -> usize {
        self.requests.queued()
    }

    /// Returns whether no request is under way; if one is, `waker` is woken when the last one ends.
    pub(crate) fn poll_idle(&mut self, waker: &Waker) -> bool {
        self.requests.poll_idle(waker)
    }

    /// Adds a request, and sends it if it is its turn. Otherwise it is sent as soon as it is, whether or not its caller polls
    /// it.
    pub(crate) fn submit(
        &mut self,
        request: &OutgoingRequest<'_>,
        timestamp: &Hlc,
        now_ms: u64,
        deadline_ms: u64,
        wakers: &mut Vec<Waker>,
        waker: &Waker,
    ) -> Result<RequestId, Failure> {
        if let Some(key) = request.coalesced_key() {
            self.supersede(key, wakers);
        }
        let len = request.command.encoded_len();
        let submission = NewRequest {
            bytes: len + REQUEST_OVERHEAD,
            resend_policy: request.resend_policy(),
            may_wait: request.may_wait,
            deadline_ms,
        };
        let capacity = self.capacity();
        let (id, admission) = self.requests.submit(submission, capacity, waker)?;
        if admission == Admission::Queued {
            self.requests
                .supply(id, Box::new(EncodedRequest::new(request, timestamp)));
            if let Some(key) = request.coalesced_key() {
                let requests = &self.requests;
                self.coalescing
                    .insert(key, id, requests.queued(), |id| requests.is_queued(id));
            }
            return Ok(id);
        }
        let write = |out: &mut BytesMut| request.command.append(out);
        let options = PublishOptions {
            tag: id,
            deadline_ms,
            is_harmless: request.is_harmless(),
        };
        let result = if request.fencing_token.is_none() && !request.persist {
            self.send_with_timestamp(timestamp, len, write, options, now_ms)
        } else {
            let pairs = RequestPairs {
                timestamp: &timestamp.to_string(),
                fencing_token: request.fencing_token,
                persist: request.persist,
            };
            self.send(&pairs, len, write, options, now_ms)
        };
        if let Err(failure) = result {
            self.requests.discard(id);
            return Err(failure);
        }
        if request.resend_policy() == ResendPolicy::Risky {
            self.requests
                .keep_encoding(id, Box::new(EncodedRequest::new(request, timestamp)));
        }
        Ok(id)
    }

    /// Ends the waiting request that a newer one of the key replaces, while the connection is lost. With a connection, the
    /// queue drains anyway, and waiting requests keep their position: otherwise a key that changes often would never be sent.
    fn supersede(&mut self, key: &[u8], wakers: &mut Vec<Waker>) {
        if !self.session.is_ready()
            && let Some(older) = self.coalescing.newest(key)
            && self.requests.supersede(older, wakers)
        {
            self.counters.superseded += 1;
        }
    }

    /// Polls the result of a request. `pack` encodes the request again if its encoding was lost with its session.
    pub(crate) fn poll(
        &mut self,
        id: RequestId,
        pack: impl FnOnce() -> (Box<EncodedRequest>, u64),
        wakers: &mut Vec<Waker>,
        waker: &Waker,
    ) -> Poll<Completion> {
        match self.requests.poll(id, waker) {
            RequestStatus::Completed(completion) => Poll::Ready(completion),
            RequestStatus::Pending => Poll::Pending,
            RequestStatus::NeedsEncoding => {
                let (packed, now_ms) = pack();
                self.requests.supply(id, packed);
                self.send_queued(now_ms, wakers);
                Poll::Pending
            }
        }
    }

    /// Returns how often a request was sent. Redeliveries by the session do not count.
    pub(crate) fn attempts(&self, id: RequestId) -> u32 {
        self.requests.attempts(id)
    }

    /// Drops a request whose caller no longer waits. Returns whether it may be, or was, executed.
    pub(crate) fn abandon(
        &mut self,
        id: RequestId,
        now_ms: u64,
        wakers: &mut Vec<Waker>,
    ) -> Outcome {
        let session = &mut self.session;
        let outcome = self
            .requests
            .abandon(id, |id, packet_id| session.withdraw(packet_id, id));
        self.requests.wake_if_idle(wakers);
        self.send_queued(now_ms, wakers);
        outcome
    }

    /// Starts the session on a new transport.
    pub(crate) fn connect(&mut self, now_ms: u64) -> Result<(), SessionError> {
        // No request would be lost: all of them may be sent in another session.
        if self.session.would_resend_stale(now_ms) && !self.requests.needs_session() {
            self.session.force_clean_start();
        }
        self.session.connect(now_ms)
    }

    /// Sends queued requests after the transport has taken output.
    pub(crate) fn written(&mut self, now_ms: u64, wakers: &mut Vec<Waker>) {
        if self.requests.queued() > 0 {
            self.send_queued(now_ms, wakers);
        }
    }

    /// Handles up to `budget` packets from `stream`. Returns whether there may be more of them.
    pub(crate) fn receive(
        &mut self,
        stream: &mut BytesMut,
        now_ms: u64,
        budget: usize,
        received: &mut ReceivedBatch,
    ) -> Result<bool, SessionError> {
        let Self {
            session,
            requests,
            unsent,
            delayed_acks,
            response_topic,
            counters,
            ..
        } = self;
        let mut named = false;
        delayed_acks.start(session.has_output(), now_ms);
        let result = session.receive(stream, now_ms, budget, |event| match event {
            Event::Message {
                publish,
                alias_topic,
            } => {
                let is_response = match &alias_topic {
                    Some(topic) => **topic == **response_topic,
                    None => publish.topic_bytes() == response_topic.as_bytes(),
                };
                if !is_response {
                    delayed_acks.send_now();
                    if received.ready.is_none() {
                        // No request asked for this message: the session is new and its subscriptions are not complete.
                        return;
                    }
                    received.messages.push(Message {
                        publish,
                        alias_topic,
                    });
                    return;
                }
                // A copy, because the response moves into the request table together with its correlation data.
                let correlation = publish.correlation_data();
                let Some(correlation) = correlation.and_then(|it| <[u8; 16]>::try_from(it).ok())
                else {
                    counters.unmatched_responses += 1;
                    return;
                };
                if requests.handle_response(&correlation, publish, &mut received.wakers) {
                    counters.completed += 1;
                } else {
                    counters.unmatched_responses += 1;
                }
            }
            Event::Acknowledged {
                tag,
                reason,
                reason_string,
                resent,
            } => {
                let text = reason_string.as_deref();
                if requests.handle_puback(tag, reason, text, resent, &mut received.wakers) {
                    counters.failed += 1;
                }
            }
            Event::Lost {
                tag,
                publish,
                is_harmless,
                ..
            } => {
                if let Some(publish) = publish {
                    unsent.push((
                        tag,
                        Box::new(EncodedRequest::from_publish(&publish, is_harmless)),
                    ));
                }
            }
            Event::Dropped { tag } => {
                let failure = never_sent();
                if requests.complete(tag, Completion::Failed(failure), &mut received.wakers) {
                    counters.timed_out += 1;
                }
            }
            Event::TooLarge {
                tag,
                maybe_delivered,
            } => {
                let failure = too_large(maybe_delivered);
                if requests.complete(tag, Completion::Failed(failure), &mut received.wakers) {
                    counters.failed += 1;
                }
            }
            Event::SessionLost => {
                let resent = requests.session_lost(unsent.drain(..), &mut received.wakers);
                counters.sessions_lost += 1;
                counters.resent += resent as u64;
            }
            Event::Reauthenticated => counters.reauthentications += 1,
            Event::Ready { resumed } => {
                named = true;
                received.ready = Some(resumed);
            }
        });
        if named {
            self.update_client_id();
        }
        self.send_queued(now_ms, &mut received.wakers);
        result
    }

    /// Ends the session's use of the transport.
    pub(crate) fn connection_lost(&mut self) {
        self.session.connection_lost();
    }

    /// Handles deadlines that have passed.
    pub(crate) fn advance(
        &mut self,
        now_ms: u64,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), SessionError> {
        self.delayed_acks.advance(now_ms);
        let is_ready = self.session.is_ready();
        let session = &mut self.session;
        let expired = self
            .requests
            .expire(now_ms, is_ready, wakers, |id, packet_id| {
                session.withdraw(packet_id, id)
            });
        self.counters.timed_out += expired as u64;
        if expired > 0 {
            self.send_queued(now_ms, wakers);
        }
        self.session.poll(self.requests.in_flight() > 0, now_ms)
    }

    /// Returns the time of the next call of [`advance`](Self::advance).
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        let session = self.session.wake_at_ms(self.requests.in_flight() > 0);
        let delayed_acks = self
            .delayed_acks
            .until_ms()
            .filter(|_| self.session.has_output());
        [session, self.requests.wake_at_ms(), delayed_acks]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns whether there is output to write now. PUBACKs of responses may wait a little for the next request, but not while
    /// another response is awaited. A broker with a send limit might delay that response.
    pub(crate) fn has_output(&self) -> bool {
        let may_wait = self.delayed_acks.until_ms().is_some()
            && self.requests.in_flight() == 0
            && self.session.has_only_pubacks();
        self.session.has_output() && !may_wait
    }

    /// Ends all requests and rejects new ones.
    pub(crate) fn close(&mut self, reason: &str, wakers: &mut Vec<Waker>) {
        let session = &mut self.session;
        self.requests
            .close(ErrorKind::Closed, reason, wakers, |id, packet_id| {
                session.withdraw(packet_id, id)
            });
    }

    /// Creates the data that depends on the client id, which the broker may have assigned.
    fn update_client_id(&mut self) {
        let client_id = self.session.client_id();
        let response_topic = topic::response(client_id);
        let common = EncodedProperties::new(&PublishHeader {
            content_type: Some(property::CONTENT_TYPE),
            response_topic: Some(&response_topic),
            user_properties: &property::client_pairs(client_id),
            ..PublishHeader::default()
        });
        // Fails only for a client id that the settings reject.
        self.common_properties = common.unwrap_or_default();
        self.response_topic = response_topic;
    }
}

fn never_sent() -> Failure {
    let reason = "there was no connection to the broker";
    Failure::new(ErrorKind::TimedOut, Outcome::NotDone, reason)
}

fn too_large(maybe_delivered: bool) -> Failure {
    let outcome = if maybe_delivered {
        Outcome::Unknown
    } else {
        Outcome::NotDone
    };
    let reason = "the broker takes only smaller packets since it restarted";
    Failure::new(ErrorKind::TooLarge, outcome, reason)
}
