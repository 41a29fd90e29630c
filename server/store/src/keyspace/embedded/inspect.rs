//! Entries as operators see them, and the keys that expire.
use super::EmbeddedKeyspace;
use super::packed_entry::PackedEntry;
use crate::keyspace::rules::Token;
use crate::keyspace::{EntryView, Fence, KeyspaceMetrics, Size};
use bytes::Bytes;
use statestore_protocol::Hlc;
use statestore_protocol::glob::Glob;
use statestored_common::ClockReading;

/// Maximum number of keys on a page of keys that expire.
const MAX_KEYS: usize = 200;
/// Maximum number of deadlines that such a page visits.
const MAX_DEADLINES: usize = 1_000;
/// Maximum steps of comparing keys with the pattern, roughly nanoseconds. The last comparison may exceed it.
const MAX_STEPS: usize = 400_000;

impl EmbeddedKeyspace {
    /// Returns counters and limits of the entries.
    pub(super) fn keyspace_metrics(&self) -> KeyspaceMetrics {
        KeyspaceMetrics {
            expired: self.expired,
            max_size: Size {
                keys: self.max_keys,
                bytes: self.max_bytes,
            },
        }
    }

    /// Returns the entry of a key, with at most `most_bytes` of its value; `None` if it is absent.
    pub(super) fn view(
        &self,
        key: &[u8],
        most_bytes: usize,
        now: ClockReading,
    ) -> Option<EntryView> {
        let fields = self.table.get(self.table.hash(key), key)?.fields();
        let expires_in_ms = fields
            .deadline_ms()
            .map(|deadline| deadline.saturating_sub(now.mono_ms));
        if expires_in_ms == Some(0) {
            return None;
        }
        let shown = fields.value.len().min(most_bytes);
        let text = |token: Token<'_>| {
            let node_id = std::str::from_utf8(token.node_id).ok()?;
            let token = Hlc::new(token.wall_ms, token.counter, node_id).ok()?;
            Some(token.to_string())
        };
        let fence = match fields.token {
            None => Fence::None,
            Some(token) => text(token).map_or(Fence::Unknown, Fence::Token),
        };
        Some(EntryView {
            value: Bytes::copy_from_slice(&fields.value[..shown]),
            value_bytes: fields.value.len(),
            version: fields.version,
            fence,
            expires_in_ms,
            since_ms: fields.expiry.map(|end| end.since_ms),
        })
    }

    /// Returns a page of the keys that expire and match a pattern, soonest first, and the token of the next page; `None` if the
    /// token is invalid.
    pub(super) fn expiring_page(
        &self,
        pattern: &[u8],
        token: Option<&Bytes>,
        now: ClockReading,
    ) -> Option<(Vec<Bytes>, Option<Bytes>)> {
        let first = match token {
            None => (now.mono_ms.saturating_add(1), 0),
            Some(token) => self.deadline_position(token)?,
        };
        let glob = Glob::new(pattern);
        let mut keys = Vec::new();
        let mut steps = 0;
        for (visited, (deadline, hash)) in self.expiry_index.from(first).enumerate() {
            if visited >= MAX_DEADLINES || keys.len() >= MAX_KEYS || steps >= MAX_STEPS {
                return Some((keys, Some(self.deadline_token(deadline, hash))));
            }
            for (key, its) in self
                .table
                .with_hash(hash)
                .map(PackedEntry::key_and_deadline)
            {
                if its == Some(deadline) && glob.matches_counted(key, &mut steps) {
                    keys.push(Bytes::copy_from_slice(key));
                }
            }
        }
        Some((keys, None))
    }

    /// Returns the token of a position in the order of deadlines.
    fn deadline_token(&self, deadline_ms: u64, hash: u64) -> Bytes {
        let position = [deadline_ms, hash].map(u64::to_be_bytes);
        self.scanner.tokens.seal(position.as_flattened())
    }

    /// Returns the position of a token; `None` if no server of this store made it for this order.
    fn deadline_position(&self, token: &[u8]) -> Option<(u64, u64)> {
        let position = self.scanner.tokens.open(token)?;
        let (deadline_ms, hash) = position.split_first_chunk()?;
        let hash = u64::from_be_bytes(hash.try_into().ok()?);
        Some((u64::from_be_bytes(*deadline_ms), hash))
    }
}
