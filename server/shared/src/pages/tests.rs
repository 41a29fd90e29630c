use crate::scripted_link::{Node, VALUE, now, record};
use crate::{KeyedRecord, RecordContent, Revision};
use bytes::Bytes;
use statestore_protocol::{PageEntry, Reply, ServiceError, Version};
use statestored_storage::Expiry;
use statestored_store::keyspace::{Completion, KeyFilter, PageRequest};
use std::sync::Arc;

/// A filter that allows the keys that begin with `own/`.
#[derive(Debug)]
struct OwnPrefixFilter;

impl KeyFilter for OwnPrefixFilter {
    fn allows(&self, key: &[u8]) -> bool {
        key.starts_with(b"own/")
    }
}

fn records(prefix: &str, count: usize) -> Vec<KeyedRecord> {
    let found = |key| KeyedRecord {
        key: format!("{prefix}/{key}").into(),
        record: record(4, &VALUE),
        revision: Revision(4),
    };
    (0..count).map(found).collect()
}

fn request(token: Option<Bytes>) -> PageRequest {
    PageRequest {
        token,
        filter: Some(Arc::new(OwnPrefixFilter)),
        ..PageRequest::all(Bytes::from_static(b"*"))
    }
}

/// Returns all pages, each from another server.
fn pages(records: &[KeyedRecord]) -> Vec<(Vec<Bytes>, Option<Bytes>)> {
    let mut pages = Vec::new();
    let mut token = None;
    loop {
        let Completion::Answered {
            reply: Reply::Page { keys, token: next },
            ..
        } = Node::new().page(&request(token), records)
        else {
            panic!("not a page");
        };
        pages.push((keys, next.clone()));
        token = next;
        if token.is_none() {
            return pages;
        }
    }
}

#[test]
fn unreadable_keys_change_neither_pages_nor_tokens() {
    let own = records("own", 35);
    let without = pages(&own);
    let sizes: Vec<_> = without.iter().map(|(keys, _)| keys.len()).collect();
    assert_eq!(sizes, [10, 10, 10, 5]);
    for count in [1, 10, 500] {
        let mut all = records("foreign", count);
        all.extend(own.iter().cloned());
        assert_eq!(pages(&all), without, "{count} foreign keys");
    }
}

#[test]
fn forged_tokens_are_rejected() {
    let own = records("own", 35);
    let (_, token) = pages(&own).swap_remove(0);
    let token = token.unwrap();
    let mut forged: Vec<Vec<u8>> = vec![vec![], b"+own/1".to_vec(), b"own/1".to_vec()];
    for at in 0..token.len() {
        let mut changed = token.to_vec();
        changed[at] ^= 1;
        forged.push(changed);
    }
    for token in forged {
        let end = Node::new().page(&request(Some(token.clone().into())), &own);
        let refused = Completion::reply(Reply::Error(ServiceError::Syntax));
        assert_eq!(end, refused, "{token:?}");
    }
}

/// Returns all pages with values, each from another server.
fn entry_pages(records: &[KeyedRecord]) -> Vec<Vec<PageEntry>> {
    let mut pages = Vec::new();
    let mut token = None;
    loop {
        let request = PageRequest {
            with_values: true,
            ..request(token)
        };
        let Completion::Answered {
            reply:
                Reply::EntryPage {
                    entries,
                    token: next,
                },
            ..
        } = Node::new().page(&request, records)
        else {
            panic!("not a page");
        };
        pages.push(entries);
        token = next;
        if token.is_none() {
            return pages;
        }
    }
}

#[test]
fn a_page_with_values_has_the_entries_of_its_keys() {
    let mut own = records("own", 35);
    let expiry = Expiry {
        at_wall_ms: now(0).wall_ms + 9,
        ttl_ms: 9,
    };
    own[7].record.content = RecordContent::Entry {
        value: Bytes::from_static(b"expires"),
        token: None,
        expiry: Some(expiry),
    };
    let found = entry_pages(&own);
    let keys: Vec<Vec<_>> = found
        .iter()
        .map(|page| page.iter().map(|entry| entry.key.clone()).collect())
        .collect();
    let expected: Vec<_> = pages(&own).into_iter().map(|(keys, _)| keys).collect();
    assert_eq!(keys, expected);
    for entry in found.iter().flatten() {
        assert_eq!(entry.version, Version::new(4, 0));
        let (value, expires_in_ms) = match &entry.key[..] {
            b"own/7" => (&b"expires"[..], Some(9)),
            _ => (&VALUE[..], None),
        };
        assert_eq!(
            (&entry.value[..], entry.expires_in_ms),
            (value, expires_in_ms)
        );
    }
}

#[test]
fn pages_fit_the_bytes_of_the_response() {
    let own = records("own", 35);
    for (with_values, max_reply_bytes) in [(false, 200), (true, 200), (true, 500)] {
        let (mut token, mut found) = (None, 0);
        loop {
            let request = PageRequest {
                with_values,
                max_reply_bytes,
                ..request(token)
            };
            let Completion::Answered { reply, .. } = Node::new().page(&request, &own) else {
                panic!("not a page");
            };
            assert!(reply.encoded_len() <= max_reply_bytes, "{reply:?}");
            let (count, next) = match reply {
                Reply::Page { keys, token } => (keys.len(), token),
                Reply::EntryPage { entries, token } => (entries.len(), token),
                other => panic!("{other:?}"),
            };
            assert!((1..10).contains(&count), "{count} keys");
            found += count;
            token = next;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(found, 35);
    }
}

#[test]
fn a_page_with_values_ends_before_its_bytes_exceed_the_limit() {
    const LIMIT: usize = 256 * 1024;
    let mut own = records("own", 8);
    for (found, len) in own.iter_mut().zip([LIMIT, 2 * LIMIT, LIMIT / 3, LIMIT / 3]) {
        found.record = record(4, &vec![b'v'; len].into());
    }
    let pages = entry_pages(&own);
    assert_eq!(pages.iter().flatten().count(), 8);
    for page in &pages {
        let bytes: usize = page.iter().map(|it| it.key.len() + it.value.len()).sum();
        assert!(bytes <= LIMIT || page.len() == 1, "{bytes}");
    }
}
