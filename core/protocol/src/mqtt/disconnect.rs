//! DISCONNECT (MQTT 5, section 3.14).
use super::property::{self, NOT_ALLOWED, Properties, Property, PropertyWriter};
use super::wire::{self, Reader};
use super::{DecodeError, EncodeError, ReasonCode};
use bytes::{BufMut, BytesMut};

/// Ends the connection. User properties are checked and dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnect {
    /// Why.
    pub reason: ReasonCode,
    /// From a client: replaces the Session Expiry Interval of its CONNECT.
    pub session_expiry_s: Option<u32>,
    /// Text for people.
    pub reason_string: Option<String>,
    /// From a server: another one to use.
    pub server_reference: Option<String>,
}

impl Disconnect {
    /// Creates a DISCONNECT with this reason and no properties.
    pub fn new(reason: ReasonCode) -> Self {
        Self {
            reason,
            session_expiry_s: None,
            reason_string: None,
            server_reference: None,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut disconnect = Self::new(ReasonCode::SUCCESS);
        if reader.is_empty() {
            return Ok(disconnect);
        }
        disconnect.reason = ReasonCode(reader.u8()?);
        let mut properties = Properties::optional(reader)?;
        while let Some(property) = properties.next()? {
            match property {
                Property::SessionExpiry(seconds) => disconnect.session_expiry_s = Some(seconds),
                Property::ReasonString(text) => disconnect.reason_string = Some(text.to_owned()),
                Property::ServerReference(text) => {
                    disconnect.server_reference = Some(text.to_owned());
                }
                Property::User(..) => {}
                _ => return Err(NOT_ALLOWED),
            }
        }
        reader.expect_end()?;
        Ok(disconnect)
    }

    /// Appends the packet.
    pub fn encode(&self, max_packet_bytes: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut properties = PropertyWriter::default();
        if let Some(seconds) = self.session_expiry_s {
            properties.u32(property::SESSION_EXPIRY, seconds);
        }
        if let Some(text) = &self.reason_string {
            properties.string(property::REASON_STRING, "the reason string", text)?;
        }
        if let Some(text) = &self.server_reference {
            properties.string(property::SERVER_REFERENCE, "the server reference", text)?;
        }
        let mut body = BytesMut::with_capacity(16);
        if self.reason != ReasonCode::SUCCESS || !properties.is_empty() {
            body.put_u8(self.reason.0);
        }
        if !properties.is_empty() {
            properties.finish(&mut body)?;
        }
        wire::put_packet(out, 0xE0, &body, max_packet_bytes)
    }
}
