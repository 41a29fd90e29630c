//! Properties (MQTT 5, section 2.2.2): one reader for the property sections of all packets.
use super::wire::{self, Reader};
use super::{DecodeError, EncodeError};
use bytes::{BufMut, BytesMut};

pub(crate) const PAYLOAD_FORMAT: u8 = 1;
pub(crate) const MESSAGE_EXPIRY: u8 = 2;
pub(crate) const CONTENT_TYPE: u8 = 3;
pub(crate) const RESPONSE_TOPIC: u8 = 8;
pub(crate) const CORRELATION_DATA: u8 = 9;
pub(crate) const SUBSCRIPTION_ID: u8 = 11;
pub(crate) const SESSION_EXPIRY: u8 = 17;
pub(crate) const ASSIGNED_CLIENT_ID: u8 = 18;
pub(crate) const SERVER_KEEP_ALIVE: u8 = 19;
pub(crate) const AUTHENTICATION_METHOD: u8 = 21;
pub(crate) const AUTHENTICATION_DATA: u8 = 22;
pub(crate) const REQUEST_PROBLEM_INFORMATION: u8 = 23;
pub(crate) const WILL_DELAY: u8 = 24;
pub(crate) const REQUEST_RESPONSE_INFORMATION: u8 = 25;
pub(crate) const RESPONSE_INFORMATION: u8 = 26;
pub(crate) const SERVER_REFERENCE: u8 = 28;
pub(crate) const REASON_STRING: u8 = 31;
pub(crate) const RECEIVE_MAXIMUM: u8 = 33;
pub(crate) const TOPIC_ALIAS_MAXIMUM: u8 = 34;
pub(crate) const TOPIC_ALIAS: u8 = 35;
pub(crate) const MAXIMUM_QOS: u8 = 36;
pub(crate) const RETAIN_AVAILABLE: u8 = 37;
pub(crate) const USER_PROPERTY: u8 = 38;
pub(crate) const MAXIMUM_PACKET_SIZE: u8 = 39;
pub(crate) const WILDCARD_AVAILABLE: u8 = 40;
pub(crate) const SUBSCRIPTION_ID_AVAILABLE: u8 = 41;
pub(crate) const SHARED_AVAILABLE: u8 = 42;

/// A property with a validated value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Property<'a> {
    PayloadFormat(bool),
    MessageExpiry(u32),
    ContentType(&'a str),
    ResponseTopic(&'a str),
    CorrelationData(&'a [u8]),
    SubscriptionId(u32),
    SessionExpiry(u32),
    AssignedClientId(&'a str),
    ServerKeepAlive(u16),
    AuthenticationMethod(&'a str),
    AuthenticationData(&'a [u8]),
    RequestProblemInformation(bool),
    WillDelay(u32),
    RequestResponseInformation(bool),
    ResponseInformation(&'a str),
    ServerReference(&'a str),
    ReasonString(&'a str),
    ReceiveMaximum(u16),
    TopicAliasMaximum(u16),
    TopicAlias(u16),
    MaximumQos(u8),
    RetainAvailable(bool),
    User(&'a str, &'a str),
    MaximumPacketSize(u32),
    WildcardAvailable(bool),
    SubscriptionIdAvailable(bool),
    SharedAvailable(bool),
}

/// A property that the packet at hand may not carry.
pub(crate) const NOT_ALLOWED: DecodeError =
    DecodeError::Protocol("a property that this packet may not carry");

/// Reads a property section, its length included.
#[derive(Debug)]
pub(crate) struct Properties<'a> {
    reader: Reader<'a>,
    seen: SeenProperties,
}

/// The properties that occurred, among those that may occur only once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SeenProperties(u64);

impl SeenProperties {
    /// Records a property that may occur only once; returns whether this is its first occurrence.
    pub(crate) fn insert(&mut self, id: u8) -> bool {
        let is_first = self.0 & (1 << id) == 0;
        self.0 |= 1 << id;
        is_first
    }
}

impl<'a> Properties<'a> {
    pub(crate) fn new(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let len = reader.varint()?;
        Ok(Self {
            reader: reader.section(len as usize)?,
            seen: SeenProperties::default(),
        })
    }
    /// Reads the property section of a packet that may end before its property length (PUBACK, DISCONNECT, AUTH).
    pub(crate) fn optional(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if reader.is_empty() {
            return Ok(Self {
                reader: Reader::new(&[], 0),
                seen: SeenProperties::default(),
            });
        }
        Self::new(reader)
    }
    /// Continues a section, without its length, after the properties in `seen`.
    pub(crate) fn resume(reader: Reader<'a>, seen: SeenProperties) -> Self {
        Self { reader, seen }
    }
    pub(crate) fn seen(&self) -> SeenProperties {
        self.seen
    }
    /// Returns the offset of the next byte in the packet.
    pub(crate) fn position(&self) -> usize {
        self.reader.position()
    }
    /// Reads the next property. A second occurrence of a property that may occur only once is a protocol error.
    pub(crate) fn next(&mut self) -> Result<Option<Property<'a>>, DecodeError> {
        match self.id()? {
            Some(id) => read(id, &mut self.reader).map(Some),
            None => Ok(None),
        }
    }
    /// Returns the id of the next property, like [`next`](Self::next); the caller then reads its
    /// [`value`](Self::value).
    pub(crate) fn id(&mut self) -> Result<Option<u8>, DecodeError> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let id = self.reader.u8()?;
        if id > SHARED_AVAILABLE {
            return Err(DecodeError::Malformed("an unknown property"));
        }
        if !matches!(id, USER_PROPERTY | SUBSCRIPTION_ID) && !self.seen.insert(id) {
            return Err(DecodeError::Protocol("a property exists twice"));
        }
        Ok(Some(id))
    }
    pub(crate) fn value(&mut self) -> &mut Reader<'a> {
        &mut self.reader
    }
}

/// Reads the value of the property `id`.
pub(crate) fn read<'a>(id: u8, reader: &mut Reader<'a>) -> Result<Property<'a>, DecodeError> {
    Ok(match id {
        PAYLOAD_FORMAT => Property::PayloadFormat(boolean(reader)?),
        MESSAGE_EXPIRY => Property::MessageExpiry(reader.u32()?),
        CONTENT_TYPE => Property::ContentType(reader.string()?),
        RESPONSE_TOPIC => {
            let topic = reader.string()?;
            check_response_topic(topic.as_bytes())?;
            Property::ResponseTopic(topic)
        }
        CORRELATION_DATA => Property::CorrelationData(reader.binary()?),
        SUBSCRIPTION_ID => match reader.varint()? {
            0 => return Err(DecodeError::Protocol("a subscription identifier is zero")),
            id => Property::SubscriptionId(id),
        },
        SESSION_EXPIRY => Property::SessionExpiry(reader.u32()?),
        ASSIGNED_CLIENT_ID => Property::AssignedClientId(reader.string()?),
        SERVER_KEEP_ALIVE => Property::ServerKeepAlive(reader.u16()?),
        AUTHENTICATION_METHOD => Property::AuthenticationMethod(reader.string()?),
        AUTHENTICATION_DATA => Property::AuthenticationData(reader.binary()?),
        REQUEST_PROBLEM_INFORMATION => Property::RequestProblemInformation(boolean(reader)?),
        WILL_DELAY => Property::WillDelay(reader.u32()?),
        REQUEST_RESPONSE_INFORMATION => Property::RequestResponseInformation(boolean(reader)?),
        RESPONSE_INFORMATION => Property::ResponseInformation(reader.string()?),
        SERVER_REFERENCE => Property::ServerReference(reader.string()?),
        REASON_STRING => Property::ReasonString(reader.string()?),
        RECEIVE_MAXIMUM => match reader.u16()? {
            0 => return Err(DecodeError::Protocol("a Receive Maximum is zero")),
            maximum => Property::ReceiveMaximum(maximum),
        },
        TOPIC_ALIAS_MAXIMUM => Property::TopicAliasMaximum(reader.u16()?),
        TOPIC_ALIAS => match reader.u16()? {
            0 => return Err(DecodeError::TopicAlias),
            alias => Property::TopicAlias(alias),
        },
        MAXIMUM_QOS => Property::MaximumQos(u8::from(boolean(reader)?)),
        RETAIN_AVAILABLE => Property::RetainAvailable(boolean(reader)?),
        USER_PROPERTY => Property::User(reader.string()?, reader.string()?),
        MAXIMUM_PACKET_SIZE => match reader.u32()? {
            0 => return Err(DecodeError::Protocol("a Maximum Packet Size is zero")),
            size => Property::MaximumPacketSize(size),
        },
        WILDCARD_AVAILABLE => Property::WildcardAvailable(boolean(reader)?),
        SUBSCRIPTION_ID_AVAILABLE => Property::SubscriptionIdAvailable(boolean(reader)?),
        SHARED_AVAILABLE => Property::SharedAvailable(boolean(reader)?),
        _ => return Err(DecodeError::Malformed("an unknown property")),
    })
}

pub(crate) fn check_response_topic(topic: &[u8]) -> Result<(), DecodeError> {
    if topic.is_empty() || wire::has_wildcard(topic) {
        return Err(DecodeError::Protocol(
            "a response topic is empty or has wildcards",
        ));
    }
    Ok(())
}

fn boolean(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Protocol(
            "a property that is 0 or 1 has another value",
        )),
    }
}

/// Collects a property section for a packet that is not sent often.
#[derive(Debug, Default)]
pub(crate) struct PropertyWriter(BytesMut);

impl PropertyWriter {
    pub(crate) fn boolean(&mut self, id: u8, value: bool) {
        self.0.put_u8(id);
        self.0.put_u8(u8::from(value));
    }
    pub(crate) fn u16(&mut self, id: u8, value: u16) {
        self.0.put_u8(id);
        self.0.put_u16(value);
    }
    pub(crate) fn u32(&mut self, id: u8, value: u32) {
        self.0.put_u8(id);
        self.0.put_u32(value);
    }
    pub(crate) fn varint(&mut self, id: u8, value: u32) {
        self.0.put_u8(id);
        wire::put_varint(&mut self.0, value as usize);
    }
    pub(crate) fn string(
        &mut self,
        id: u8,
        what: &'static str,
        text: &str,
    ) -> Result<(), EncodeError> {
        self.0.put_u8(id);
        wire::put_string(&mut self.0, what, text)
    }
    pub(crate) fn binary(
        &mut self,
        id: u8,
        what: &'static str,
        data: &[u8],
    ) -> Result<(), EncodeError> {
        self.0.put_u8(id);
        wire::put_binary(&mut self.0, what, data)
    }
    pub(crate) fn user(&mut self, name: &str, value: &str) -> Result<(), EncodeError> {
        self.0.put_u8(USER_PROPERTY);
        wire::put_string(&mut self.0, "a user property's name", name)?;
        wire::put_string(&mut self.0, "a user property's value", value)
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Appends the section, its length first.
    pub(crate) fn finish(self, out: &mut BytesMut) -> Result<(), EncodeError> {
        if self.0.len() > wire::VARINT_MAX {
            return Err(EncodeError::FieldTooLong {
                what: "the properties",
                len: self.0.len(),
            });
        }
        wire::put_varint(out, self.0.len());
        out.put_slice(&self.0);
        Ok(())
    }
}
