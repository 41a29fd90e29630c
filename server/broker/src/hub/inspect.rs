//! Views and actions of operators. Each handles a bounded part of a list, since all clients wait meanwhile.
use super::Hub;
use super::session::Session;
use bytes::Bytes;
use statestored_common::ClockReading;
use statestored_store::keyspace::EntryView;
use statestored_store::service::CommitIndex;
use std::sync::Arc;

/// Maximum number of connections, sessions or keys in a part of a list.
pub const MAX_PAGE_ITEMS: usize = 200;
/// Maximum number of bytes of a value that may be the name of a holder.
pub const MAX_HOLDER_BYTES: usize = 2048;

/// A session, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// Client identifier.
    pub client: Arc<str>,
    /// User of the last login; `None` is an anonymous client.
    pub user: Option<String>,
    /// Whether the session has a connection now.
    pub is_connected: bool,
    /// Number of subscriptions.
    pub subscriptions: usize,
    /// Bytes that wait for the session's client, or for its acknowledgement.
    pub held_bytes: usize,
    /// Seconds that the session outlives its connection.
    pub expiry_s: u32,
}

/// A part of a list, and where the next part begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage<T, C> {
    /// Items of this part.
    pub items: Vec<T>,
    /// Position of the next part; `None` at the end of the list.
    pub next: Option<C>,
}

/// Position in a list of keys: after a key of a page, or at the start of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyCursor {
    /// Token of the page; `None` is the first page.
    pub token: Option<Bytes>,
    /// Last key before the position; `None` is the start of the page.
    pub after: Option<Bytes>,
}

/// A key of a client's lock or lease: it expires, and its value names the holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockView {
    /// Key of the lock.
    pub key: Bytes,
    /// Name of the holder: the value of the key.
    pub holder: String,
    /// The client that holds it.
    pub client: String,
    /// Whether that client has a session now.
    pub has_session: bool,
    /// Number of clients that watch the key.
    pub waiters: usize,
    /// Entry of the key.
    pub entry: EntryView,
}

impl Hub {
    /// Returns sessions, from the one at index `first` on.
    pub fn sessions_from(&self, first: usize) -> ListPage<SessionView, usize> {
        let all = self.sessions.iter().skip(first).take(MAX_PAGE_ITEMS);
        let items = all.map(|(_, session)| session_view(session));
        list_page(items.collect(), first, self.sessions.len())
    }

    /// Returns keys that match a pattern, or `None` if the cursor is invalid.
    pub fn keys_from(
        &mut self,
        pattern: &Bytes,
        from: KeyCursor,
        now: ClockReading,
    ) -> Option<ListPage<Bytes, KeyCursor>> {
        let (keys, next) = self.service.keys(pattern, from.token.as_ref(), now)?;
        Some(list_page_of_keys(keys, next, from))
    }

    /// Returns the clients that watch a key, or a pattern that the key matches.
    pub(crate) fn watchers(&self, key: &[u8]) -> Vec<Arc<str>> {
        let watchers = self.service.watchers(key);
        watchers[..watchers.len().min(MAX_PAGE_ITEMS)].to_vec()
    }

    /// Returns the present entry of a key, and the clients that watch the key or a pattern that it matches.
    pub fn entry_view(
        &self,
        key: &[u8],
        most_bytes: usize,
        now: ClockReading,
    ) -> (Option<EntryView>, Vec<Arc<str>>) {
        let entry = self.service.entry_view(key, most_bytes, now);
        (entry, self.watchers(key))
    }

    /// Returns the entries of a page of the keys that match a pattern, without their values, and the token of the next page. Returns
    /// `None` if the token is invalid.
    pub fn entry_page(
        &mut self,
        pattern: &Bytes,
        token: Option<&Bytes>,
        now: ClockReading,
    ) -> Option<ListPage<(Bytes, EntryView), Bytes>> {
        let (keys, next) = self.service.keys(pattern, token, now)?;
        let entries = keys.into_iter().filter_map(|key| {
            let entry = self.service.entry_view(&key, 0, now)?;
            Some((key, entry))
        });
        let items = entries.collect();
        Some(ListPage { items, next })
    }

    /// Returns a part of the keys that expire and match a pattern, soonest first, with their entries without values. Returns `None` if
    /// the cursor is invalid.
    pub fn expiring_from(
        &self,
        pattern: &Bytes,
        from: &KeyCursor,
        now: ClockReading,
    ) -> Option<ListPage<(Bytes, EntryView), KeyCursor>> {
        self.list_expiring(pattern, from, now, |key| {
            let entry = self.service.entry_view(&key, 0, now)?;
            Some((key, entry))
        })
    }

    /// Returns the locks among a part of the keys that expire and match a pattern, soonest first, or `None` if the cursor is invalid.
    pub fn locks_from(
        &self,
        pattern: &Bytes,
        from: &KeyCursor,
        now: ClockReading,
    ) -> Option<ListPage<LockView, KeyCursor>> {
        self.list_expiring(pattern, from, now, |key| self.find_lock(key, now))
    }

    fn list_expiring<T>(
        &self,
        pattern: &Bytes,
        from: &KeyCursor,
        now: ClockReading,
        view: impl Fn(Bytes) -> Option<T>,
    ) -> Option<ListPage<T, KeyCursor>> {
        if from.after.is_some() {
            return None;
        }
        let token = from.token.as_ref();
        let (keys, next) = self.service.expiring_keys(pattern, token, now)?;
        let next = next.map(|token| KeyCursor {
            token: Some(token),
            after: None,
        });
        Some(ListPage {
            items: keys.into_iter().filter_map(view).collect(),
            next,
        })
    }

    fn find_lock(&self, key: Bytes, now: ClockReading) -> Option<LockView> {
        let entry = self.service.entry_view(&key, MAX_HOLDER_BYTES, now)?;
        self.lock_view(key, entry)
    }

    /// Returns the lock that a key stands for, if it is one.
    pub fn lock_view(&self, key: Bytes, entry: EntryView) -> Option<LockView> {
        if entry.expires_in_ms.is_none() || entry.value_bytes > MAX_HOLDER_BYTES {
            return None;
        }
        let holder = std::str::from_utf8(&entry.value).ok()?;
        let has_session = |client: &str| self.sessions.find(client).is_some();
        let client = if has_session(holder) {
            holder
        } else {
            holder_client(holder)?
        };
        Some(LockView {
            client: client.into(),
            has_session: has_session(client),
            waiters: self.service.key_watcher_count(&key),
            holder: holder.into(),
            key,
            entry,
        })
    }

    /// Returns whether keys are logged.
    pub fn logs_keys(&self) -> bool {
        self.limits.audit.logs_keys
    }

    /// Returns whether a commit is durable, so that its effect may be shown.
    pub fn is_durable(&self, commit: CommitIndex) -> bool {
        self.service.pending_index(commit) == 0
    }
}

/// Returns the part of a list that is in a page of the store, from the cursor on.
pub fn list_page_of_keys(
    mut keys: Vec<Bytes>,
    next: Option<Bytes>,
    from: KeyCursor,
) -> ListPage<Bytes, KeyCursor> {
    let next = next.map(|token| KeyCursor {
        token: Some(token),
        after: None,
    });
    // If the key is gone, the page is repeated: a key may appear twice rather than not at all.
    if let Some(behind) = &from.after
        && let Some(place) = keys.iter().position(|key| key == behind)
    {
        keys.drain(..=place);
    }
    if keys.len() <= MAX_PAGE_ITEMS {
        return ListPage { items: keys, next };
    }
    keys.truncate(MAX_PAGE_ITEMS);
    let next = Some(KeyCursor {
        token: from.token,
        after: keys.last().cloned(),
    });
    ListPage { items: keys, next }
}

/// Returns the view of a session.
pub(super) fn session_view(session: &Session) -> SessionView {
    SessionView {
        client: Arc::clone(&session.client),
        user: session.principal.name().map(str::to_owned),
        is_connected: session.connection.is_some(),
        subscriptions: session.subscriptions.len(),
        held_bytes: session.held_bytes(),
        expiry_s: session.expiry_s,
    }
}

fn list_page<T>(items: Vec<T>, first: usize, len: usize) -> ListPage<T, usize> {
    let end = first + items.len();
    ListPage {
        next: (end < len && !items.is_empty()).then_some(end),
        items,
    }
}

/// Returns the client in a holder's name, which is `{client id}/{session}/{number}/{duration in ms}`.
fn holder_client(holder: &str) -> Option<&str> {
    let mut parts = holder.rsplitn(4, '/');
    let (duration, number) = (parts.next()?, parts.next()?);
    let (session, client) = (parts.next()?, parts.next()?);
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    (is_number(duration) && is_number(number) && !session.is_empty()).then_some(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_name_contains_a_client_id() {
        assert_eq!(holder_client("a/b/0123abcd/7/10000"), Some("a/b"));
        for other in ["", "a", "a/b/c/d", "a/s/7/", "a//7/10", "x/7/10"] {
            assert_eq!(holder_client(other), None, "{other}");
        }
    }
}
