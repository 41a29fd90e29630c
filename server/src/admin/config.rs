//! Configuration of the HTTP port.
use super::Token;
use crate::config::{ConfigError, LogControl};
use clap::ValueEnum;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Address of the HTTP port: `http://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAddress {
    host: String,
    port: u16,
}

impl HttpAddress {
    /// Returns whether the host is a name rather than an IP address.
    pub(crate) fn is_host_name(&self) -> bool {
        self.host.parse::<IpAddr>().is_err()
    }

    /// Returns the socket addresses.
    pub(crate) fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse() {
            Ok(IpAddr::V6(address)) => write!(f, "http://[{address}]:{}", self.port),
            _ => write!(f, "http://{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for HttpAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "expected http://HOST:PORT, such as http://127.0.0.1:9883";
        if text.starts_with("https://") {
            return Err("the HTTP port has no TLS: use http://, and a proxy with TLS");
        }
        let rest = text.strip_prefix("http://").ok_or(FORM)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or(FORM)?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        if host.is_empty() || (bare.is_none() && host.contains(['[', ']', ':', '/', '@'])) {
            return Err(FORM);
        }
        let port = port
            .parse()
            .map_err(|_| "the port is a number from 0 to 65535")?;
        Ok(Self {
            host: bare.unwrap_or(host).into(),
            port,
        })
    }
}

/// The names of metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum MetricNames {
    /// Those of this server.
    #[default]
    Own,
    /// Those of the state store of Azure IoT Operations, for the metrics that it has.
    Deployed,
    /// Both.
    Both,
}

/// Configuration of the HTTP port.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    pub(crate) address: HttpAddress,
    pub(crate) token: Option<Token>,
    /// Names that `Host` may have, besides the address and `localhost`.
    pub hosts: Vec<String>,
    /// Naming scheme of the metrics.
    pub names: MetricNames,
    /// Value of the label `namespace` in metrics with the deployed store's names.
    pub namespace: String,
    /// Value of the label `backend_chain` in metrics with the deployed store's names.
    pub backend_chain: String,
    /// Filter of the log, if it can be changed over HTTP.
    pub log: Option<LogControl>,
}

impl AdminConfig {
    /// Creates the configuration. The token is needed for changes, and for all requests if the address is no loopback
    /// address.
    ///
    /// # Errors
    /// The address is no loopback address, or the name has no address, and there is no token.
    pub fn new(address: HttpAddress, token: Option<Token>) -> Result<Self, ConfigError> {
        if token.is_none() {
            let addresses = address
                .resolve()
                .map_err(|error| ConfigError::Options(format!("cannot use {address}: {error}")))?;
            if !addresses.iter().all(|address| address.ip().is_loopback()) {
                return Err(ConfigError::Options(format!(
                    "{address} can be reached by others: give a token with --http-token-file FILE, \
                     or use an address of this machine, such as http://127.0.0.1:9883"
                )));
            }
        }
        Ok(Self {
            address,
            token,
            hosts: Vec::new(),
            names: MetricNames::default(),
            namespace: "default".into(),
            backend_chain: "0".into(),
            log: None,
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
        ] {
            assert_eq!(text.parse::<HttpAddress>().unwrap().to_string(), text);
        }
        for text in [
            "https://127.0.0.1:9883",
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

    #[test]
    fn a_non_loopback_address_requires_a_token() {
        let config = |address: &str, token: Option<&str>| {
            let token = token.map(|text| Token::new(text).unwrap());
            AdminConfig::new(address.parse().unwrap(), token)
        };
        let open = config("http://0.0.0.0:0", None).unwrap_err().to_string();
        assert!(open.contains("--http-token-file"), "{open}");
        assert!(config("http://[::]:0", None).is_err());
        assert!(config("http://127.0.0.1:0", None).is_ok());
        assert!(config("http://[::1]:0", None).is_ok());
        assert!(config("http://0.0.0.0:0", Some("0123456789abcdef")).is_ok());
    }
}
