//! Pages of keys.
//!
//! A page does not depend on keys that the client may not read. These are skipped before anything is counted, and a page ends behind a key
//! that it shows. The exception is a page on which the engine works for longer than [`PAGE_MS`]: it ends at the end of a bucket. The
//! engine's speed then shows in the page, as it shows in the time of any answer.
use super::engine::{Ask, AskId, EngineError, FoundPage, Link};
use super::{ASK_AGAIN_MS, Again, Found, Remote, bucket_of, plan};
use crate::clock::Now;
use crate::keyspace::{Asked, End, PageRequest, Ticket, Told};
use bytes::{BufMut, Bytes, BytesMut};
use statestore_protocol::glob::Glob;
use statestore_protocol::{Reply, ServiceError};

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
pub(super) struct Page {
    ticket: Ticket,
    request: PageRequest,
    /// The position of the last engine request.
    after: Option<Position>,
    keys: Vec<Bytes>,
    bytes: usize,
    begun_ms: u64,
    deadline_ms: Option<u64>,
}

impl Page {
    /// Returns whether the key no longer fits.
    fn is_full(&self, key: &Bytes, max_keys: usize) -> bool {
        let is_over = self.keys.len() >= max_keys || self.bytes + key.len() > MAX_PAGE_BYTES;
        is_over && !self.keys.is_empty()
    }
}

impl<L: Link> Remote<L> {
    /// Refuses all pages, because the engine is away.
    pub(super) fn give_up_pages(&mut self, told: &mut dyn Told) {
        let mut tickets: Vec<_> = self.pages.drain().map(|(_, page)| page.ticket).collect();
        let is_page = |(_, again): &mut (u64, Again)| matches!(again, Again::Page(_));
        for (_, again) in self.again.extract_if(.., is_page) {
            if let Again::Page(page) = again {
                tickets.push(page.ticket);
            }
        }
        // The order must be the same in each run of a seed.
        tickets.sort_unstable();
        for ticket in tickets {
            told.ended(ticket, End::Away);
        }
    }

    pub(super) fn begin_page(&mut self, asked: &Asked, request: &PageRequest) -> Option<End> {
        let after = match &request.token {
            None => None,
            Some(token) => match self.position(token) {
                None => return Some(End::reply(Reply::Error(ServiceError::Syntax))),
                position => position,
            },
        };
        self.ask_page(Page {
            ticket: asked.ticket,
            request: request.clone(),
            after,
            keys: Vec::new(),
            bytes: 0,
            begun_ms: asked.now.mono_ms,
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

    pub(super) fn ask_page(&mut self, page: Page) {
        let ask = self.ask(Ask::Page {
            after: page.after.clone(),
            most: self.config.page_keys,
        });
        self.pages.insert(ask, page);
    }

    pub(super) fn paged(
        &mut self,
        ask: AskId,
        found: Result<FoundPage, Option<EngineError>>,
        now: Now,
        told: &mut dyn Told,
    ) {
        let Some(mut page) = self.pages.remove(&ask) else {
            return;
        };
        if page.deadline_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            return told.ended(page.ticket, End::Expired);
        }
        let FoundPage { records, has_more } = match found {
            Ok(found) => found,
            Err(Some(error)) => {
                return told.ended(page.ticket, plan::refusal(&error));
            }
            Err(None) => {
                let again = (now.mono_ms + ASK_AGAIN_MS, Again::Page(page));
                return self.again.push(again);
            }
        };
        let glob = Glob::new(&page.request.pattern);
        let filter_steps = page.request.filter.as_ref().map_or(0, |_| FILTER_STEPS);
        told.worked(records.len() * (1 + filter_steps));
        // A node that has just started reads pages before it knows all records.
        let age = self.clocks.age(now);
        let is_late = now.mono_ms.saturating_sub(page.begun_ms) >= PAGE_MS;
        let mut next = None;
        for found in records {
            let Found {
                key,
                record,
                revision,
            } = found;
            self.saw(&key, &record, revision, now, age);
            if next.is_some() {
                continue;
            }
            let bucket = bucket_of(&key);
            if is_late && page.after.as_ref().is_some_and(|(last, _)| *last != bucket) {
                next = Some((bucket, Bytes::new()));
                continue;
            }
            page.after = Some((bucket, key.clone()));
            let is_live = record.is_entry() && self.sights.is_live(&key, now);
            if !is_live || !page.request.allows(&key) || !glob.matches(&key) {
                continue;
            }
            if page.is_full(&key, self.config.page_keys) {
                next = page.keys.last().map(|last| (bucket_of(last), last.clone()));
                continue;
            }
            page.bytes += key.len();
            page.keys.push(key);
        }
        if next.is_none() && has_more {
            return self.ask_page(page);
        }
        let token = next.map(|position| self.token(&position));
        let keys = page.keys;
        told.ended(page.ticket, End::reply(Reply::Page { keys, token }));
    }
}

#[cfg(test)]
mod tests;
