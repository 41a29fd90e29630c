//! RESP3 framing: the only place that counts lengths.
//!
//! The state store uses four of RESP3's forms: arrays (`*2\r\n…`), bulk strings (`$3\r\nabc\r\n`), simple strings
//! (`+OK\r\n`) and numbers (`:1\r\n`). The [`Decoder`] hands out slices of the payload it reads, so nothing is copied;
//! a length is compared with the bytes that are really there before anything is made from it.
//!
//! Lengths are decimal numbers without sign. Leading zeros are accepted, as RESP3's grammar does. `$-1` is the one negative
//! length of the protocol: a bulk string that is not there.
use super::decimal::{self, DecimalText};
use bytes::{BufMut, Bytes, BytesMut};

/// Terminator of each line and each bulk string.
pub const CRLF: &[u8] = b"\r\n";

/// A bulk string that is not there.
pub(super) const NIL: &[u8] = b"$-1\r\n";

/// The shortest element of an array is an empty array, `*0\r\n`.
const MIN_ELEMENT_LEN: usize = 4;

/// Why bytes are not RESP3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason())]
#[non_exhaustive]
pub enum RespError {
    /// The bytes end before the value does, or a length exceeds the remaining bytes.
    Truncated,
    /// Another type marker was expected here.
    Type,
    /// A length or number is empty, signed, not decimal, or does not fit 64 bits.
    Number,
    /// A line or a bulk string does not end in CRLF.
    Terminator,
    /// Bytes follow the complete value.
    Trailing,
}

impl RespError {
    /// Returns the reason as one clause.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "a length exceeds the bytes that follow it",
            Self::Type => "a type marker is not the expected one",
            Self::Number => {
                "a length or number is not an unsigned decimal number that fits 64 bits"
            }
            Self::Terminator => "CRLF is missing where a line or a bulk string ends",
            Self::Trailing => "bytes follow the complete value",
        }
    }
}

/// Reads RESP3 values from a payload, front to back.
///
/// ```
/// use bytes::Bytes;
/// use statestore_protocol::resp::Decoder;
///
/// let payload = Bytes::from_static(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
/// let mut decoder = Decoder::new(&payload);
/// assert_eq!(decoder.array()?, 2);
/// assert_eq!(decoder.bulk()?, b"GET");
/// assert_eq!(decoder.bulk_bytes()?, Bytes::from_static(b"key"));
/// decoder.finish()?;
/// # Ok::<(), statestore_protocol::resp::RespError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Decoder<'a> {
    payload: &'a Bytes,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte.
    pub fn new(payload: &'a Bytes) -> Self {
        Self {
            payload,
            rest: payload,
        }
    }

    /// Reads an array's header and returns how many elements follow.
    ///
    /// A count that the remaining bytes cannot hold is refused here, so a caller may reserve room for that many.
    pub fn array(&mut self) -> Result<usize, RespError> {
        let count = self.number(b'*')?;
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() / MIN_ELEMENT_LEN => Ok(count),
            _ => Err(RespError::Truncated),
        }
    }

    /// Reads a bulk string, borrowed from the payload.
    pub fn bulk(&mut self) -> Result<&'a [u8], RespError> {
        let value = self.bulk_body()?;
        self.crlf()?;
        Ok(value)
    }

    /// Reads a bulk string or `$-1`, which is none.
    pub fn bulk_or_nil(&mut self) -> Result<Option<&'a [u8]>, RespError> {
        if self.skip(NIL) {
            Ok(None)
        } else {
            self.bulk().map(Some)
        }
    }

    /// Returns the first remaining byte.
    pub(super) fn marker(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Returns the remaining bytes.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Skips these bytes if they come next; returns whether they did.
    pub(super) fn skip(&mut self, bytes: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(bytes);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Reads a bulk string as a slice that shares the payload's memory.
    pub fn bulk_bytes(&mut self) -> Result<Bytes, RespError> {
        self.bulk().map(|value| self.payload.slice_ref(value))
    }

    /// Reads a bulk string that is the last value of the payload and may lack its CRLF.
    pub fn last_bulk_bytes(mut self) -> Result<Bytes, RespError> {
        let value = self.bulk_body()?;
        if !self.rest.is_empty() {
            self.crlf()?;
        }
        let value = self.payload.slice_ref(value);
        self.finish()?;
        Ok(value)
    }

    /// Reads a number that is not negative, `:<n>`.
    pub fn integer(&mut self) -> Result<u64, RespError> {
        self.number(b':')
    }

    /// Checks that nothing is left.
    pub fn finish(self) -> Result<(), RespError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(RespError::Trailing)
        }
    }

    /// Reads a bulk string without the CRLF behind it.
    fn bulk_body(&mut self) -> Result<&'a [u8], RespError> {
        let len = usize::try_from(self.number(b'$')?).map_err(|_| RespError::Truncated)?;
        let (value, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(RespError::Truncated)?;
        self.rest = rest;
        Ok(value)
    }

    /// Reads a marker, digits and CRLF.
    fn number(&mut self, marker: u8) -> Result<u64, RespError> {
        let (&first, line) = self.rest.split_first().ok_or(RespError::Truncated)?;
        if first != marker {
            return Err(RespError::Type);
        }
        let mut value = 0_u64;
        let mut len = 0;
        while let Some(digit) = line.get(len).and_then(|byte| decimal::digit(*byte)) {
            value = value.wrapping_mul(10).wrapping_add(digit);
            len += 1;
        }
        let (digits, rest) = line.split_at(len);
        let [b'\r', b'\n', rest @ ..] = rest else {
            // Either the digits or their terminator are wrong.
            return Err(match rest.first() {
                None | Some(b'\r' | b'\n') if !digits.is_empty() => RespError::Terminator,
                _ => RespError::Number,
            });
        };
        self.rest = rest;
        if decimal::fits_u64(len) {
            return Ok(value);
        }
        // No digits, or enough digits to overflow `value`.
        decimal::parse(digits).ok_or(RespError::Number)
    }

    fn crlf(&mut self) -> Result<(), RespError> {
        self.rest = match self.rest {
            [b'\r', b'\n', rest @ ..] => rest,
            [] => return Err(RespError::Truncated),
            _ => return Err(RespError::Terminator),
        };
        Ok(())
    }
}

/// Appends an array's header.
pub fn put_array(count: usize, out: &mut BytesMut) {
    put_number(b'*', count as u64, out);
}

/// Returns the number of bytes that [`put_array`] appends.
pub fn array_len(count: usize) -> usize {
    1 + decimal::len(count as u64) + CRLF.len()
}

/// Appends a bulk string.
pub fn put_bulk(value: &[u8], out: &mut BytesMut) {
    put_number(b'$', value.len() as u64, out);
    out.put_slice(value);
    out.put_slice(CRLF);
}

/// Returns the number of bytes that [`put_bulk`] appends for a value of `len` bytes.
pub fn bulk_len(len: usize) -> usize {
    1 + decimal::len(len as u64) + CRLF.len() + len + CRLF.len()
}

/// Appends a number, `:<n>`.
pub fn put_integer(value: u64, out: &mut BytesMut) {
    put_number(b':', value, out);
}

/// Returns the number of bytes that [`put_integer`] appends.
pub fn integer_len(value: u64) -> usize {
    1 + decimal::len(value) + CRLF.len()
}

#[inline]
fn put_number(marker: u8, value: u64, out: &mut BytesMut) {
    // Lengths of keys and values, mostly.
    match value {
        0..10 => return out.put_slice(&[marker, digit(value), b'\r', b'\n']),
        10..100 => {
            let line = [marker, digit(value / 10), digit(value), b'\r', b'\n'];
            return out.put_slice(&line);
        }
        100..1000 => {
            let [hundreds, tens, ones] = [value / 100, value / 10, value].map(digit);
            return out.put_slice(&[marker, hundreds, tens, ones, b'\r', b'\n']);
        }
        _ => {}
    }
    put_long_number(marker, value, out);
}

/// Returns the last digit of a number.
fn digit(value: u64) -> u8 {
    b'0' + (value % 10) as u8
}

#[inline(never)]
fn put_long_number(marker: u8, value: u64, out: &mut BytesMut) {
    let digits = DecimalText::new(value);
    let digits = digits.as_bytes();
    let mut line = [0; 1 + decimal::MAX_DIGITS + CRLF.len()];
    line[0] = marker;
    line[1..=digits.len()].copy_from_slice(digits);
    line[1 + digits.len()..][..CRLF.len()].copy_from_slice(CRLF);
    out.put_slice(&line[..1 + digits.len() + CRLF.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(payload: &'static [u8]) -> Result<usize, RespError> {
        Decoder::new(&Bytes::from_static(payload)).array()
    }

    fn bulk(payload: &'static [u8]) -> Result<Bytes, RespError> {
        let payload = Bytes::from_static(payload);
        let mut decoder = Decoder::new(&payload);
        let value = decoder.bulk_bytes()?;
        decoder.finish()?;
        Ok(value)
    }

    #[test]
    fn bulk_strings_are_slices_of_the_payload() {
        let payload = Bytes::from_static(b"$5\r\na\r\nb\0\r\n");
        let value = Decoder::new(&payload).bulk_bytes().unwrap();
        assert_eq!(value, b"a\r\nb\0"[..]);
        assert_eq!(value.as_ptr(), payload[4..].as_ptr());
    }

    #[test]
    fn malformed_bulk_strings_are_reported_with_their_reason() {
        assert_eq!(bulk(b""), Err(RespError::Truncated));
        assert_eq!(bulk(b"$3\r\nab"), Err(RespError::Truncated));
        assert_eq!(bulk(b"$3\r\nabc"), Err(RespError::Truncated));
        assert_eq!(bulk(b"$3\r\nabcd\r\n"), Err(RespError::Terminator));
        assert_eq!(bulk(b"$3\r\nabc\r"), Err(RespError::Terminator));
        assert_eq!(bulk(b"$3\nabc\r\n"), Err(RespError::Terminator));
        assert_eq!(bulk(b"$3"), Err(RespError::Terminator));
        assert_eq!(bulk(b"*3\r\nabc\r\n"), Err(RespError::Type));
        assert_eq!(bulk(b"$3\r\nabc\r\nx"), Err(RespError::Trailing));
        for length in ["", "-1", "+3", " 3", "3 ", "0x3", "99999999999999999999"] {
            let payload = Bytes::from(format!("${length}\r\nabc\r\n"));
            assert_eq!(
                Decoder::new(&payload).bulk(),
                Err(RespError::Number),
                "{length:?}"
            );
        }
        assert_eq!(
            bulk(b"$18446744073709551615\r\nabc\r\n"),
            Err(RespError::Truncated)
        );
    }

    #[test]
    fn an_array_never_announces_more_than_the_bytes_can_hold() {
        assert_eq!(array(b"*0\r\n"), Ok(0));
        assert_eq!(array(b"*1\r\n$0\r\n\r\n"), Ok(1));
        assert_eq!(array(b"*2\r\n$0\r\n\r\n"), Err(RespError::Truncated));
        assert_eq!(array(b"*99999999\r\n$0\r\n\r\n"), Err(RespError::Truncated));
        assert_eq!(
            array(b"*18446744073709551615\r\n"),
            Err(RespError::Truncated)
        );
    }

    #[test]
    fn only_the_last_bulk_string_may_lack_its_crlf() {
        let last =
            |payload: &'static [u8]| Decoder::new(&Bytes::from_static(payload)).last_bulk_bytes();
        assert_eq!(last(b"$2\r\nab\r\n"), Ok(Bytes::from_static(b"ab")));
        assert_eq!(last(b"$2\r\nab"), Ok(Bytes::from_static(b"ab")));
        assert_eq!(last(b"$0\r\n"), Ok(Bytes::new()));
        assert_eq!(last(b"$2\r\nab\r"), Err(RespError::Terminator));
        assert_eq!(last(b"$2\r\nab\r\n\r\n"), Err(RespError::Trailing));
    }
}
