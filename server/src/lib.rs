#![forbid(unsafe_code)]
//! The service side of the state store protocol.

pub mod engine;
pub mod storage;
