use crate::scripted_link::{Node, VALUE, record};
use crate::{KeyedRecord, Revision};
use bytes::Bytes;
use statestore_protocol::{Reply, ServiceError};
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
