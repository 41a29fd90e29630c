//! Stores that do not watch patterns: the client watches each key, and looks for new ones.
use super::{deleted, next, notify_deleted, notify_set, set};
use crate::capabilities::reject_capabilities;
use crate::support::{Broker, Peer, version, within};
use bytes::Bytes;
use statestore::{
    Client, ErrorKind, MatchObservation, MatchObserver, ObserveMatchingOptions, Outcome,
};
use statestore_protocol::{Command, Reply, ServiceError};
use std::time::Duration;

/// Answers a SCAN with these keys.
pub(super) async fn answer_scan(peer: &mut Peer, keys: &[&'static str]) {
    let keys = keys.iter().map(|key| Bytes::from_static(key.as_bytes()));
    let reply = Reply::Page {
        keys: keys.collect(),
        token: None,
    };
    let request = peer.answer(&reply, None).await;
    let scan = Command::Scan {
        pattern: "k*".into(),
        token: None,
        values: false,
    };
    assert_eq!(request.command, scan);
}

/// Answers KEYNOTIFY and GET of these keys, whose value is their name.
pub(super) async fn answer_keys(peer: &mut Peer, keys: &[(&'static str, u64)]) {
    // The client sends them without waiting for each other.
    let mut watched = Vec::new();
    for _ in keys {
        let request = peer.answer(&Reply::Ok, None).await;
        assert!(
            matches!(request.command, Command::Watch { .. }),
            "{request:?}"
        );
        watched.push(request.key().to_vec());
    }
    watched.sort_unstable();
    let mut expected: Vec<_> = keys.iter().map(|(key, _)| key.as_bytes()).collect();
    expected.sort_unstable();
    assert_eq!(watched, expected);
    for (key, number) in keys {
        let value = Reply::Value((*key).into());
        let request = peer.answer(&value, Some(&version(*number))).await;
        let get = Command::Get {
            key: (*key).into(),
            remaining: false,
            eventual: false,
        };
        assert_eq!(request.command, get);
    }
}

async fn observe(
    client: &Client,
    peer: &mut Peer,
    options: &ObserveMatchingOptions,
) -> MatchObserver {
    let store = async {
        reject_capabilities(peer).await;
        // Whether the store has SCAN at all.
        answer_scan(peer, &[]).await;
    };
    let observe = client.observe_matching_with("k*", options);
    let (observer, ()) = within(async { tokio::join!(observe, store) }).await;
    observer.unwrap()
}

#[tokio::test]
async fn known_keys_are_watched_and_new_ones_found_by_the_next_scan() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let options = ObserveMatchingOptions::new().refresh(Duration::from_millis(50));
    let mut observer = observe(&client, &mut peer, &options).await;
    answer_scan(&mut peer, &["k1", "k2"]).await;
    answer_keys(&mut peer, &[("k1", 1), ("k2", 2)]).await;
    for expected in [
        set("k1", "k1", 1),
        set("k2", "k2", 2),
        MatchObservation::Complete,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }
    notify_deleted(&mut peer, "k1", 3).await;
    notify_set(&mut peer, "k2", "changed", 4).await;
    assert_eq!(next(&mut observer).await, deleted("k1", Some(3)));
    assert_eq!(next(&mut observer).await, set("k2", "changed", 4));

    answer_scan(&mut peer, &["k2", "k3"]).await;
    answer_keys(&mut peer, &[("k3", 5)]).await;
    assert_eq!(next(&mut observer).await, set("k3", "k3", 5));
    // The key that is gone is not watched any more.
    let stop = peer.answer(&Reply::Ok, None).await;
    assert_eq!(stop.command, Command::Unwatch { key: "k1".into() });
    answer_scan(&mut peer, &["k2", "k3"]).await;
}

#[tokio::test]
async fn a_notification_during_the_read_of_a_key_wins_if_it_is_newer() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, &ObserveMatchingOptions::new()).await;
    answer_scan(&mut peer, &["k1"]).await;
    let watch = peer.answer(&Reply::Ok, None).await;
    assert_eq!(watch.command, Command::Watch { key: "k1".into() });
    let get = peer.request().await;
    notify_set(&mut peer, "k1", "newer", 5).await;
    super::respond_with_version(&mut peer, &get, "k1", 3).await;
    let mut last = None;
    loop {
        match next(&mut observer).await {
            MatchObservation::Complete => break,
            event => last = Some(event),
        }
    }
    // The observation of a single key may be taken after the end of the scan.
    if last != Some(set("k1", "newer", 5)) {
        assert_eq!(next(&mut observer).await, set("k1", "newer", 5));
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_followed_is_unsupported() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let options = ObserveMatchingOptions::new().refresh(None);
    let observe = client.observe_matching_with("k*", &options);
    let (observer, ()) =
        within(async { tokio::join!(observe, reject_capabilities(&mut peer)) }).await;
    let error = observer.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unsupported, Outcome::NotDone)
    );
    assert!(
        error.to_string().starts_with("KEYNOTIFY \"k*\": "),
        "{error}"
    );

    let no_scan = Reply::Error(ServiceError::UnknownCommand);
    let (observer, _) =
        within(async { tokio::join!(client.observe_matching("k*"), peer.answer(&no_scan, None)) })
            .await;
    assert_eq!(observer.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn an_interval_of_zero_and_an_empty_pattern_are_invalid() {
    let broker = Broker::start().await;
    let (client, _peer) = broker.connect(broker.settings()).await;
    let options = ObserveMatchingOptions::new().refresh(Duration::ZERO);
    for (pattern, options) in [("k*", options), ("", ObserveMatchingOptions::new())] {
        let observer = within(client.observe_matching_with(pattern, &options)).await;
        let error = observer.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidArgument, Outcome::NotDone)
        );
    }
}
