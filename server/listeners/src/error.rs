//! Errors of listeners.
use std::io;

/// The error of a server that would serve a network without credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "every client that can reach {address} could read and write all keys, since no credentials are required: name users with \
     --users-file, require certificates with --tls-client-ca, listen on a loopback address, or allow it with \
     --allow-anonymous"
)]
pub struct AnonymousExposure {
    /// Address of the listener.
    pub address: String,
}

/// The error of a server that cannot listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}{}", hint(.source))]
pub struct ListenError {
    /// Address as configured.
    pub address: String,
    /// Error of the operating system.
    pub source: io::Error,
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
