//! Requests to the store ("State store system topic, QoS, and required MQTT5 properties").
use super::audit::key_of;
use super::message::{CachedReplyRef, Delivery, Message, Payload, QueuedMessage};
use super::packet_buffer_pool::PacketBufferPool;
use super::refusal_log::RefusalCause;
use super::session::{InFlight, InFlightContent, Session};
use super::{ConnectionId, Hub, SessionId};
use bytes::BytesMut;
use statestore_protocol::mqtt::{
    CheckedTopic, EncodeError, EncodedProperties, PacketId, PubAck, Publish, PublishHeader,
    ReasonCode,
};
use statestore_protocol::property::{self, EncodedTimestamp, RequestProperties};
use statestore_protocol::{Hlc, topic};
use statestored_common::ClockReading;
use statestored_connection::{AckSlot, Connection};
use statestored_store::service::{
    NotExecutedReason, Outcome, ReplyEnvelope, Request, RequestEnvelope, RequestProgress,
};

/// The status of every response of a store; errors of the store are in the payload.
const STATUS_OK: &str = "200";

/// Upper bound of the bytes of a response besides its topic, its correlation data and its payload: header, packet identifier and
/// properties, with 35 subscription identifiers.
const RESPONSE_FRAME_BYTES: usize = 256;

/// Returns the maximum number of payload bytes of a response in a packet of this size.
pub(super) fn max_reply_bytes(
    max_packet_bytes: u32,
    topic: CheckedTopic<'_>,
    correlation_data: &[u8],
) -> usize {
    let frame = RESPONSE_FRAME_BYTES + topic.as_bytes().len() + correlation_data.len();
    (max_packet_bytes as usize).saturating_sub(frame)
}

/// Returns the properties that all responses share.
pub(super) fn response_properties() -> EncodedProperties {
    let header = PublishHeader {
        content_type: Some(property::CONTENT_TYPE),
        user_properties: &[
            (property::STATUS, STATUS_OK),
            (property::PROTOCOL_VERSION, property::PROTOCOL_VERSION_VALUE),
        ],
        ..PublishHeader::default()
    };
    EncodedProperties::new(&header).expect("constants of a few bytes")
}

/// The data needed to respond to a request over MQTT.
#[derive(Clone, Copy)]
pub(super) struct ReturnAddress<'a> {
    pub(super) packet_id: PacketId,
    pub(super) response_topic: CheckedTopic<'a>,
    pub(super) correlation_data: &'a [u8],
    /// Place of its PUBACK, if one is reserved.
    pub(super) ack_slot: Option<AckSlot>,
}

impl Hub {
    /// Executes a PUBLISH to the request topic and sends PUBACK, response and notifications.
    pub(super) fn handle_request(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        publish: &Publish,
        now: ClockReading,
    ) {
        let response_topic = publish.checked_response_topic();
        if response_topic.is_some_and(topic::is_forbidden_response) {
            let why = "this response topic is not permitted";
            return self.disconnect_with(id, ReasonCode::TOPIC_NAME_INVALID, why, now);
        }
        let Some(packet_id) = publish.packet_id() else {
            self.metrics.requests_refused += 1;
            return self.record_keyless_refusal(
                id,
                RefusalCause::Protocol,
                "a request with QoS 0",
                now,
            );
        };
        let correlation_data = publish.correlation_data().filter(|data| !data.is_empty());
        let (Some(response_topic), Some(correlation_data)) = (response_topic, correlation_data)
        else {
            self.metrics.requests_refused += 1;
            let why = "a request needs a response topic and correlation data";
            self.record_keyless_refusal(id, RefusalCause::Protocol, why, now);
            let reason = ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR;
            return self.acknowledge(id, Some(packet_id), reason, why, now);
        };
        let (Some(connection), Some(requester)) =
            (self.connections.get_mut(id), self.sessions.get(session))
        else {
            return;
        };
        if requester
            .rights
            .as_ref()
            .is_some_and(|rights| !rights.may_use_store())
        {
            self.metrics.messages_refused += 1;
            let why = "this client may not use the store";
            self.record_keyless_refusal(id, RefusalCause::Authorization, why, now);
            return self.acknowledge(id, Some(packet_id), ReasonCode::NOT_AUTHORIZED, why, now);
        }
        connection.count_request(now.mono_ms);
        self.service.set_client_address(connection.ip_address());
        let since_ms = connection.blocked_since_ms().unwrap_or(now.mono_ms);
        let max_packet_bytes = connection.max_packet_bytes();
        let properties = match self.persist_property {
            None => connection.request_properties(publish),
            Some(_) => self.request_properties(publish),
        };
        let envelope = RequestEnvelope {
            request: Request {
                client: &requester.client,
                principal: &requester.principal,
                rights: requester.rights.as_ref(),
                correlation: correlation_data,
                payload: &publish.payload(),
                properties,
                may_be_redelivered: !requester.is_ephemeral(),
            },
            deadline_ms: publish
                .message_expiry()
                .map(|seconds| since_ms.saturating_add(u64::from(seconds) * 1000)),
            has_capacity: requester.has_capacity(&self.limits),
            max_reply_bytes: max_reply_bytes(max_packet_bytes, response_topic, correlation_data),
            is_shared: false,
        };
        if !self
            .large_allocations
            .allows_copies(publish.payload_bytes().len())
        {
            self.service.reject_next_change();
        }
        let reception = self.service.submit(&envelope, now);
        self.trace_request(session, publish.payload_bytes(), &reception, now);
        let to = ReturnAddress {
            packet_id,
            response_topic,
            correlation_data,
            ack_slot: None,
        };
        match reception {
            RequestProgress::Complete(outcome) => {
                if let Some(reasons) = self.refusal_reason(&outcome) {
                    let key = key_of(&publish.payload(), &outcome);
                    self.record_client_refusal(id, reasons, key, now);
                }
                self.complete_request(id, session, to, &outcome, now);
            }
            RequestProgress::Pending(ticket) => {
                self.register_pending(id, session, to, ticket, &publish.payload());
            }
        }
        self.notify_watchers(Some(id), now);
        self.process_outcomes(now);
    }

    /// Returns the properties of a request in its user properties.
    pub(super) fn request_properties(&self, publish: &Publish) -> RequestProperties {
        let mut properties = RequestProperties::parse(publish.user_property_bytes());
        if let Some((name, value)) = &self.persist_property {
            let is_persist_property = |(its_name, its): (&[u8], &[u8])| {
                its_name == name.as_bytes() && its == value.as_bytes()
            };
            properties.persist = publish.user_property_bytes().any(is_persist_property);
        }
        properties
    }

    /// Sends the outcome of a request to a client that is connected.
    pub(super) fn complete_request(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        to: ReturnAddress<'_>,
        outcome: &Outcome,
        now: ClockReading,
    ) {
        let why = match outcome {
            Outcome::Replied(response) => return self.respond(id, session, to, response),
            Outcome::Refused(NotExecutedReason::Expired) => (
                ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
                "the request expired before it was executed",
            ),
            Outcome::Refused(NotExecutedReason::NoCapacity) => (
                ReasonCode::QUOTA_EXCEEDED,
                "too many responses are not acknowledged; the request was not executed",
            ),
            // Of all codes, this one means that nothing was done, and that the request may succeed soon.
            Outcome::Refused(NotExecutedReason::Unavailable) => (
                ReasonCode::NO_MATCHING_SUBSCRIBERS,
                "the storage does not answer; the request was not executed",
            ),
            // An error would mean that it was not executed. Without a response, the client learns that the outcome is unknown.
            Outcome::Unknown => (ReasonCode::SUCCESS, ""),
        };
        self.acknowledge_in_slot(id, to.packet_id, to.ack_slot, why, now);
    }

    fn respond(
        &mut self,
        id: ConnectionId,
        session_id: SessionId,
        to: ReturnAddress<'_>,
        response: &ReplyEnvelope,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(session_id) else {
            return;
        };
        let commit_index = response.commit_index;
        let bytes = response.reply.encoded_len();
        if !self.large_allocations.allows_output(bytes) {
            self.metrics.dropped_full += 1;
            acknowledge_unanswerable(
                connection,
                to,
                &"the server has no memory for it",
                commit_index,
            );
            return self.output_appended(id);
        }
        let is_full = connection.is_full();
        // A client that has the response has seen its request acknowledged, if the PUBACK leaves first.
        let is_acknowledged_first = connection.output.is_sent_with(commit_index, to.ack_slot);
        let answer = response.replay_number.filter(|_| is_acknowledged_first);
        let answer = answer.map(|number| CachedReplyRef {
            number,
            connection: id,
        });
        if !is_full && session.may_send_now() {
            let identifiers = session.identifiers_of_response(to.response_topic);
            self.service.add_work(session.take_work());
            let header = PublishHeader {
                checked_topic: Some(to.response_topic),
                correlation_data: Some(to.correlation_data),
                subscription_identifiers: &identifiers,
                encoded: Some(&self.response_properties),
                encoded_last: encode_version(response.version.as_ref(), &mut self.response_version),
                ..PublishHeader::default()
            };
            self.metrics.responses += 1;
            let spares = &mut self.packet_buffers;
            let sent = send_response(connection, session, spares, to, header, response, answer);
            if let Err(error) = sent {
                self.metrics.dropped_too_large += 1;
                acknowledge_unanswerable(connection, to, &error, commit_index);
            }
            return self.output_appended(id);
        }
        // Four bytes, which fit into any Maximum Packet Size of use.
        let _ = connection.acknowledge(commit_index, to.ack_slot, &PubAck::success(to.packet_id));
        self.output_appended(id);
        self.queue_response(session_id, to, response, answer);
    }

    /// Puts a response into the queue of a session, which has reserved room for it.
    pub(super) fn queue_response(
        &mut self,
        session_id: SessionId,
        to: ReturnAddress<'_>,
        response: &ReplyEnvelope,
        answer: Option<CachedReplyRef>,
    ) {
        let Some(session) = self.sessions.get_mut(session_id) else {
            return;
        };
        self.metrics.responses += 1;
        let mut payload = BytesMut::with_capacity(response.reply.encoded_len());
        response.reply.encode(&mut payload);
        let payload = Payload::new(payload.freeze(), &self.memory_budget);
        let header = PublishHeader {
            topic: to.response_topic.as_str(),
            correlation_data: Some(to.correlation_data),
            encoded: Some(&self.response_properties),
            encoded_last: encode_version(response.version.as_ref(), &mut self.response_version),
            ..PublishHeader::default()
        };
        if let Ok(message) = Message::new(&header, payload, None) {
            let delivery = Delivery {
                message,
                identifiers: session.identifiers_of_response(to.response_topic).into(),
            };
            self.service.add_work(session.take_work());
            session.enqueue(QueuedMessage {
                delivery,
                commit_index: response.commit_index,
                cached_reply: answer,
            });
            self.sessions.update_rank(session_id);
        }
    }

    /// Returns the identifiers of a client's subscriptions that match a topic.
    pub(super) fn subscription_identifiers(&mut self, session: SessionId, topic: &str) -> Vec<u32> {
        self.sessions
            .get_mut(session)
            .map(|session| session.identifiers(topic))
            .unwrap_or_default()
    }
}

/// Encodes `__ts` of a response that has a version.
pub(super) fn encode_version<'a>(
    version: Option<&Hlc>,
    encoder: &'a mut EncodedTimestamp,
) -> Option<&'a EncodedProperties> {
    // The node id is that of a store, which is short.
    encoder.encode(version?).ok()
}

/// Appends PUBACK and response, which may leave before the PUBACK. Appends nothing if the client does not accept a response of this size.
fn send_response(
    connection: &mut Connection,
    session: &mut Session,
    spares: &mut PacketBufferPool,
    to: ReturnAddress<'_>,
    mut header: PublishHeader<'_>,
    response: &ReplyEnvelope,
    answer: Option<CachedReplyRef>,
) -> Result<(), EncodeError> {
    let (reply, commit_index) = (&response.reply, response.commit_index);
    let Some(id) = session.packet_id() else {
        return Ok(());
    };
    header.packet_id = Some(id);
    let max_packet_bytes = connection.max_packet_bytes();
    let output = &mut connection.output;
    let puback = PubAck::success(to.packet_id);
    let is_together = output.is_sent_with(commit_index, to.ack_slot);
    let is_ephemeral = session.is_ephemeral();
    let result = output.append(commit_index, |out| {
        if is_together {
            puback.encode(max_packet_bytes, out)?;
        }
        let start = out.len();
        header.encode(max_packet_bytes, out, reply.encoded_len(), |out| {
            reply.encode(out);
        })?;
        Ok(if is_ephemeral {
            InFlightContent::NotRetained
        } else {
            InFlightContent::Packet(spares.copy(&out[start..]))
        })
    });
    match result {
        Ok(content) => {
            let in_flight = InFlight {
                content,
                commit_index,
                cached_reply: answer,
            };
            session.record_sent(id, in_flight);
        }
        Err(error) => {
            session.return_packet_id(id);
            return Err(error);
        }
    }
    if is_together {
        output.count_ack_with(commit_index, to.ack_slot);
        Ok(())
    } else {
        output.acknowledge(commit_index, to.ack_slot, |out| {
            puback.encode(max_packet_bytes, out)
        })
    }
}

/// Acknowledges a request whose response the client does not accept.
#[cold]
fn acknowledge_unanswerable(
    connection: &mut Connection,
    to: ReturnAddress<'_>,
    error: &dyn std::fmt::Display,
    commit_index: u64,
) {
    let puback = PubAck {
        packet_id: to.packet_id,
        reason: ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
        reason_string: connection.wants_reason_strings().then(|| {
            format!("the request was executed, but its response cannot be sent: {error}").into()
        }),
    };
    let _ = connection.acknowledge(commit_index, to.ack_slot, &puback);
}
