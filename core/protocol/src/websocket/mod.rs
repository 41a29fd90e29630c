//! WebSocket frames (RFC 6455, section 5) as far as MQTT needs them (MQTT 5, section 6), without sockets. Shared by client and server.
//!
//! The concatenated payloads of binary frames are the byte stream; the boundaries of frames and messages have no meaning.
//! Received bytes can therefore be passed on at once, and a frame of any length takes no memory.
mod frame;
mod frame_decoder;

pub use frame::{Header, Opcode, Role, put_frame};
pub use frame_decoder::{CloseFrame, FrameDecoder};
