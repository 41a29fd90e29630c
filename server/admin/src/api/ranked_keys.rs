//! The keys with the largest values, and those that expire next.
use super::{bad_cursor, describe_bytes, key_cursor, keys, pattern};
use crate::app_state::AppState;
use crate::query::Query;
use crate::reply::Reply;
use bytes::Bytes;
use serde_json::{Value, json};
use statestored_broker::hub::inspect::{KeyCursor, ListPage};
use statestored_store::keyspace::EntryView;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Maximum number of keys in an answer.
const MAX_ITEMS: usize = 20;

/// The keys with the lowest ranks, lowest first.
#[derive(Debug, Default)]
struct Ranking<R>(BTreeSet<(R, Bytes)>);

impl<R: Ord> Ranking<R> {
    fn add(&mut self, rank: R, key: Bytes) {
        self.0.insert((rank, key));
        if self.0.len() > MAX_ITEMS {
            self.0.pop_last();
        }
    }
}

impl Ranking<u64> {
    /// Adds an entry if it expires.
    fn add_expiry(&mut self, key: Bytes, entry: &EntryView) {
        if let Some(left_ms) = entry.expires_in_ms {
            self.add(left_ms, key);
        }
    }
}

impl AppState {
    /// Returns the keys with the largest values in a part of the store.
    pub(crate) async fn big_keys(&self, query: Query<'_>) -> Reply {
        let (pattern, Some(cursor)) = (pattern(query), key_cursor(query)) else {
            return bad_cursor();
        };
        let mut largest = Ranking::<Reverse<usize>>::default();
        let next = self
            .walk_entries(&pattern, cursor, |key, entry| {
                largest.add(Reverse(entry.value_bytes), key);
                true
            })
            .await;
        let items = largest.0.into_iter().map(|(Reverse(value_bytes), key)| {
            json!({ "key": describe_bytes(&key), "value_bytes": value_bytes })
        });
        let items: Vec<Value> = items.collect();
        keys(next.map(|next| Some(ListPage { items, next })), |it| it)
    }

    /// Returns the keys that expire next: of the whole store if its index shows them, otherwise of a part of it.
    pub(crate) async fn next_expiries(&self, query: Query<'_>) -> Reply {
        let (pattern, Some(cursor)) = (pattern(query), key_cursor(query)) else {
            return bad_cursor();
        };
        let mut soonest = Ranking::<u64>::default();
        let next = match self.is_shared().await {
            Ok(true) => {
                let walk = self.walk_entries(&pattern, cursor, |key, entry| {
                    soonest.add_expiry(key, &entry);
                    true
                });
                walk.await
            }
            Ok(false) => self.rank_indexed(&pattern, cursor, &mut soonest).await,
            Err(failure) => Err(failure),
        };
        let items = soonest
            .0
            .into_iter()
            .map(|(left_ms, key)| json!({ "key": describe_bytes(&key), "expires_in_ms": left_ms }));
        let items: Vec<Value> = items.collect();
        keys(next.map(|next| Some(ListPage { items, next })), |it| it)
    }

    /// Adds the next keys to expire of the index. Returns the cursor of those that follow; `None` if no further one is needed.
    async fn rank_indexed(
        &self,
        pattern: &Bytes,
        from: KeyCursor,
        soonest: &mut Ranking<u64>,
    ) -> Result<Option<KeyCursor>, Reply> {
        let pattern = pattern.clone();
        let page = self.inspect(move |hub, now| hub.expiring_from(&pattern, &from, now));
        let Some(page) = page.await? else {
            return Err(bad_cursor());
        };
        let is_complete = page.items.len() >= MAX_ITEMS;
        for (key, entry) in page.items {
            soonest.add_expiry(key, &entry);
        }
        Ok(page.next.filter(|_| !is_complete))
    }
}
