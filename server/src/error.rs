//! Errors that end a whole server.
use statestored_storage::StorageError;
use std::io;
use std::sync::Arc;

/// The error of a server that would serve a network without credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "every client that can reach {address} could read and write all keys, since no credentials are required: name users with \
     --users-file, require certificates with --tls-client-ca, listen on a loopback address, or allow it with \
     --allow-anonymous"
)]
pub struct AnonymousExposure {
    pub(crate) address: String,
}

/// Reason why a server cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {source}{}", hint(.source))]
    Listen {
        /// Address as configured.
        address: String,
        /// Error of the operating system.
        source: io::Error,
    },
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

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "; stop the other process, or choose another port with --listen"
        }
        io::ErrorKind::PermissionDenied => "; choose a port above 1023 with --listen",
        io::ErrorKind::AddrNotAvailable => "; choose an address of this machine with --listen",
        _ => "",
    }
}
