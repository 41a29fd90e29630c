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
mod clock;
pub mod config;
mod connection;
mod driver;
mod error;
mod heap;
mod histogram;
pub mod hub;
pub mod keyspace;
mod keyspace_loader;
mod large_allocations;
mod listeners;
mod memory_budget;
mod read_tracker;
mod resident_memory;
mod running_config;
mod running_server;
mod runtime;
mod server;
mod server_handle;
pub mod service;
pub mod storage;
mod timer_queue;
pub mod tools;
mod topic_filter;

pub use available_memory::available_memory;
pub use backup::Backup;
pub use error::ServerError;
pub use heap::Heap;
pub use listeners::{AnonymousExposure, BoundAddress};
pub use running_server::RunningServer;
pub use runtime::single_threaded_runtime;
pub use server::Server;
pub use server_handle::{ReloadError, ReloadReport, ServerHandle, ServerStopped, SnapshotError};
