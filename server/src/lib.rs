//! The service side of the state store protocol: listener, service and storage in one process.
//!
//! [`RunningServer`] is a whole server inside of another program; the binary `statestored` is the same with a
//! command line.
#![forbid(unsafe_code)]

pub mod access;
mod available_memory;
mod budget;
mod clock;
pub mod config;
mod connection;
mod control;
mod driver;
mod error;
pub mod hub;
pub mod keyspace;
mod listeners;
mod loading;
mod server;
pub mod service;
pub mod storage;
mod timers;

pub use control::{Control, ReloadError, Reloaded, SnapshotError, Stopped};
pub use error::ServerError;
pub use server::{RunningServer, Server};
