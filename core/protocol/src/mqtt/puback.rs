//! PUBACK (MQTT 5, section 3.4).
use super::property::{NOT_ALLOWED, Properties, Property, PropertyWriter, REASON_STRING};
use super::wire::{self, Reader};
use super::{DecodeError, EncodeError, PacketId, ReasonCode};
use bytes::{BufMut, BytesMut};

/// Acknowledges a PUBLISH with QoS 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PubAck {
    /// Packet identifier of the PUBLISH.
    pub packet_id: PacketId,
    /// Whether the receiver took it.
    pub reason: ReasonCode,
    /// Text for people.
    pub reason_string: Option<Box<str>>,
}

impl PubAck {
    /// Size in bytes of a PUBACK that only reports success.
    pub(crate) const SUCCESS_BYTES: usize = 4;

    /// Creates a PUBACK that reports success.
    pub fn success(packet_id: PacketId) -> Self {
        Self {
            packet_id,
            reason: ReasonCode::SUCCESS,
            reason_string: None,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let packet_id = reader.packet_id()?;
        if reader.is_empty() {
            return Ok(Self::success(packet_id));
        }
        let reason = ReasonCode(reader.u8()?);
        let mut reason_string = None;
        let mut properties = Properties::optional(reader)?;
        while let Some(property) = properties.next()? {
            match property {
                Property::ReasonString(text) => reason_string = Some(text.into()),
                Property::User(..) => {}
                _ => return Err(NOT_ALLOWED),
            }
        }
        reader.expect_end()?;
        Ok(Self {
            packet_id,
            reason,
            reason_string,
        })
    }

    /// Appends the packet. The reason string is left out where it would exceed `max_packet_bytes`.
    pub fn encode(&self, max_packet_bytes: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let [high, low] = self.packet_id.get().to_be_bytes();
        if let Some(text) = &self.reason_string {
            let mut properties = PropertyWriter::default();
            properties.string(REASON_STRING, "the reason string", text)?;
            let mut body = BytesMut::with_capacity(text.len() + 16);
            body.put_slice(&[high, low, self.reason.0]);
            properties.finish(&mut body)?;
            if wire::check_size(body.len(), max_packet_bytes).is_ok() {
                return wire::put_packet(out, 0x40, &body, max_packet_bytes);
            }
        }
        if self.reason == ReasonCode::SUCCESS {
            wire::check_size(2, max_packet_bytes)?;
            out.put_slice(&[0x40, 2, high, low]);
        } else {
            wire::check_size(3, max_packet_bytes)?;
            out.put_slice(&[0x40, 3, high, low, self.reason.0]);
        }
        Ok(())
    }
}
