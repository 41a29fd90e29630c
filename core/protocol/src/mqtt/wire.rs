//! The primitive data types of MQTT 5 (section 1.5).
use super::{DecodeError, EncodeError};
use bytes::{BufMut, BytesMut};

/// The largest number that a variable byte integer holds.
pub(crate) const VARINT_MAX: usize = 268_435_455;

/// Reads primitives from a packet that is complete in memory.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

const TRUNCATED: DecodeError = DecodeError::Malformed("the packet ends inside a field");
const ZERO: DecodeError = DecodeError::Malformed("a string contains U+0000");
const NOT_UTF8: DecodeError = DecodeError::Malformed("a string is not UTF-8");

impl<'a> Reader<'a> {
    /// Reads `bytes` from the offset `at`.
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }
    /// Returns the offset of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(count).ok_or(TRUNCATED)?;
        let taken = self.bytes.get(self.at..end).ok_or(TRUNCATED)?;
        self.at = end;
        Ok(taken)
    }
    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.at).ok_or(TRUNCATED)?;
        self.at += 1;
        Ok(byte)
    }
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        match self.take(2)? {
            &[high, low] => Ok(u16::from_be_bytes([high, low])),
            _ => Err(TRUNCATED),
        }
    }
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        match self.take(4)? {
            &[a, b, c, d] => Ok(u32::from_be_bytes([a, b, c, d])),
            _ => Err(TRUNCATED),
        }
    }
    pub(crate) fn varint(&mut self) -> Result<u32, DecodeError> {
        match varint(self.bytes.get(self.at..).unwrap_or_default())? {
            Some((value, width)) => {
                self.at += width;
                Ok(value)
            }
            None => Err(TRUNCATED),
        }
    }
    /// Reads binary data: a length of two bytes, then the bytes.
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], DecodeError> {
        let rest = self.bytes.get(self.at..).ok_or(TRUNCATED)?;
        let (taken, _) = split_binary(rest).ok_or(TRUNCATED)?;
        self.at += size_of::<u16>() + taken.len();
        Ok(taken)
    }
    /// Reads a UTF-8 string without U+0000.
    pub(crate) fn string(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.binary()?;
        if has_zero(bytes) {
            return Err(ZERO);
        }
        std::str::from_utf8(bytes).map_err(|_| NOT_UTF8)
    }
    /// Reads the bytes of a UTF-8 string without U+0000, which is much faster than creating a string.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], DecodeError> {
        let bytes = self.binary()?;
        check_text(bytes)?;
        Ok(bytes)
    }
    pub(crate) fn packet_id(&mut self) -> Result<super::PacketId, DecodeError> {
        super::PacketId::new(self.u16()?)
            .ok_or(DecodeError::Protocol("a packet identifier is zero"))
    }
    /// Splits off the next `len` bytes as a separate reader.
    pub(crate) fn section(&mut self, len: usize) -> Result<Self, DecodeError> {
        let start = self.at;
        self.take(len)?;
        Ok(Self {
            bytes: &self.bytes[..self.at],
            at: start,
        })
    }
    /// Reads all remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }
    /// Refuses bytes after the last field.
    pub(crate) fn expect_end(&self) -> Result<(), DecodeError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Malformed("bytes after the last field"))
        }
    }
}

/// Splits binary data, without its length, from the start of `bytes`; also returns the rest.
pub(crate) fn split_binary(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

/// Decodes a variable byte integer at the start of `bytes`; also returns its length. `None` if it is not complete.
pub(crate) fn varint(bytes: &[u8]) -> Result<Option<(u32, usize)>, DecodeError> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            if index > 0 && *byte == 0 {
                return Err(DecodeError::Malformed(
                    "a variable byte integer is longer than needed",
                ));
            }
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= 4 {
        return Err(DecodeError::Malformed(
            "a variable byte integer has more than four bytes",
        ));
    }
    Ok(None)
}

/// Returns the encoded length of a variable byte integer.
pub(crate) const fn varint_len(value: usize) -> usize {
    match value {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        _ => 4,
    }
}

/// Appends a variable byte integer; `value` is at most [`VARINT_MAX`].
pub(crate) fn put_varint(out: &mut impl BufMut, mut value: usize) {
    loop {
        // The mask leaves seven bits.
        #[allow(clippy::cast_possible_truncation)]
        let byte = (value & 0x7F) as u8;
        value >>= 7;
        if value == 0 {
            out.put_u8(byte);
            return;
        }
        out.put_u8(byte | 0x80);
    }
}

/// Appends binary data, its length first.
pub(crate) fn put_binary(
    out: &mut impl BufMut,
    what: &'static str,
    bytes: &[u8],
) -> Result<(), EncodeError> {
    let len = u16::try_from(bytes.len()).map_err(|_| EncodeError::FieldTooLong {
        what,
        len: bytes.len(),
    })?;
    out.put_u16(len);
    out.put_slice(bytes);
    Ok(())
}

/// Rejects bytes that are not UTF-8 or contain U+0000.
pub(crate) fn check_text(bytes: &[u8]) -> Result<(), DecodeError> {
    if is_ascii_text(bytes) {
        return Ok(());
    }
    if bytes.contains(&0) {
        return Err(ZERO);
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(NOT_UTF8),
    }
}

/// A bit for each byte of a word.
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Returns whether these are ASCII characters other than U+0000; `false` may be wrong.
pub(crate) fn is_ascii_text(bytes: &[u8]) -> bool {
    // A zero borrows from its own highest bit.
    !any_word(bytes, |word| (word | word.wrapping_sub(LOW)) & HIGH != 0)
}

/// Returns whether `find` matches in one of the words that make up the bytes. If their number is no multiple of eight, two
/// words overlap, which is faster than checking the last bytes one by one.
fn any_word(bytes: &[u8], find: impl Fn(u64) -> bool) -> bool {
    if let Some(last) = bytes.last_chunk() {
        let (words, _) = bytes.as_chunks();
        return words.iter().any(|word| find(u64::from_ne_bytes(*word)))
            | find(u64::from_ne_bytes(*last));
    }
    let word = match (bytes.first_chunk(), bytes.last_chunk(), bytes) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_ne_bytes(*first)) | u64::from(u32::from_ne_bytes(*last)) << 32
        }
        (_, _, [first, .., last]) => {
            let middle = bytes[bytes.len() / 2];
            u64::from_ne_bytes([*first, middle, *last, middle, *first, middle, *last, middle])
        }
        (_, _, [only]) => u64::from_ne_bytes([*only; 8]),
        (_, _, []) => return false,
    };
    find(word)
}

fn has_zero(bytes: &[u8]) -> bool {
    !is_ascii_text(bytes) && bytes.contains(&0)
}

/// Appends a UTF-8 string, its length first.
pub(crate) fn put_string(
    out: &mut impl BufMut,
    what: &'static str,
    text: &str,
) -> Result<(), EncodeError> {
    check_encodable(what, text)?;
    put_binary(out, what, text.as_bytes())
}

/// Refuses a text with a character that no string of a packet has.
pub(crate) fn check_encodable(what: &'static str, text: &str) -> Result<(), EncodeError> {
    if has_zero(text.as_bytes()) {
        return Err(EncodeError::ForbiddenCharacter { what });
    }
    Ok(())
}

/// Appends a whole packet: fixed header and `body`. Writes nothing if it is larger than `max_packet_bytes`.
pub(crate) fn put_packet(
    out: &mut BytesMut,
    first_byte: u8,
    body: &[u8],
    max_packet_bytes: u32,
) -> Result<(), EncodeError> {
    check_size(body.len(), max_packet_bytes)?;
    out.reserve(5 + body.len());
    out.put_u8(first_byte);
    put_varint(out, body.len());
    out.put_slice(body);
    Ok(())
}

/// Checks that a packet with `remaining` bytes behind its fixed header is within both limits.
pub(crate) fn check_size(remaining: usize, max_packet_bytes: u32) -> Result<(), EncodeError> {
    let size = 1 + varint_len(remaining) + remaining;
    if remaining > VARINT_MAX || size > max_packet_bytes as usize {
        return Err(EncodeError::TooLarge {
            size,
            max: max_packet_bytes,
        });
    }
    Ok(())
}

/// Returns whether a text cannot be a topic name, since it has wildcard characters.
pub(crate) fn has_wildcard(topic: impl AsRef<[u8]>) -> bool {
    // The two differ in one bit.
    const BOTH: u64 = LOW * (b'+' | b'#') as u64;
    const DIFFERENCE: u64 = LOW * (b'+' ^ b'#') as u64;
    any_word(topic.as_ref(), |word| {
        let zero_if_wildcard = (word | DIFFERENCE) ^ BOTH;
        zero_if_wildcard.wrapping_sub(LOW) & !zero_if_wildcard & HIGH != 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn check_text_accepts_only_utf8_without_zeros(
            bytes in prop::collection::vec(prop_oneof![8 => 1u8..128, 1 => any::<u8>()], 0..40),
        ) {
            let encoded = [&[0, u8::try_from(bytes.len()).unwrap()][..], &bytes].concat();
            let is_text = std::str::from_utf8(&bytes).is_ok() && !bytes.contains(&0);
            let read = Reader::new(&encoded, 0).text();
            prop_assert_eq!(read.is_ok(), is_text);
            prop_assert_eq!(read, Reader::new(&encoded, 0).string().map(str::as_bytes));
            prop_assert_eq!(has_zero(&bytes), bytes.contains(&0));
        }

        #[test]
        fn has_wildcard_finds_a_wildcard_at_any_position(
            bytes in prop::collection::vec(prop_oneof![30 => 0x20u8..0x30, 1 => any::<u8>()], 0..40)
        ) {
            let is_there = bytes.iter().any(|byte| b"+#".contains(byte));
            prop_assert_eq!(has_wildcard(&bytes), is_there);
        }
    }

    #[test]
    fn varint_lengths_match_the_encoding_and_packet_sizes_are_limited() {
        for value in [
            0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, VARINT_MAX,
        ] {
            let mut out = BytesMut::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
        }
        assert_eq!(check_size(VARINT_MAX, u32::MAX), Ok(()));
        let size = VARINT_MAX + 6;
        let refused = EncodeError::TooLarge {
            size,
            max: u32::MAX,
        };
        assert_eq!(check_size(VARINT_MAX + 1, u32::MAX), Err(refused));
    }
}
