//! Pages of keys, or of entries.
//!
//! A page does not depend on keys that the client may not read. These are skipped before anything is counted, and a page ends behind a key
//! that it shows. The exception is a page on which the engine works for longer than [`PAGE_MS`]: it ends at the end of a bucket. The
//! engine's speed then shows in the page, as it shows in the time of any answer.
use super::engine::{EngineError, EngineRequest, EngineRequestId, Link, RecordPage, Revision};
use super::expiry_index::RemainingTime;
use super::record::{Record, RecordContent};
use super::{KeyedRecord, REQUEST_RETRY_MS, Retry, SharedKeyspace, bucket_of, plan};
use bytes::{BufMut, Bytes, BytesMut};
use statestore_protocol::glob::Glob;
use statestore_protocol::{PageEntry, Reply, ServiceError, Version as Given};
use statestored_common::ClockReading;
use statestored_store::keyspace::{
    Completion, EventSink, MAX_ENTRY_PAGE_BYTES, PageRequest, RequestContext, Ticket,
};

/// Maximum number of bytes of the keys on a page without values. A single longer key is still returned, alone.
const MAX_PAGE_BYTES: usize = 64 * 1024;

/// Time in milliseconds after which a page ends with the bucket that is being read.
const PAGE_MS: u64 = 1_000;

/// Number of bytes of the bucket in a token.
const BUCKET_BYTES: usize = 2;

/// Approximate cost, in nanoseconds, of checking whether the client may read a key.
const FILTER_STEPS: usize = 100;

/// The bucket and the key behind which a page continues. The empty key precedes all others of its bucket.
type Position = (u16, Bytes);

/// A requested page.
#[derive(Debug)]
pub(super) struct PendingPage {
    ticket: Ticket,
    request: PageRequest,
    /// The position of the last engine request.
    after: Option<Position>,
    keys: Vec<Bytes>,
    /// The entries of the keys, if their values are requested.
    entries: Vec<PageEntry>,
    /// Bytes of the keys and entries.
    bytes: usize,
    /// Upper bound of the bytes of the keys or entries in the response.
    content_bytes: usize,
    started_ms: u64,
    deadline_ms: Option<u64>,
}

impl PendingPage {
    /// Adds a key, and the entry if its value is requested. Returns whether they were added: an empty page accepts any key.
    fn try_add(&mut self, key: &Bytes, entry: Option<PageEntry>, max_keys: usize) -> bool {
        let value_bytes = entry.as_ref().map_or(0, |entry| entry.value.len());
        let bytes = self.bytes + key.len() + value_bytes;
        let content_bytes = self.content_bytes + self.request.content_bytes(key.len(), value_bytes);
        // The token contains the last key.
        let max_content_bytes = self.request.max_content_bytes(BUCKET_BYTES + key.len());
        let max_bytes = if self.request.with_values {
            MAX_ENTRY_PAGE_BYTES
        } else {
            MAX_PAGE_BYTES
        };
        let is_over =
            self.keys.len() >= max_keys || bytes > max_bytes || content_bytes > max_content_bytes;
        if is_over && !self.keys.is_empty() {
            return false;
        }
        self.bytes = bytes;
        self.content_bytes = content_bytes;
        self.entries.extend(entry);
        self.keys.push(key.clone());
        true
    }

    fn into_reply(self, token: Option<Bytes>) -> Reply {
        if self.request.with_values {
            Reply::EntryPage {
                entries: self.entries,
                token,
            }
        } else {
            Reply::Page {
                keys: self.keys,
                token,
            }
        }
    }
}

impl<L: Link> SharedKeyspace<L> {
    /// Refuses all pages, because the engine is away.
    pub(super) fn reject_pages(&mut self, events: &mut dyn EventSink) {
        let mut tickets: Vec<_> = self.pages.drain().map(|(_, page)| page.ticket).collect();
        let is_page = |(_, again): &mut (u64, Retry)| matches!(again, Retry::Page(_));
        for (_, again) in self.retries.extract_if(.., is_page) {
            if let Retry::Page(page) = again {
                tickets.push(page.ticket);
            }
        }
        // The order must be the same in each run of a seed.
        tickets.sort_unstable();
        for ticket in tickets {
            events.completed(ticket, Completion::Unavailable);
        }
    }

    pub(super) fn begin_page(
        &mut self,
        context: &RequestContext,
        request: &PageRequest,
    ) -> Option<Completion> {
        let after = match &request.token {
            None => None,
            Some(token) => match self.position(token) {
                None => return Some(Completion::reply(Reply::Error(ServiceError::Syntax))),
                position => position,
            },
        };
        self.request_page(PendingPage {
            ticket: context.ticket,
            request: request.clone(),
            after,
            keys: Vec::new(),
            entries: Vec::new(),
            bytes: 0,
            content_bytes: 0,
            started_ms: context.now.mono_ms,
            deadline_ms: context.deadline_ms,
        });
        None
    }

    /// Returns the position of a token.
    fn position(&self, token: &[u8]) -> Option<Position> {
        let mut position = self.page_tokens.open(token)?;
        if position.len() < BUCKET_BYTES {
            return None;
        }
        let bucket = position.split_to(BUCKET_BYTES);
        Some((u16::from_be_bytes([bucket[0], bucket[1]]), position))
    }

    /// Returns the token of a position.
    fn token(&self, (bucket, key): &Position) -> Bytes {
        let mut position = BytesMut::with_capacity(BUCKET_BYTES + key.len());
        position.put_u16(*bucket);
        position.extend_from_slice(key);
        self.page_tokens.seal(&position)
    }

    pub(super) fn request_page(&mut self, page: PendingPage) {
        let ask = self.request(EngineRequest::Page {
            after: page.after.clone(),
            limit: self.config.max_page_keys,
        });
        self.pages.insert(ask, page);
    }

    pub(super) fn page_received(
        &mut self,
        ask: EngineRequestId,
        found: Result<RecordPage, Option<EngineError>>,
        now: ClockReading,
        events: &mut dyn EventSink,
    ) {
        let Some(mut page) = self.pages.remove(&ask) else {
            return;
        };
        if page.deadline_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            return events.completed(page.ticket, Completion::Expired);
        }
        let RecordPage { records, has_more } = match found {
            Ok(found) => found,
            Err(Some(error)) => {
                return events.completed(page.ticket, plan::rejection(&error));
            }
            Err(None) => {
                let again = (now.mono_ms + REQUEST_RETRY_MS, Retry::Page(page));
                return self.retries.push(again);
            }
        };
        let glob = Glob::new(&page.request.pattern);
        let filter_steps = page.request.filter.as_ref().map_or(0, |_| FILTER_STEPS);
        events.add_work(records.len() * (1 + filter_steps));
        // A node that has just started reads pages before it knows all records.
        let age = self.clock_comparison.age(now);
        let is_late = now.mono_ms.saturating_sub(page.started_ms) >= PAGE_MS;
        let mut next = None;
        for found in records {
            let KeyedRecord {
                key,
                record,
                revision,
            } = found;
            self.observe_record(&key, &record, revision, now, age);
            if next.is_some() {
                continue;
            }
            let bucket = bucket_of(&key);
            if is_late && page.after.as_ref().is_some_and(|(last, _)| *last != bucket) {
                next = Some((bucket, Bytes::new()));
                continue;
            }
            page.after = Some((bucket, key.clone()));
            let is_live = record.is_entry() && self.expiry_index.is_live(&key, now);
            if !is_live || !page.request.allows(&key) || !glob.matches(&key) {
                continue;
            }
            let entry = if page.request.with_values {
                self.page_entry(&key, &record, revision, now)
            } else {
                None
            };
            if !page.try_add(&key, entry, self.config.max_page_keys) {
                next = page.keys.last().map(|last| (bucket_of(last), last.clone()));
            }
        }
        if next.is_none() && has_more {
            return self.request_page(page);
        }
        let token = next.map(|position| self.token(&position));
        let ticket = page.ticket;
        events.completed(ticket, Completion::reply(page.into_reply(token)));
    }

    /// Returns the entry of a record; `None` if it is a tombstone.
    fn page_entry(
        &self,
        key: &Bytes,
        record: &Record,
        revision: Revision,
        now: ClockReading,
    ) -> Option<PageEntry> {
        let RecordContent::Entry { value, expiry, .. } = &record.content else {
            return None;
        };
        let expires_in_ms = match self.expiry_index.remaining(key, (record, revision), now) {
            RemainingTime::NoExpiry => None,
            RemainingTime::Ms(left_ms) => Some(left_ms),
            // A later change of the key is known already.
            RemainingTime::Unknown => expiry.map(|expiry| {
                let left_ms = expiry.at_wall_ms.saturating_sub(now.wall_ms);
                left_ms.min(expiry.ttl_ms)
            }),
        };
        let (wall_ms, counter) = record.version;
        Some(PageEntry {
            key: key.clone(),
            value: value.clone(),
            version: Given::new(wall_ms, counter),
            expires_in_ms,
        })
    }
}

#[cfg(test)]
mod tests;
