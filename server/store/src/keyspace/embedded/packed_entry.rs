//! Entries packed into one heap allocation each.
//!
//! Small entries cost little more than their bytes: numbers are LEB128 varints, and absent parts take no space. Layout, in order:
//!
//! | part | form |
//! |---|---|
//! | key | length, bytes |
//! | flags | one byte: 1 = expires, 2 = has a fencing token |
//! | version | wall clock, counter |
//! | deadline | milliseconds on the monotonic clock, if flag 1 |
//! | since | wall clock, if flag 1 |
//! | token | wall clock, counter, node id (length, bytes), if flag 2 |
//! | value | the rest |
use super::super::rules::{Entry, Token, Version};
use statestored_common::ClockReading;

const EXPIRES: u8 = 1;
const FENCED: u8 = 2;

/// The parts of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryFields<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) version: Version,
    pub(super) token: Option<Token<'a>>,
    /// End of an entry that expires.
    pub(super) expiry: Option<EntryExpiry>,
}

/// The end of an entry that expires, such as a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryExpiry {
    /// Time at which the entry expires, on the monotonic clock.
    pub(super) deadline_ms: u64,
    /// Time since which the entry has its value, on the wall clock. A renewal does not change it.
    pub(super) since_ms: u64,
}

/// A packed entry. A clone has an allocation of its own.
#[derive(Clone)]
pub(super) struct PackedEntry(Box<[u8]>);

impl PackedEntry {
    pub(super) fn new(fields: &EntryFields<'_>) -> Self {
        let mut out = Vec::with_capacity(fields.packed_len());
        fields.write(&mut out);
        Self(out.into_boxed_slice())
    }

    /// Replaces the content. Keeps the allocation if the length is the same.
    pub(super) fn replace(&mut self, fields: &EntryFields<'_>) {
        if self.0.len() == fields.packed_len() {
            fields.write(&mut Cursor(&mut self.0));
        } else {
            *self = Self::new(fields);
        }
    }

    /// Returns the bytes of the allocation.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn first_byte(&self) -> u8 {
        self.0[0]
    }

    pub(super) fn key(&self) -> &[u8] {
        Reader(&self.0).length_prefixed()
    }

    /// Returns the key, and the deadline of an entry that expires.
    pub(super) fn key_and_deadline(&self) -> (&[u8], Option<u64>) {
        let mut reader = Reader(&self.0);
        let key = reader.length_prefixed();
        let flags = reader.byte();
        if flags & EXPIRES == 0 {
            return (key, None);
        }
        reader.varint();
        reader.varint();
        (key, Some(reader.varint()))
    }

    pub(super) fn fields(&self) -> EntryFields<'_> {
        let mut reader = Reader(&self.0);
        let key = reader.length_prefixed();
        let flags = reader.byte();
        let version = (reader.varint(), reader.varint());
        let end = (flags & EXPIRES != 0).then(|| EntryExpiry {
            deadline_ms: reader.varint(),
            since_ms: reader.varint(),
        });
        let token = (flags & FENCED != 0).then(|| Token {
            wall_ms: reader.varint(),
            counter: reader.varint(),
            node_id: reader.length_prefixed(),
        });
        EntryFields {
            key,
            value: reader.0,
            version,
            token,
            expiry: end,
        }
    }
}

impl<'a> EntryFields<'a> {
    /// Returns the time at which the entry expires, on the monotonic clock.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.expiry.map(|end| end.deadline_ms)
    }

    /// Returns the entry in the form that the rules take.
    pub(super) fn entry(&self, now: ClockReading) -> Entry<'a> {
        let left = |deadline: u64| deadline.saturating_sub(now.mono_ms);
        Entry {
            value: self.value,
            version: self.version,
            token: self.token,
            expires_in_ms: self.deadline_ms().map(left),
        }
    }
}

impl EntryFields<'_> {
    pub(super) fn packed_len(&self) -> usize {
        let token = self.token.map_or(0, |token| {
            varint_len(token.wall_ms)
                + varint_len(token.counter)
                + length_prefixed_len(token.node_id)
        });
        length_prefixed_len(self.key)
            + 1
            + varint_len(self.version.0)
            + varint_len(self.version.1)
            + self.expiry.map_or(0, |end| {
                varint_len(end.deadline_ms) + varint_len(end.since_ms)
            })
            + token
            + self.value.len()
    }

    fn write(&self, out: &mut impl Sink) {
        put_length_prefixed(self.key, out);
        let expires = if self.expiry.is_some() { EXPIRES } else { 0 };
        let fenced = if self.token.is_some() { FENCED } else { 0 };
        out.put(&[expires | fenced]);
        put_varint(self.version.0, out);
        put_varint(self.version.1, out);
        if let Some(end) = self.expiry {
            put_varint(end.deadline_ms, out);
            put_varint(end.since_ms, out);
        }
        if let Some(token) = self.token {
            put_varint(token.wall_ms, out);
            put_varint(token.counter, out);
            put_length_prefixed(token.node_id, out);
        }
        out.put(self.value);
    }
}

/// The destination of a packed entry: a new vector, or its existing allocation.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

struct Cursor<'a>(&'a mut [u8]);

impl Sink for Cursor<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (head, tail) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.0 = tail;
    }
}

/// A reader of the output of [`EntryFields::write`]. A [`PackedEntry`] never contains anything else.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> u8 {
        let byte = self.0[0];
        self.0 = &self.0[1..];
        byte
    }

    fn varint(&mut self) -> u64 {
        match *self.0 {
            [byte, ref rest @ ..] if byte < 0x80 => {
                self.0 = rest;
                u64::from(byte)
            }
            _ => self.long_varint(),
        }
    }

    /// Reads a varint of at least two bytes.
    fn long_varint(&mut self) -> u64 {
        const LAST: u64 = 0x8080_8080_8080_8080;
        if let Some(word) = self.0.first_chunk() {
            let word = u64::from_le_bytes(*word);
            let ends = !word & LAST;
            if ends != 0 {
                // All bits up to the lowest set bit of `ends`, which is the highest bit of its byte.
                let own = ends ^ (ends - 1);
                self.0 = &self.0[(own.count_ones() / 8) as usize..];
                let sevens = word & own & !LAST;
                let pairs = sevens & 0x007F_007F_007F_007F | (sevens >> 1) & 0x3F80_3F80_3F80_3F80;
                let fours = pairs & 0x0000_3FFF_0000_3FFF | (pairs >> 2) & 0x0FFF_C000_0FFF_C000;
                return fours & 0x0FFF_FFFF | (fours >> 4) & 0x00FF_FFFF_F000_0000;
            }
        }
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
            shift += 7;
        }
    }

    fn length_prefixed(&mut self) -> &'a [u8] {
        // The number was a length in memory, so it fits a usize.
        #[allow(clippy::cast_possible_truncation)]
        let len = self.varint() as usize;
        let (head, tail) = self.0.split_at(len);
        self.0 = tail;
        head
    }
}

fn put_varint(mut value: u64, out: &mut impl Sink) {
    let mut bytes = [0; 10];
    let mut len = 0;
    loop {
        // Only the low seven bits are kept.
        #[allow(clippy::cast_possible_truncation)]
        let low = value as u8 & 0x7f;
        value >>= 7;
        bytes[len] = if value == 0 { low } else { low | 0x80 };
        len += 1;
        if value == 0 {
            return out.put(&bytes[..len]);
        }
    }
}

fn varint_len(value: u64) -> usize {
    let bits = (value | 1).ilog2() as usize + 1;
    bits.div_ceil(7)
}

fn put_length_prefixed(bytes: &[u8], out: &mut impl Sink) {
    put_varint(bytes.len() as u64, out);
    out.put(bytes);
}

fn length_prefixed_len(bytes: &[u8]) -> usize {
    varint_len(bytes.len() as u64) + bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![
            Just(0),
            Just(u64::MAX),
            any::<u64>(),
            (0u32..64).prop_map(|bit| 1 << bit),
            (1u32..64).prop_map(|bit| (1 << bit) - 1),
        ]
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..200)
    }

    type EntryParts = (
        Vec<u8>,
        Vec<u8>,
        Version,
        Option<(u64, u64, Vec<u8>)>,
        Option<(u64, u64)>,
    );

    fn parts() -> impl Strategy<Value = EntryParts> {
        (
            bytes(),
            bytes(),
            (number(), number()),
            prop::option::of((number(), number(), bytes())),
            prop::option::of((number(), number())),
        )
    }

    fn fields(parts: &EntryParts) -> EntryFields<'_> {
        EntryFields {
            key: &parts.0,
            value: &parts.1,
            version: parts.2,
            token: parts.3.as_ref().map(|(wall_ms, counter, node_id)| Token {
                wall_ms: *wall_ms,
                counter: *counter,
                node_id,
            }),
            expiry: parts.4.map(|(deadline_ms, since_ms)| EntryExpiry {
                deadline_ms,
                since_ms,
            }),
        }
    }

    proptest! {
        #[test]
        fn a_packed_entry_is_read_back_unchanged(first in parts(), second in parts()) {
            let mut packed = PackedEntry::new(&fields(&first));
            prop_assert_eq!(packed.fields(), fields(&first));
            packed.replace(&fields(&second));
            prop_assert_eq!(packed.fields(), fields(&second));
            prop_assert_eq!(packed.key(), &second.0[..]);
            let deadline = second.4.map(|(deadline, _)| deadline);
            prop_assert_eq!(packed.key_and_deadline(), (&second.0[..], deadline));
            prop_assert_eq!(packed.0.len(), fields(&second).packed_len());
        }
    }

    #[test]
    fn a_small_entry_takes_nine_bytes_more_than_key_and_value() {
        let fields = EntryFields {
            key: &[b'k'; 16],
            value: &[b'v'; 100],
            version: (1_760_000_000_000, 3),
            token: None,
            expiry: None,
        };
        assert_eq!(PackedEntry::new(&fields).0.len(), 16 + 100 + 9);
    }
}
