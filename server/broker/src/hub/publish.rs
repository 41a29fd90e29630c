//! PUBLISH from clients (MQTT 5, section 3.3).
use super::fanout::MessageFanout;
use super::message::Message;
use super::refusal_log::RefusalCause;
use super::{ConnectionId, Hub, SessionId};
use statestore_protocol::mqtt::{PacketId, PubAck, Publish, ReasonCode};
use statestore_protocol::topic;
use statestored_common::ClockReading;
use statestored_connection::{AckSlot, PublishKind};

impl Hub {
    pub(super) fn handle_publish(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        publish: &Publish,
        now: ClockReading,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        match connection.classify_publish(publish) {
            Ok(PublishKind::Request) => self.handle_request(id, session, publish, now),
            Ok(PublishKind::Message(aliased)) => {
                let topic = aliased.as_deref().unwrap_or_else(|| publish.topic());
                self.handle_message(id, session, publish, topic, now);
            }
            Err((reason, why)) => self.disconnect_with(id, reason, &why, now),
        }
    }

    /// Processes a PUBLISH that is not a request.
    #[inline(never)]
    fn handle_message(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        publish: &Publish,
        topic: &str,
        now: ClockReading,
    ) {
        let why = if topic::is_from_store(topic) {
            "only the store publishes notifications and responses"
        } else if self.may_publish(session, topic) {
            return self.forward(id, session, publish, topic, now);
        } else {
            "this client may not publish to this topic"
        };
        self.metrics.messages_refused += 1;
        self.record_keyless_refusal(id, RefusalCause::Authorization, why, now);
        let reason = ReasonCode::NOT_AUTHORIZED;
        self.acknowledge(id, publish.packet_id(), reason, why, now);
    }

    fn may_publish(&self, session: SessionId, topic: &str) -> bool {
        let session = self.sessions.get(session);
        let rights = session.and_then(|session| session.rights.as_ref());
        rights.is_none_or(|rights| rights.may_publish(topic))
    }

    /// Routes a message between clients.
    fn forward(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        publish: &Publish,
        topic: &str,
        now: ClockReading,
    ) {
        if !self.large_allocations.allows(publish.payload_bytes().len()) {
            self.metrics.dropped_full += 1;
            let why = "the server has no memory for a message of this size";
            self.record_keyless_refusal(id, RefusalCause::Quota, why, now);
            let reason = ReasonCode::QUOTA_EXCEEDED;
            return self.acknowledge(id, publish.packet_id(), reason, why, now);
        }
        self.metrics.messages += 1;
        let message = match Message::from_publish(publish, topic, now.mono_ms, &self.memory_budget)
        {
            Ok(message) => message,
            Err(error) => {
                return self.disconnect_with(
                    id,
                    ReasonCode::MALFORMED_PACKET,
                    &error.to_string(),
                    now,
                );
            }
        };
        let packet_id = publish.packet_id();
        let publication = MessageFanout::new(message, publish.qos(), Some(session), packet_id);
        self.begin_message(publication, Some(id), now);
    }

    /// Acknowledges a PUBLISH, if it has QoS 1. The PUBACK has a text, unless `why` is empty or the client wants none.
    pub(super) fn acknowledge(
        &mut self,
        id: ConnectionId,
        packet_id: Option<PacketId>,
        reason: ReasonCode,
        why: &str,
        now: ClockReading,
    ) {
        if let Some(packet_id) = packet_id {
            self.acknowledge_in_slot(id, packet_id, None, (reason, why), now);
        }
    }

    /// Acknowledges a PUBLISH of QoS 1, in the slot reserved for its PUBACK.
    pub(super) fn acknowledge_in_slot(
        &mut self,
        id: ConnectionId,
        packet_id: PacketId,
        slot: Option<AckSlot>,
        (reason, why): (ReasonCode, &str),
        now: ClockReading,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.session().is_none() {
            return;
        }
        let reason_string =
            (connection.wants_reason_strings() && !why.is_empty()).then(|| why.into());
        let puback = PubAck {
            packet_id,
            reason,
            reason_string,
        };
        let result = connection.acknowledge(0, slot, &puback);
        self.output_appended(id);
        if let Err(error) = result {
            self.disconnect_with(id, ReasonCode::PACKET_TOO_LARGE, &error.to_string(), now);
        }
    }
}
