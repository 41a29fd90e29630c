//! The server of the state store protocol: listeners, service and storage in one process.
//!
//! [`RunningServer`] is a whole server inside another program; the binary `statestored` is the same with a command
//! line.
#![forbid(unsafe_code)]

pub mod access;
pub mod admin;
mod attached;
pub mod audit;
mod available_memory;
mod backup;
mod budget;
mod clock;
pub mod config;
mod connection;
mod control;
mod driver;
mod error;
mod heap;
mod histogram;
pub mod hub;
pub mod keyspace;
mod large_allocations;
mod listeners;
mod loading;
mod reading;
mod resident_memory;
mod running_config;
mod running_server;
mod runtime;
mod server;
pub mod service;
pub mod storage;
mod timers;
pub mod tools;
mod topic_filter;

pub use available_memory::available_memory;
pub use backup::Backup;
pub use control::{Control, ReloadError, Reloaded, SnapshotError, Stopped};
pub use error::ServerError;
pub use heap::Heap;
pub use listeners::{Listening, OpenDoor};
pub use running_server::RunningServer;
pub use runtime::single_threaded_runtime;
pub use server::Server;
