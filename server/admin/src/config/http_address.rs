//! The address of the HTTP port.
use statestored_listeners::parse_host_and_port;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Address of the HTTP port: `http://HOST:PORT`, or with `https` for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAddress {
    has_tls: bool,
    host: String,
    port: u16,
}

impl HttpAddress {
    /// Returns whether the scheme is `https`.
    pub fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// Returns the host, which is a name or an IP address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the host and the port, as in a URL.
    pub fn authority(&self) -> String {
        match self.host.parse() {
            Ok(IpAddr::V6(address)) => format!("[{address}]:{}", self.port),
            _ => format!("{}:{}", self.host, self.port),
        }
    }

    /// Returns whether the host is a name rather than an IP address.
    pub(crate) fn is_host_name(&self) -> bool {
        self.host.parse::<IpAddr>().is_err()
    }

    /// Returns the socket addresses.
    ///
    /// # Errors
    /// The name has no address, or cannot be looked up.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.has_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl FromStr for HttpAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str =
            "expected http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:9883";
        let (has_tls, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://").ok_or(FORM)?),
        };
        let (host, port) = parse_host_and_port(rest, FORM)?;
        Ok(Self {
            has_tls,
            host,
            port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_addresses_round_trip() {
        for text in [
            "http://127.0.0.1:9883",
            "http://[::1]:0",
            "http://localhost:80",
            "https://127.0.0.1:9883",
            "https://[::1]:443",
        ] {
            assert_eq!(text.parse::<HttpAddress>().unwrap().to_string(), text);
        }
        for text in [
            "https://127.0.0.1",
            "ftp://127.0.0.1:9883",
            "127.0.0.1:9883",
            "http://127.0.0.1",
            "http://:1",
            "http://a:65536",
            "http://::1:1",
            "http://a@b:1",
            "http://a:1/x",
        ] {
            assert!(text.parse::<HttpAddress>().is_err(), "{text}");
        }
    }
}
