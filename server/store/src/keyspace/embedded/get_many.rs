//! Reads of several keys at one moment.
use super::EmbeddedKeyspace;
use super::packed_entry::PackedEntry;
use crate::keyspace::{EntryList, EventSink};
use bytes::Bytes;
use statestore_protocol::Reply;
use statestored_common::ClockReading;

/// Work of reading a key, roughly in nanoseconds.
const KEY_STEPS: usize = 200;

/// Number of bytes of values that are copied in a step.
pub(super) const BYTES_PER_STEP: usize = 8;

impl EmbeddedKeyspace {
    pub(super) fn entries_of(
        &mut self,
        keys: &[Bytes],
        max_reply_bytes: usize,
        now: ClockReading,
        events: &mut dyn EventSink,
    ) -> Reply {
        let hashes: Vec<_> = keys.iter().map(|key| self.table.hash(key)).collect();
        self.table.prefetch(&hashes);
        for (key, &hash) in keys.iter().zip(&hashes) {
            if let Some(deadline) = self.deadline_of(hash, key).filter(|it| *it <= now.mono_ms) {
                self.expire_entry(hash, deadline, key, now, events);
            }
        }
        let mut list = EntryList::new(keys.len(), max_reply_bytes);
        for (key, &hash) in keys.iter().zip(&hashes) {
            let fields = self.table.get(hash, key).map(PackedEntry::fields);
            if !list.has_room(fields.map(|fields| fields.value.len())) {
                break;
            }
            list.push(fields.map(|fields| (Bytes::copy_from_slice(fields.value), fields.version)));
        }
        events.add_work(keys.len() * KEY_STEPS + list.value_bytes() / BYTES_PER_STEP);
        list.into_reply()
    }
}
