//! Who watches which key.
use super::ServiceConfig;
use statestore_protocol::ServiceError;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Memory of a key that is watched, besides its bytes: the shared allocation and its place in the map.
const KEY_BYTES: usize = 160;
/// Memory of a watch besides its key: a place with the client and one with the key.
const WATCH_BYTES: usize = 80;

/// The watches of all clients. A watch belongs to a client id and ends with that client's connection.
pub(super) struct Watches {
    /// Sorted by client id. Shared with notifications that are still to be handed out.
    by_key: HashMap<Arc<[u8]>, Arc<Vec<Arc<str>>>>,
    by_client: HashMap<Arc<str>, Watched>,
    max_per_client: usize,
    max_bytes_per_client: usize,
    /// Memory of all; a key is counted once.
    bytes: usize,
}

/// What one client watches.
#[derive(Default)]
struct Watched {
    keys: HashSet<Arc<[u8]>>,
    /// Of these keys together.
    key_bytes: usize,
}

impl Watches {
    pub(super) fn new(config: &ServiceConfig) -> Self {
        Self {
            by_key: HashMap::new(),
            by_client: HashMap::new(),
            max_per_client: config.max_watches_per_client,
            max_bytes_per_client: config.max_watched_bytes_per_client,
            bytes: 0,
        }
    }

    /// Bytes of memory that all watches take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that the watches of one client would take without those of others.
    pub(super) fn bytes_of(&self, client: &str) -> usize {
        self.by_client.get(client).map_or(0, |watched| {
            watched.key_bytes + watched.keys.len() * (KEY_BYTES + WATCH_BYTES)
        })
    }

    /// Whether the client watches the key.
    pub(super) fn is_watching(&self, client: &str, key: &[u8]) -> bool {
        self.by_client
            .get(client)
            .is_some_and(|watched| watched.keys.contains(key))
    }

    /// Begins a watch; one that there is already goes on.
    pub(super) fn watch(&mut self, client: &Arc<str>, key: &[u8]) -> Result<(), ServiceError> {
        let watched = self.by_client.entry(client.clone()).or_default();
        if watched.keys.contains(key) {
            return Ok(());
        }
        if watched.keys.len() >= self.max_per_client
            || watched.key_bytes + key.len() > self.max_bytes_per_client
        {
            if watched.keys.is_empty() {
                self.by_client.remove(client);
            }
            return Err(ServiceError::Other(
                "the client watches too many keys".into(),
            ));
        }
        let key: Arc<[u8]> = if let Some((key, _)) = self.by_key.get_key_value(key) {
            key.clone()
        } else {
            self.bytes += KEY_BYTES + key.len();
            key.into()
        };
        self.bytes += WATCH_BYTES;
        watched.key_bytes += key.len();
        watched.keys.insert(key.clone());
        let clients = self.by_key.entry(key).or_default();
        if let Err(place) = clients.binary_search(client) {
            Arc::make_mut(clients).insert(place, client.clone());
        }
        Ok(())
    }

    /// Ends a watch; says whether there was one.
    pub(super) fn unwatch(&mut self, client: &str, key: &[u8]) -> bool {
        let Some(watched) = self.by_client.get_mut(client) else {
            return false;
        };
        let found = watched.keys.remove(key);
        if watched.keys.is_empty() {
            self.by_client.remove(client);
        } else if found {
            watched.key_bytes -= key.len();
        }
        if found {
            self.forget(client, key);
        }
        found
    }

    /// Ends all watches of a client.
    pub(super) fn disconnected(&mut self, client: &str) {
        for key in self.by_client.remove(client).unwrap_or_default().keys {
            self.forget(client, &key);
        }
    }

    /// Who watches this key.
    pub(super) fn watchers(&self, key: &[u8]) -> Option<&Arc<Vec<Arc<str>>>> {
        self.by_key.get(key)
    }

    fn forget(&mut self, client: &str, key: &[u8]) {
        let Some(clients) = self.by_key.get_mut(key) else {
            return;
        };
        if let Ok(place) = clients.binary_search_by(|it| (**it).cmp(client)) {
            Arc::make_mut(clients).remove(place);
            self.bytes -= WATCH_BYTES;
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

    fn watches(max_watches_per_client: usize) -> Watches {
        Watches::new(&ServiceConfig {
            max_watches_per_client,
            ..ServiceConfig::default()
        })
    }

    #[test]
    fn nothing_is_kept_for_watches_that_ended() {
        let mut watches = watches(2);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        for client in [&a, &b] {
            watches.watch(client, b"k").unwrap();
            watches.watch(client, b"l").unwrap();
            watches.watch(client, b"l").unwrap();
        }
        assert!(watches.watch(&a, b"m").is_err());
        assert_eq!(**watches.watchers(b"k").unwrap(), [a.clone(), b.clone()]);
        assert_eq!(watches.bytes(), 2 * (KEY_BYTES + 1) + 4 * WATCH_BYTES);
        assert_eq!(
            watches.bytes_of("a"),
            2 * (KEY_BYTES + WATCH_BYTES + 1),
            "as if nobody else watched them"
        );
        assert!(watches.unwatch("a", b"k"));
        assert!(!watches.unwatch("a", b"k"));
        assert!(watches.unwatch("a", b"l"));
        watches.disconnected("b");
        watches.disconnected("b");
        assert!(watches.by_key.is_empty() && watches.by_client.is_empty());
        assert_eq!((watches.bytes(), watches.bytes_of("a")), (0, 0));
    }

    #[test]
    fn a_client_without_room_for_watches_leaves_no_trace() {
        let mut watches = watches(0);
        assert!(watches.watch(&"a".into(), b"k").is_err());
        assert!(watches.by_key.is_empty());
        watches.disconnected("a");
        assert!(watches.by_client.is_empty());
    }
}
