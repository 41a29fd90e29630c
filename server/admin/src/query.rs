//! The query string of a path, behind its `?`.
use bytes::Bytes;

/// The parameters. The first one of a name counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    pub(super) fn new(text: Option<&'a str>) -> Self {
        Self(text.unwrap_or_default())
    }

    /// Returns the bytes of a parameter; `None` if it is missing or badly encoded.
    pub(super) fn bytes(self, name: &str) -> Option<Bytes> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(its, _)| *its == name)?;
        decoded(value)
    }

    /// Returns a parameter that selects items by a text; an empty one selects all, like a missing one.
    pub(super) fn filter(self, name: &str) -> Option<String> {
        let bytes = self.bytes(name).filter(|bytes| !bytes.is_empty())?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns a parameter that is a number.
    pub(super) fn number(self, name: &str) -> Option<usize> {
        std::str::from_utf8(&self.bytes(name)?).ok()?.parse().ok()
    }
}

/// Decodes the form of `application/x-www-form-urlencoded`. The crate `form_urlencoded` returns text, with replacement characters for
/// what is not UTF-8, but keys are any bytes.
fn decoded(text: &str) -> Option<Bytes> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        rest = others;
        bytes.push(match first {
            b'%' => {
                let digits = rest.get(..2)?;
                rest = &rest[2..];
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?
            }
            b'+' => b' ',
            other => other,
        });
    }
    Some(bytes.into())
}

/// Encodes bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| {
        [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]))
    });
    digits.collect()
}

/// Decodes hexadecimal digits.
pub(super) fn from_hex(text: &str) -> Option<Bytes> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = text.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_bytes() {
        let query = Query::new(Some("a=%ff%00x+y&b=12&a=z&c=%4&d=%zz&e="));
        assert_eq!(query.bytes("a").unwrap(), b"\xff\0x y"[..]);
        assert_eq!(query.number("b"), Some(12));
        assert_eq!(query.bytes("e").unwrap(), ""[..]);
        assert_eq!(query.filter("e"), None);
        assert_eq!(query.filter("b").as_deref(), Some("12"));
        for absent in ["c", "d", "f"] {
            assert_eq!(query.bytes(absent), None, "{absent}");
        }
        assert_eq!(Query::new(None).number("b"), None);
    }

    #[test]
    fn hexadecimal_round_trips() {
        assert_eq!(hex(b"\x00\xfe9"), "00fe39");
        assert_eq!(from_hex("00FE39").unwrap(), b"\x00\xfe9"[..]);
        for bad in ["0", "0g", "+1", "é0"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
