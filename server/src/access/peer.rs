//! Who is at the other end of a connection, as far as the connection itself says it.
use super::ClientCertificate;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Where it comes from. Whoever comes through a socket of the file system comes from this machine: 127.0.0.1.
    pub address: IpAddr,
    /// The certificate that it has shown in a TLS handshake, and whose key it has.
    pub certificate: Option<Arc<ClientCertificate>>,
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self {
            address: address.to_canonical(),
            certificate: None,
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        address.ip().into()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
