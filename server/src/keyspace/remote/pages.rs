//! Pages of keys.
use super::engine::{Ask, AskId, EngineError, FoundPage, Link};
use super::{ASK_AGAIN_MS, Again, Found, Remote, bucket_of, plan};
use crate::clock::Now;
use crate::keyspace::{End, Ticket, Told};
use bytes::{Bytes, BytesMut};
use statestore_protocol::Reply;
use statestore_protocol::glob::Glob;

/// A page of keys that was asked for.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) ticket: Ticket,
    pub(super) pattern: Bytes,
    pub(super) after: Option<(u16, Bytes)>,
    pub(super) keys: Vec<Bytes>,
    pub(super) deadline_ms: Option<u64>,
}

impl<L: Link> Remote<L> {
    /// The engine is away.
    pub(super) fn give_up_pages(&mut self, told: &mut dyn Told) {
        let mut tickets: Vec<_> = self.pages.drain().map(|(_, page)| page.ticket).collect();
        let is_page = |(_, again): &mut (u64, Again)| matches!(again, Again::Page(_));
        for (_, again) in self.again.extract_if(.., is_page) {
            if let Again::Page(page) = again {
                tickets.push(page.ticket);
            }
        }
        // In an order that is the same in each run of a seed.
        tickets.sort_unstable();
        for ticket in tickets {
            told.ended(ticket, End::Away);
        }
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
        let glob = Glob::new(&page.pattern);
        told.worked(records.len());
        // A node that has just begun reads before it knows all.
        let age = self.clocks.age(now);
        for found in records {
            let Found {
                key,
                record,
                revision,
            } = found;
            self.saw(&key, &record, revision, now, age);
            page.after = Some((bucket_of(&key), key.clone()));
            if record.is_entry() && self.sights.is_live(&key, now) && glob.matches(&key) {
                page.keys.push(key);
            }
        }
        if has_more && page.keys.is_empty() {
            return self.ask_page(page);
        }
        let token = page.after.filter(|_| has_more).map(|(_, key)| {
            let mut token = BytesMut::with_capacity(1 + key.len());
            token.extend_from_slice(b"+");
            token.extend_from_slice(&key);
            token.freeze()
        });
        let keys = page.keys;
        told.ended(page.ticket, End::reply(Reply::Page { keys, token }));
    }
}
