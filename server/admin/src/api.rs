//! Lists of connections, sessions, refusals, keys and locks, and a few changes, as JSON.
//!
//! Lists are paged, except those of refusals and limits: `next` of a page is the `cursor` of the following one.
mod activity;
mod changes;
mod clients;
mod entry_walk;
mod operation;
mod ranked_keys;
mod tree_level;

use super::app_state::AppState;
use super::audit::AuditDetails;
use super::failure::failure;
use super::query::{Query, from_hex, hex};
use super::reply::{self, Reply};
use crate::server_control::ReloadFailure;
use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Value, json};
use statestore_protocol::Hlc;
use statestored_broker::hub::inspect::{
    KeyCursor, ListPage, LockView, MAX_HOLDER_BYTES, MAX_PAGE_ITEMS,
};
use statestored_store::keyspace::{EntryView, Fence};
use std::sync::Arc;
use tree_level::TreeLevel;

/// Maximum number of bytes of a value that are shown.
const MAX_VALUE_BYTES: usize = 64 * 1024;

impl AppState {
    pub(super) async fn keys(&self, query: Query<'_>) -> Reply {
        let (pattern, Some(cursor)) = (pattern(query), key_cursor(query)) else {
            return bad_cursor();
        };
        if query.number("details") == Some(1) {
            let mut items = Vec::new();
            let next = self
                .walk_entries(&pattern, cursor, |key, entry| {
                    items.push(describe_key(&key, &entry));
                    items.len() < MAX_PAGE_ITEMS
                })
                .await;
            return keys(next.map(|next| Some(ListPage { items, next })), |it| it);
        }
        let page = match self.is_shared().await {
            Ok(true) => self.shared_keys(pattern, cursor).await,
            Ok(false) => {
                let page = self.inspect(move |hub, now| hub.keys_from(&pattern, cursor, now));
                page.await
            }
            Err(failure) => Err(failure),
        };
        keys(page, |key| json!(describe_bytes(&key)))
    }

    /// Returns one level of the tree of keys: the folders and the keys below a prefix.
    pub(super) async fn prefixes(&self, query: Query<'_>) -> Reply {
        let prefix = query.bytes("prefix").unwrap_or_default();
        let delimiter = query.bytes("delimiter").unwrap_or(Bytes::from_static(b"/"));
        let Some(cursor) = key_cursor(query) else {
            return bad_cursor();
        };
        if delimiter.is_empty() {
            return failure(StatusCode::BAD_REQUEST, &"the delimiter is empty");
        }
        let mut level = TreeLevel::new(prefix, delimiter);
        let pattern = level.pattern();
        let next = self
            .walk_entries(&pattern, cursor, |key, entry| level.add(key, entry))
            .await;
        let items = level.into_items();
        keys(next.map(|next| Some(ListPage { items, next })), |it| it)
    }

    pub(super) async fn locks(&self, query: Query<'_>) -> Reply {
        let (pattern, Some(cursor)) = (pattern(query), key_cursor(query)) else {
            return bad_cursor();
        };
        let page = match self.is_shared().await {
            Ok(true) => self.shared_locks(pattern, cursor).await,
            Ok(false) => {
                let page = self.inspect(move |hub, now| hub.locks_from(&pattern, &cursor, now));
                page.await
            }
            Err(failure) => Err(failure),
        };
        keys(page, |lock| describe_lock(&lock))
    }

    pub(super) async fn entry(&self, query: Query<'_>) -> Reply {
        let Some(key) = query.bytes("key") else {
            return failure(
                StatusCode::BAD_REQUEST,
                &"say which: ?key=KEY, percent-encoded",
            );
        };
        let (entry, watchers) = match self.find_entry(key.clone(), MAX_VALUE_BYTES).await {
            Ok(found) => found,
            Err(failure) => return failure,
        };
        let watchers: Vec<&str> = watchers.iter().map(|client| &**client).collect();
        let mut document = json!({ "key": describe_bytes(&key), "watchers": watchers });
        if let Some(entry) = entry {
            document["entry"] = describe_entry(&entry);
            document["entry"]["is_truncated"] = (entry.value.len() < entry.value_bytes).into();
            document["entry"]["value"] = describe_bytes(&entry.value);
            if entry.expires_in_ms.is_some() && entry.value_bytes <= MAX_HOLDER_BYTES {
                let lock = self.inspect(move |hub, _| hub.lock_view(key, entry));
                match lock.await {
                    Ok(Some(lock)) => document["holder"] = lock.holder.into(),
                    Ok(None) => {}
                    Err(failure) => return failure,
                }
            }
        }
        reply::json(StatusCode::OK, &document)
    }

    /// Returns an entry with at most `most_bytes` of its value, and the clients that watch it at this server.
    async fn find_entry(
        &self,
        key: Bytes,
        most_bytes: usize,
    ) -> Result<(Option<EntryView>, Vec<Arc<str>>), Reply> {
        if self.is_shared().await? {
            return self.shared_entry(key, most_bytes).await;
        }
        self.inspect(move |hub, now| hub.entry_view(&key, most_bytes, now))
            .await
    }

    pub(super) async fn reload(&self) -> Reply {
        match self.server_handle().reload().await {
            Ok(reloaded) => {
                let (users, disconnected) = (reloaded.users, reloaded.disconnected);
                let needs_restart = reloaded.needs_restart;
                let document = json!({
                    "users": users,
                    "disconnected": disconnected,
                    "needs_restart": needs_restart,
                });
                let details = AuditDetails {
                    disconnected: Some(disconnected),
                    needs_restart: (!needs_restart.is_empty()).then(|| needs_restart.join(",")),
                    ..AuditDetails::default()
                };
                details.attach_to(reply::json(StatusCode::OK, &document))
            }
            Err(error @ ReloadFailure::Stopped(_)) => {
                failure(StatusCode::SERVICE_UNAVAILABLE, &error)
            }
            Err(error) => failure(StatusCode::UNPROCESSABLE_ENTITY, &error),
        }
    }
}

fn bad_cursor() -> Reply {
    failure(StatusCode::BAD_REQUEST, &"this is not a cursor")
}

/// Returns bytes for display: hexadecimal digits, and text if they are UTF-8. A character that is cut off at the end is
/// left out of the text.
fn describe_bytes(bytes: &[u8]) -> Value {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    json!({ "hex": hex(bytes), "text": text })
}

/// Returns a key with the metadata of its entry.
fn describe_key(key: &[u8], entry: &EntryView) -> Value {
    let mut described = describe_entry(entry);
    described["key"] = describe_bytes(key);
    described
}

fn describe_entry(entry: &EntryView) -> Value {
    let mut described = json!({
        "value_bytes": entry.value_bytes,
        "version": Hlc::store_version(entry.version).to_string(),
        "changed_ms": entry.version.0,
        "expires_in_ms": entry.expires_in_ms,
    });
    // Unknown fields are left out.
    match &entry.fence {
        Fence::None => described["fence"] = Value::Null,
        Fence::Token(token) => described["fence"] = json!(token),
        Fence::Unknown => {}
    }
    described
}

fn describe_lock(lock: &LockView) -> Value {
    json!({
        "key": describe_bytes(&lock.key),
        "holder": lock.holder,
        "client": lock.client,
        "has_session": lock.has_session,
        "waiters": lock.waiters,
        "since_ms": lock.entry.since_ms,
        "renewed_ms": lock.entry.version.0,
        "expires_in_ms": lock.entry.expires_in_ms,
        "version": Hlc::store_version(lock.entry.version).to_string(),
    })
}

fn pattern(query: Query<'_>) -> Bytes {
    query.bytes("match").unwrap_or(Bytes::from_static(b"*"))
}

/// Returns the cursor of a list of keys: the token of the page, and the key after which the list continues, if not at
/// its beginning.
fn key_cursor(query: Query<'_>) -> Option<KeyCursor> {
    // An empty cursor is the beginning, for clients that always send one.
    let Some(text) = query.bytes("cursor").filter(|text| !text.is_empty()) else {
        return Some(KeyCursor::default());
    };
    let (token, behind) = std::str::from_utf8(&text).ok()?.split_once('.')?;
    let part = |digits: &str| match digits {
        "" => Some(None),
        digits => from_hex(digits).map(Some),
    };
    Some(KeyCursor {
        token: part(token)?,
        after: part(behind)?,
    })
}

fn keys<T>(
    page: Result<Option<ListPage<T, KeyCursor>>, Reply>,
    to_json: impl Fn(T) -> Value,
) -> Reply {
    match page {
        Ok(Some(ListPage { items, next })) => {
            let digits = |part: Option<Bytes>| part.map(|bytes| hex(&bytes)).unwrap_or_default();
            let next = next.map(|it| format!("{}.{}", digits(it.token), digits(it.after)));
            let items = items.into_iter().map(to_json).collect::<Value>();
            reply::json(StatusCode::OK, &json!({ "items": items, "next": next }))
        }
        Ok(None) => bad_cursor(),
        Err(failure) => failure,
    }
}

fn list<T>(page: Result<ListPage<T, usize>, Reply>, to_json: impl Fn(T) -> Value) -> Reply {
    match page {
        Ok(ListPage { items, next }) => {
            let items = items.into_iter().map(to_json).collect::<Value>();
            reply::json(StatusCode::OK, &json!({ "items": items, "next": next }))
        }
        Err(failure) => failure,
    }
}
