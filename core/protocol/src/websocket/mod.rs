//! WebSocket frames (RFC 6455, section 5) as far as MQTT needs them (MQTT 5, section 6), without sockets. Shared by client and server.
//!
//! The payloads of binary frames, one behind the other, are the byte stream: where frames and messages begin and end means nothing.
//! So what arrives can be handed on as it comes, and a frame takes no memory however long it is.
mod frame;
mod incoming;

pub use frame::{Header, Kind, Side, put};
pub use incoming::{Close, Incoming};
