//! Limits that one end of a connection sets for the other.
use super::property::{self, PropertyWriter};

/// The limits that a CONNECT states for the server, or a CONNACK for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Receive Maximum: most PUBLISHes with QoS 1 that may be unacknowledged at a time; at least 1.
    pub receive_maximum: u16,
    /// Maximum Packet Size in bytes, the whole packet; at least 1. [`Limits::MAX_PACKET_BYTES`] if none is stated, or a larger
    /// one.
    pub max_packet_bytes: u32,
    /// Topic Alias Maximum: the highest alias that may be used; 0 allows none.
    pub topic_alias_maximum: u16,
}

impl Limits {
    /// The largest packet that MQTT can express: five bytes of fixed header and a remaining length of 268,435,455.
    pub const MAX_PACKET_BYTES: u32 = 268_435_460;

    /// Takes a Maximum Packet Size over. One that no packet can exceed is none.
    pub(crate) fn set_max_packet_bytes(&mut self, size: u32) {
        self.max_packet_bytes = size.min(Self::MAX_PACKET_BYTES);
    }

    /// Writes the limits that differ from their defaults.
    pub(crate) fn write(self, properties: &mut PropertyWriter) {
        if self.receive_maximum != u16::MAX {
            properties.u16(property::RECEIVE_MAXIMUM, self.receive_maximum);
        }
        if self.max_packet_bytes < Self::MAX_PACKET_BYTES {
            properties.u32(property::MAXIMUM_PACKET_SIZE, self.max_packet_bytes);
        }
        if self.topic_alias_maximum != 0 {
            properties.u16(property::TOPIC_ALIAS_MAXIMUM, self.topic_alias_maximum);
        }
    }
}

impl Default for Limits {
    /// Returns the limits of a peer that states none: Receive Maximum 65,535, packets of any size, no topic aliases.
    fn default() -> Self {
        Self {
            receive_maximum: u16::MAX,
            max_packet_bytes: Self::MAX_PACKET_BYTES,
            topic_alias_maximum: 0,
        }
    }
}
