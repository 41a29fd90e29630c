//! Errors that end a whole server.
use statestored_listeners::{AnonymousExposure, ListenError};
use statestored_storage::StorageError;
use std::io;
use std::sync::Arc;

/// Reason why a server cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server cannot listen on an address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The server would serve a network without credentials.
    #[error(transparent)]
    AnonymousExposure(#[from] AnonymousExposure),
    /// The storage cannot be used.
    #[error("{0}")]
    Storage(Arc<StorageError>),
    /// The engine that stores the entries cannot be used.
    #[error(transparent)]
    Engine(Box<dyn std::error::Error + Send + Sync>),
    /// The runtime or its thread cannot be created.
    #[error("cannot start the server: {0}")]
    Runtime(io::Error),
    /// A task panicked, which is a bug. No write was acknowledged after that.
    #[error("the server has a bug and ended, to do no harm; the log has more")]
    Panicked,
}
