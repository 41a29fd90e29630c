//! The session of a client at the broker: its subscriptions, and the messages that it has not acknowledged.
use super::Peer;
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{
    EncodeError, Limits, PacketId, PacketIds, Publish, PublishHeader, QoS, ReasonCode,
};
use std::collections::VecDeque;

/// A message in the broker.
#[derive(Debug, Clone)]
pub(super) struct Message {
    publish: Publish,
    payload: Bytes,
    expires_ms: Option<u64>,
    /// The group of a shared subscription, if the message is for a member of one.
    pub(super) group: Option<String>,
}

impl Message {
    pub(super) fn new(publish: &Publish, now_ms: u64) -> Self {
        let expiry_s = publish.message_expiry().map(u64::from);
        Self {
            payload: publish.payload(),
            publish: publish.clone(),
            expires_ms: expiry_s.map(|seconds| now_ms + seconds * 1_000),
            group: None,
        }
    }

    /// Returns the same message for a member of a group.
    pub(super) fn shared(&self, group: String) -> Self {
        Self {
            group: Some(group),
            ..self.clone()
        }
    }

    pub(super) fn correlation(&self) -> Option<Bytes> {
        self.publish.correlation_data().map(Bytes::copy_from_slice)
    }

    pub(super) fn topic(&self) -> &str {
        self.publish.topic()
    }

    /// Appends the message with its remaining expiry.
    fn encode(
        &self,
        packet_id: Option<PacketId>,
        dup: bool,
        limits: Limits,
        now_ms: u64,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let user_properties: Vec<_> = self.publish.user_properties().collect();
        let left_ms = self.expires_ms.map(|at_ms| at_ms.saturating_sub(now_ms));
        let seconds = left_ms.and_then(|left_ms| u32::try_from(left_ms.div_ceil(1_000)).ok());
        let header = PublishHeader {
            topic: self.publish.topic(),
            packet_id,
            dup,
            message_expiry: seconds,
            payload_is_utf8: self.publish.payload_is_utf8(),
            content_type: self.publish.content_type(),
            response_topic: self.publish.response_topic(),
            correlation_data: self.publish.correlation_data(),
            user_properties: &user_properties,
            ..PublishHeader::default()
        };
        let write = |out: &mut BytesMut| out.extend_from_slice(&self.payload);
        header.encode(limits.max_packet_bytes, out, self.payload.len(), write)
    }
}

#[derive(Debug, Default)]
pub(super) struct Session {
    /// The current connection of the session.
    pub(super) peer: Option<Peer>,
    pub(super) expiry_s: u32,
    ended_ms: u64,
    filters: Vec<String>,
    queued: VecDeque<Message>,
    in_flight: VecDeque<(PacketId, Message)>,
    /// Messages that the last connection left without an acknowledgement, to be sent again on this one.
    retransmissions: VecDeque<(PacketId, Message)>,
    ids: PacketIds,
}

impl Session {
    pub(super) fn begin(&mut self, peer: Peer, expiry_s: u32) {
        self.peer = Some(peer);
        self.expiry_s = expiry_s;
        // Messages that were sent again come before those that were not.
        self.in_flight.append(&mut self.retransmissions);
        self.retransmissions = std::mem::take(&mut self.in_flight);
    }

    /// Handles the end of the connection.
    pub(super) fn end(&mut self, now_ms: u64) {
        self.peer = None;
        self.ended_ms = now_ms;
    }

    pub(super) fn is_alive(&self, now_ms: u64) -> bool {
        self.peer.is_some()
            || self.expiry_s == u32::MAX
            || now_ms < self.ended_ms + u64::from(self.expiry_s) * 1_000
    }

    pub(super) fn subscribe(&mut self, filter: String) {
        self.unsubscribe(&filter);
        self.filters.push(filter);
    }

    pub(super) fn unsubscribe(&mut self, filter: &str) -> ReasonCode {
        let before = self.filters.len();
        self.filters.retain(|it| it != filter);
        if self.filters.len() == before {
            ReasonCode::NO_SUBSCRIPTION_EXISTED
        } else {
            ReasonCode::SUCCESS
        }
    }

    pub(super) fn is_subscribed(&self, topic: &str) -> bool {
        self.filters.iter().any(|filter| matches(filter, topic))
    }

    /// Returns the groups with a shared subscription that matches a topic.
    pub(super) fn groups(&self, topic: &str) -> impl Iterator<Item = &str> {
        self.filters.iter().filter_map(move |filter| {
            let (group, filter) = filter.strip_prefix("$share/")?.split_once('/')?;
            matches(filter, topic).then_some(group)
        })
    }

    /// Returns the correlation data of the unacknowledged messages of a group.
    pub(super) fn shared_correlations(&self) -> impl Iterator<Item = &[u8]> {
        let sent = self.retransmissions.iter().chain(&self.in_flight);
        let all = sent.map(|(_, message)| message).chain(&self.queued);
        let shared = all.filter(|message| message.group.is_some());
        shared.filter_map(|message| message.publish.correlation_data())
    }

    /// Takes the messages of a group that the client has not acknowledged, in order.
    pub(super) fn take_shared(&mut self) -> impl Iterator<Item = Message> {
        let sent = self
            .retransmissions
            .drain(..)
            .chain(self.in_flight.drain(..));
        let all = sent
            .map(|(_, message)| message)
            .chain(self.queued.drain(..));
        all.filter(|message| message.group.is_some())
    }

    pub(super) fn push(&mut self, message: Message) {
        self.queued.push_back(message);
    }

    pub(super) fn acknowledged(&mut self, packet_id: PacketId) -> Result<(), String> {
        self.in_flight.retain(|(id, _)| *id != packet_id);
        if self.ids.release(packet_id) {
            Ok(())
        } else {
            Err(format!(
                "PUBACK of {packet_id}, which the broker has not sent"
            ))
        }
    }

    /// Appends waiting messages, as far as the client accepts them.
    pub(super) fn send(
        &mut self,
        limits: Limits,
        now_ms: u64,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let most = usize::from(limits.receive_maximum);
        while self.in_flight.len() < most
            && let Some((id, message)) = self.retransmissions.pop_front()
        {
            message.encode(Some(id), true, limits, now_ms, out)?;
            self.in_flight.push_back((id, message));
        }
        while self.in_flight.len() < most
            && let Some(message) = self.queued.pop_front()
        {
            if message.expires_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                continue;
            }
            if message.publish.qos() == QoS::AtMostOnce {
                message.encode(None, false, limits, now_ms, out)?;
                continue;
            }
            let Some(id) = self.ids.allocate() else {
                self.queued.push_front(message);
                break;
            };
            message.encode(Some(id), false, limits, now_ms, out)?;
            self.in_flight.push_back((id, message));
        }
        Ok(())
    }
}

/// Whether a topic matches a filter. The last level of the filter may be a wildcard.
fn matches(filter: &str, topic: &str) -> bool {
    match filter.strip_suffix('+') {
        None => filter == topic,
        Some(above) => topic
            .strip_prefix(above)
            .is_some_and(|level| !level.contains('/')),
    }
}
