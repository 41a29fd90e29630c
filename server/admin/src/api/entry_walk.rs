//! Walks over the entries of the store, a page of it at a time. Clients are served between two pages.
use super::bad_cursor;
use crate::app_state::AppState;
use crate::failure::failure;
use crate::reply::Reply;
use crate::requests::unexpected_reply;
use bytes::Bytes;
use hyper::StatusCode;
use statestore_protocol::{Command, PageEntry, Reply as Answer, ServiceError};
use statestored_broker::hub::Hub;
use statestored_broker::hub::inspect::{KeyCursor, ListPage};
use statestored_common::ClockReading;
use statestored_store::keyspace::{EntryView, Fence};
use std::time::{Duration, Instant};

/// Time after which the thread of the clients reads no further page before it serves them.
const MAX_SLICE: Duration = Duration::from_micros(250);
/// Time after which no further page is read for an answer.
const MAX_TIME: Duration = Duration::from_millis(100);

/// Entries without their values, and the token of the page of the store that follows them.
type EntryPage = ListPage<(Bytes, EntryView), Bytes>;

impl AppState {
    /// Passes the entries that match a pattern to `visit`, from a cursor on, until it returns `false` or the answer took long enough.
    /// Returns the cursor of the entries that follow.
    pub(super) async fn walk_entries(
        &self,
        pattern: &Bytes,
        from: KeyCursor,
        mut visit: impl FnMut(Bytes, EntryView) -> bool,
    ) -> Result<Option<KeyCursor>, Reply> {
        let is_shared = self.is_shared().await?;
        let started = Instant::now();
        let mut cursor = from;
        loop {
            let (pattern, token) = (pattern.clone(), cursor.token.clone());
            let pages = if is_shared {
                let page = self.shared_entry_page(pattern, token.clone()).await?;
                page.map(|page| vec![(token, page)])
            } else {
                self.inspect(move |hub, now| entry_pages(hub, &pattern, token, now))
                    .await?
            };
            for (token, page) in pages.ok_or_else(bad_cursor)? {
                let from = KeyCursor {
                    token,
                    after: cursor.after.take(),
                };
                let mut goes_on = true;
                let next = visit_from(page, &from, |key, entry| {
                    goes_on = visit(key, entry);
                    goes_on
                });
                match next {
                    Some(next) if goes_on => cursor = next,
                    next => return Ok(next),
                }
            }
            if started.elapsed() >= MAX_TIME {
                return Ok(Some(cursor));
            }
        }
    }

    /// Returns a page of the entries in a shared engine; `None` if the token is invalid.
    async fn shared_entry_page(
        &self,
        pattern: Bytes,
        token: Option<Bytes>,
    ) -> Result<Option<EntryPage>, Reply> {
        let scan = Command::Scan {
            pattern,
            token,
            values: true,
        };
        let (entries, next) = match self.execute(scan, None).await?.reply {
            Answer::EntryPage { entries, token } => (entries, token),
            Answer::Error(ServiceError::Syntax) => return Ok(None),
            Answer::Error(error) => return Err(failure(StatusCode::CONFLICT, &error)),
            _ => return Err(unexpected_reply()),
        };
        let entries: Vec<_> = entries.into_iter().map(without_value).collect();
        let entries = self.inspect(move |hub, now| add_known_fences(entries, hub, now));
        Ok(Some(ListPage {
            items: entries.await?,
            next,
        }))
    }
}

/// Returns as many pages as [`MAX_SLICE`] allows, each with its token; `None` if the token is invalid.
fn entry_pages(
    hub: &mut Hub,
    pattern: &Bytes,
    mut token: Option<Bytes>,
    now: ClockReading,
) -> Option<Vec<(Option<Bytes>, EntryPage)>> {
    let started = Instant::now();
    let mut pages = Vec::new();
    loop {
        let page = hub.entry_page(pattern, token.as_ref(), now)?;
        let next = page.next.clone();
        pages.push((token, page));
        if next.is_none() || started.elapsed() >= MAX_SLICE {
            return Some(pages);
        }
        token = next;
    }
}

fn without_value(entry: PageEntry) -> (Bytes, EntryView) {
    let view = EntryView {
        value: Bytes::new(),
        value_bytes: entry.value.len(),
        version: (entry.version.wall_ms(), entry.version.counter()),
        fence: Fence::Unknown,
        expires_in_ms: entry.expires_in_ms,
        since_ms: None,
    };
    (entry.key, view)
}

/// Adds the fencing tokens that this server remembers: a page of the engine does not show them.
fn add_known_fences(
    mut entries: Vec<(Bytes, EntryView)>,
    hub: &Hub,
    now: ClockReading,
) -> Vec<(Bytes, EntryView)> {
    for (key, entry) in &mut entries {
        if let Some(known) = hub.service().entry_view(key, 0, now)
            && known.version == entry.version
        {
            entry.fence = known.fence;
        }
    }
    entries
}

/// Passes the entries of a page behind a cursor to `visit`, until it returns `false`. Returns the cursor of the entries that follow.
fn visit_from(
    page: EntryPage,
    from: &KeyCursor,
    mut visit: impl FnMut(Bytes, EntryView) -> bool,
) -> Option<KeyCursor> {
    let count = page.items.len();
    let last = from.after.as_ref();
    // If the key is gone, the page is repeated: a key may be visited twice rather than not at all.
    let last = last.and_then(|last| page.items.iter().position(|(key, _)| key == last));
    let first = last.map_or(0, |last| last + 1);
    for (index, (key, entry)) in page.items.into_iter().enumerate().skip(first) {
        let visited = key.clone();
        if !visit(key, entry) && index + 1 < count {
            return Some(KeyCursor {
                token: from.token.clone(),
                after: Some(visited),
            });
        }
    }
    page.next.map(|token| KeyCursor {
        token: Some(token),
        after: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: &[&'static str], next: Option<&'static str>) -> EntryPage {
        let view = EntryView {
            value: Bytes::new(),
            value_bytes: 1,
            version: (1, 0),
            fence: Fence::None,
            expires_in_ms: None,
            since_ms: None,
        };
        ListPage {
            items: keys.iter().map(|&key| (key.into(), view.clone())).collect(),
            next: next.map(Bytes::from),
        }
    }

    fn cursor(token: Option<&'static str>, after: Option<&'static str>) -> KeyCursor {
        KeyCursor {
            token: token.map(Bytes::from),
            after: after.map(Bytes::from),
        }
    }

    /// Visits at most two entries of the page `abcd`.
    fn visit_two(from: &KeyCursor) -> (Vec<Bytes>, Option<KeyCursor>) {
        let mut visited = Vec::new();
        let next = visit_from(page(&["a", "b", "c", "d"], Some("next")), from, |key, _| {
            visited.push(key);
            visited.len() < 2
        });
        (visited, next)
    }

    #[test]
    fn a_page_is_visited_in_parts() {
        let start = cursor(Some("token"), None);
        let (first, middle) = visit_two(&start);
        assert_eq!(first, ["a", "b"]);
        let middle = middle.unwrap();
        assert_eq!(middle, cursor(Some("token"), Some("b")));
        assert_eq!(
            visit_two(&middle),
            (
                vec!["c".into(), "d".into()],
                Some(cursor(Some("next"), None))
            )
        );
        let gone = cursor(Some("token"), Some("deleted"));
        assert_eq!(visit_two(&gone).0, ["a", "b"], "no key is left out");
        assert_eq!(visit_from(page(&["a"], None), &start, |_, _| true), None);
    }
}
