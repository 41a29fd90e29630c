//! MQTT 5 without input or output: the parts that a client's session and a server's connection share.
//!
//! [`decode`] returns the [`Packet`] at the front of the received bytes, and each packet type has an encoder.
//! [`session`] is a client's whole side of a connection. A server combines [`Window`], [`PacketIds`], [`alias`] and
//! [`keep_alive`].
//!
//! QoS 2 is not supported: its four acknowledgement packets are a protocol error. A PUBLISH with QoS 2 decodes, so that
//! a server can refuse it with the right reason code.

pub mod alias;
pub mod auth;
pub mod checked_topic;
pub mod connack;
pub mod connect;
pub mod disconnect;
pub mod encoded_properties;
pub mod error;
pub mod keep_alive;
pub mod limits;
mod outbox;
pub mod packet;
pub mod packet_id;
mod property;
pub mod puback;
pub mod publish;
mod publish_cache;
mod publish_properties;
pub mod reason;
pub mod session;
pub mod subscribe;
pub mod unsubscribe;
pub mod window;
mod wire;

pub use auth::Auth;
pub use checked_topic::{CheckedTopic, OwnedTopic};
pub use connack::ConnAck;
pub use connect::{Connect, Will};
pub use disconnect::Disconnect;
pub use encoded_properties::EncodedProperties;
pub use error::{DecodeError, EncodeError};
pub use limits::Limits;
pub use packet::{Decoder, Packet, announced_len, decode, encode_pingreq, encode_pingresp};
pub use packet_id::{PacketId, PacketIds};
pub use puback::PubAck;
pub use publish::{Publish, PublishHeader};
pub use publish_cache::CommonPrefix;
pub use reason::ReasonCode;
pub use subscribe::{SubAck, Subscribe, Subscription};
pub use unsubscribe::{UnsubAck, Unsubscribe};
pub use window::Window;

/// How often a message may arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0: at most once, not acknowledged.
    #[default]
    AtMostOnce = 0,
    /// QoS 1: at least once, acknowledged with PUBACK.
    AtLeastOnce = 1,
    /// QoS 2: exactly once. Decoded, never spoken.
    ExactlyOnce = 2,
}

impl QoS {
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}
