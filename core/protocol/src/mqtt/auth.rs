//! AUTH (MQTT 5, section 3.15): enhanced authentication.
use super::property::{self, NOT_ALLOWED, Properties, Property, PropertyWriter};
use super::wire::{self, Reader};
use super::{DecodeError, EncodeError, ReasonCode};
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// A step of an enhanced authentication. User properties are checked and dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// Success, continue authentication, or re-authenticate.
    pub reason: ReasonCode,
    /// The authentication method.
    pub method: Option<String>,
    /// The authentication data.
    pub data: Option<Bytes>,
    /// Text for people.
    pub reason_string: Option<String>,
}

impl fmt::Debug for Auth {
    /// Omits the authentication data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("reason", &self.reason)
            .field("method", &self.method)
            .field("reason_string", &self.reason_string)
            .finish_non_exhaustive()
    }
}

impl Auth {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut auth = Self {
            reason: ReasonCode::SUCCESS,
            method: None,
            data: None,
            reason_string: None,
        };
        if reader.is_empty() {
            return Ok(auth);
        }
        auth.reason = ReasonCode(reader.u8()?);
        let mut properties = Properties::optional(reader)?;
        while let Some(property) = properties.next()? {
            match property {
                Property::AuthenticationMethod(text) => auth.method = Some(text.to_owned()),
                Property::AuthenticationData(data) => {
                    auth.data = Some(Bytes::copy_from_slice(data));
                }
                Property::ReasonString(text) => auth.reason_string = Some(text.to_owned()),
                Property::User(..) => {}
                _ => return Err(NOT_ALLOWED),
            }
        }
        reader.expect_end()?;
        Ok(auth)
    }

    /// Appends the packet.
    pub fn encode(&self, max_packet_bytes: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut properties = PropertyWriter::default();
        if let Some(method) = &self.method {
            properties.string(
                property::AUTHENTICATION_METHOD,
                "the authentication method",
                method,
            )?;
        }
        if let Some(data) = &self.data {
            properties.binary(
                property::AUTHENTICATION_DATA,
                "the authentication data",
                data,
            )?;
        }
        if let Some(text) = &self.reason_string {
            properties.string(property::REASON_STRING, "the reason string", text)?;
        }
        let mut body = BytesMut::with_capacity(16);
        if self.reason != ReasonCode::SUCCESS || !properties.is_empty() {
            body.put_u8(self.reason.0);
            properties.finish(&mut body)?;
        }
        wire::put_packet(out, 0xF0, &body, max_packet_bytes)
    }
}
