//! PUBLISH (MQTT 5, section 3.3): read in place, written in place.
use super::property::{self, Property};
use super::publish_cache::{CommonPrefix, PublishCache};
use super::publish_properties::{PublishProperties, Span};
use super::wire::{self, Reader, put_binary, put_string};
use super::{CheckedTopic, DecodeError, EncodeError, EncodedProperties, PacketId, QoS};
use bytes::{BufMut, Bytes, BytesMut};

/// A received PUBLISH: one slice of the receive buffer, checked as a whole, with the places of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    frame: Bytes,
    packet_id: Option<PacketId>,
    topic: Span,
    properties: Span,
    fields: PublishProperties,
}

impl Publish {
    /// Decodes `frame`, one whole packet whose variable header begins at `at`.
    pub(super) fn decode(
        frame: Bytes,
        at: usize,
        cache: &mut PublishCache,
    ) -> Result<(Self, CommonPrefix), DecodeError> {
        let first = frame.first().copied().unwrap_or_default();
        let mut reader = Reader::new(&frame, at);
        let qos = QoS::from_bits(first >> 1 & 3).ok_or(DecodeError::Malformed("QoS 3"))?;
        if qos == QoS::AtMostOnce && first & DUP != 0 {
            return Err(DecodeError::Protocol("DUP on a PUBLISH with QoS 0"));
        }
        let topic = reader.binary()?;
        if !topic.is_empty() && !cache.has_topic(topic) {
            wire::check_text(topic)?;
            if wire::has_wildcard(topic) {
                return Err(DecodeError::Malformed("a topic name has wildcards"));
            }
        }
        let topic_span = Span::new(reader.position() - topic.len(), reader.position());
        let packet_id = if qos == QoS::AtMostOnce {
            None
        } else {
            Some(reader.packet_id()?)
        };

        let len = reader.varint()? as usize;
        let section = reader.take(len)?;
        let properties = Span::new(reader.position() - len, reader.position());
        let (recognized, mut fields) = cache.match_prefix(section);
        fields.read(section, recognized.len as usize)?;
        if topic.is_empty() && fields.topic_alias.is_none() {
            return Err(DecodeError::Protocol(
                "a PUBLISH has neither topic nor topic alias",
            ));
        }
        if recognized.len == 0 {
            cache.offer(topic, section)?;
        }
        let publish = Self {
            topic: topic_span,
            packet_id,
            properties,
            fields,
            frame,
        };
        Ok((publish, recognized))
    }

    /// Returns the DUP flag: the sender may have sent this PUBLISH before.
    pub fn dup(&self) -> bool {
        self.flags() & DUP != 0
    }
    /// Returns the quality of service.
    pub fn qos(&self) -> QoS {
        QoS::from_bits(self.flags() >> 1 & 3).unwrap_or_default()
    }
    /// Returns whether it is, or is to become, a retained message.
    pub fn retain(&self) -> bool {
        self.flags() & RETAIN != 0
    }
    /// Returns the packet identifier; `None` with QoS 0.
    pub fn packet_id(&self) -> Option<PacketId> {
        self.packet_id
    }
    /// Returns the topic name; empty if the PUBLISH uses a topic alias.
    pub fn topic(&self) -> &str {
        std::str::from_utf8(self.topic_bytes()).unwrap_or_default()
    }
    /// Returns the bytes of the topic name.
    pub fn topic_bytes(&self) -> &[u8] {
        self.topic.slice(&self.frame)
    }
    /// Returns the payload, a slice of the receive buffer that keeps the whole buffer alive.
    pub fn payload(&self) -> Bytes {
        self.frame.slice(self.payload_start()..)
    }
    /// Returns the payload, borrowed.
    pub fn payload_bytes(&self) -> &[u8] {
        self.frame.get(self.payload_start()..).unwrap_or_default()
    }
    /// Returns the topic to which the receiver sends a response.
    pub fn response_topic(&self) -> Option<&str> {
        self.checked_response_topic().map(CheckedTopic::as_str)
    }
    /// Returns the checked response topic, ready for use.
    pub fn checked_response_topic(&self) -> Option<CheckedTopic<'_>> {
        let name = |span: Span| CheckedTopic::checked(span.slice(self.section()));
        self.fields.response_topic.map(name)
    }
    /// Returns the correlation data, which a response must repeat to match this request.
    pub fn correlation_data(&self) -> Option<&[u8]> {
        self.fields
            .correlation_data
            .map(|span| span.slice(self.section()))
    }
    /// Returns the MIME type of the payload.
    pub fn content_type(&self) -> Option<&str> {
        // As the topics, it was found to be UTF-8 when the packet was decoded.
        let text = |span: Span| std::str::from_utf8(span.slice(self.section())).unwrap_or_default();
        self.fields.content_type.map(text)
    }
    /// Returns for how many seconds the message is valid.
    pub fn message_expiry(&self) -> Option<u32> {
        self.fields.message_expiry
    }
    /// Returns the topic alias, not 0.
    pub fn topic_alias(&self) -> Option<u16> {
        self.fields.topic_alias
    }
    /// Returns the payload format indicator: whether the payload is UTF-8 text, if the sender states it.
    pub fn payload_is_utf8(&self) -> Option<bool> {
        self.fields.payload_is_utf8
    }
    /// Returns the user properties, in their order.
    pub fn user_properties(&self) -> impl Iterator<Item = (&str, &str)> {
        // The decoder has checked that they are UTF-8.
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        self.user_property_bytes()
            .map(move |(name, value)| (text(name), text(value)))
    }
    /// Returns the UTF-8 of the user properties, in their order: quicker than as strings.
    pub fn user_property_bytes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        user_properties(self.section())
    }
    /// Returns the user properties among the first `recognized` bytes, which end with a whole property, and those
    /// behind them.
    pub(crate) fn split_user_property_bytes(
        &self,
        recognized: CommonPrefix,
    ) -> [impl Iterator<Item = (&[u8], &[u8])>; 2] {
        let section = self.section();
        let (known, other) = section
            .split_at_checked(recognized.len as usize)
            .unwrap_or((&[], section));
        [known, other].map(user_properties)
    }
    /// Returns the identifiers of the subscriptions that match.
    pub fn subscription_identifiers(&self) -> impl Iterator<Item = u32> {
        self.properties().filter_map(|property| match property {
            Property::SubscriptionId(id) => Some(id),
            _ => None,
        })
    }
    /// Returns whether there are [`subscription_identifiers`](Self::subscription_identifiers).
    pub fn has_subscription_identifiers(&self) -> bool {
        self.fields.has_subscription_ids
    }
    /// Moves it into memory of its own: a slice of a receive buffer keeps the whole buffer.
    pub fn detach(&mut self) {
        self.frame = Bytes::copy_from_slice(&self.frame);
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
    /// Returns the properties.
    fn section(&self) -> &[u8] {
        self.properties.slice(&self.frame)
    }
    fn properties(&self) -> impl Iterator<Item = Property<'_>> {
        let mut reader = Reader::new(self.section(), 0);
        std::iter::from_fn(move || {
            let id = reader.u8().ok()?;
            property::read(id, &mut reader).ok()
        })
    }
}

/// Returns the user properties in a section that was checked.
#[inline]
fn user_properties(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = section;
    std::iter::from_fn(move || {
        loop {
            let (id, value) = rest.split_first()?;
            rest = match *id {
                property::USER_PROPERTY => {
                    let (name, value) = wire::split_binary(value)?;
                    let (value, others) = wire::split_binary(value)?;
                    rest = others;
                    return Some((name, value));
                }
                property::CONTENT_TYPE | property::RESPONSE_TOPIC | property::CORRELATION_DATA => {
                    wire::split_binary(value)?.1
                }
                property::MESSAGE_EXPIRY => value.get(4..)?,
                property::TOPIC_ALIAS => value.get(2..)?,
                property::PAYLOAD_FORMAT => value.get(1..)?,
                // A subscription identifier: nothing else is in a PUBLISH.
                _ => value.get(wire::varint(value).ok()??.1..)?,
            };
        }
    })
}

const DUP: u8 = 0b1000;
const RETAIN: u8 = 0b0001;

/// Everything of a PUBLISH but its payload, borrowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct PublishHeader<'a> {
    /// The topic name; empty if the PUBLISH uses the topic alias.
    pub topic: &'a str,
    /// The topic name, in the place of the one above.
    pub checked_topic: Option<CheckedTopic<'a>>,
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
    /// Payload format indicator: whether the payload is UTF-8 text; `None` omits the property.
    pub payload_is_utf8: Option<bool>,
    /// The MIME type of the payload.
    pub content_type: Option<&'a str>,
    /// Where to send a response.
    pub response_topic: Option<&'a str>,
    /// Correlation data for the response.
    pub correlation_data: Option<&'a [u8]>,
    /// Subscriptions that match.
    pub subscription_identifiers: &'a [u32],
    /// Names and values.
    pub user_properties: &'a [(&'a str, &'a str)],
    /// Properties that were encoded before and go first. They must not repeat a property that may occur only once.
    pub encoded: Option<&'a EncodedProperties>,
    /// Properties that were encoded before and go last.
    pub encoded_last: Option<&'a EncodedProperties>,
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
        let topic = self.checked_topic.map_or_else(
            || {
                wire::check_encodable("the topic", self.topic)?;
                if wire::has_wildcard(self.topic) {
                    return Err(EncodeError::ForbiddenCharacter { what: "the topic" });
                }
                Ok(self.topic.as_bytes())
            },
            |topic| Ok(topic.as_bytes()),
        )?;
        let header_len = (2 + topic.len() + if self.packet_id.is_some() { 2 } else { 0 })
            .saturating_add(wire::varint_len(properties_len))
            .saturating_add(properties_len);
        let remaining = header_len.saturating_add(payload_len);
        wire::check_size(remaining, max_packet_bytes)?;
        let start = out.len();
        let payload_start = start + 1 + wire::varint_len(remaining) + header_len;
        out.reserve(payload_start - start + payload_len);
        // Writing fields into existing memory is faster than appending them.
        out.resize(payload_start, 0);
        let mut header = &mut out[start..];
        header.put_u8(
            0x30 | if self.packet_id.is_some() { 0b0010 } else { 0 }
                | if self.dup { DUP } else { 0 }
                | if self.retain { RETAIN } else { 0 },
        );
        wire::put_varint(&mut header, remaining);
        put_binary(&mut header, "the topic", topic)?;
        if let Some(id) = self.packet_id {
            header.put_u16(id.get());
        }
        wire::put_varint(&mut header, properties_len);
        self.put_properties(&mut header)?;
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

    #[inline]
    fn properties_len(&self) -> usize {
        let field = |len: Option<usize>| len.map_or(0, |len| 3 + len);
        let ids = self.subscription_identifiers.iter();
        let users = self.user_properties.iter();
        self.encoded.map_or(0, EncodedProperties::len)
            + self.encoded_last.map_or(0, EncodedProperties::len)
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

    #[inline]
    fn put_properties(&self, out: &mut impl BufMut) -> Result<(), EncodeError> {
        if let Some(encoded) = self.encoded {
            out.put_slice(&encoded.bytes);
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
            if *id == 0 || *id as usize > wire::VARINT_MAX {
                return Err(EncodeError::SubscriptionIdentifier(*id));
            }
            out.put_u8(property::SUBSCRIPTION_ID);
            wire::put_varint(out, *id as usize);
        }
        for (name, value) in self.user_properties {
            out.put_u8(property::USER_PROPERTY);
            put_string(out, "a user property's name", name)?;
            put_string(out, "a user property's value", value)?;
        }
        if let Some(encoded) = self.encoded_last {
            out.put_slice(&encoded.bytes);
        }
        Ok(())
    }
}

impl EncodedProperties {
    /// Encodes the properties of `header`; its other fields do not matter.
    pub fn new(header: &PublishHeader<'_>) -> Result<Self, EncodeError> {
        let mut out = Vec::with_capacity(header.properties_len());
        header.put_properties(&mut out)?;
        let last_value = header.user_properties.last();
        let last_value = last_value.map_or(0, |(_, value)| 2 + value.len());
        Ok(Self {
            last_value: out.len() - last_value,
            bytes: out,
        })
    }
}

/// Marks an encoded PUBLISH with QoS 1 as one that may have been sent before.
pub fn set_dup(packet: &mut [u8]) {
    if let Some(first) = packet.first_mut() {
        *first |= DUP;
    }
}
