//! PUBLISH (MQTT 5, section 3.3): read in place, written in place.
use super::property::{self, Properties, Property};
use super::wire::{self, Reader, put_binary, put_string};
use super::{DecodeError, EncodeError, PacketId, QoS};
use bytes::{BufMut, Bytes, BytesMut};

/// Where a field lies in the frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        // A frame has at most 268,435,460 bytes.
        let offset = |at| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            start: offset(start),
            end: offset(end),
        }
    }
    fn of(self, frame: &[u8]) -> &[u8] {
        frame
            .get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// A received PUBLISH: one slice of the receive buffer, checked as a whole, with the places of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    frame: Bytes,
    packet_id: Option<PacketId>,
    topic: Span,
    properties: Span,
    response_topic: Option<Span>,
    correlation_data: Option<Span>,
    content_type: Option<Span>,
    message_expiry: Option<u32>,
    topic_alias: Option<u16>,
    payload_is_utf8: Option<bool>,
    has_subscription_ids: bool,
}

impl Publish {
    /// Checks `frame`, one whole packet whose variable header begins at `at`.
    pub(crate) fn decode(frame: Bytes, at: usize) -> Result<Self, DecodeError> {
        let first = frame.first().copied().unwrap_or_default();
        let mut reader = Reader::new(&frame, at);
        let qos = QoS::from_bits(first >> 1 & 3).ok_or(DecodeError::Malformed("QoS 3"))?;
        if qos == QoS::AtMostOnce && first & DUP != 0 {
            return Err(DecodeError::Protocol("DUP on a PUBLISH with QoS 0"));
        }
        let topic = reader.text()?;
        if wire::has_wildcard(topic) {
            return Err(DecodeError::Malformed("a topic name has wildcards"));
        }
        let topic_is_empty = topic.is_empty();
        let topic = Span::new(reader.position() - topic.len(), reader.position());
        let packet_id = if qos == QoS::AtMostOnce {
            None
        } else {
            Some(reader.packet_id()?)
        };

        let mut properties = Properties::new(&mut reader)?;
        let start = properties.position();
        let mut publish = Self {
            frame: Bytes::new(),
            packet_id,
            topic,
            properties: Span::default(),
            response_topic: None,
            correlation_data: None,
            content_type: None,
            message_expiry: None,
            topic_alias: None,
            payload_is_utf8: None,
            has_subscription_ids: false,
        };
        while let Some(id) = properties.id()? {
            let value = properties.value();
            let span = |field: &[u8], end| Some(Span::new(end - field.len(), end));
            match id {
                property::USER_PROPERTY => {
                    value.text()?;
                    value.text()?;
                }
                property::RESPONSE_TOPIC => {
                    let text = value.text()?;
                    property::check_response_topic(text)?;
                    publish.response_topic = span(text, value.position());
                }
                property::CONTENT_TYPE => {
                    let text = value.text()?;
                    publish.content_type = span(text, value.position());
                }
                property::CORRELATION_DATA => {
                    let data = value.binary()?;
                    publish.correlation_data = span(data, value.position());
                }
                _ => match property::read(id, value)? {
                    Property::PayloadFormat(utf8) => publish.payload_is_utf8 = Some(utf8),
                    Property::MessageExpiry(seconds) => publish.message_expiry = Some(seconds),
                    Property::TopicAlias(alias) => publish.topic_alias = Some(alias),
                    Property::SubscriptionId(_) => publish.has_subscription_ids = true,
                    _ => return Err(property::NOT_ALLOWED),
                },
            }
        }
        publish.properties = Span::new(start, properties.position());
        if topic_is_empty && publish.topic_alias.is_none() {
            return Err(DecodeError::Protocol(
                "a PUBLISH has neither topic nor topic alias",
            ));
        }
        publish.frame = frame;
        Ok(publish)
    }

    /// Whether the sender says that it may have sent this before.
    pub fn dup(&self) -> bool {
        self.flags() & DUP != 0
    }
    /// The quality of service.
    pub fn qos(&self) -> QoS {
        QoS::from_bits(self.flags() >> 1 & 3).unwrap_or_default()
    }
    /// Whether it is, or is to become, a retained message.
    pub fn retain(&self) -> bool {
        self.flags() & RETAIN != 0
    }
    /// The packet identifier; `None` with QoS 0.
    pub fn packet_id(&self) -> Option<PacketId> {
        self.packet_id
    }
    /// The topic name; empty if a topic alias stands for it.
    pub fn topic(&self) -> &str {
        self.text(self.topic)
    }
    /// The bytes of the topic name.
    pub fn topic_bytes(&self) -> &[u8] {
        self.topic.of(&self.frame)
    }
    /// The payload, a slice of the receive buffer that keeps the whole buffer alive.
    pub fn payload(&self) -> Bytes {
        self.frame.slice(self.payload_start()..)
    }
    /// The payload, borrowed.
    pub fn payload_bytes(&self) -> &[u8] {
        self.frame.get(self.payload_start()..).unwrap_or_default()
    }
    /// Where the receiver is to send a response.
    pub fn response_topic(&self) -> Option<&str> {
        self.response_topic.map(|span| self.text(span))
    }
    /// What a response must carry to be matched with this request.
    pub fn correlation_data(&self) -> Option<&[u8]> {
        self.correlation_data.map(|span| span.of(&self.frame))
    }
    /// The MIME type of the payload.
    pub fn content_type(&self) -> Option<&str> {
        self.content_type.map(|span| self.text(span))
    }
    /// For how many seconds the message is valid.
    pub fn message_expiry(&self) -> Option<u32> {
        self.message_expiry
    }
    /// The topic alias, not 0.
    pub fn topic_alias(&self) -> Option<u16> {
        self.topic_alias
    }
    /// The payload format indicator: whether the payload is UTF-8 text, if the sender says so or not so.
    pub fn payload_is_utf8(&self) -> Option<bool> {
        self.payload_is_utf8
    }
    /// The user properties, in their order.
    pub fn user_properties(&self) -> impl Iterator<Item = (&str, &str)> {
        // They were found to be UTF-8 when the packet was decoded.
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        self.user_property_bytes()
            .map(move |(name, value)| (text(name), text(value)))
    }
    /// The UTF-8 of the user properties, in their order: quicker than as strings.
    pub fn user_property_bytes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut reader = self.property_reader();
        std::iter::from_fn(move || {
            loop {
                match reader.u8().ok()? {
                    property::USER_PROPERTY => {
                        return Some((reader.binary().ok()?, reader.binary().ok()?));
                    }
                    property::CONTENT_TYPE
                    | property::RESPONSE_TOPIC
                    | property::CORRELATION_DATA => {
                        reader.binary().ok()?;
                    }
                    id => {
                        property::read(id, &mut reader).ok()?;
                    }
                }
            }
        })
    }
    /// The identifiers of the subscriptions that match.
    pub fn subscription_identifiers(&self) -> impl Iterator<Item = u32> {
        self.properties().filter_map(|property| match property {
            Property::SubscriptionId(id) => Some(id),
            _ => None,
        })
    }
    /// Whether there are [`subscription_identifiers`](Self::subscription_identifiers).
    pub fn has_subscription_identifiers(&self) -> bool {
        self.has_subscription_ids
    }
    /// Bytes of the whole packet.
    pub fn packet_bytes(&self) -> usize {
        self.frame.len()
    }

    fn flags(&self) -> u8 {
        self.frame.first().copied().unwrap_or_default()
    }
    fn payload_start(&self) -> usize {
        self.properties.end as usize
    }
    /// A span that was found to be UTF-8 when the packet was decoded.
    fn text(&self, span: Span) -> &str {
        std::str::from_utf8(span.of(&self.frame)).unwrap_or_default()
    }
    fn property_reader(&self) -> Reader<'_> {
        Reader::new(
            &self.frame[..self.payload_start()],
            self.properties.start as usize,
        )
    }
    fn properties(&self) -> impl Iterator<Item = Property<'_>> {
        let mut reader = self.property_reader();
        std::iter::from_fn(move || {
            let id = reader.u8().ok()?;
            property::read(id, &mut reader).ok()
        })
    }
}

const DUP: u8 = 0b1000;
const RETAIN: u8 = 0b0001;

/// Everything of a PUBLISH but its payload, borrowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct PublishHeader<'a> {
    /// The topic name; empty if the topic alias stands for it.
    pub topic: &'a str,
    /// QoS 1 with this packet identifier, or QoS 0.
    pub packet_id: Option<PacketId>,
    /// May have been sent before.
    pub dup: bool,
    /// Retained.
    pub retain: bool,
    /// The topic alias, not 0.
    pub topic_alias: Option<u16>,
    /// Seconds for which the message is valid.
    pub message_expiry: Option<u32>,
    /// The payload format indicator: whether the payload is UTF-8 text, if it is to be said.
    pub payload_is_utf8: Option<bool>,
    /// The MIME type of the payload.
    pub content_type: Option<&'a str>,
    /// Where to send a response.
    pub response_topic: Option<&'a str>,
    /// What the response is to carry.
    pub correlation_data: Option<&'a [u8]>,
    /// Subscriptions that match.
    pub subscription_identifiers: &'a [u32],
    /// Names and values.
    pub user_properties: &'a [(&'a str, &'a str)],
    /// Properties that were encoded before and go first. They may not repeat a property that may stand only once.
    pub encoded: Option<&'a EncodedProperties>,
}

/// Properties that are the same in many packets, encoded once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EncodedProperties(Bytes);

impl EncodedProperties {
    /// Encodes the properties of `header`; its other fields do not matter.
    pub fn new(header: &PublishHeader<'_>) -> Result<Self, EncodeError> {
        let mut out = BytesMut::new();
        header.put_properties(&mut out)?;
        Ok(Self(out.freeze()))
    }

    /// How many bytes they take.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PublishHeader<'_> {
    /// Appends the packet; `write_payload` appends exactly `payload_len` bytes.
    ///
    /// # Errors
    /// A field or the packet is too long, a name has a forbidden character, or the payload has another length than
    /// announced. `out` is then as it was.
    pub fn encode(
        &self,
        max_packet_bytes: u32,
        out: &mut BytesMut,
        payload_len: usize,
        write_payload: impl FnOnce(&mut BytesMut),
    ) -> Result<(), EncodeError> {
        let start = out.len();
        let result = self.try_encode(max_packet_bytes, out, payload_len, write_payload);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn try_encode(
        &self,
        max_packet_bytes: u32,
        out: &mut BytesMut,
        payload_len: usize,
        write_payload: impl FnOnce(&mut BytesMut),
    ) -> Result<(), EncodeError> {
        let properties_len = self.properties_len();
        let remaining = (2 + self.topic.len() + if self.packet_id.is_some() { 2 } else { 0 })
            .saturating_add(wire::varint_len(properties_len))
            .saturating_add(properties_len)
            .saturating_add(payload_len);
        wire::check_size(remaining, max_packet_bytes)?;
        if wire::has_wildcard(self.topic) {
            return Err(EncodeError::ForbiddenCharacter { what: "the topic" });
        }
        out.reserve(5 + remaining);
        out.put_u8(
            0x30 | if self.packet_id.is_some() { 0b0010 } else { 0 }
                | if self.dup { DUP } else { 0 }
                | if self.retain { RETAIN } else { 0 },
        );
        wire::put_varint(out, remaining);
        put_string(out, "the topic", self.topic)?;
        if let Some(id) = self.packet_id {
            out.put_u16(id.get());
        }
        wire::put_varint(out, properties_len);
        self.put_properties(out)?;
        let payload_start = out.len();
        write_payload(out);
        let written = out.len().saturating_sub(payload_start);
        if written == payload_len {
            Ok(())
        } else {
            Err(EncodeError::PayloadLength {
                announced: payload_len,
                written,
            })
        }
    }

    fn properties_len(&self) -> usize {
        let field = |len: Option<usize>| len.map_or(0, |len| 3 + len);
        let ids = self.subscription_identifiers.iter();
        let users = self.user_properties.iter();
        self.encoded.map_or(0, |encoded| encoded.0.len())
            + if self.payload_is_utf8.is_some() { 2 } else { 0 }
            + self.message_expiry.map_or(0, |_| 5)
            + self.topic_alias.map_or(0, |_| 3)
            + field(self.content_type.map(str::len))
            + field(self.response_topic.map(str::len))
            + field(self.correlation_data.map(<[u8]>::len))
            + ids
                .map(|id| 1 + wire::varint_len(*id as usize))
                .sum::<usize>()
            + users
                .map(|(name, value)| 5 + name.len() + value.len())
                .sum::<usize>()
    }

    fn put_properties(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        if let Some(encoded) = self.encoded {
            out.put_slice(&encoded.0);
        }
        if let Some(is_utf8) = self.payload_is_utf8 {
            out.put_slice(&[property::PAYLOAD_FORMAT, u8::from(is_utf8)]);
        }
        if let Some(seconds) = self.message_expiry {
            out.put_u8(property::MESSAGE_EXPIRY);
            out.put_u32(seconds);
        }
        if let Some(alias) = self.topic_alias {
            out.put_u8(property::TOPIC_ALIAS);
            out.put_u16(alias);
        }
        if let Some(text) = self.content_type {
            out.put_u8(property::CONTENT_TYPE);
            put_string(out, "the content type", text)?;
        }
        if let Some(topic) = self.response_topic {
            if wire::has_wildcard(topic) {
                return Err(EncodeError::ForbiddenCharacter {
                    what: "the response topic",
                });
            }
            out.put_u8(property::RESPONSE_TOPIC);
            put_string(out, "the response topic", topic)?;
        }
        if let Some(data) = self.correlation_data {
            out.put_u8(property::CORRELATION_DATA);
            put_binary(out, "the correlation data", data)?;
        }
        for id in self.subscription_identifiers {
            out.put_u8(property::SUBSCRIPTION_ID);
            wire::put_varint(out, *id as usize);
        }
        for (name, value) in self.user_properties {
            out.put_u8(property::USER_PROPERTY);
            put_string(out, "a user property's name", name)?;
            put_string(out, "a user property's value", value)?;
        }
        Ok(())
    }
}

/// Marks an encoded PUBLISH with QoS 1 as one that may have been sent before.
pub fn set_dup(packet: &mut [u8]) {
    if let Some(first) = packet.first_mut() {
        *first |= DUP;
    }
}
