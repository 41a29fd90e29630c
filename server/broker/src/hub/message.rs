//! A message on its way to subscribers.
use super::ConnectionId;
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{
    EncodeError, EncodedProperties, PacketId, Publish, PublishHeader, Will,
};
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use std::sync::Arc;

/// Payload of messages; cheap to clone, and counted once.
#[derive(Debug, Clone)]
pub(crate) struct Payload(Arc<(Bytes, Reservation)>);

impl Payload {
    pub(crate) fn new(bytes: Bytes, budget: &MemoryBudget) -> Self {
        let reservation = Reservation::new(budget, bytes.len());
        Self(Arc::new((bytes, reservation)))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.0.len()
    }

    fn bytes(&self) -> &[u8] {
        &self.0.0
    }

    /// Reserves memory for something else where this payload is counted.
    fn reserve(&self, bytes: usize) -> Reservation {
        self.0.1.new_sibling(bytes)
    }
}

/// A message; cheap to clone, so that all subscribers share it.
#[derive(Debug, Clone)]
pub(crate) struct Message(Arc<MessageInner>);

#[derive(Debug)]
struct MessageInner {
    topic: Box<str>,
    /// All properties but the message expiry and subscription identifiers.
    properties: Arc<EncodedProperties>,
    payload: Payload,
    /// Time of expiry, on the monotonic clock.
    expires_ms: Option<u64>,
    /// Reservation for its memory besides the payload.
    reservation: Reservation,
}

/// A message for one subscriber.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) message: Message,
    /// Identifiers of the matching subscriptions.
    pub(crate) identifiers: Box<[u32]>,
}

/// Number of the remembered answer in a response, and the connection on which its request was acknowledged first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedReplyRef {
    pub(crate) number: u64,
    pub(crate) connection: ConnectionId,
}

/// A message that waits for the connection, the Receive Maximum or the output buffer.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    pub(crate) delivery: Delivery,
    /// The write that must be durable before this may leave; 0 for none.
    pub(crate) commit_index: u64,
    pub(crate) cached_reply: Option<CachedReplyRef>,
}

fn expires_ms(seconds: Option<u32>, now_ms: u64) -> Option<u64> {
    seconds.map(|seconds| now_ms.saturating_add(u64::from(seconds) * 1000))
}

impl Message {
    /// Creates a message with the properties of `header`. Of the other fields, only the topic is used.
    pub(crate) fn new(
        header: &PublishHeader<'_>,
        payload: Payload,
        expires_ms: Option<u64>,
    ) -> Result<Self, EncodeError> {
        let properties = Arc::new(EncodedProperties::new(header)?);
        Ok(Self::with_properties(
            header.topic.into(),
            properties,
            payload,
            expires_ms,
        ))
    }

    /// Creates a message to `topic`, which may share its properties with other messages.
    pub(crate) fn with_properties(
        topic: Box<str>,
        properties: Arc<EncodedProperties>,
        payload: Payload,
        expires_ms: Option<u64>,
    ) -> Self {
        // Counted as if nothing was shared, since it is unknown how long it is.
        let reservation =
            payload.reserve(topic.len() + properties.len() + size_of::<MessageInner>());
        Self(Arc::new(MessageInner {
            topic,
            properties,
            payload,
            expires_ms,
            reservation,
        }))
    }

    /// Creates a message that a client published to `topic`. No part of the receive buffer is kept.
    pub(crate) fn from_publish(
        publish: &Publish,
        topic: &str,
        now_ms: u64,
        budget: &MemoryBudget,
    ) -> Result<Self, EncodeError> {
        let user_properties: Vec<_> = publish.user_properties().collect();
        let header = PublishHeader {
            topic,
            payload_is_utf8: publish.payload_is_utf8(),
            content_type: publish.content_type(),
            response_topic: publish.response_topic(),
            correlation_data: publish.correlation_data(),
            user_properties: &user_properties,
            ..PublishHeader::default()
        };
        let payload = Payload::new(Bytes::copy_from_slice(publish.payload_bytes()), budget);
        Self::new(
            &header,
            payload,
            expires_ms(publish.message_expiry(), now_ms),
        )
    }

    /// Creates the message of a will that is published now.
    pub(crate) fn from_will(
        will: &Will,
        now_ms: u64,
        budget: &MemoryBudget,
    ) -> Result<Self, EncodeError> {
        let user_properties: Vec<_> = will
            .user_properties
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let header = PublishHeader {
            topic: &will.topic,
            payload_is_utf8: will.payload_is_utf8,
            content_type: will.content_type.as_deref(),
            response_topic: will.response_topic.as_deref(),
            correlation_data: will.correlation_data.as_deref(),
            user_properties: &user_properties,
            ..PublishHeader::default()
        };
        Self::new(
            &header,
            Payload::new(will.payload.clone(), budget),
            expires_ms(will.message_expiry, now_ms),
        )
    }

    /// Returns the header to publish the message with, without the message expiry.
    pub(crate) fn header(&self) -> PublishHeader<'_> {
        PublishHeader {
            topic: &self.0.topic,
            encoded: Some(&self.0.properties),
            ..PublishHeader::default()
        }
    }

    /// Returns the payload.
    pub(crate) fn payload(&self) -> &[u8] {
        self.0.payload.bytes()
    }

    /// Returns the bytes that the message takes, as if nothing of it was shared.
    pub(crate) fn bytes(&self) -> usize {
        self.0.reservation.bytes() + self.0.payload.len()
    }

    /// Returns the topic.
    pub(crate) fn topic(&self) -> &str {
        &self.0.topic
    }
}

impl Delivery {
    /// Returns whether the message expiry has passed.
    pub(crate) fn is_expired(&self, now_ms: u64) -> bool {
        self.message
            .0
            .expires_ms
            .is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    /// Returns the bytes that the delivery takes while it waits, as if its message was not shared.
    pub(crate) fn bytes(&self) -> usize {
        self.message.bytes() + self.own_bytes()
    }

    /// Returns the bytes that the delivery takes besides its message. A queue may have room for twice as many.
    pub(crate) fn own_bytes(&self) -> usize {
        4 * self.identifiers.len() + 2 * size_of::<QueuedMessage>()
    }

    /// Returns whether the PUBLISH, with a packet identifier, fits into `max_packet_bytes`.
    pub(crate) fn fits(&self, max_packet_bytes: u32, now_ms: u64) -> bool {
        // The counted bytes, and everything else that a packet can have: lengths, expiry, subscription identifiers.
        let most = self.message.bytes() + 5 * self.identifiers.len() + 64;
        if most <= max_packet_bytes as usize {
            return true;
        }
        let id = Some(PacketId::MAX);
        let mut packet = BytesMut::new();
        self.encode(id, false, now_ms, max_packet_bytes, &mut packet)
            .is_ok()
    }

    /// Appends the PUBLISH, with what is left of the message expiry.
    pub(crate) fn encode(
        &self,
        packet_id: Option<PacketId>,
        dup: bool,
        now_ms: u64,
        max_packet_bytes: u32,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let content = &*self.message.0;
        let left_s = content.expires_ms.map(|expires_ms| {
            u32::try_from(expires_ms.saturating_sub(now_ms).div_ceil(1000)).unwrap_or(u32::MAX)
        });
        let header = PublishHeader {
            topic: &content.topic,
            packet_id,
            dup,
            message_expiry: left_s,
            subscription_identifiers: &self.identifiers,
            encoded: Some(&content.properties),
            ..PublishHeader::default()
        };
        header.encode(max_packet_bytes, out, content.payload.len(), |out| {
            out.extend_from_slice(content.payload.bytes());
        })
    }
}

impl QueuedMessage {
    /// Creates an entry for a message that carries no answer.
    pub(crate) fn new(delivery: Delivery, commit_index: u64) -> Self {
        Self {
            delivery,
            commit_index,
            cached_reply: None,
        }
    }
}
