//! Servers that do not speak MQTT 5.
use std::fmt;

/// The protocol of a server, detected from the first bytes that it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignProtocol {
    Tls,
    Http,
    /// MQTT 3.1 or 3.1.1.
    Mqtt3,
    Unknown,
}

impl ForeignProtocol {
    /// Number of bytes that distinguish the protocols.
    pub(super) const BYTES: usize = 5;

    /// Detects the protocol of bytes that are not an MQTT 5 packet.
    pub(super) fn detect(first: &[u8]) -> Self {
        match first {
            // An alert or a handshake, of any version from SSL 3 on.
            [0x15 | 0x16, 3, ..] => Self::Tls,
            [b'H', b'T', b'T', b'P', ..] => Self::Http,
            // A CONNACK without properties.
            [0x20, 2, ..] => Self::Mqtt3,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for ForeignProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => {
                "the server speaks TLS on this port, and not plain MQTT; use mqtts:// (or wss://), or another port"
            }
            Self::Http => {
                "an HTTP server is on this port, and no MQTT broker; use another port, or ws:// if the broker takes WebSocket there"
            }
            Self::Mqtt3 => "the broker speaks MQTT 3.1.1, and not MQTT 5; use a broker with MQTT 5",
            Self::Unknown => "the server does not speak MQTT 5 on this port",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ForeignProtocol;

    #[test]
    fn protocols_are_distinguished_by_their_first_bytes() {
        for (first, expected) in [
            (&b"\x15\x03\x01\0\x02"[..], ForeignProtocol::Tls),
            (b"\x15\x03\x03\0\x02", ForeignProtocol::Tls),
            (b"HTTP/", ForeignProtocol::Http),
            (b"\x20\x02\0\x01", ForeignProtocol::Mqtt3),
            (b"SSH-2", ForeignProtocol::Unknown),
            (b"\x20\x03\0\0\0", ForeignProtocol::Unknown),
            (b"", ForeignProtocol::Unknown),
        ] {
            assert_eq!(ForeignProtocol::detect(first), expected, "{first:?}");
        }
    }
}
