//! Addresses to listen on.
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

const FORM: &str = "expected tcp://HOST:PORT, such as tcp://127.0.0.1:1883, or the same with tls, ws or wss, or unix:///PATH";

/// Protocol of a network address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// MQTT over TCP.
    Tcp,
    /// MQTT over TLS.
    Tls,
    /// MQTT over WebSocket.
    Ws,
    /// MQTT over WebSocket over TLS.
    Wss,
}

impl Scheme {
    /// Returns whether connections are encrypted.
    pub fn has_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    pub(crate) fn has_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }

    /// Returns the scheme of an address to listen on.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// Returns the scheme of a URL for clients.
    pub(crate) fn client_scheme(self) -> &'static str {
        match self {
            Self::Tcp => "mqtt",
            Self::Tls => "mqtts",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }
}

/// An address to listen on: `tcp://HOST:PORT`, the same with `tls` (or `mqtts`), `ws` and `wss`, or `unix:///PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress(ListenTarget);

#[derive(Debug, Clone, PartialEq, Eq)]
enum ListenTarget {
    Network {
        scheme: Scheme,
        host: String,
        port: u16,
    },
    UnixSocket(PathBuf),
}

impl ListenAddress {
    /// Returns the loopback address with any free port.
    pub fn loopback_with_free_port() -> Self {
        Self(ListenTarget::Network {
            scheme: Scheme::Tcp,
            host: "127.0.0.1".into(),
            port: 0,
        })
    }

    /// Returns the loopback address with the default port.
    pub fn loopback_with_default_port() -> Self {
        Self(ListenTarget::Network {
            scheme: Scheme::Tcp,
            host: "127.0.0.1".into(),
            port: 1883,
        })
    }

    /// Returns the socket addresses; a name may have several, and a path has none.
    pub(crate) fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        match &self.0 {
            ListenTarget::Network { host, port, .. } => {
                Ok((host.as_str(), *port).to_socket_addrs()?.collect())
            }
            ListenTarget::UnixSocket(_) => Ok(Vec::new()),
        }
    }

    /// Returns whether the host is a name rather than an IP address.
    pub(crate) fn is_host_name(&self) -> bool {
        match &self.0 {
            ListenTarget::Network { host, .. } => host.parse::<IpAddr>().is_err(),
            ListenTarget::UnixSocket(_) => false,
        }
    }

    /// Returns the scheme of a network address; `None` for a path.
    pub fn scheme(&self) -> Option<Scheme> {
        match self.0 {
            ListenTarget::Network { scheme, .. } => Some(scheme),
            ListenTarget::UnixSocket(_) => None,
        }
    }

    /// Returns the path of a socket file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.0 {
            ListenTarget::UnixSocket(path) => Some(path),
            ListenTarget::Network { .. } => None,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ListenTarget::UnixSocket(path) => write!(f, "unix://{}", path.display()),
            ListenTarget::Network { scheme, host, port } if host.contains(':') => {
                write!(f, "{}://[{host}]:{port}", scheme.name())
            }
            ListenTarget::Network { scheme, host, port } => {
                write!(f, "{}://{host}:{port}", scheme.name())
            }
        }
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        let scheme = match scheme {
            "tcp" | "mqtt" => Scheme::Tcp,
            "tls" | "mqtts" => Scheme::Tls,
            "ws" => Scheme::Ws,
            "wss" => Scheme::Wss,
            "unix" if rest.starts_with('/') && !rest.ends_with('/') => {
                return Ok(Self(ListenTarget::UnixSocket(rest.into())));
            }
            "unix" => return Err("expected unix:///PATH with the absolute path of a socket"),
            _ => return Err(FORM),
        };
        let (host, port) = parse_host_and_port(rest, FORM)?;
        Ok(Self(ListenTarget::Network { scheme, host, port }))
    }
}

/// Parses `HOST:PORT`, with an IPv6 address in brackets and perhaps a final `/`. `form` is the error for other texts.
pub fn parse_host_and_port(text: &str, form: &'static str) -> Result<(String, u16), &'static str> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, port) = text.rsplit_once(':').ok_or(form)?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    if host.is_empty() || (bare.is_none() && host.contains(['[', ']', ':', '/', '@'])) {
        return Err(form);
    }
    let port = port
        .parse()
        .map_err(|_| "the port is a number from 0 to 65535")?;
    Ok((bare.unwrap_or(host).into(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_round_trip() {
        for text in [
            "tcp://127.0.0.1:1883",
            "tcp://[::1]:0",
            "tcp://localhost:80",
            "tls://0.0.0.0:8883",
            "ws://localhost:8080",
            "wss://[::]:443",
            "unix:///run/store.sock",
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for (alias, meant) in [("mqtts://a:1", "tls://a:1"), ("mqtt://a:1", "tcp://a:1")] {
            assert_eq!(alias.parse::<ListenAddress>().unwrap().to_string(), meant);
        }
        for text in [
            "127.0.0.1:1883",
            "tcp://127.0.0.1",
            "tcp://:1",
            "tcp://a:65536",
            "tcp://::1:1",
            "tcp://a@b:1",
            "http://a:1",
            "unix://relative",
            "unix:///run/",
            "unix://",
        ] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
