//! UNSUBSCRIBE and UNSUBACK (MQTT 5, sections 3.10 and 3.11).
use super::property::{NOT_ALLOWED, Properties, Property, PropertyWriter};
use super::subscribe::{decode_reasons, encode_reasons};
use super::wire::{self, Reader, put_string};
use super::{DecodeError, EncodeError, PacketId, ReasonCode};
use bytes::{BufMut, BytesMut};

/// Ends subscriptions. User properties are checked and dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsubscribe {
    /// For the UNSUBACK.
    pub packet_id: PacketId,
    /// The filters; not empty.
    pub filters: Vec<String>,
}

impl Unsubscribe {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let packet_id = reader.packet_id()?;
        let mut properties = Properties::new(reader)?;
        while let Some(property) = properties.next()? {
            if !matches!(property, Property::User(..)) {
                return Err(NOT_ALLOWED);
            }
        }
        let mut filters = Vec::new();
        while !reader.is_empty() {
            filters.push(reader.string()?.to_owned());
        }
        if filters.is_empty() {
            return Err(DecodeError::Protocol(
                "an UNSUBSCRIBE without topic filters",
            ));
        }
        Ok(Self { packet_id, filters })
    }

    /// Appends the packet.
    pub fn encode(&self, max_packet_bytes: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut body = BytesMut::with_capacity(128);
        body.put_u16(self.packet_id.get());
        PropertyWriter::default().finish(&mut body)?;
        for filter in &self.filters {
            put_string(&mut body, "a topic filter", filter)?;
        }
        wire::put_packet(out, 0xA2, &body, max_packet_bytes)
    }
}

/// Answers an UNSUBSCRIBE, one reason for each filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsubAck {
    /// Packet identifier of the UNSUBSCRIBE.
    pub packet_id: PacketId,
    /// In the order of the filters.
    pub reasons: Vec<ReasonCode>,
    /// Text for people.
    pub reason_string: Option<String>,
}

impl UnsubAck {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (packet_id, reasons, reason_string) = decode_reasons(reader)?;
        Ok(Self {
            packet_id,
            reasons,
            reason_string,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, max_packet_bytes: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let text = self.reason_string.as_deref();
        encode_reasons(
            0xB0,
            self.packet_id,
            &self.reasons,
            text,
            max_packet_bytes,
            out,
        )
    }
}
