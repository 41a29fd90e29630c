//! The service side of the state store protocol.

pub mod engine;
pub mod storage;
