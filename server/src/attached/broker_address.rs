//! The address of a broker.
use std::fmt;
use std::str::FromStr;

const FORM: &str =
    "expected mqtt://HOST[:PORT] or mqtts://HOST[:PORT], such as mqtts://broker.example.org";

/// The address of a broker: `mqtt://HOST[:PORT]`, or `mqtts` for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    pub(super) has_tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

impl BrokerAddress {
    /// Returns whether the connection uses TLS.
    pub fn has_tls(&self) -> bool {
        self.has_tls
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.has_tls { "mqtts" } else { "mqtt" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for BrokerAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, place) = text.split_once("://").ok_or(FORM)?;
        let (has_tls, usual) = match scheme {
            "mqtt" => (false, 1883),
            "mqtts" => (true, 8883),
            _ => return Err(FORM),
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        // User names and passwords have options of their own, so that no list of processes shows a password.
        if place.contains(['@', '/', '?', '#', ' ']) {
            return Err(FORM);
        }
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or(FORM)?;
                (
                    host,
                    rest.strip_prefix(':').or((rest.is_empty()).then_some("")),
                )
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, Some("")),
            },
        };
        let port = match port.ok_or(FORM)? {
            "" if !place.ends_with(':') => usual,
            port => port.parse().ok().filter(|port| *port > 0).ok_or(FORM)?,
        };
        if host.is_empty() {
            return Err(FORM);
        }
        Ok(Self {
            has_tls,
            host: host.to_owned(),
            port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broker_addresses_round_trip() {
        for (text, shown) in [
            ("mqtt://broker", "mqtt://broker:1883"),
            ("mqtts://broker/", "mqtts://broker:8883"),
            ("mqtt://127.0.0.1:7", "mqtt://127.0.0.1:7"),
            ("mqtts://[::1]", "mqtts://[::1]:8883"),
            ("mqtts://[::1]:9", "mqtts://[::1]:9"),
        ] {
            let address: BrokerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
        }
        for text in [
            "broker:1883",
            "tcp://broker:1883",
            "mqtt://",
            "mqtt://:1883",
            "mqtt://broker:",
            "mqtt://broker:0",
            "mqtt://broker:70000",
            "mqtt://ann:secret@broker",
            "mqtt://broker/path",
            "mqtt://[::1",
            "mqtt://[::1]9",
        ] {
            assert_eq!(text.parse::<BrokerAddress>(), Err(FORM), "{text}");
        }
    }
}
