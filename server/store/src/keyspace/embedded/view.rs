//! Entries and their limits as operators see them.
use super::{EmbeddedKeyspace, Token};
use crate::keyspace::{EntryView, Fence};
use bytes::Bytes;
use statestore_protocol::Hlc;
use statestored_common::ClockReading;

impl EmbeddedKeyspace {
    /// Returns an entry with at most `most_bytes` of its value; `None` if it is absent or has expired.
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
}
