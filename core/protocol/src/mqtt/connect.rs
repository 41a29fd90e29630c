//! CONNECT (MQTT 5, section 3.1).
use super::property::{self, NOT_ALLOWED, Properties, Property, PropertyWriter};
use super::wire::{self, Reader, put_binary, put_string};
use super::{DecodeError, EncodeError, Limits, QoS};
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// Asks for a session. User properties are checked and dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Connect {
    /// The client identifier; empty asks the server for one.
    pub client_id: String,
    /// End an existing session first.
    pub clean_start: bool,
    /// Seconds after which silence is broken with a PINGREQ; 0 switches that off.
    pub keep_alive_s: u16,
    /// Seconds that the session outlives the connection; `u32::MAX` means that it never expires.
    pub session_expiry_s: u32,
    /// Limits on the packets that the server sends.
    pub limits: Limits,
    /// Whether the server may send response information.
    pub request_response_information: bool,
    /// Whether the server may send reason strings and user properties outside of PUBLISH, CONNACK and DISCONNECT.
    pub request_problem_information: bool,
    /// Enhanced authentication: method and data.
    pub authentication: Option<(String, Bytes)>,
    /// Published when the connection ends without a good DISCONNECT.
    pub will: Option<Will>,
    /// The user name.
    pub user_name: Option<String>,
    /// The password: any bytes.
    pub password: Option<Bytes>,
}

/// A message that the server publishes when the connection is lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Will {
    /// Topic of the will.
    pub topic: String,
    /// Payload of the will.
    pub payload: Bytes,
    /// Quality of service of the will.
    pub qos: QoS,
    /// Whether it is to be retained.
    pub retain: bool,
    /// Seconds between the loss of the connection and the will.
    pub delay_s: u32,
    /// Seconds for which the message is valid.
    pub message_expiry: Option<u32>,
    /// Payload format indicator: whether the payload is UTF-8 text; `None` omits the property.
    pub payload_is_utf8: Option<bool>,
    /// The MIME type of the payload.
    pub content_type: Option<String>,
    /// Where to send a response.
    pub response_topic: Option<String>,
    /// Correlation data for the response.
    pub correlation_data: Option<Bytes>,
    /// Names and values.
    pub user_properties: Vec<(String, String)>,
}

impl fmt::Debug for Connect {
    /// Omits the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("client_id", &self.client_id)
            .field("clean_start", &self.clean_start)
            .field("keep_alive_s", &self.keep_alive_s)
            .field("session_expiry_s", &self.session_expiry_s)
            .field("limits", &self.limits)
            .field(
                "authentication",
                &self.authentication.as_ref().map(|(method, _)| method),
            )
            .field("will", &self.will.is_some())
            .field("user_name", &self.user_name)
            .field("password", &self.password.is_some())
            .finish_non_exhaustive()
    }
}

impl Default for Connect {
    fn default() -> Self {
        Self {
            client_id: String::new(),
            clean_start: false,
            keep_alive_s: 0,
            session_expiry_s: 0,
            limits: Limits::default(),
            request_response_information: false,
            request_problem_information: true,
            authentication: None,
            will: None,
            user_name: None,
            password: None,
        }
    }
}

const CLEAN_START: u8 = 0x02;
const WILL: u8 = 0x04;
const WILL_RETAIN: u8 = 0x20;
const PASSWORD: u8 = 0x40;
const USER_NAME: u8 = 0x80;

impl Connect {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = reader.string()?;
        let version = reader.u8()?;
        match (name, version) {
            ("MQTT", 5) => {}
            ("MQTT" | "MQIsdp", other) => return Err(DecodeError::Version(other)),
            _ => return Err(DecodeError::Malformed("the protocol name is not MQTT")),
        }
        let flags = reader.u8()?;
        if flags & 1 != 0 {
            return Err(DecodeError::Malformed("a reserved flag of CONNECT is set"));
        }
        let mut connect = Self {
            clean_start: flags & CLEAN_START != 0,
            keep_alive_s: reader.u16()?,
            ..Self::default()
        };
        connect.decode_properties(&mut Properties::new(reader)?)?;
        reader.string()?.clone_into(&mut connect.client_id);
        connect.will = Will::decode(flags, reader)?;
        if flags & USER_NAME != 0 {
            connect.user_name = Some(reader.string()?.to_owned());
        }
        if flags & PASSWORD != 0 {
            connect.password = Some(Bytes::copy_from_slice(reader.binary()?));
        }
        reader.expect_end()?;
        Ok(connect)
    }

    fn decode_properties(&mut self, properties: &mut Properties<'_>) -> Result<(), DecodeError> {
        let mut method = None;
        let mut data = None;
        while let Some(property) = properties.next()? {
            match property {
                Property::SessionExpiry(seconds) => self.session_expiry_s = seconds,
                Property::ReceiveMaximum(maximum) => self.limits.receive_maximum = maximum,
                Property::MaximumPacketSize(size) => self.limits.set_max_packet_bytes(size),
                Property::TopicAliasMaximum(maximum) => self.limits.topic_alias_maximum = maximum,
                Property::RequestResponseInformation(yes) => {
                    self.request_response_information = yes;
                }
                Property::RequestProblemInformation(yes) => self.request_problem_information = yes,
                Property::AuthenticationMethod(text) => method = Some(text.to_owned()),
                Property::AuthenticationData(bytes) => data = Some(Bytes::copy_from_slice(bytes)),
                Property::User(..) => {}
                _ => return Err(NOT_ALLOWED),
            }
        }
        self.authentication = match (method, data) {
            (Some(method), data) => Some((method, data.unwrap_or_default())),
            (None, None) => None,
            (None, Some(_)) => {
                return Err(DecodeError::Protocol(
                    "authentication data without a method",
                ));
            }
        };
        Ok(())
    }

    /// Appends the packet.
    pub fn encode(&self, max_packet_bytes: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut body = BytesMut::with_capacity(256);
        put_string(&mut body, "the protocol name", "MQTT")?;
        body.put_u8(5);
        body.put_u8(self.flags());
        body.put_u16(self.keep_alive_s);
        self.properties()?.finish(&mut body)?;
        put_string(&mut body, "the client id", &self.client_id)?;
        if let Some(will) = &self.will {
            will.encode(&mut body)?;
        }
        if let Some(name) = &self.user_name {
            put_string(&mut body, "the user name", name)?;
        }
        if let Some(password) = &self.password {
            put_binary(&mut body, "the password", password)?;
        }
        wire::put_packet(out, 0x10, &body, max_packet_bytes)
    }

    fn flags(&self) -> u8 {
        let mut flags = 0;
        if self.clean_start {
            flags |= CLEAN_START;
        }
        if let Some(will) = &self.will {
            flags |= WILL | (will.qos as u8) << 3;
            if will.retain {
                flags |= WILL_RETAIN;
            }
        }
        if self.user_name.is_some() {
            flags |= USER_NAME;
        }
        if self.password.is_some() {
            flags |= PASSWORD;
        }
        flags
    }

    fn properties(&self) -> Result<PropertyWriter, EncodeError> {
        let mut properties = PropertyWriter::default();
        if self.session_expiry_s != 0 {
            properties.u32(property::SESSION_EXPIRY, self.session_expiry_s);
        }
        self.limits.write(&mut properties);
        if self.request_response_information {
            properties.boolean(property::REQUEST_RESPONSE_INFORMATION, true);
        }
        if !self.request_problem_information {
            properties.boolean(property::REQUEST_PROBLEM_INFORMATION, false);
        }
        if let Some((method, data)) = &self.authentication {
            properties.string(
                property::AUTHENTICATION_METHOD,
                "the authentication method",
                method,
            )?;
            properties.binary(
                property::AUTHENTICATION_DATA,
                "the authentication data",
                data,
            )?;
        }
        Ok(properties)
    }
}

impl Will {
    fn decode(flags: u8, reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let qos =
            QoS::from_bits(flags >> 3 & 3).ok_or(DecodeError::Malformed("a will with QoS 3"))?;
        let retain = flags & WILL_RETAIN != 0;
        if flags & WILL == 0 {
            if qos != QoS::AtMostOnce || retain {
                return Err(DecodeError::Malformed("flags of a will without a will"));
            }
            return Ok(None);
        }
        let mut will = Self {
            topic: String::new(),
            payload: Bytes::new(),
            qos,
            retain,
            delay_s: 0,
            message_expiry: None,
            payload_is_utf8: None,
            content_type: None,
            response_topic: None,
            correlation_data: None,
            user_properties: Vec::new(),
        };
        let mut properties = Properties::new(reader)?;
        while let Some(property) = properties.next()? {
            match property {
                Property::WillDelay(seconds) => will.delay_s = seconds,
                Property::PayloadFormat(utf8) => will.payload_is_utf8 = Some(utf8),
                Property::MessageExpiry(seconds) => will.message_expiry = Some(seconds),
                Property::ContentType(text) => will.content_type = Some(text.to_owned()),
                Property::ResponseTopic(topic) => will.response_topic = Some(topic.to_owned()),
                Property::CorrelationData(data) => {
                    will.correlation_data = Some(Bytes::copy_from_slice(data));
                }
                Property::User(name, value) => {
                    will.user_properties
                        .push((name.to_owned(), value.to_owned()));
                }
                _ => return Err(NOT_ALLOWED),
            }
        }
        reader.string()?.clone_into(&mut will.topic);
        if will.topic.is_empty() || wire::has_wildcard(&will.topic) {
            return Err(DecodeError::Malformed(
                "the topic of a will is empty or has wildcards",
            ));
        }
        will.payload = Bytes::copy_from_slice(reader.binary()?);
        Ok(Some(will))
    }

    fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut properties = PropertyWriter::default();
        if self.delay_s != 0 {
            properties.u32(property::WILL_DELAY, self.delay_s);
        }
        if let Some(is_utf8) = self.payload_is_utf8 {
            properties.boolean(property::PAYLOAD_FORMAT, is_utf8);
        }
        if let Some(seconds) = self.message_expiry {
            properties.u32(property::MESSAGE_EXPIRY, seconds);
        }
        if let Some(text) = &self.content_type {
            properties.string(property::CONTENT_TYPE, "the content type", text)?;
        }
        if let Some(topic) = &self.response_topic {
            properties.string(property::RESPONSE_TOPIC, "the response topic", topic)?;
        }
        if let Some(data) = &self.correlation_data {
            properties.binary(property::CORRELATION_DATA, "the correlation data", data)?;
        }
        for (name, value) in &self.user_properties {
            properties.user(name, value)?;
        }
        properties.finish(out)?;
        put_string(out, "the topic of the will", &self.topic)?;
        put_binary(out, "the payload of the will", &self.payload)
    }
}
