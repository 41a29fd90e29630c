//! The service side of the state store protocol: engine, storage and MQTT 5 front in one process.
//!
//! [`RunningServer`] is a whole server inside of another program; the binary `statestored` is the same with a
//! command line.
#![forbid(unsafe_code)]

mod available_memory;
pub mod config;
pub mod engine;
pub mod front;
mod listeners;
mod loading;
mod server;
pub mod storage;

pub use server::{RunningServer, Server, ServerError};
