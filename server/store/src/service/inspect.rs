//! Entries and watches as administrators see them.
use super::Service;
use crate::keyspace::{
    Completion, EntryView, KeyspaceMetrics, PageRequest, QuotaUsage, RequestContext,
};
use bytes::Bytes;
use statestore_protocol::Reply;
use statestored_access::Owner;
use statestored_common::ClockReading;
use std::sync::Arc;

impl Service {
    /// Returns a page of the keys that match a pattern, with the token of the next page. Returns `None` if the token is
    /// invalid, or if the keyspace cannot list its keys at once.
    pub fn keys(
        &mut self,
        pattern: &Bytes,
        token: Option<&Bytes>,
        now: ClockReading,
    ) -> Option<(Vec<Bytes>, Option<Bytes>)> {
        let context = RequestContext {
            ticket: self.pending_requests.take_ticket(),
            now,
            deadline_ms: None,
            digest: None,
        };
        let request = PageRequest {
            token: token.cloned(),
            ..PageRequest::all(pattern.clone())
        };
        let page = self.keyspace.page(&context, &request, &mut self.changes)?;
        match page {
            Completion::Answered {
                reply: Reply::Page { keys, token },
                ..
            } => Some((keys, token)),
            _ => None,
        }
    }

    /// Returns a page of the keys that expire and match a pattern, soonest first, with the token of the next page. Returns `None` if
    /// the token is invalid, or if the keyspace has no index of such keys.
    pub fn expiring_keys(
        &self,
        pattern: &Bytes,
        token: Option<&Bytes>,
        now: ClockReading,
    ) -> Option<(Vec<Bytes>, Option<Bytes>)> {
        self.keyspace.expiring_keys(pattern, token, now)
    }

    /// Returns the current entry of a key, with at most `most_bytes` bytes of its value.
    pub fn entry_view(
        &self,
        key: &[u8],
        most_bytes: usize,
        now: ClockReading,
    ) -> Option<EntryView> {
        self.keyspace.entry_view(key, most_bytes, now)
    }

    /// Returns the clients that watch a key, or a pattern that the key matches.
    pub fn watchers(&self, key: &[u8]) -> Arc<Vec<Arc<str>>> {
        let watches = &self.changes.watches;
        let recipients = watches.recipients(watches.watchers(key), key, &mut 0);
        recipients.map(|(clients, _)| clients).unwrap_or_default()
    }

    /// Returns counters and limits of the entries; `None` if this process does not have them.
    pub fn keyspace_metrics(&self) -> Option<KeyspaceMetrics> {
        self.keyspace.metrics()
    }

    /// Returns the quotas of prefixes.
    pub fn prefix_quotas(&self) -> Vec<QuotaUsage> {
        self.keyspace.prefix_quotas()
    }

    /// Returns the [time](Self::set_time_us) with which requests are measured now, in microseconds; `None` if they are not measured.
    #[inline]
    pub fn measured_us(&self) -> Option<u64> {
        self.meter.now_us()
    }

    /// Returns the maximum number of watches of all clients.
    pub fn max_watches(&self) -> u64 {
        self.changes.watches.max()
    }

    /// Returns the number of watches of an owner's clients.
    pub fn watches_of_owner(&self, owner: &Owner) -> usize {
        self.changes.watches.count_of_owner(owner)
    }

    /// Returns the median difference of the latest timestamps of clients from the clock of this machine in milliseconds, positive
    /// if they are ahead; `None` if there were none within the last minutes.
    pub fn timestamp_difference_ms(&mut self, now: ClockReading) -> Option<i64> {
        self.skew_detector.median_difference_ms(now.mono_ms)
    }

    /// Returns the number of clients that watch a key itself.
    pub fn key_watcher_count(&self, key: &[u8]) -> usize {
        let watchers = self.changes.watches.watchers(key);
        watchers.map_or(0, |clients| clients.len())
    }

    /// Returns whether the storage keeps the entry of this key.
    pub fn is_kept(&self, key: &[u8]) -> bool {
        let index = self.changes.retention_index.as_ref();
        index.is_some_and(|index| index.contains(key))
    }
}
