//! The address of a broker.
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// An address of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A host name or IP address, without brackets, and a port.
    Tcp { host: String, port: u16 },
    /// The path of a Unix domain socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// Checks that the client can connect to the address.
    pub(super) fn check(&self, tls: bool) -> Result<(), &'static str> {
        match self {
            Self::Tcp { host, .. } if host.is_empty() => Err("the host name is empty"),
            Self::Tcp { port: 0, .. } => Err("the port is 0"),
            Self::Unix(_) if !cfg!(unix) => Err("this system has no Unix domain sockets"),
            Self::Unix(_) if tls => Err("TLS over a Unix domain socket is not supported"),
            _ => Ok(()),
        }
    }

    /// Checks that the client can connect to the address over WebSocket. Host and path are copied into an HTTP request
    /// unchanged.
    pub(super) fn check_websocket(&self, path: &str) -> Result<(), &'static str> {
        let is_graphic = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        match self {
            _ if !cfg!(feature = "ws") => {
                Err("this program was built without WebSocket (the feature `ws`)")
            }
            Self::Unix(_) => Err("WebSocket over a Unix domain socket is not supported"),
            Self::Tcp { host, .. } if !is_graphic(host) => {
                Err("the host name has characters that cannot stand in an HTTP request")
            }
            _ if !path.starts_with('/') || !is_graphic(path) => Err(
                "the path does not begin with `/`, or has characters that are not percent-encoded",
            ),
            Self::Tcp { .. } => Ok(()),
        }
    }
}

/// Returns the host without the zone of a link-local address, which is valid only on this machine.
pub(crate) fn without_zone(host: &str) -> &str {
    match host.split_once('%') {
        Some((address, _)) if address.parse::<Ipv6Addr>().is_ok() => address,
        _ => host,
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}
