//! Watches of keys by clients.
use super::ServiceConfig;
use crate::keyspace::Quota;
use statestore_protocol::ServiceError;
use statestored_access::{Owner, Principal, UserLimitsMap};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Error text for a watch beyond the number of keys, or bytes of keys, that one client may watch.
pub const TOO_MANY_WATCHES: &str = "the client watches too many keys";

/// Memory of a watched key besides its bytes: the shared allocation and its slot in the map.
const KEY_BYTES: usize = 160;
/// Memory of a watch besides its key: a slot with the client and one with the key.
const WATCH_BYTES: usize = 80;

/// The watches of all clients. A watch belongs to a client id and ends with that client's connection.
pub(super) struct Watches {
    /// Watching clients by key, sorted by client id. Shared with notifications that have not been handed out yet.
    by_key: HashMap<Arc<[u8]>, Arc<Vec<Arc<str>>>>,
    by_client: HashMap<Arc<str>, ClientWatches>,
    /// Number of watches of each user.
    by_user: HashMap<Owner, usize>,
    max: u64,
    user_limits: UserLimitsMap,
    max_per_client: usize,
    max_bytes_per_client: usize,
    /// Bytes of memory of all watches; a key is counted once.
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
    /// Owner of the watches.
    owner: Owner,
}

impl Watches {
    pub(super) fn new(config: &ServiceConfig) -> Self {
        Self {
            by_key: HashMap::new(),
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
            watched.key_bytes + watched.keys.len() * (KEY_BYTES + WATCH_BYTES)
        })
    }

    /// Returns whether the client watches the key.
    pub(super) fn is_watching(&self, client: &str, key: &[u8]) -> bool {
        self.by_client
            .get(client)
            .is_some_and(|watched| watched.keys.contains(key))
    }

    /// Returns the clients that watch any key.
    pub(super) fn clients(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_client.keys()
    }

    /// Returns the keys that the client watches.
    pub(super) fn keys_of(&self, client: &str) -> impl Iterator<Item = &[u8]> {
        let watched = self.by_client.get(client).into_iter();
        watched.flat_map(|watched| watched.keys.iter().map(|key| &**key))
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
        let most = self.user_limits.get(user).watches;
        let of_user = self.by_user.get(user.owner()).copied().unwrap_or(0);
        let is_full = self.count >= self.max;
        if is_full || most.is_some_and(|most| of_user >= most) {
            self.exceeded_quota = Some(if is_full {
                Quota::Watches
            } else {
                Quota::UserWatches
            });
            return Err(ServiceError::QuotaExceeded);
        }
        let watched = self.by_client.entry(client.clone()).or_default();
        if watched.keys.len() >= self.max_per_client
            || watched.key_bytes + key.len() > self.max_bytes_per_client
        {
            if watched.keys.is_empty() {
                self.by_client.remove(client);
            }
            return Err(ServiceError::Other(TOO_MANY_WATCHES.into()));
        }
        let key: Arc<[u8]> = if let Some((key, _)) = self.by_key.get_key_value(key) {
            key.clone()
        } else {
            self.bytes += KEY_BYTES + key.len();
            key.into()
        };
        self.bytes += WATCH_BYTES;
        self.count += 1;
        *self.by_user.entry(user.owner().clone()).or_default() += 1;
        watched.owner = user.owner().clone();
        watched.key_bytes += key.len();
        watched.keys.insert(key.clone());
        let clients = self.by_key.entry(key).or_default();
        if let Err(place) = clients.binary_search(client) {
            Arc::make_mut(clients).insert(place, client.clone());
        }
        Ok(())
    }

    /// Ends a watch. Returns whether there was one.
    pub(super) fn unwatch(&mut self, client: &str, key: &[u8]) -> bool {
        let Some(watched) = self.by_client.get_mut(client) else {
            return false;
        };
        let found = watched.keys.remove(key);
        let user = watched.owner.clone();
        if watched.keys.is_empty() {
            self.by_client.remove(client);
        } else if found {
            watched.key_bytes -= key.len();
        }
        if found {
            self.remove(client, key);
            self.subtract_user_watches(&user, 1);
        }
        found
    }

    /// Ends all watches of a client. Calls `left` with each key that has no watches any more.
    pub(super) fn end_watches(&mut self, client: &str, mut left: impl FnMut(&[u8])) {
        let Some(watched) = self.by_client.remove(client) else {
            return;
        };
        self.subtract_user_watches(&watched.owner, watched.keys.len());
        for key in watched.keys {
            self.remove(client, &key);
            if self.watchers(&key).is_none() {
                left(&key);
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
mod tests {
    use super::*;
    use statestored_access::UserLimits;

    fn watches(max_watches_per_client: usize) -> Watches {
        Watches::new(&ServiceConfig {
            max_watches_per_client,
            ..ServiceConfig::default()
        })
    }

    #[test]
    fn ended_watches_free_their_memory() {
        let mut watches = watches(2);
        let user = Principal::user("u".into());
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        for client in [&a, &b] {
            watches.watch(client, &user, b"k").unwrap();
            watches.watch(client, &user, b"l").unwrap();
            watches.watch(client, &user, b"l").unwrap();
        }
        assert!(watches.watch(&a, &user, b"m").is_err());
        assert_eq!(**watches.watchers(b"k").unwrap(), [a.clone(), b.clone()]);
        assert_eq!(watches.bytes(), 2 * (KEY_BYTES + 1) + 4 * WATCH_BYTES);
        assert_eq!(
            watches.bytes_of("a"),
            2 * (KEY_BYTES + WATCH_BYTES + 1),
            "as if nobody else watched them"
        );
        assert_eq!(watches.len(), 4);
        assert!(watches.unwatch("a", b"k"));
        assert!(!watches.unwatch("a", b"k"));
        assert!(watches.unwatch("a", b"l"));
        watches.end_watches("b", |_| {});
        watches.end_watches("b", |_| {});
        assert!(watches.by_key.is_empty() && watches.by_client.is_empty());
        assert_eq!((watches.bytes(), watches.bytes_of("a")), (0, 0));
        assert_eq!(watches.len(), 0);
    }

    #[test]
    fn a_rejected_watch_changes_nothing() {
        let mut watches = watches(0);
        assert!(
            watches
                .watch(&"a".into(), &Principal::default(), b"k")
                .is_err()
        );
        assert!(watches.by_key.is_empty());
        watches.end_watches("a", |_| {});
        assert!(watches.by_client.is_empty());
    }

    #[test]
    fn the_watches_of_a_user_and_of_all_are_limited() {
        let mut watches = Watches::new(&ServiceConfig {
            max_watches: 3,
            users: UserLimitsMap {
                default_limits: UserLimits::parse("watches=2").unwrap(),
                ..UserLimitsMap::default()
            },
            ..ServiceConfig::default()
        });
        let (ann, bob) = (Principal::user("ann".into()), Principal::user("bob".into()));
        let (a, b, c): (Arc<str>, Arc<str>, Arc<str>) = ("a".into(), "b".into(), "c".into());
        watches.watch(&a, &ann, b"k").unwrap();
        watches.watch(&b, &ann, b"k").unwrap();
        watches.watch(&b, &ann, b"k").unwrap();
        assert_eq!(
            watches.watch(&b, &ann, b"l"),
            Err(ServiceError::QuotaExceeded)
        );
        watches.watch(&c, &bob, b"k").unwrap();
        assert_eq!(
            watches.watch(&c, &bob, b"l"),
            Err(ServiceError::QuotaExceeded),
            "all have three"
        );
        assert!(watches.unwatch("a", b"k"));
        watches.watch(&c, &bob, b"l").unwrap();
        watches.end_watches("c", |_| {});
        watches.end_watches("b", |_| {});
        assert_eq!(watches.len(), 0);
        assert!(watches.by_user.is_empty());
    }
}
