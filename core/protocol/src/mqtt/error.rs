//! Why bytes are not a packet, and why a packet cannot be put into bytes.
use super::ReasonCode;

/// Why received bytes are not an acceptable packet. The connection must be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes cannot be parsed (MQTT 5, section 4.13.1, "Malformed Packet").
    #[error("malformed packet: {0}")]
    Malformed(&'static str),
    /// The bytes can be parsed but break a rule of the protocol ("Protocol Error").
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    /// The packet is larger than the receiver allows. Known from its first bytes.
    #[error("a packet of {size} bytes is larger than the allowed {max}")]
    TooLarge {
        /// Bytes of the whole packet, fixed header included.
        size: u64,
        /// Bytes allowed.
        max: u32,
    },
    /// A topic alias of 0.
    #[error("a topic alias is zero")]
    TopicAlias,
    /// A CONNECT of another protocol or version than MQTT 5.
    #[error("the client speaks version {0} of MQTT, not 5")]
    Version(u8),
}

impl DecodeError {
    /// Returns the reason code for the DISCONNECT (or CONNACK) that answers it.
    pub fn reason(&self) -> ReasonCode {
        match self {
            Self::Malformed(_) => ReasonCode::MALFORMED_PACKET,
            Self::Protocol(_) => ReasonCode::PROTOCOL_ERROR,
            Self::TooLarge { .. } => ReasonCode::PACKET_TOO_LARGE,
            Self::TopicAlias => ReasonCode::TOPIC_ALIAS_INVALID,
            Self::Version(_) => ReasonCode::UNSUPPORTED_PROTOCOL_VERSION,
        }
    }
}

/// Why a packet cannot be encoded. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A string or binary field is longer than MQTT can express.
    #[error("{what} has {len} bytes; MQTT allows 65535")]
    FieldTooLong {
        /// The field.
        what: &'static str,
        /// Length of the string in bytes.
        len: usize,
    },
    /// A string contains a character that MQTT forbids there.
    #[error("{what} contains a character that MQTT forbids there")]
    ForbiddenCharacter {
        /// The field.
        what: &'static str,
    },
    /// A subscription identifier is zero, or larger than MQTT can express.
    #[error("{0} is not a subscription identifier: they are from 1 to 268435455")]
    SubscriptionIdentifier(u32),
    /// The packet is larger than the receiver allows.
    #[error("a packet of {size} bytes is larger than the {max} that the receiver allows")]
    TooLarge {
        /// Bytes of the whole packet.
        size: usize,
        /// Bytes allowed.
        max: u32,
    },
    /// The session is not ready, or as many PUBLISHes are unacknowledged as may be.
    #[error("there is no room for another PUBLISH")]
    WindowFull,
    /// The payload writer wrote another number of bytes than it announced.
    #[error("a payload of {announced} bytes was announced and {written} were written")]
    PayloadLength {
        /// Bytes announced.
        announced: usize,
        /// Bytes written.
        written: usize,
    },
}
