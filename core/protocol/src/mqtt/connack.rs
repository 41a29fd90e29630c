//! CONNACK (MQTT 5, section 3.2).
use super::property::{self, NOT_ALLOWED, Properties, Property, PropertyWriter};
use super::wire::{self, Reader};
use super::{DecodeError, EncodeError, Limits, QoS, ReasonCode};
use bytes::{BufMut, Bytes, BytesMut};

/// Answers a CONNECT. User properties are checked and dropped.
// Each flag is one of the packet's own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnAck {
    /// The server continues an existing session.
    pub session_present: bool,
    /// Success, or why not.
    pub reason: ReasonCode,
    /// Limits on the packets that the client sends.
    pub limits: Limits,
    /// Overrides the Session Expiry Interval of the CONNECT.
    pub session_expiry_s: Option<u32>,
    /// The highest quality of service that the server accepts.
    pub maximum_qos: QoS,
    /// Whether retained messages are supported.
    pub retain_available: bool,
    /// Whether subscriptions with wildcards are supported.
    pub wildcard_available: bool,
    /// Whether subscription identifiers are supported.
    pub subscription_ids_available: bool,
    /// Whether shared subscriptions are supported.
    pub shared_available: bool,
    /// The client identifier, if the server chose it.
    pub assigned_client_id: Option<String>,
    /// Overrides the keep-alive of the CONNECT.
    pub server_keep_alive_s: Option<u16>,
    /// Text for people.
    pub reason_string: Option<String>,
    /// Basis for response topics.
    pub response_information: Option<String>,
    /// Another server to use.
    pub server_reference: Option<String>,
    /// Enhanced authentication: method and data.
    pub authentication: Option<(String, Bytes)>,
}

impl ConnAck {
    /// Creates an answer with this reason and the default of every property.
    pub fn new(reason: ReasonCode) -> Self {
        Self {
            session_present: false,
            reason,
            limits: Limits::default(),
            session_expiry_s: None,
            maximum_qos: QoS::ExactlyOnce,
            retain_available: true,
            wildcard_available: true,
            subscription_ids_available: true,
            shared_available: true,
            assigned_client_id: None,
            server_keep_alive_s: None,
            reason_string: None,
            response_information: None,
            server_reference: None,
            authentication: None,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let flags = reader.u8()?;
        if flags > 1 {
            return Err(DecodeError::Malformed("reserved flags of CONNACK are set"));
        }
        let mut connack = Self::new(ReasonCode(reader.u8()?));
        connack.session_present = flags == 1;
        if connack.session_present && connack.reason != ReasonCode::SUCCESS {
            return Err(DecodeError::Protocol(
                "a failing CONNACK says that a session is present",
            ));
        }
        let mut method = None;
        let mut data = None;
        let mut properties = Properties::new(reader)?;
        while let Some(property) = properties.next()? {
            match property {
                Property::SessionExpiry(seconds) => connack.session_expiry_s = Some(seconds),
                Property::ReceiveMaximum(maximum) => connack.limits.receive_maximum = maximum,
                Property::MaximumPacketSize(size) => connack.limits.set_max_packet_bytes(size),
                Property::TopicAliasMaximum(maximum) => {
                    connack.limits.topic_alias_maximum = maximum;
                }
                Property::MaximumQos(0) => connack.maximum_qos = QoS::AtMostOnce,
                Property::MaximumQos(_) => connack.maximum_qos = QoS::AtLeastOnce,
                Property::RetainAvailable(yes) => connack.retain_available = yes,
                Property::WildcardAvailable(yes) => connack.wildcard_available = yes,
                Property::SubscriptionIdAvailable(yes) => connack.subscription_ids_available = yes,
                Property::SharedAvailable(yes) => connack.shared_available = yes,
                Property::AssignedClientId(id) => connack.assigned_client_id = Some(id.to_owned()),
                Property::ServerKeepAlive(seconds) => connack.server_keep_alive_s = Some(seconds),
                Property::ReasonString(text) => connack.reason_string = Some(text.to_owned()),
                Property::ResponseInformation(text) => {
                    connack.response_information = Some(text.to_owned());
                }
                Property::ServerReference(text) => connack.server_reference = Some(text.to_owned()),
                Property::AuthenticationMethod(text) => method = Some(text.to_owned()),
                Property::AuthenticationData(bytes) => data = Some(Bytes::copy_from_slice(bytes)),
                Property::User(..) => {}
                _ => return Err(NOT_ALLOWED),
            }
        }
        reader.expect_end()?;
        connack.authentication = method.map(|method| (method, data.unwrap_or_default()));
        Ok(connack)
    }

    /// Appends the packet.
    pub fn encode(&self, max_packet_bytes: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut properties = PropertyWriter::default();
        if let Some(seconds) = self.session_expiry_s {
            properties.u32(property::SESSION_EXPIRY, seconds);
        }
        self.limits.write(&mut properties);
        match self.maximum_qos {
            QoS::AtMostOnce => properties.boolean(property::MAXIMUM_QOS, false),
            QoS::AtLeastOnce => properties.boolean(property::MAXIMUM_QOS, true),
            QoS::ExactlyOnce => {}
        }
        for (id, available) in [
            (property::RETAIN_AVAILABLE, self.retain_available),
            (property::WILDCARD_AVAILABLE, self.wildcard_available),
            (
                property::SUBSCRIPTION_ID_AVAILABLE,
                self.subscription_ids_available,
            ),
            (property::SHARED_AVAILABLE, self.shared_available),
        ] {
            if !available {
                properties.boolean(id, false);
            }
        }
        if let Some(id) = &self.assigned_client_id {
            properties.string(property::ASSIGNED_CLIENT_ID, "the assigned client id", id)?;
        }
        if let Some(seconds) = self.server_keep_alive_s {
            properties.u16(property::SERVER_KEEP_ALIVE, seconds);
        }
        if let Some(text) = &self.reason_string {
            properties.string(property::REASON_STRING, "the reason string", text)?;
        }
        if let Some(text) = &self.response_information {
            properties.string(
                property::RESPONSE_INFORMATION,
                "the response information",
                text,
            )?;
        }
        if let Some(text) = &self.server_reference {
            properties.string(property::SERVER_REFERENCE, "the server reference", text)?;
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
        let mut body = BytesMut::with_capacity(64);
        body.put_u8(u8::from(self.session_present));
        body.put_u8(self.reason.0);
        properties.finish(&mut body)?;
        wire::put_packet(out, 0x20, &body, max_packet_bytes)
    }
}
