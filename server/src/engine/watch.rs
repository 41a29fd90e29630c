//! Who watches which key.
use statestore::protocol::ServiceError;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The watches of all clients. A watch belongs to a client id and ends with that client's connection.
pub(super) struct Watches {
    /// Sorted by client id.
    by_key: HashMap<Arc<[u8]>, Vec<Arc<str>>>,
    by_client: HashMap<Arc<str>, HashSet<Arc<[u8]>>>,
    max_per_client: usize,
}

impl Watches {
    pub(super) fn new(max_per_client: usize) -> Self {
        Self {
            by_key: HashMap::new(),
            by_client: HashMap::new(),
            max_per_client,
        }
    }

    /// Begins a watch; one that there is already goes on.
    pub(super) fn watch(&mut self, client: &Arc<str>, key: &[u8]) -> Result<(), ServiceError> {
        let keys = self.by_client.entry(client.clone()).or_default();
        if keys.contains(key) {
            return Ok(());
        }
        if keys.len() >= self.max_per_client {
            return Err(ServiceError::Other(
                "the client watches too many keys".into(),
            ));
        }
        let key: Arc<[u8]> = match self.by_key.get_key_value(key) {
            Some((key, _)) => key.clone(),
            None => key.into(),
        };
        keys.insert(key.clone());
        let clients = self.by_key.entry(key).or_default();
        if let Err(place) = clients.binary_search(client) {
            clients.insert(place, client.clone());
        }
        Ok(())
    }

    /// Ends a watch; says whether there was one.
    pub(super) fn unwatch(&mut self, client: &str, key: &[u8]) -> bool {
        let Some(keys) = self.by_client.get_mut(client) else {
            return false;
        };
        let found = keys.remove(key);
        if keys.is_empty() {
            self.by_client.remove(client);
        }
        if found {
            self.forget(client, key);
        }
        found
    }

    /// Ends all watches of a client.
    pub(super) fn disconnected(&mut self, client: &str) {
        for key in self.by_client.remove(client).into_iter().flatten() {
            self.forget(client, &key);
        }
    }

    /// Who watches this key.
    pub(super) fn watchers(&self, key: &[u8]) -> &[Arc<str>] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    fn forget(&mut self, client: &str, key: &[u8]) {
        let Some(clients) = self.by_key.get_mut(key) else {
            return;
        };
        if let Ok(place) = clients.binary_search_by(|it| (**it).cmp(client)) {
            clients.remove(place);
        }
        if clients.is_empty() {
            self.by_key.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_for_watches_that_ended() {
        let mut watches = Watches::new(2);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        for client in [&a, &b] {
            watches.watch(client, b"k").unwrap();
            watches.watch(client, b"l").unwrap();
            watches.watch(client, b"l").unwrap();
        }
        assert!(watches.watch(&a, b"m").is_err());
        assert_eq!(watches.watchers(b"k"), [a.clone(), b.clone()]);
        assert!(watches.unwatch("a", b"k"));
        assert!(!watches.unwatch("a", b"k"));
        assert!(watches.unwatch("a", b"l"));
        watches.disconnected("b");
        watches.disconnected("b");
        assert!(watches.by_key.is_empty() && watches.by_client.is_empty());
    }

    #[test]
    fn a_client_without_room_for_watches_leaves_no_trace() {
        let mut watches = Watches::new(0);
        assert!(watches.watch(&"a".into(), b"k").is_err());
        assert!(watches.by_key.is_empty());
        watches.disconnected("a");
        assert!(watches.by_client.is_empty());
    }
}
