//! The beginning of a request's payload, from which verb and key are read when a request is to be shown.
use bytes::Bytes;

/// Number of payload bytes that each traced request keeps.
const INLINE_BYTES: usize = 96;
/// Number of payload bytes that a request keeps for a viewer.
const VIEWED_BYTES: usize = 8 * 1024;
/// Maximum number of bytes of a value that are shown.
const SHOWN_VALUE_BYTES: usize = 4 * 1024;

/// Names of the verbs on the wire, and in lower case.
const VERBS: [(&[u8], &str); 9] = [
    (b"SET", "set"),
    (b"GET", "get"),
    (b"MGET", "mget"),
    (b"DEL", "del"),
    (b"VDEL", "vdel"),
    (b"KEYNOTIFY", "keynotify"),
    (b"SCAN", "scan"),
    (b"TXN", "txn"),
    (b"CAPS", "caps"),
];

/// The first bytes of a payload.
#[derive(Debug, Clone)]
pub struct RequestHead {
    inline: [u8; INLINE_BYTES],
    /// More of it, for viewers.
    viewed: Option<Bytes>,
    payload_bytes: usize,
}

/// The contents of the beginning of a payload.
#[derive(Debug, PartialEq, Eq)]
pub struct ParsedHead<'a> {
    /// Verb in lower case; `invalid` if it is no request.
    pub verb: &'static str,
    /// First key or pattern, as much of it as was kept.
    pub key: Option<&'a [u8]>,
    /// Bytes of the value of a SET.
    pub value_bytes: Option<usize>,
    /// Value of a SET, as much of it as was kept.
    pub value: Option<&'a [u8]>,
}

impl RequestHead {
    /// Keeps the beginning of a payload, and more of it for viewers.
    #[inline]
    pub fn new(payload: &[u8], is_viewed: bool) -> Self {
        let mut inline = [0; INLINE_BYTES];
        let kept = payload.len().min(INLINE_BYTES);
        inline[..kept].copy_from_slice(&payload[..kept]);
        let viewed =
            is_viewed.then(|| Bytes::copy_from_slice(&payload[..payload.len().min(VIEWED_BYTES)]));
        Self {
            inline,
            viewed,
            payload_bytes: payload.len(),
        }
    }

    /// Returns a copy without what is kept for viewers.
    #[must_use]
    pub fn without_viewed(&self) -> Self {
        Self {
            viewed: None,
            ..self.clone()
        }
    }

    /// Reads the kept bytes.
    pub fn parse(&self) -> ParsedHead<'_> {
        match &self.viewed {
            Some(viewed) => parse(viewed),
            None => parse(&self.inline[..self.payload_bytes.min(INLINE_BYTES)]),
        }
    }
}

/// Reads the beginning of an array of bulk strings, which may be cut off anywhere.
pub fn parse(head: &[u8]) -> ParsedHead<'_> {
    let mut parsed = ParsedHead {
        verb: "invalid",
        key: None,
        value_bytes: None,
        value: None,
    };
    let Some((_, rest)) = number(head, b'*') else {
        return parsed;
    };
    let Some((_, verb, rest)) = string(rest) else {
        return parsed;
    };
    let Some(&(_, name)) = VERBS.iter().find(|(wire, _)| *wire == verb) else {
        return parsed;
    };
    parsed.verb = name;
    if matches!(name, "txn" | "caps") {
        return parsed;
    }
    if let Some((_, key, rest)) = string(rest) {
        parsed.key = Some(key);
        if let Some((bytes, value, _)) = string(rest).filter(|_| name == "set") {
            parsed.value_bytes = Some(bytes);
            parsed.value = Some(&value[..value.len().min(SHOWN_VALUE_BYTES)]);
        }
    }
    parsed
}

/// Returns the number of a line that begins with `kind`, and the bytes behind the line.
fn number(bytes: &[u8], kind: u8) -> Option<(usize, &[u8])> {
    let rest = bytes.strip_prefix(&[kind])?;
    let end = rest.iter().position(|&byte| byte == b'\r')?;
    let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((number, rest[end..].strip_prefix(b"\r\n")?))
}

/// Returns the length of a bulk string, its bytes as far as they are there, and the bytes behind it.
fn string(bytes: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let (length, rest) = number(bytes, b'$')?;
    let (string, rest) = rest.split_at(length.min(rest.len()));
    Some((
        length,
        string,
        rest.strip_prefix(b"\r\n").unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_key_and_value_are_read() {
        let payload = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
        let expected = ParsedHead {
            verb: "set",
            key: Some(b"key"),
            value_bytes: Some(5),
            value: Some(b"value"),
        };
        assert_eq!(parse(payload), expected);
        assert_eq!(RequestHead::new(payload, true).parse(), expected);
        let scan = parse(b"*2\r\n$4\r\nSCAN\r\n$1\r\n*\r\n");
        assert_eq!(
            (scan.verb, scan.key, scan.value),
            ("scan", Some(&b"*"[..]), None)
        );
        assert_eq!(parse(b"*4\r\n$3\r\nTXN\r\n$1\r\n1\r\n").key, None);
        for other in [
            &b""[..],
            b"*1\r\n",
            b"*1\r\n$9\r\nSE",
            b"GET key",
            b"*1\r\n$3\r\nPUT\r\n",
        ] {
            assert_eq!(parse(other).verb, "invalid", "{other:?}");
        }
    }

    #[test]
    fn a_payload_may_be_cut_off_anywhere() {
        let key = "k".repeat(200);
        let payload = format!("*3\r\n$3\r\nSET\r\n$200\r\n{key}\r\n$5\r\nvalue\r\n");
        for length in 0..payload.len() {
            parse(&payload.as_bytes()[..length]);
        }
        let head = RequestHead::new(payload.as_bytes(), false);
        let parsed = head.parse();
        assert_eq!(parsed.verb, "set");
        assert!(key.as_bytes().starts_with(parsed.key.unwrap()));
        assert_eq!(parsed.key.unwrap().len(), INLINE_BYTES - 19);
        assert_eq!(parsed.value_bytes, None);
    }
}
