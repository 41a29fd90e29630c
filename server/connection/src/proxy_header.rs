//! The header of the PROXY protocol, versions 1 and 2: a proxy begins each connection with the address of its client
//! (<https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt>).
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// First bytes of version 1.
const V1_SIGNATURE: &[u8] = b"PROXY ";
/// Maximum length of version 1 in bytes, including the end of the line.
const V1_MAX_BYTES: usize = 107;

/// First bytes of version 2.
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 in front of the addresses.
const V2_FIXED_BYTES: usize = 16;

/// A PROXY protocol header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Length of the header in bytes.
    pub length: usize,
    /// The client's address and port; `None` if the proxy speaks for itself, as in a health check.
    pub source: Option<SocketAddr>,
}

/// Why bytes are not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// A trusted proxy sent none.
    #[error(
        "no PROXY protocol header comes from this trusted proxy: have it send one (HAProxy: send-proxy-v2), or leave the address out of \
         --trusted-proxy"
    )]
    Missing,
    /// Version 1 is malformed.
    #[error("malformed PROXY protocol header of version 1: {0}")]
    Text(&'static str),
    /// Version 2 is malformed.
    #[error("malformed PROXY protocol header of version 2: {0}")]
    Binary(&'static str),
}

impl From<ProxyHeaderError> for io::Error {
    fn from(error: ProxyHeaderError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Error text for a header from an address that is not trusted.
pub const UNTRUSTED: &str = "a PROXY protocol header from an address that is not a trusted proxy: name it with --trusted-proxy";

/// Returns whether a connection with these first bytes begins with a header.
pub fn is_header(input: &[u8]) -> bool {
    input.starts_with(V1_SIGNATURE) || input.starts_with(V2_SIGNATURE)
}

/// Decodes the header at the beginning of the input; `None` if more has to come.
///
/// # Errors
/// The input is not the beginning of a header.
pub fn decode(input: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let begins_like = |begin: &[u8]| input.iter().zip(begin).all(|(one, other)| one == other);
    if begins_like(V1_SIGNATURE) {
        decode_v1(input)
    } else if begins_like(V2_SIGNATURE) {
        decode_v2(input)
    } else {
        Err(ProxyHeaderError::Missing)
    }
}

/// Version 1: `PROXY TCP4 SOURCE DESTINATION PORT PORT`, the same with TCP6, or `PROXY UNKNOWN` and anything.
fn decode_v1(input: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let input = &input[..input.len().min(V1_MAX_BYTES)];
    let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else {
        return if input.len() < V1_MAX_BYTES {
            Ok(None)
        } else {
            Err(ProxyHeaderError::Text("the line is longer than 107 bytes"))
        };
    };
    let line = std::str::from_utf8(&input[V1_SIGNATURE.len().min(end)..end])
        .map_err(|_| ProxyHeaderError::Text("it is not ASCII"))?;
    let source = match line.split_once(' ') {
        _ if line == "UNKNOWN" || line.starts_with("UNKNOWN ") => None,
        Some(("TCP4", addresses)) => Some(parse_v1_source::<Ipv4Addr>(addresses)?),
        Some(("TCP6", addresses)) => Some(parse_v1_source::<Ipv6Addr>(addresses)?),
        _ => return Err(ProxyHeaderError::Text("expected TCP4, TCP6 or UNKNOWN")),
    };
    Ok(Some(ProxyHeader {
        length: end + 2,
        source,
    }))
}

/// `SOURCE DESTINATION PORT PORT`.
fn parse_v1_source<A: std::str::FromStr + Into<IpAddr>>(
    text: &str,
) -> Result<SocketAddr, ProxyHeaderError> {
    let address = |text: &str| {
        let address = text.parse::<A>();
        address.map_err(|_| ProxyHeaderError::Text("an address is not of its family"))
    };
    let port = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.parse::<u16>().ok().filter(|_| is_number);
        port.ok_or(ProxyHeaderError::Text("a port is not a number up to 65535"))
    };
    let mut parts = text.split(' ');
    let (Some(source), Some(destination), Some(source_port), Some(destination_port), None) = (
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
    ) else {
        return Err(ProxyHeaderError::Text(
            "expected two addresses and two ports",
        ));
    };
    address(destination)?;
    port(destination_port)?;
    Ok(SocketAddr::new(address(source)?.into(), port(source_port)?))
}

const LENGTH_TOO_SHORT: ProxyHeaderError =
    ProxyHeaderError::Binary("its length is less than that of its addresses");

/// Version 2: signature, version and command, family and protocol, length, addresses, further fields.
fn decode_v2(input: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let is_proxied = match input.get(V2_SIGNATURE.len()) {
        None => return Ok(None),
        Some(0x20) => false,
        Some(0x21) => true,
        Some(first) if first >> 4 != 2 => {
            return Err(ProxyHeaderError::Binary("its version is not 2"));
        }
        Some(_) => {
            return Err(ProxyHeaderError::Binary(
                "its command is neither LOCAL nor PROXY",
            ));
        }
    };
    let Some(&[family, high, low]) = input.get(V2_SIGNATURE.len() + 1..V2_FIXED_BYTES) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let Some(rest) = input.get(V2_FIXED_BYTES..V2_FIXED_BYTES + length) else {
        return Ok(None);
    };
    let source = match family {
        // The address is ignored if the proxy has opened the connection for itself.
        _ if !is_proxied => None,
        0x11 => {
            let (&[a, b, c, d, _, _, _, _, high, low, _, _], _) =
                rest.split_first_chunk().ok_or(LENGTH_TOO_SHORT)?;
            let port = u16::from_be_bytes([high, low]);
            Some(SocketAddr::from(([a, b, c, d], port)))
        }
        0x21 => {
            let (address, rest) = rest.split_first_chunk::<16>().ok_or(LENGTH_TOO_SHORT)?;
            let (_, rest) = rest.split_first_chunk::<16>().ok_or(LENGTH_TOO_SHORT)?;
            let (&[high, low, _, _], _) = rest.split_first_chunk().ok_or(LENGTH_TOO_SHORT)?;
            let port = u16::from_be_bytes([high, low]);
            Some(SocketAddr::from((*address, port)))
        }
        // Unspecified, or a Unix socket.
        0x00 | 0x31 => None,
        _ => {
            return Err(ProxyHeaderError::Binary(
                "its family and protocol are not TCP over IPv4 or IPv6",
            ));
        }
    };
    Ok(Some(ProxyHeader {
        length: V2_FIXED_BYTES + length,
        source,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers as `HAProxy` 2.6 sends them.
    const TEXT: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 51234 1883\r\n";
    const BINARY: &[u8] =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\xc8\x22\x07\x5b";

    /// A decoded input.
    #[derive(Debug, PartialEq)]
    enum DecodeOutcome {
        Incomplete,
        Local,
        Source(String),
    }

    fn source(input: &[u8]) -> Result<DecodeOutcome, String> {
        match decode(input) {
            Ok(None) => Ok(DecodeOutcome::Incomplete),
            Ok(Some(header)) => {
                assert_eq!(header.length, input.len());
                Ok(header.source.map_or(DecodeOutcome::Local, |it| {
                    DecodeOutcome::Source(it.to_string())
                }))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn binary(first: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [V2_SIGNATURE, &[first, family], &length, rest].concat()
    }

    #[test]
    fn complete_headers_of_both_versions_are_decoded() {
        for header in [TEXT, BINARY] {
            for length in 0..header.len() {
                assert_eq!(
                    source(&header[..length]),
                    Ok(DecodeOutcome::Incomplete),
                    "{length}"
                );
            }
            assert_eq!(
                source(header),
                Ok(DecodeOutcome::Source("192.0.2.7:51234".into()))
            );
            let more = [header, b"\x10\x0d\0\x04MQTT"].concat();
            assert_eq!(decode(&more).unwrap().unwrap().length, header.len());
        }
        let text = b"PROXY TCP6 2001:db8::7 2001:db8::1 51234 1883\r\n";
        assert_eq!(
            source(text),
            Ok(DecodeOutcome::Source("[2001:db8::7]:51234".into()))
        );
        let mut rest = [0; 36];
        rest[..16].copy_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        rest[32..34].copy_from_slice(&51234u16.to_be_bytes());
        let of_6 = binary(0x21, 0x21, &rest);
        assert_eq!(
            source(&of_6),
            Ok(DecodeOutcome::Source("[2001:db8::7]:51234".into()))
        );
        // Further fields.
        let with_fields = binary(
            0x21,
            0x11,
            &[&BINARY[16..], b"\x04\0\x03abc", &[0; 3000]].concat(),
        );
        assert_eq!(
            source(&with_fields),
            Ok(DecodeOutcome::Source("192.0.2.7:51234".into()))
        );
    }

    #[test]
    fn local_headers_have_no_source_address() {
        for header in [
            b"PROXY UNKNOWN\r\n".to_vec(),
            b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n".to_vec(),
            binary(0x20, 0x00, b""),
            binary(0x20, 0x11, &BINARY[16..]),
            binary(0x20, 0xFF, b""),
            binary(0x21, 0x00, b""),
            binary(0x21, 0x31, &[b'/'; 216]),
        ] {
            assert_eq!(source(&header), Ok(DecodeOutcome::Local), "{header:?}");
        }
    }

    #[test]
    fn invalid_headers_are_refused_with_the_reason() {
        for (input, reason) in [
            (b"\x10\x0d\0\x04MQTT".to_vec(), "no PROXY protocol header"),
            (b"PROXI".to_vec(), "no PROXY protocol header"),
            (b"\r\n\r\n\r\n".to_vec(), "no PROXY protocol header"),
            (
                b"PROXY TCP5 1.2.3.4 1.2.3.4 1 1\r\n".to_vec(),
                "TCP4, TCP6 or UNKNOWN",
            ),
            (b"PROXY \r\n".to_vec(), "TCP4, TCP6 or UNKNOWN"),
            (b"PROXY UNKNOWNS\r\n".to_vec(), "TCP4, TCP6 or UNKNOWN"),
            (b"PROXY TCP4 ::1 ::1 1 1\r\n".to_vec(), "not of its family"),
            (
                b"PROXY TCP6 1.2.3.4 1.2.3.4 1 1\r\n".to_vec(),
                "not of its family",
            ),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n".to_vec(), "a port"),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 1\r\n".to_vec(), "a port"),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n".to_vec(), "two ports"),
            (
                b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1 1\r\n".to_vec(),
                "two ports",
            ),
            (b"PROXY TCP4 1.2.3.4  1.2.3.4 1 1\r\n".to_vec(), "two ports"),
            (b"PROXY TCP4 \xFF\r\n".to_vec(), "ASCII"),
            ([&b"PROXY "[..], &[b'x'; 200]].concat(), "107 bytes"),
            (binary(0x11, 0x11, b""), "version is not 2"),
            (binary(0x22, 0x11, b""), "LOCAL nor PROXY"),
            (binary(0x21, 0x12, &BINARY[16..]), "TCP over IPv4"),
            (
                binary(0x21, 0x11, &BINARY[17..]),
                "less than that of its addresses",
            ),
            (
                binary(0x21, 0x21, &[0; 35]),
                "less than that of its addresses",
            ),
        ] {
            let error = source(&input).unwrap_err();
            assert!(error.contains(reason), "{input:?}: {error}");
        }
    }
}
