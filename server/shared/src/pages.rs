//! Pages of keys.
//!
//! A page does not depend on keys that the client may not read. These are skipped before anything is counted, and a page ends behind a key
//! that it shows. The exception is a page on which the engine works for longer than [`PAGE_MS`]: it ends at the end of a bucket. The
//! engine's speed then shows in the page, as it shows in the time of any answer.
use super::engine::{EngineError, EngineRequest, EngineRequestId, Link, RecordPage};
use super::{KeyedRecord, REQUEST_RETRY_MS, Retry, SharedKeyspace, bucket_of, plan};
use bytes::{BufMut, Bytes, BytesMut};
use statestore_protocol::glob::Glob;
use statestore_protocol::{Reply, ServiceError};
use statestored_common::ClockReading;
use statestored_store::keyspace::{Completion, EventSink, PageRequest, RequestContext, Ticket};

/// Maximum number of bytes of the keys on a page. A single longer key is still returned, alone.
const MAX_PAGE_BYTES: usize = 64 * 1024;

/// Time in milliseconds after which a page ends with the bucket that is being read.
const PAGE_MS: u64 = 1_000;

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
    bytes: usize,
    started_ms: u64,
    deadline_ms: Option<u64>,
}

impl PendingPage {
    /// Returns whether the key no longer fits.
    fn is_full(&self, key: &Bytes, max_keys: usize) -> bool {
        let is_over = self.keys.len() >= max_keys || self.bytes + key.len() > MAX_PAGE_BYTES;
        is_over && !self.keys.is_empty()
    }
}

impl<L: Link> SharedKeyspace<L> {
    /// Refuses all pages, because the engine is away.
    pub(super) fn reject_pages(&mut self, told: &mut dyn EventSink) {
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
            told.completed(ticket, Completion::Unavailable);
        }
    }

    pub(super) fn begin_page(
        &mut self,
        asked: &RequestContext,
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
            ticket: asked.ticket,
            request: request.clone(),
            after,
            keys: Vec::new(),
            bytes: 0,
            started_ms: asked.now.mono_ms,
            deadline_ms: asked.deadline_ms,
        });
        None
    }

    /// Returns the position of a token.
    fn position(&self, token: &[u8]) -> Option<Position> {
        let mut position = self.page_tokens.open(token)?;
        if position.len() < 2 {
            return None;
        }
        let bucket = position.split_to(2);
        Some((u16::from_be_bytes([bucket[0], bucket[1]]), position))
    }

    /// Returns the token of a position.
    fn token(&self, (bucket, key): &Position) -> Bytes {
        let mut position = BytesMut::with_capacity(2 + key.len());
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
        told: &mut dyn EventSink,
    ) {
        let Some(mut page) = self.pages.remove(&ask) else {
            return;
        };
        if page.deadline_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            return told.completed(page.ticket, Completion::Expired);
        }
        let RecordPage { records, has_more } = match found {
            Ok(found) => found,
            Err(Some(error)) => {
                return told.completed(page.ticket, plan::rejection(&error));
            }
            Err(None) => {
                let again = (now.mono_ms + REQUEST_RETRY_MS, Retry::Page(page));
                return self.retries.push(again);
            }
        };
        let glob = Glob::new(&page.request.pattern);
        let filter_steps = page.request.filter.as_ref().map_or(0, |_| FILTER_STEPS);
        told.add_work(records.len() * (1 + filter_steps));
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
            if page.is_full(&key, self.config.max_page_keys) {
                next = page.keys.last().map(|last| (bucket_of(last), last.clone()));
                continue;
            }
            page.bytes += key.len();
            page.keys.push(key);
        }
        if next.is_none() && has_more {
            return self.request_page(page);
        }
        let token = next.map(|position| self.token(&position));
        let keys = page.keys;
        told.completed(page.ticket, Completion::reply(Reply::Page { keys, token }));
    }
}

#[cfg(test)]
mod tests;
