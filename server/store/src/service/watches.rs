//! Watches of keys and of patterns by clients.
use super::ServiceConfig;
use super::pattern_index::{self, PatternIndex, Watchers};
use super::request::NotificationScope;
use crate::keyspace::Quota;
use statestore_protocol::ServiceError;
use statestore_protocol::glob::Glob;
use statestored_access::{Owner, Principal, UserLimitsMap};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Error text for a watch beyond the number or bytes of keys and patterns that one client may watch.
pub const TOO_MANY_WATCHES: &str = "the client watches too many keys";

/// Memory of a watched key besides its bytes: the shared allocation and its slot in the map.
const KEY_BYTES: usize = 160;
/// Memory of a watch besides its key or pattern: a slot with the client and one with the key or pattern.
const WATCH_BYTES: usize = 80;

/// Cost of merging a client into the recipients of a notification, roughly in nanoseconds.
const MERGE_STEPS: usize = 100;

/// The watches of all clients. A watch belongs to a client id and ends with that client's connection.
pub(super) struct Watches {
    /// Watching clients by key, sorted by client id. Shared with notifications that have not been handed out yet.
    by_key: HashMap<Arc<[u8]>, Watchers>,
    patterns: PatternIndex,
    by_client: HashMap<Arc<str>, ClientWatches>,
    /// Number of watches of each user.
    by_user: HashMap<Owner, usize>,
    max: u64,
    user_limits: UserLimitsMap,
    max_per_client: usize,
    max_bytes_per_client: usize,
    /// Bytes of memory of all watches; a key or pattern is counted once.
    bytes: usize,
    /// Number of watches.
    count: u64,
    /// Quota that the last rejected watch met.
    pub(super) exceeded_quota: Option<Quota>,
}

/// The watches of one client.
#[derive(Default)]
struct ClientWatches {
    keys: HashSet<Arc<[u8]>>,
    /// Bytes of these keys together.
    key_bytes: usize,
    patterns: BTreeSet<Arc<[u8]>>,
    /// Bytes of these patterns together, compiled.
    pattern_bytes: usize,
    /// Owner of the watches.
    owner: Owner,
}

impl ClientWatches {
    fn len(&self) -> usize {
        self.keys.len() + self.patterns.len()
    }
}

/// A key or pattern that no client watches any more.
pub(super) enum Unwatched<'a> {
    Key(&'a [u8]),
    Pattern(&'a [u8]),
}

impl Watches {
    pub(super) fn new(config: &ServiceConfig) -> Self {
        Self {
            by_key: HashMap::new(),
            patterns: PatternIndex::default(),
            by_client: HashMap::new(),
            by_user: HashMap::new(),
            max: config.max_watches,
            user_limits: config.users.clone(),
            max_per_client: config.max_watches_per_client,
            max_bytes_per_client: config.max_watched_bytes_per_client,
            bytes: 0,
            count: 0,
            exceeded_quota: None,
        }
    }

    /// Returns the number of watches.
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of memory that all watches take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of memory that the watches of one client would take without those of others.
    pub(super) fn bytes_of(&self, client: &str) -> usize {
        self.by_client.get(client).map_or(0, |watched| {
            watched.key_bytes
                + watched.pattern_bytes
                + watched.keys.len() * (KEY_BYTES + WATCH_BYTES)
                + watched.patterns.len() * (pattern_index::pattern_bytes(0, 0) + WATCH_BYTES)
        })
    }

    /// Returns the number of keys and patterns that the client watches.
    pub(super) fn count_of(&self, client: &str) -> usize {
        self.by_client.get(client).map_or(0, ClientWatches::len)
    }

    /// Returns the maximum number of watches.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// Returns the number of watches of an owner's clients.
    pub(super) fn count_of_owner(&self, owner: &Owner) -> usize {
        self.by_user.get(owner).copied().unwrap_or(0)
    }

    /// Returns whether the client watches the key.
    pub(super) fn is_watching(&self, client: &str, key: &[u8]) -> bool {
        self.by_client
            .get(client)
            .is_some_and(|watched| watched.keys.contains(key))
    }

    /// Returns whether the client watches the pattern.
    pub(super) fn is_watching_pattern(&self, client: &str, pattern: &[u8]) -> bool {
        self.by_client
            .get(client)
            .is_some_and(|watched| watched.patterns.contains(pattern))
    }

    /// Returns whether the client watches the key, or a pattern that the key matches. Adds the cost to `steps`, roughly in nanoseconds.
    pub(super) fn is_notified(&self, client: &str, key: &[u8], steps: &mut usize) -> bool {
        self.is_watching(client, key)
            || !self.patterns.is_empty() && self.patterns.is_notified(client, key, steps)
    }

    /// Returns the clients that watch any key or pattern.
    pub(super) fn clients(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_client.keys()
    }

    /// Returns the keys that the client watches.
    pub(super) fn keys_of(&self, client: &str) -> impl Iterator<Item = &[u8]> {
        let watched = self.by_client.get(client).into_iter();
        watched.flat_map(|watched| watched.keys.iter().map(|key| &**key))
    }

    /// Returns the patterns that the client watches, in their order.
    pub(super) fn patterns_of(&self, client: &str) -> impl Iterator<Item = &Arc<[u8]>> {
        let watched = self.by_client.get(client).into_iter();
        watched.flat_map(|watched| &watched.patterns)
    }

    /// Returns all patterns, each with the clients that watch it.
    pub(super) fn patterns(&self) -> impl Iterator<Item = (&Arc<[u8]>, &Watchers)> {
        self.patterns.iter()
    }

    /// Returns whether any client watches this pattern.
    pub(super) fn is_pattern_watched(&self, pattern: &[u8]) -> bool {
        self.patterns.watchers(pattern).is_some()
    }

    /// Begins a watch. An existing watch of the client on this key continues.
    pub(super) fn watch(
        &mut self,
        client: &Arc<str>,
        user: &Principal,
        key: &[u8],
    ) -> Result<(), ServiceError> {
        if self.is_watching(client, key) {
            return Ok(());
        }
        self.check_limits(client, user, key.len())?;
        let key: Arc<[u8]> = if let Some((key, _)) = self.by_key.get_key_value(key) {
            key.clone()
        } else {
            self.bytes += KEY_BYTES + key.len();
            key.into()
        };
        let watched = self.count_watch(client, user);
        watched.key_bytes += key.len();
        watched.keys.insert(key.clone());
        let clients = self.by_key.entry(key).or_default();
        if let Err(place) = clients.binary_search(client) {
            Arc::make_mut(clients).insert(place, client.clone());
        }
        Ok(())
    }

    /// Begins a watch of a pattern. An existing watch of the client on this pattern continues.
    pub(super) fn watch_pattern(
        &mut self,
        client: &Arc<str>,
        user: &Principal,
        pattern: &[u8],
    ) -> Result<(), ServiceError> {
        if self.is_watching_pattern(client, pattern) {
            return Ok(());
        }
        let glob = Glob::new(pattern);
        let (len, prefix) = (pattern.len(), glob.literal_prefix().len());
        let bytes = pattern_index::text_bytes(len, prefix);
        self.check_limits(client, user, bytes)?;
        let is_first = !self.is_pattern_watched(pattern);
        let Some(text) = self.patterns.watch(pattern, glob, client, user.owner()) else {
            self.exceeded_quota = Some(Quota::UserPatterns);
            return Err(ServiceError::QuotaExceeded);
        };
        if is_first {
            self.bytes += pattern_index::pattern_bytes(len, prefix);
        }
        let watched = self.count_watch(client, user);
        watched.pattern_bytes += bytes;
        watched.patterns.insert(text);
        Ok(())
    }

    /// Returns an error if the client may not watch another key or pattern of this many bytes.
    fn check_limits(
        &mut self,
        client: &str,
        user: &Principal,
        bytes: usize,
    ) -> Result<(), ServiceError> {
        let most = self.user_limits.get(user).watches;
        let of_user = self.count_of_owner(user.owner());
        let is_full = self.count >= self.max;
        if is_full || most.is_some_and(|most| of_user >= most) {
            self.exceeded_quota = Some(if is_full {
                Quota::Watches
            } else {
                Quota::UserWatches
            });
            return Err(ServiceError::QuotaExceeded);
        }
        let (count, held) = self.by_client.get(client).map_or((0, 0), |watched| {
            (watched.len(), watched.key_bytes + watched.pattern_bytes)
        });
        if count >= self.max_per_client || held + bytes > self.max_bytes_per_client {
            return Err(ServiceError::Other(TOO_MANY_WATCHES.into()));
        }
        Ok(())
    }

    /// Counts a new watch. Returns the watches of the client.
    fn count_watch(&mut self, client: &Arc<str>, user: &Principal) -> &mut ClientWatches {
        self.bytes += WATCH_BYTES;
        self.count += 1;
        *self.by_user.entry(user.owner().clone()).or_default() += 1;
        let watched = self.by_client.entry(Arc::clone(client)).or_default();
        watched.owner = user.owner().clone();
        watched
    }

    /// Ends a watch. Returns whether there was one.
    pub(super) fn unwatch(&mut self, client: &str, key: &[u8]) -> bool {
        let Some(watched) = self.by_client.get_mut(client) else {
            return false;
        };
        let found = watched.keys.remove(key);
        let user = watched.owner.clone();
        if found {
            watched.key_bytes -= key.len();
        }
        if watched.len() == 0 {
            self.by_client.remove(client);
        }
        if found {
            self.remove(client, key);
            self.subtract_user_watches(&user, 1);
        }
        found
    }

    /// Ends a watch of a pattern. Returns whether there was one.
    pub(super) fn unwatch_pattern(&mut self, client: &str, pattern: &[u8]) -> bool {
        let Some(watched) = self.by_client.get_mut(client) else {
            return false;
        };
        if !watched.patterns.remove(pattern) {
            return false;
        }
        let (user, is_last) = (watched.owner.clone(), watched.len() == 0);
        let bytes = self.remove_pattern(client, pattern, &user);
        if is_last {
            self.by_client.remove(client);
        } else if let Some(watched) = self.by_client.get_mut(client) {
            watched.pattern_bytes -= bytes;
        }
        self.subtract_user_watches(&user, 1);
        true
    }

    /// Ends all watches of a client. Calls `left` with each key and pattern that has no watches any more.
    pub(super) fn end_watches(&mut self, client: &str, mut left: impl FnMut(Unwatched<'_>)) {
        let Some(watched) = self.by_client.remove(client) else {
            return;
        };
        self.subtract_user_watches(&watched.owner, watched.len());
        for key in &watched.keys {
            self.remove(client, key);
            if self.watchers(key).is_none() {
                left(Unwatched::Key(key));
            }
        }
        for pattern in &watched.patterns {
            self.remove_pattern(client, pattern, &watched.owner);
            if !self.is_pattern_watched(pattern) {
                left(Unwatched::Pattern(pattern));
            }
        }
    }

    fn subtract_user_watches(&mut self, user: &Owner, ended: usize) {
        if let Some(count) = self.by_user.get_mut(user) {
            *count -= ended;
            if *count == 0 {
                self.by_user.remove(user);
            }
        }
    }

    /// Sets the limits of all clients together and of each user. Existing watches beyond a limit continue.
    pub(super) fn set_limits(&mut self, config: &ServiceConfig) {
        self.max = config.max_watches;
        self.user_limits = config.users.clone();
    }

    /// Returns the clients that watch this key.
    pub(super) fn watchers(&self, key: &[u8]) -> Option<&Arc<Vec<Arc<str>>>> {
        self.by_key.get(key)
    }

    /// Returns whether any client watches a pattern.
    #[inline]
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Returns those of a key's former watchers that still watch it.
    pub(super) fn still_watching(&self, watchers: Watchers, key: &[u8]) -> Option<Watchers> {
        let is_watching = |client: &&Arc<str>| self.is_watching(client, key);
        if watchers.iter().all(|client| is_watching(&client)) {
            return Some(watchers);
        }
        let left: Vec<_> = watchers.iter().filter(is_watching).cloned().collect();
        (!left.is_empty()).then(|| Arc::new(left))
    }

    /// Adds the clients that watch a pattern which this key matches to the watchers of the key. Each client is among the recipients once.
    /// Adds the cost to `steps`, roughly in nanoseconds.
    pub(super) fn recipients(
        &self,
        watchers: Option<&Watchers>,
        key: &[u8],
        steps: &mut usize,
    ) -> Option<(Watchers, NotificationScope)> {
        let mut only = watchers;
        let mut merged: Vec<Arc<str>> = Vec::new();
        let mut scope = NotificationScope::Key;
        self.patterns.for_each_match(key, steps, |clients| {
            scope = NotificationScope::Matching;
            let Some(others) = only else {
                only = Some(clients);
                return;
            };
            if merged.is_empty() {
                merged.extend(others.iter().map(Arc::clone));
            }
            merged.extend(clients.iter().map(Arc::clone));
        });
        if merged.is_empty() {
            return only.map(|clients| (Arc::clone(clients), scope));
        }
        *steps += merged.len() * MERGE_STEPS;
        merged.sort_unstable();
        merged.dedup();
        Some((Arc::new(merged), scope))
    }

    /// Removes a watch of a pattern, which is counted no more for the client. Returns the bytes that it had there.
    fn remove_pattern(&mut self, client: &str, pattern: &[u8], user: &Owner) -> usize {
        let glob = Glob::new(pattern);
        let (len, prefix) = (pattern.len(), glob.literal_prefix());
        self.patterns.unwatch(pattern, prefix, client, user);
        self.bytes -= WATCH_BYTES;
        self.count -= 1;
        if !self.is_pattern_watched(pattern) {
            self.bytes -= pattern_index::pattern_bytes(len, prefix.len());
        }
        pattern_index::text_bytes(len, prefix.len())
    }

    fn remove(&mut self, client: &str, key: &[u8]) {
        let Some(clients) = self.by_key.get_mut(key) else {
            return;
        };
        if let Ok(place) = clients.binary_search_by(|it| (**it).cmp(client)) {
            Arc::make_mut(clients).remove(place);
            self.bytes -= WATCH_BYTES;
            self.count -= 1;
        }
        if clients.is_empty() {
            self.by_key.remove(key);
            self.bytes -= KEY_BYTES + key.len();
        }
    }
}

#[cfg(test)]
mod tests;
