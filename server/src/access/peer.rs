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
    /// Its port there; 0 if it has none.
    pub port: u16,
    /// The address of the listener that accepted it, as `--listen` takes it; empty if none is known.
    pub listener: Arc<str>,
    /// The certificate that it has shown in a TLS handshake, and whose key it has.
    pub certificate: Option<Arc<ClientCertificate>>,
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self {
            address: address.to_canonical(),
            port: 0,
            listener: Arc::default(),
            certificate: None,
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self {
            port: address.port(),
            ..address.ip().into()
        }
    }
}

/// `ADDRESS:PORT`, or the address alone if there is no port.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            0 => self.address.fmt(f),
            port => SocketAddr::new(self.address, port).fmt(f),
        }
    }
}
