//! Requests through the broker: their senders and their responses.
use super::super::fanout_queue::MAX_FANOUTS;
use super::super::message::{Message, Payload};
use super::super::request::{encode_version, max_reply_bytes};
use super::super::{Hub, QUANTUM_WORK};
use super::broker_client::{BrokerClient, Sender};
use super::outgoing_message::OutgoingKind;
use super::pending_request::{PendingRequest, ReturnAddress};
use super::request_queue::IncomingRequest;
use super::watch_target::WatchTarget;
use super::{BROKER_CLIENT_PREFIX, BrokerError, local_refusals};
use bytes::BytesMut;
use statestore_protocol::mqtt::{Publish, PublishHeader, ReasonCode};
use statestore_protocol::{property, topic};
use statestored_common::ClockReading;
use statestored_store::keyspace::Ticket;
use statestored_store::service::{
    NotExecutedReason, Outcome, ReplyEnvelope, Request, RequestEnvelope, RequestProgress,
};

/// Requests that are executed before other connections have their turn.
const QUANTUM_REQUESTS: usize = 64;

impl Hub {
    /// Processes a message with QoS 1 from the broker. Fails if the connection cannot go on.
    pub(super) fn handle_broker_publish(
        &mut self,
        publish: Publish,
        now: ClockReading,
    ) -> Result<(), BrokerError> {
        let most = self.max_session_bytes();
        let (Some(broker), Some(packet_id)) = (&mut self.broker, publish.packet_id()) else {
            return Ok(());
        };
        broker.request_count += 1;
        let number = broker.unacknowledged.push(packet_id);
        let incoming = IncomingRequest::new(publish, number, now.mono_ms, &self.memory_budget);
        if broker.request_queue.has_capacity(&incoming, most) {
            broker.request_queue.push(incoming);
            return Ok(());
        }
        let group = broker.group.as_ref();
        if group.is_some_and(|group| incoming.publish.topic() == group.topic) {
            // No entry of the log may be skipped.
            return Err(BrokerError::LogOverflow);
        }
        broker.request_queue.log_refusal_once();
        self.execute_one(&incoming, false, now);
        Ok(())
    }

    /// Returns whether there is room for the results of requests.
    pub(super) fn may_execute_incoming(&self) -> bool {
        !self.has_backpressure()
            && self.fanout_queue.len() < MAX_FANOUTS
            && self.has_broker_capacity()
    }

    /// Executes requests as long as there is room for their results. Returns whether more can be executed in the next turn.
    pub(super) fn execute_incoming(&mut self, now: ClockReading) -> bool {
        let mut left = QUANTUM_REQUESTS;
        while self.may_execute_incoming() {
            if left == 0 || self.service.work() >= QUANTUM_WORK {
                return true;
            }
            let broker = self.broker.as_mut();
            let Some(incoming) = broker.and_then(|broker| broker.request_queue.pop()) else {
                return false;
            };
            left -= 1;
            self.execute_one(&incoming, true, now);
        }
        if let Some(broker) = &mut self.broker {
            broker.request_queue.copy_buffers();
        }
        false
    }

    /// Executes a request, or refuses it if there was no room for it to wait.
    fn execute_one(&mut self, incoming: &IncomingRequest, had_room: bool, now: ClockReading) {
        let (publish, number) = (&incoming.publish, incoming.number);
        if let Some(group) = self.broker.as_ref().and_then(|it| it.group.as_ref())
            && publish.topic() == group.topic
        {
            self.handle_log_entry(publish, number, now);
            self.notify_watchers(None, now);
            return self.process_outcomes(now);
        }
        let response_topic = publish
            .checked_response_topic()
            .filter(|topic| !topic::is_forbidden_response(topic));
        let client_id = response_topic.and_then(|topic| topic::requester(topic.as_str()));
        let correlation_data = publish.correlation_data().filter(|data| !data.is_empty());
        let properties = self.request_properties(publish);
        let Some(broker) = &mut self.broker else {
            return;
        };
        let (Some(response_topic), Some(client_id), Some(correlation_data), true) = (
            response_topic,
            client_id,
            correlation_data,
            publish.topic() == topic::REQUEST,
        ) else {
            self.metrics.requests_refused += 1;
            let reason = ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR;
            return broker.unacknowledged.finish(number, reason);
        };
        let client_id = client_id.as_ref();
        let requester = (client_id, response_topic.as_str());
        let sender = match self.sender(publish, requester) {
            Ok(sender) => sender,
            Err(doubt) => {
                self.refuse_unverified(doubt, response_topic.as_str(), now);
                return self.finish_broker_request(number, ReasonCode::NOT_AUTHORIZED);
            }
        };
        let Some(broker) = &mut self.broker else {
            return;
        };
        let is_shared = broker.config.share_name.is_some();
        let max_packet_bytes = broker.peer_packet_bytes();
        let deadline_ms = broker
            .config
            .deadline_ms(incoming.arrived_ms, publish.message_expiry());
        let to = ReturnAddress {
            number,
            response_topic,
            correlation_data,
            watch: None,
        };
        if !had_room {
            self.metrics.requests_refused += 1;
            if !self.has_broker_capacity() {
                return self.finish_broker_request(number, ReasonCode::QUOTA_EXCEEDED);
            }
            return self.complete_for_broker(
                to,
                &Outcome::Refused(NotExecutedReason::NoCapacity),
                now,
            );
        }
        let payload = publish.payload();
        if is_shared && WatchTarget::parse(&payload).is_some() {
            let user = match sender {
                Sender::Verified(user) => user,
                Sender::Unverified => None,
            };
            return self.forward_watch_request(publish, (client_id, user), to, deadline_ms, now);
        }
        let name = format!("{BROKER_CLIENT_PREFIX}{client_id}");
        let client = broker
            .replay_clients
            .record_request(&name, broker.request_count, now.mono_ms);
        if is_shared {
            self.renew_group_lease(&client);
        }
        let BrokerClient { principal, rights } =
            self.broker_client(&client, client_id, sender, Some(now));
        let envelope = RequestEnvelope {
            request: Request {
                client: &client,
                principal: &principal,
                rights: rights.as_ref(),
                correlation: correlation_data,
                payload: &payload,
                properties,
                may_be_redelivered: true,
            },
            deadline_ms,
            has_capacity: true,
            max_reply_bytes: max_reply_bytes(max_packet_bytes, response_topic, correlation_data),
            is_shared,
        };
        self.submit_for_broker(&envelope, to, now);
        if !is_shared {
            self.renew_lease(&client, now);
        }
        self.notify_watchers(None, now);
        self.process_outcomes(now);
    }

    /// Publishes a request of a watch to the group, or responds that it cannot be executed.
    fn forward_watch_request(
        &mut self,
        publish: &Publish,
        client: (&str, Option<&str>),
        to: ReturnAddress<'_>,
        deadline_ms: Option<u64>,
        now: ClockReading,
    ) {
        let left_ms = deadline_ms.map(|at_ms| at_ms.saturating_sub(now.mono_ms));
        let expiry_s = left_ms.and_then(|left_ms| u32::try_from(left_ms.div_ceil(1000)).ok());
        let refusal = if deadline_ms.is_some_and(|at_ms| now.mono_ms > at_ms) {
            NotExecutedReason::Expired
        } else if self.publish_watch_request(publish, to.number, client, expiry_s, now) {
            return;
        } else {
            NotExecutedReason::Unavailable
        };
        self.complete_for_broker(to, &Outcome::Refused(refusal), now);
    }

    /// Passes a request to the service and responds, now or later.
    pub(super) fn submit_for_broker(
        &mut self,
        envelope: &RequestEnvelope<'_>,
        to: ReturnAddress<'_>,
        now: ClockReading,
    ) {
        let payload_bytes = envelope.request.payload.len();
        if !self.large_allocations.allows_copies(payload_bytes) {
            self.service.reject_next_change();
        }
        match self.service.submit(envelope, now) {
            RequestProgress::Complete(outcome) => self.complete_for_broker(to, &outcome, now),
            RequestProgress::Pending(ticket) => {
                let pending = PendingRequest::new(to, payload_bytes, &self.memory_budget);
                if let Some(broker) = &mut self.broker {
                    broker.pending_requests.insert(ticket, pending);
                }
            }
        }
    }

    /// Processes an outcome that came later, if a request of the broker waits for it.
    pub(in super::super) fn complete_pending_for_broker(
        &mut self,
        ticket: Ticket,
        outcome: &Outcome,
        now: ClockReading,
    ) {
        let broker = self.broker.as_mut();
        let Some(pending) = broker.and_then(|broker| broker.pending_requests.remove(&ticket))
        else {
            let is_followed = matches!(outcome, Outcome::Replied(_));
            return self.handle_watch_outcome(Some(ticket), is_followed, now);
        };
        self.complete_for_broker(pending.return_address(), outcome, now);
    }

    /// Responds to a request. The built-in listener reports some outcomes in a PUBACK, which here reaches the broker only. So the status of
    /// a response reports them, if a client may still wait for it.
    fn complete_for_broker(&mut self, to: ReturnAddress<'_>, outcome: &Outcome, now: ClockReading) {
        if let Some((client, target)) = to.watch {
            self.apply_watch_outcome(outcome, (client, target), now);
        }
        let is_alone = matches!(outcome, Outcome::Refused(_))
            || to.watch.is_none() && local_refusals::is_local_refusal(outcome);
        if is_alone && self.may_be_redelivered(to.number) {
            // Another server may have executed the request.
            return;
        }
        if let Some(reasons) = self.refusal_reason(outcome) {
            let identity = self.broker_client_identity(to.response_topic.as_str());
            self.record_refusal(identity, None, reasons, None, now);
        }
        match outcome {
            Outcome::Replied(response) => {
                let what = self.outgoing_kind(to, outcome);
                match local_refusals::local_error(&response.reply) {
                    Some(error) if matches!(what, OutgoingKind::Refusal(_)) => {
                        self.refuse_through_broker(to, &error.to_string(), what, now);
                    }
                    _ => self.respond_through_broker(to, response, what, now),
                }
            }
            Outcome::Refused(
                refusal @ (NotExecutedReason::Unavailable | NotExecutedReason::NoCapacity),
            ) => {
                let why = match refusal {
                    NotExecutedReason::NoCapacity => "too many requests wait at the store",
                    _ => "the storage does not answer",
                };
                let what = self.outgoing_kind(to, outcome);
                self.refuse_through_broker(to, why, what, now);
            }
            Outcome::Refused(NotExecutedReason::Expired) => {
                self.finish_broker_request(to.number, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
            }
            // Without a response, the client learns that the outcome is unknown.
            Outcome::Unknown => self.finish_broker_request(to.number, ReasonCode::SUCCESS),
        }
    }

    /// Returns whether the connection of a request has ended, so that the broker may give the request to other servers.
    fn may_be_redelivered(&self, number: u64) -> bool {
        let broker = self.broker.as_ref();
        broker
            .is_some_and(|it| it.config.share_name.is_some() && !it.unacknowledged.contains(number))
    }

    /// Returns how an outcome is sent. If other servers might answer differently, the request has to be acknowledged first.
    fn outgoing_kind(&self, to: ReturnAddress<'_>, outcome: &Outcome) -> OutgoingKind {
        let is_shared = self.broker.as_ref().is_some_and(|it| it.group.is_some());
        if is_shared && to.watch.is_none() && local_refusals::is_local_refusal(outcome) {
            OutgoingKind::Refusal(to.number)
        } else {
            OutgoingKind::Response(to.number)
        }
    }

    pub(super) fn finish_broker_request(&mut self, number: u64, reason: ReasonCode) {
        if let Some(broker) = &mut self.broker {
            broker.unacknowledged.finish(number, reason);
            broker.is_dirty = true;
        }
    }

    /// Responds that this server did not execute a request.
    fn refuse_through_broker(
        &mut self,
        to: ReturnAddress<'_>,
        why: &str,
        what: OutgoingKind,
        now: ClockReading,
    ) {
        let why = format!("{why}; this server did not execute the request");
        let header = PublishHeader {
            topic: to.response_topic.as_str(),
            correlation_data: Some(to.correlation_data),
            user_properties: &[
                (property::STATUS, local_refusals::UNAVAILABLE_STATUS),
                (property::STATUS_MESSAGE, &why),
                (property::PROTOCOL_VERSION, property::PROTOCOL_VERSION_VALUE),
            ],
            ..PublishHeader::default()
        };
        self.send_through_broker(to, &header, BytesMut::new(), 0, what, now);
    }

    fn respond_through_broker(
        &mut self,
        to: ReturnAddress<'_>,
        response: &ReplyEnvelope,
        what: OutgoingKind,
        now: ClockReading,
    ) {
        let mut payload = BytesMut::with_capacity(response.reply.encoded_len());
        response.reply.encode(&mut payload);
        let mut version = std::mem::take(&mut self.response_version);
        let properties = self.response_properties.clone();
        let header = PublishHeader {
            topic: to.response_topic.as_str(),
            correlation_data: Some(to.correlation_data),
            encoded: Some(&properties),
            encoded_last: encode_version(response.version.as_ref(), &mut version),
            ..PublishHeader::default()
        };
        self.metrics.responses += 1;
        self.send_through_broker(to, &header, payload, response.commit_index, what, now);
        self.response_version = version;
    }

    fn send_through_broker(
        &mut self,
        to: ReturnAddress<'_>,
        header: &PublishHeader<'_>,
        payload: BytesMut,
        commit_index: u64,
        kind: OutgoingKind,
        now: ClockReading,
    ) {
        let payload = Payload::new(payload.freeze(), &self.memory_budget);
        let Some(broker) = &mut self.broker else {
            return;
        };
        match Message::new(header, payload, None) {
            Ok(message) => broker.enqueue(message, commit_index, kind, to.watch.is_some(), now),
            Err(error) => {
                tracing::debug!(%error, "a response cannot be sent");
                self.metrics.dropped_too_large += 1;
                self.finish_broker_request(to.number, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
            }
        }
    }

    /// Forgets clients that have sent nothing for long.
    pub(super) fn end_idle_clients(&mut self, now: ClockReading) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        let most = self.limits.max_sessions;
        let mut ended = Vec::new();
        while let Some(client) = broker.replay_clients.take_idle(now.mono_ms) {
            self.service.forget_replies(&client);
            ended.push(client);
        }
        while broker.replay_clients.len() > most
            && let Some(client) = broker.replay_clients.take_oldest()
        {
            self.service.forget_replies(&client);
            ended.push(client);
        }
        let mut silent = Vec::new();
        let (keeps, requests) = (broker.is_active(now), broker.request_count);
        if let Some(leases) = broker.watch_leases.as_mut().filter(|_| keeps) {
            silent.extend(std::iter::from_fn(|| leases.take_idle(now.mono_ms)));
        }
        for client in ended {
            self.forget_broker_client(&client);
        }
        for client in silent {
            self.end_watches(&client, None, requests, now);
        }
    }
}
