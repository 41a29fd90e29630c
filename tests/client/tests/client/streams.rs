//! Observers and scans as streams of the `futures` crates, and names as text.
use crate::support::{Broker, version, within};
use bytes::Bytes;
use futures_core::Stream;
use statestore::{Client, ErrorKind, Observation, Outcome, Settings};
use statestore_protocol::{Reply, ServiceError};
use statestored::{RunningServer, config::Config};
use std::future::poll_fn;
use std::pin::Pin;

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    within(poll_fn(|context| Pin::new(&mut *stream).poll_next(context))).await
}

#[tokio::test]
async fn an_observer_is_a_stream_that_ends_with_its_client() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let settings: Settings = server.url().parse().unwrap();
    let client = Client::connect(settings).await.unwrap();
    let mut changes = client.observe("key").await.unwrap();
    let set = client.set("key", "value").await.unwrap();
    assert_eq!(
        next(&mut changes).await,
        Some(Observation::Set {
            value: "value".into(),
            version: set.version().unwrap().clone()
        })
    );
    client.close().await;
    assert_eq!(next(&mut changes).await, None);
    assert_eq!(next(&mut changes).await, None);
}

#[tokio::test]
async fn a_scan_is_a_stream_of_keys_that_ends_after_an_error() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let key = |name: &'static str| Bytes::from_static(name.as_bytes());
    let pages = [
        Reply::Page {
            keys: vec![key("a"), key("b")],
            token: Some(key("1")),
        },
        Reply::Page {
            keys: Vec::new(),
            token: Some(key("2")),
        },
        Reply::Page {
            keys: vec![key("c")],
            token: None,
        },
    ];
    let mut keys = client.scan("*").into_stream();
    let answer = async {
        for page in &pages {
            peer.answer(page, None).await;
        }
    };
    let all = async {
        let mut all = Vec::new();
        while let Some(found) = next(&mut keys).await {
            all.push(found.unwrap());
        }
        all
    };
    let (all, ()) = within(async { tokio::join!(all, answer) }).await;
    assert_eq!(all, ["a", "b", "c"]);
    assert!(next(&mut keys).await.is_none());

    let mut keys = client.scan("*").into_stream();
    let refusal = Reply::Error(ServiceError::UnknownCommand);
    let (refused, _) =
        within(async { tokio::join!(next(&mut keys), peer.answer(&refusal, None)) }).await;
    assert_eq!(
        refused.unwrap().unwrap_err().kind(),
        ErrorKind::UnknownCommand
    );
    assert!(next(&mut keys).await.is_none());
}

#[test]
fn streams_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync + Unpin>() {}
    is_shared::<statestore::Observer>();
    is_shared::<statestore::Scan>();
    is_shared::<statestore::ScanStream>();
}

#[tokio::test]
async fn holders_and_leaders_are_streams_that_end_with_their_client() {
    fn is_shared<T: Send + Sync + Unpin>(_: &T) {}
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let settings: Settings = server.url().parse().unwrap();
    let watcher = Client::connect(settings.clone()).await.unwrap();
    let mut holders = watcher.lease("lock").unwrap().observe().await.unwrap();
    is_shared(&holders);
    assert_eq!(next(&mut holders).await.unwrap().unwrap(), None);
    let mut leaders = watcher.election("elect").unwrap().observe().await.unwrap();
    assert_eq!(next(&mut leaders).await.unwrap().unwrap(), None);

    let client = Client::connect(settings).await.unwrap();
    let guard = client.lock("lock").await.unwrap();
    let seen = next(&mut holders).await.unwrap().unwrap().unwrap();
    assert_eq!(seen.holder, *guard.holder());
    guard.release().await.unwrap();
    assert_eq!(next(&mut holders).await.unwrap().unwrap(), None);

    let election = client.election("elect").unwrap();
    let leadership = election.campaign("value").await.unwrap();
    let seen = loop {
        let seen = next(&mut leaders).await.unwrap().unwrap().unwrap();
        if seen.value.is_some() {
            break seen;
        }
    };
    assert_eq!(seen.holder, *leadership.guard().holder());
    watcher.close().await;
    while next(&mut leaders).await.is_some() {}
    assert!(next(&mut leaders).await.is_none());
    assert!(next(&mut holders).await.is_none());
    assert!(next(&mut holders).await.is_none());
}

#[test]
fn kinds_and_outcomes_are_displayed_as_words() {
    assert_eq!(ErrorKind::NotAuthenticated.to_string(), "not authenticated");
    assert_eq!(format!("{:>8}|", Outcome::NotDone), "not done|");
    let error = "mqtt://".parse::<Settings>().unwrap_err();
    assert_eq!(error.kind().to_string(), "invalid settings");
}

#[test]
fn versions_and_entries_are_values_of_serde() {
    let entry = statestore::Entry::new("value", version(7));
    let json = serde_json::to_string(&entry).unwrap();
    assert!(
        json.contains(&format!("\"version\":\"{}\"", version(7))),
        "{json}"
    );
    assert_eq!(
        serde_json::from_str::<statestore::Entry>(&json).unwrap(),
        entry
    );
    for (value, written) in [
        (&b"value"[..], "\"value\""),
        (b"", "\"\""),
        ("ä\n".as_bytes(), "\"ä\\n\""),
        (b"\xff\0", "{\"base64\":\"/wA=\"}"),
    ] {
        let entry = statestore::Entry::new(value, version(7));
        let json = serde_json::to_string(&entry).unwrap();
        assert!(json.contains(&format!("\"value\":{written}")), "{json}");
        let read = serde_json::from_str::<statestore::Entry>(&json).unwrap();
        assert_eq!(read, entry);
    }
    for wrong in ["7", "{}", "{\"base64\":\"?\"}", "{\"hex\":\"00\"}"] {
        let json = json.replace("\"value\":\"value\"", &format!("\"value\":{wrong}"));
        serde_json::from_str::<statestore::Entry>(&json).unwrap_err();
    }
    let error = serde_json::from_str::<statestore::Hlc>("\"7\"").unwrap_err();
    assert!(error.to_string().contains("three segments"), "{error}");
}
