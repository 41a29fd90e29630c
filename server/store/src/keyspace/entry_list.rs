//! The entries in a response to an MGET.
use super::rules::Version;
use bytes::Bytes;
use statestore_protocol::{Reply, Version as Given};

/// Maximum number of bytes of the values in a response to an MGET. The first key is answered in any case.
pub const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// The entries of the first keys of an MGET, as many as fit one response.
#[derive(Debug)]
pub struct EntryList {
    entries: Vec<Option<(Bytes, Given)>>,
    value_bytes: usize,
    requested: usize,
}

impl EntryList {
    /// Creates an empty list for an MGET of this many keys.
    pub fn new(requested: usize) -> Self {
        Self {
            entries: Vec::with_capacity(requested),
            value_bytes: 0,
            requested,
        }
    }

    /// Returns whether an entry with a value of `len` bytes fits.
    pub fn has_room(&self, len: usize) -> bool {
        self.entries.is_empty() || self.value_bytes + len <= MAX_VALUE_BYTES
    }

    /// Adds the value and version of the next key; `None` if it is absent.
    pub fn push(&mut self, entry: Option<(Bytes, Version)>) {
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
