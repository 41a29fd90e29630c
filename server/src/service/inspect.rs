//! Entries and watches as administrators see them.
use super::Service;
use super::changes::Noting;
use crate::clock::Now;
use crate::keyspace::{Asked, End, Look, PageRequest};
use bytes::Bytes;
use statestore_protocol::Reply;
use std::sync::Arc;

impl Service {
    /// Returns a page of the keys that match a pattern, with the token of the next page. Returns `None` if the token is
    /// invalid, or if the keyspace cannot list its keys at once.
    pub(crate) fn keys(
        &mut self,
        pattern: &Bytes,
        token: Option<&Bytes>,
        now: Now,
    ) -> Option<(Vec<Bytes>, Option<Bytes>)> {
        let asked = Asked {
            ticket: self.under_way.take_ticket(),
            now,
            deadline_ms: None,
            request: None,
        };
        let mut told = Noting {
            changes: &mut self.changes,
            watches: &self.watches,
            kept: self.kept.as_mut(),
            is_asked_for: false,
            insertions: &mut self.meter.figures.insertions,
        };
        let request = PageRequest {
            token: token.cloned(),
            ..PageRequest::all(pattern.clone())
        };
        let page = self.keyspace.page(&asked, &request, &mut told)?;
        match page {
            End::Answered {
                reply: Reply::Page { keys, token },
                ..
            } => Some((keys, token)),
            _ => None,
        }
    }

    /// Returns the current entry of a key, with at most `most_bytes` bytes of its value.
    pub(crate) fn look(&self, key: &[u8], most_bytes: usize, now: Now) -> Option<Look> {
        self.keyspace.look(key, most_bytes, now)
    }

    /// Returns the clients that watch a key.
    pub(crate) fn watchers(&self, key: &[u8]) -> &[Arc<str>] {
        self.watches.watchers(key).map_or(&[], |clients| clients)
    }
}
