//! Growth of the store by a SET.
use super::EmbeddedKeyspace;
use super::expiry_index::DEADLINE_BYTES;
use super::prefix_limits::PrefixLimits;
use super::table;
use crate::keyspace::rules::{Entry, Operation};
use crate::keyspace::{Keyspace, Quota, Size};

/// Maximum bytes of a packed entry besides its key, its value and the node ID of its token.
const MAX_PACKED_OVERHEAD: usize = 64;

/// The growth of the store by a SET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeGrowth {
    /// Number of new entries.
    pub(super) keys: u64,
    /// Additional bytes of entries.
    pub(super) bytes: u64,
    /// Additional bytes of deadlines.
    pub(super) deadlines: u64,
}

impl SizeGrowth {
    /// Returns the growth by an operation; `None` if the operation enlarges nothing.
    ///
    /// The growth of an existing entry is that of its value and of the node ID of its token.
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
                bytes: table::entry_bytes(key.len() + content + MAX_PACKED_OVERHEAD),
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

    /// Returns the quota that this growth of a store of this size would exceed, if any.
    fn exceeded_quota(
        self,
        key: &[u8],
        size: Size,
        max: Size,
        prefixes: &PrefixLimits,
    ) -> Option<Quota> {
        let Self {
            keys,
            bytes,
            deadlines,
        } = self;
        if keys > 0 && size.keys.saturating_add(keys) > max.keys {
            return Some(Quota::Keys);
        }
        if size.bytes.saturating_add(bytes + deadlines) > max.bytes {
            return Some(Quota::Bytes);
        }
        let full = prefixes.exceeded_prefix(key, Size { keys, bytes });
        full.map(|prefix| Quota::Prefix(prefix.clone()))
    }
}

impl EmbeddedKeyspace {
    /// Returns the quota that the operation would exceed, if any.
    pub(super) fn exceeded_quota(
        &self,
        key: &[u8],
        former: Option<&Entry<'_>>,
        operation: &Operation<'_>,
    ) -> Option<Quota> {
        let growth = SizeGrowth::by(key, former, operation)?;
        self.quota_exceeded_by(growth, key, self.size(), &self.prefixes)
    }

    /// Returns the quota that leaves no room for this growth of a store of this size, if any.
    pub(super) fn quota_exceeded_by(
        &self,
        growth: SizeGrowth,
        key: &[u8],
        size: Size,
        prefixes: &PrefixLimits,
    ) -> Option<Quota> {
        if self.is_memory_short {
            return Some(Quota::Memory);
        }
        let max = Size {
            keys: self.max_keys,
            bytes: self.max_bytes,
        };
        growth.exceeded_quota(key, size, max, prefixes)
    }
}
