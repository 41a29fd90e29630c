//! The encoding of a commit: consecutive changes, each with a tag; integers as LEB128.
//!
//! | tag | content |
//! |---|---|
//! | 0 | clock: wall clock, counter |
//! | 1 | delete: key |
//! | 2, plus 4 with a fence, plus 8 with an expiry | put: key, version (wall clock, counter), fence (wall clock, counter, node id), expiry (end, PX), value |
//!
//! Keys, node ids and values are preceded by their length. The enclosing [frame](super::frame) has the checksums.
use super::{Batch, Expiry, Record, RecordView, Write};
use statestore_protocol::Hlc;

const CLOCK: u8 = 0;
const DELETE: u8 = 1;
const PUT: u8 = 2;
const WITH_FENCE: u8 = 4;
const WITH_EXPIRY: u8 = 8;

/// A version: wall clock and counter.
pub(super) type Version = (u64, u64);

/// A decoded change, borrowed from the frame.
#[derive(Debug)]
pub(super) enum LogChange<'a> {
    /// Highest version issued so far.
    Clock(Version),
    /// Insert or replace.
    Put(EncodedRecord<'a>),
    /// Remove this key.
    Delete(&'a [u8]),
}

/// A record inside a frame.
#[derive(Debug)]
pub(super) struct EncodedRecord<'a> {
    pub(super) record: RecordView<'a>,
    /// The encoded change.
    pub(super) encoded: &'a [u8],
}

/// Appends the batches, with only the highest of their clocks. Empty batches add no bytes.
pub(super) fn encode_batches(batches: &[Batch], out: &mut Vec<u8>) {
    for write in batches.iter().flat_map(|batch| &batch.writes) {
        match write {
            Write::Put(record) => {
                let fence = record.fence.as_ref();
                let Record {
                    key,
                    value,
                    version,
                    expiry,
                    ..
                } = record;
                encode_put(key, value, *version, fence, *expiry, out);
            }
            Write::Delete(key) => {
                out.push(DELETE);
                encode_bytes(key, out);
            }
        }
    }
    if let Some(clock) = batches.iter().filter_map(|batch| batch.clock).max() {
        encode_clock(clock, out);
    }
}

/// Appends a clock.
pub(super) fn encode_clock((wall_ms, counter): Version, out: &mut Vec<u8>) {
    out.push(CLOCK);
    encode_integer(wall_ms, out);
    encode_integer(counter, out);
}

/// Appends a record.
pub(super) fn encode_record(record: &RecordView<'_>, out: &mut Vec<u8>) {
    let fence = record.fence.as_ref();
    encode_put(
        record.key,
        record.value,
        record.version,
        fence,
        record.expiry,
        out,
    );
}

fn encode_put(
    key: &[u8],
    value: &[u8],
    version: Version,
    fence: Option<&Hlc>,
    expiry: Option<Expiry>,
    out: &mut Vec<u8>,
) {
    let with_fence = fence.map_or(0, |_| WITH_FENCE);
    let with_expiry = expiry.map_or(0, |_| WITH_EXPIRY);
    out.push(PUT | with_fence | with_expiry);
    encode_bytes(key, out);
    encode_integer(version.0, out);
    encode_integer(version.1, out);
    if let Some(fence) = fence {
        encode_integer(fence.wall_ms(), out);
        encode_integer(fence.counter(), out);
        encode_bytes(fence.node_id().as_bytes(), out);
    }
    if let Some(expiry) = expiry {
        encode_integer(expiry.at_wall_ms, out);
        encode_integer(expiry.ttl_ms, out);
    }
    encode_bytes(value, out);
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    encode_integer(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn encode_integer(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// A reader of the changes of a commit, in order.
#[derive(Debug)]
pub(super) struct ChangeDecoder<'a> {
    rest: &'a [u8],
}

impl<'a> ChangeDecoder<'a> {
    /// Returns the changes in a frame's payload.
    pub(super) fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// Returns the next change; `Ok(None)` at the end, `Err` if the bytes are malformed.
    pub(super) fn next(&mut self) -> Result<Option<LogChange<'a>>, MalformedChanges> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let begin = self.rest;
        let tag = self.byte()?;
        let change = match tag {
            CLOCK => LogChange::Clock((self.integer()?, self.integer()?)),
            DELETE => LogChange::Delete(self.bytes()?),
            _ if tag & !(WITH_FENCE | WITH_EXPIRY) == PUT => LogChange::Put(self.put(tag, begin)?),
            _ => return Err(MalformedChanges),
        };
        Ok(Some(change))
    }

    fn put(&mut self, tag: u8, begin: &'a [u8]) -> Result<EncodedRecord<'a>, MalformedChanges> {
        let key = self.bytes()?;
        let version = (self.integer()?, self.integer()?);
        let fence = if tag & WITH_FENCE == 0 {
            None
        } else {
            let (wall_ms, counter) = (self.integer()?, self.integer()?);
            let node_id = std::str::from_utf8(self.bytes()?).map_err(|_| MalformedChanges)?;
            Some(Hlc::new(wall_ms, counter, node_id).map_err(|_| MalformedChanges)?)
        };
        let expiry = if tag & WITH_EXPIRY == 0 {
            None
        } else {
            Some(Expiry {
                at_wall_ms: self.integer()?,
                ttl_ms: self.integer()?,
            })
        };
        let value = self.bytes()?;
        let encoded = &begin[..begin.len() - self.rest.len()];
        Ok(EncodedRecord {
            record: RecordView {
                key,
                value,
                version,
                fence,
                expiry,
            },
            encoded,
        })
    }

    fn byte(&mut self) -> Result<u8, MalformedChanges> {
        let (first, rest) = self.rest.split_first().ok_or(MalformedChanges)?;
        self.rest = rest;
        Ok(*first)
    }

    fn integer(&mut self) -> Result<u64, MalformedChanges> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(MalformedChanges);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(MalformedChanges)
    }

    fn bytes(&mut self) -> Result<&'a [u8], MalformedChanges> {
        let length = usize::try_from(self.integer()?).map_err(|_| MalformedChanges)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(MalformedChanges)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// Error for bytes with a correct checksum that are no changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MalformedChanges;
