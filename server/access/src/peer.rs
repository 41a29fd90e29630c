//! The other end of a connection, as far as the connection itself describes it.
use super::{ClientCertificate, LoginSource};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The client's address, which a trusted proxy may have passed on; 127.0.0.1 for a Unix socket.
    pub address: IpAddr,
    /// Port of the client at that address; 0 if it has none.
    pub port: u16,
    /// The address of the listener that accepted it, as `--listen` takes it; empty if none is known.
    pub listener: Arc<str>,
    /// The Unix socket, if it came through one.
    pub unix: Option<UnixPeer>,
    /// TLS of the connection, if it is encrypted.
    pub tls: Option<TlsParameters>,
    /// Certificate that the client presented in the TLS handshake, and whose key it holds.
    pub certificate: Option<Arc<ClientCertificate>>,
}

/// Parameters that a TLS handshake negotiated; empty where a name is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsParameters {
    /// Protocol version, such as `TLSv1_3`.
    pub version: &'static str,
    /// Cipher suite, such as `TLS13_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
}

/// The other end of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixPeer {
    /// Numeric id of the user of this machine, if the system gives it.
    pub user_id: Option<u32>,
}

impl Peer {
    /// Returns the source of the peer's logins.
    pub fn login_source(&self) -> LoginSource {
        match self.unix {
            Some(local) => LoginSource::LocalUser(local.user_id),
            None => LoginSource::Network(self.address.into()),
        }
    }
}

impl From<UnixPeer> for Peer {
    fn from(local: UnixPeer) -> Self {
        Self {
            unix: Some(local),
            ..IpAddr::from(Ipv4Addr::LOCALHOST).into()
        }
    }
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self {
            address: address.to_canonical(),
            port: 0,
            listener: Arc::default(),
            unix: None,
            tls: None,
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
