//! The entries in a response to an MGET.
use super::rules::Version;
use bytes::Bytes;
use statestore_protocol::{Reply, Version as Given};

/// Maximum number of bytes of the values in a response to an MGET. The first key is answered in any case.
pub const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Upper bound of the bytes of a response besides its entries: two array headers and the number of omitted keys.
const FRAME_BYTES: usize = 32;

/// Upper bound of the bytes of an entry besides its value: an array header, the length of the value, and the version.
const ENTRY_FRAME_BYTES: usize = 96;

/// Bytes of the entry of an absent key.
const ABSENT_BYTES: usize = 5;

/// The entries of the first keys of an MGET, as many as fit one response.
#[derive(Debug)]
pub struct EntryList {
    entries: Vec<Option<(Bytes, Given)>>,
    value_bytes: usize,
    /// Upper bound of the bytes of the response.
    reply_bytes: usize,
    max_reply_bytes: usize,
    requested: usize,
}

impl EntryList {
    /// Creates an empty list for an MGET of this many keys, whose response has at most `max_reply_bytes` bytes or one entry.
    pub fn new(requested: usize, max_reply_bytes: usize) -> Self {
        Self {
            entries: Vec::with_capacity(requested),
            value_bytes: 0,
            reply_bytes: FRAME_BYTES,
            max_reply_bytes,
            requested,
        }
    }

    /// Returns whether the next entry fits, whose value has `len` bytes; `None` if the key is absent.
    pub fn has_room(&self, len: Option<usize>) -> bool {
        let fits = self.value_bytes + len.unwrap_or(0) <= MAX_VALUE_BYTES
            && self.reply_bytes + entry_bytes(len) <= self.max_reply_bytes;
        self.entries.is_empty() || fits
    }

    /// Adds the value and version of the next key; `None` if it is absent.
    pub fn push(&mut self, entry: Option<(Bytes, Version)>) {
        self.reply_bytes += entry_bytes(entry.as_ref().map(|(value, _)| value.len()));
        self.entries.push(entry.map(|(value, (wall_ms, counter))| {
            self.value_bytes += value.len();
            (value, Given::new(wall_ms, counter))
        }));
    }

    /// Returns the number of bytes of the values.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Returns the response, which omits the keys that were not added.
    pub fn into_reply(self) -> Reply {
        Reply::Entries {
            omitted: (self.requested - self.entries.len()) as u64,
            entries: self.entries,
        }
    }
}

/// Returns an upper bound of the bytes of an entry, whose value has `len` bytes; `None` if the key is absent.
fn entry_bytes(len: Option<usize>) -> usize {
    len.map_or(ABSENT_BYTES, |len| ENTRY_FRAME_BYTES + len)
}
