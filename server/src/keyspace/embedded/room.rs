//! How much larger a SET makes the store.
use super::Embedded;
use super::expiry::DEADLINE_BYTES;
use super::prefixes::Prefixes;
use super::table;
use crate::keyspace::rules::{Entry, Operation};
use crate::keyspace::{Keyspace, Size};

/// What a packed entry has besides key, value and node id of its token, at most.
const PACKED_NUMBERS: usize = 64;

/// How much there is more after a SET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Growth {
    /// Entries.
    pub(super) keys: u64,
    /// What they take.
    pub(super) bytes: u64,
    /// What their deadlines take.
    pub(super) deadlines: u64,
}

impl Growth {
    /// What an operation would bring about; `None` if it makes nothing larger.
    pub(super) fn by(
        key: &[u8],
        former: Option<&Entry<'_>>,
        operation: &Operation<'_>,
    ) -> Option<Self> {
        let Operation::Set {
            value,
            options,
            token,
            ..
        } = operation
        else {
            return None;
        };
        let content = value.len() + token.map_or(0, |token| token.node_id().len());
        let Some(former) = former else {
            return Some(Self {
                keys: 1,
                bytes: table::entry_bytes(key.len() + content + PACKED_NUMBERS),
                deadlines: options.expires_in_ms.map_or(0, |_| DEADLINE_BYTES),
            });
        };
        let before = former.value.len() + former.token.map_or(0, |token| token.node_id.len());
        let bytes = content.saturating_sub(before) as u64;
        (bytes > 0).then_some(Self {
            keys: 0,
            bytes,
            deadlines: 0,
        })
    }

    /// Whether there is room for it in a store of this size.
    pub(super) fn fits(self, key: &[u8], size: Size, max: Size, prefixes: &Prefixes) -> bool {
        let Self {
            keys,
            bytes,
            deadlines,
        } = self;
        (keys == 0 || size.keys.saturating_add(keys) <= max.keys)
            && size.bytes.saturating_add(bytes + deadlines) <= max.bytes
            && prefixes.have_room(key, Size { keys, bytes })
    }
}

impl Embedded {
    /// Whether the quota allows what the operation would make of the entry.
    pub(super) fn has_room(
        &self,
        key: &[u8],
        former: Option<&Entry<'_>>,
        operation: &Operation<'_>,
    ) -> bool {
        Growth::by(key, former, operation)
            .is_none_or(|growth| growth.fits(key, self.size(), self.max(), &self.prefixes))
    }

    /// Most that there may be.
    pub(super) fn max(&self) -> Size {
        if self.is_memory_short {
            return Size { keys: 0, bytes: 0 };
        }
        Size {
            keys: self.max_keys,
            bytes: self.max_bytes,
        }
    }
}
