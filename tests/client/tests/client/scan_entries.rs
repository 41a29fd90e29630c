//! Scans that return values: pages with values where the store has them, several reads elsewhere.
use crate::capabilities::{answer_capabilities, play, reject_capabilities};
use crate::support::{Broker, Peer, version};
use bytes::Bytes;
use statestore::{
    Capabilities, Entry, EntryScan, Error, ErrorKind, Expiry, Outcome, ScanOptions, ServiceError,
    TransactionRecord, Version,
};
use statestore_protocol::{Command, PageEntry, Reply};
use std::time::Duration;

fn page_entry(key: &'static str, value: &'static str, number: u64) -> PageEntry {
    PageEntry {
        key: key.into(),
        value: value.into(),
        version: Version::new(number, 0),
        expires_in_ms: None,
    }
}

fn entry(key: &'static str, value: &'static str, number: u64) -> (Bytes, Entry) {
    let mut entry = Entry::new(value, version(number));
    entry.expires_in = Expiry::Never;
    (key.into(), entry)
}

fn scan(token: Option<&'static str>, values: bool) -> Command {
    Command::Scan {
        pattern: "k*".into(),
        token: token.map(Bytes::from),
        values,
    }
}

async fn all(mut scan: EntryScan) -> Result<Vec<(Bytes, Entry)>, Error> {
    let mut entries = Vec::new();
    while let Some(entry) = scan.next().await? {
        entries.push(entry);
    }
    Ok(entries)
}

async fn answer_page(peer: &mut Peer, page: &Reply, request: &Command) {
    assert_eq!(peer.answer(page, None).await.command, *request);
}

#[tokio::test]
async fn pages_have_keys_values_versions_and_times() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut expiring = page_entry("k2", "b", 2);
    expiring.expires_in_ms = Some(1_500);
    let pages = [
        Reply::EntryPage {
            entries: vec![page_entry("k1", "a", 1), expiring],
            token: Some("1".into()),
        },
        // A page without entries has the form of a page without values.
        Reply::Page {
            keys: Vec::new(),
            token: Some("2".into()),
        },
        Reply::EntryPage {
            entries: vec![page_entry("k3", "c", 3)],
            token: None,
        },
    ];
    let [first, second, third] = pages;
    let found = play(all(client.scan_entries("k*")), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
        answer_page(peer, &first, &scan(None, true)).await;
        answer_page(peer, &second, &scan(Some("1"), true)).await;
        answer_page(peer, &third, &scan(Some("2"), true)).await;
    })
    .await
    .unwrap();
    let mut second = entry("k2", "b", 2);
    second.1.expires_in = Expiry::After(Duration::from_millis(1_500));
    assert_eq!(found, [entry("k1", "a", 1), second, entry("k3", "c", 3)]);
}

#[tokio::test]
async fn a_store_without_values_is_unsupported_unless_there_is_a_fallback() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let error = play(
        all(client.scan_entries("k*")),
        &mut peer,
        reject_next_capabilities,
    )
    .await
    .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unsupported, Outcome::NotDone)
    );
    assert!(error.to_string().starts_with("SCAN \"k*\": "), "{error}");

    let options = ScanOptions::new().fallback(true);
    let call = all(client.scan_entries_with("k*", options));
    let found = play(call, &mut peer, async |peer| {
        let keys = vec!["k1".into(), "k2".into()];
        answer_page(peer, &Reply::Page { keys, token: None }, &scan(None, false)).await;
        for (key, reply) in [("k1", crate::support::value("a")), ("k2", Reply::Nil)] {
            let get = peer.answer(&reply, Some(&version(1))).await;
            assert_eq!(get.key(), key.as_bytes());
        }
    })
    .await
    .unwrap();
    // The other key was deleted in between.
    assert_eq!(found, [(Bytes::from("k1"), Entry::new("a", version(1)))]);
}

async fn reject_next_capabilities(peer: &mut Peer) {
    reject_capabilities(peer).await;
}

#[tokio::test]
async fn a_store_that_lost_the_extension_is_asked_again() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let error = play(all(client.scan_entries("k*")), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
        let refusal = Reply::Error(ServiceError::WrongArguments);
        answer_page(peer, &refusal, &scan(None, true)).await;
        reject_capabilities(peer).await;
    })
    .await
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_failed_page_is_requested_again_by_the_next_call() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut entries = client.scan_entries("k*");
    let record = [&TransactionRecord::PREFIX[..], b"rest"].concat();
    let mut unfinished = page_entry("k1", "", 1);
    unfinished.value = record.into();
    let page = Reply::EntryPage {
        entries: vec![unfinished, page_entry("k2", "b", 2)],
        token: None,
    };
    let error = play(entries.next_page(), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
        answer_page(peer, &page, &scan(None, true)).await;
    })
    .await
    .unwrap_err();
    assert!(TransactionRecord::of(&error).is_some(), "{error}");

    let page = Reply::EntryPage {
        entries: vec![page_entry("k1", "a", 3), page_entry("k2", "b", 2)],
        token: None,
    };
    let found = play(entries.next_page(), &mut peer, async |peer| {
        answer_page(peer, &page, &scan(None, true)).await;
    })
    .await
    .unwrap();
    assert_eq!(found.unwrap(), [entry("k1", "a", 3), entry("k2", "b", 2)]);
    assert_eq!(entries.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_page_without_the_requested_values_is_invalid() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let error = play(all(client.scan_entries("k*")), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
        let keys = vec!["k1".into()];
        answer_page(peer, &Reply::Page { keys, token: None }, &scan(None, true)).await;
    })
    .await
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidResponse);
}
