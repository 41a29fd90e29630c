//! Clients behind the broker that have sent nothing for a while. The broker does not report when such a client is gone.
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Clients by their last request.
#[derive(Debug)]
pub(super) struct ClientActivity {
    timeout_ms: u64,
    clients: HashMap<Arc<str>, LastRequest>,
    due: BTreeSet<(u64, Arc<str>)>,
}

#[derive(Debug)]
struct LastRequest {
    at_ms: u64,
    /// Number of its last request.
    number: u64,
    /// Earliest time at which the client may be idle.
    due_ms: u64,
}

impl ClientActivity {
    /// Creates an empty set. Clients are idle after `after_ms` milliseconds without a request.
    pub(super) fn with_timeout(after_ms: u64) -> Self {
        Self {
            timeout_ms: after_ms,
            clients: HashMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Returns the number of clients.
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Notes a request of a client, with its number. Returns the client's name, which all users share.
    pub(super) fn record_request(&mut self, client: &str, request: u64, now_ms: u64) -> Arc<str> {
        if let Some((client, _)) = self.clients.get_key_value(client) {
            let client = Arc::clone(client);
            if let Some(seen) = self.clients.get_mut(&client) {
                seen.at_ms = now_ms;
                seen.number = request;
            }
            return client;
        }
        let client: Arc<str> = client.into();
        let due_ms = now_ms.saturating_add(self.timeout_ms);
        let seen = LastRequest {
            at_ms: now_ms,
            number: request,
            due_ms,
        };
        self.clients.insert(Arc::clone(&client), seen);
        self.due.insert((due_ms, Arc::clone(&client)));
        client
    }

    /// Returns the number of the last request of a client that is not idle.
    pub(super) fn last_request(&self, client: &str) -> Option<u64> {
        self.clients.get(client).map(|seen| seen.number)
    }

    /// Returns when a client may be idle.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Removes and returns a client that is idle.
    pub(super) fn take_idle(&mut self, now_ms: u64) -> Option<Arc<str>> {
        while self.next_ms()? <= now_ms {
            let (_, client) = self.due.pop_first()?;
            let Some(seen) = self.clients.get_mut(&client) else {
                continue;
            };
            // An entry moves only when its time has come.
            let due_ms = seen.at_ms.saturating_add(self.timeout_ms);
            if due_ms > now_ms {
                seen.due_ms = due_ms;
                self.due.insert((due_ms, client));
                continue;
            }
            self.clients.remove(&client);
            return Some(client);
        }
        None
    }

    /// Removes a client.
    pub(super) fn remove(&mut self, client: &str) {
        if let Some((client, seen)) = self.clients.remove_entry(client) {
            self.due.remove(&(seen.due_ms, client));
        }
    }

    /// Removes and returns the client that has been silent longest, roughly.
    pub(super) fn take_oldest(&mut self) -> Option<Arc<str>> {
        let (_, client) = self.due.pop_first()?;
        self.clients.remove(&client);
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_idle_once_after_its_last_request() {
        let mut idle = ClientActivity::with_timeout(100);
        let a = idle.record_request("a", 1, 0);
        idle.record_request("b", 2, 50);
        assert!(Arc::ptr_eq(&a, &idle.record_request("a", 3, 90)));
        assert_eq!(idle.last_request("a"), Some(3));
        assert_eq!(idle.take_idle(100), None);
        assert_eq!(idle.take_idle(150).as_deref(), Some("b"));
        assert_eq!((idle.take_idle(189), idle.next_ms()), (None, Some(190)));
        assert_eq!(idle.take_idle(190).as_deref(), Some("a"));
        assert_eq!(
            (idle.take_idle(u64::MAX), idle.next_ms(), idle.len()),
            (None, None, 0)
        );
        idle.record_request("a", 4, 200);
        assert_eq!(idle.take_oldest().as_deref(), Some("a"));
        assert_eq!(idle.last_request("a"), None);
        idle.record_request("a", 5, 300);
        idle.record_request("a", 6, 350);
        assert_eq!(idle.take_idle(400), None);
        idle.remove("a");
        idle.remove("b");
        assert_eq!((idle.next_ms(), idle.len()), (None, 0));
    }
}
