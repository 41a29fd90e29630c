//! The server of the state store protocol: listeners, service and storage in one process.
//!
//! [`RunningServer`] is a whole server inside another program, such as a test; the binary `statestored` is the same with a command
//! line. It ends when it is dropped.
//!
//! ```
//! use statestore::{Client, Settings};
//! use statestored::{RunningServer, config::Config};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = RunningServer::start(Config::in_memory())?;
//!     let client = Client::connect(Settings::from_url(&server.url())?).await?;
//!     client.set("greeting", "hello").await?;
//!     assert!(client.get("greeting").await?.is_some());
//!     client.close().await;
//!     Ok(())
//! }
//! ```
#![forbid(unsafe_code)]

mod attached;
mod available_memory;
mod client_certificates;
mod clock;
pub mod config;
mod driver;
mod error;
mod heap;
mod keyspace_loader;
mod liveness;
mod resident_memory;
mod running_config;
mod running_server;
mod server;
mod server_control;
mod server_handle;

pub use available_memory::available_memory;
pub use error::ServerError;
pub use heap::Heap;
pub use liveness::LivenessProbe;
pub use running_server::RunningServer;
pub use server::Server;
pub use server_handle::{ReloadError, ServerHandle};
pub use statestored_admin::{Backup, ReloadReport, ServerStopped, SnapshotError};
pub use statestored_link::single_threaded_runtime;
pub use statestored_listeners::{AnonymousExposure, BoundAddress};
pub use statestored_tools::{access_files, tools};

/// The configuration of the HTTP port for operators.
pub mod admin {
    pub use statestored_admin::{
        AdminConfig, AdminConfigError, HttpAddress, HttpTokens, MetricNames, Token,
    };
}

use statestored_tools::{config_error, engines, storage_config};
