//! Coalescing: once the network is back, only the newest value of a key is sent.
use crate::support::{Broker, Peer, session_present, version, within};
use crate::{again, ended};
use statestore::{Client, Error, ErrorKind, Outcome, SetOptions, SetOutcome};
use statestore_protocol::Reply;
use statestore_protocol::mqtt::ReasonCode;
use std::time::Duration;
use tokio::task::JoinHandle;

fn newest() -> SetOptions {
    SetOptions::new().coalesce(true).timeout(Duration::MAX)
}

fn each() -> SetOptions {
    SetOptions::new().timeout(Duration::MAX)
}

/// Begins a SET as a task; it waits when this returns.
async fn wait(
    client: &Client,
    (key, value): (&'static str, &'static str),
    options: SetOptions,
) -> JoinHandle<Result<SetOutcome, Error>> {
    let seen = |client: &Client| {
        let counters = client.counters();
        counters.queued + counters.superseded
    };
    let before = seen(client);
    let task = {
        let client = client.clone();
        tokio::spawn(async move { client.set_with(key, value, &options).await })
    };
    while seen(client) == before {
        tokio::task::yield_now().await;
    }
    task
}

async fn disconnect(client: &Client, peer: Peer) {
    drop(peer);
    let mut state = client.state();
    within(state.wait_for(|state| !state.is_connected()))
        .await
        .unwrap();
}

/// The value that the next SET stores.
async fn stored(peer: &mut Peer, number: u64) -> (Vec<u8>, Vec<u8>) {
    let request = peer.answer(&Reply::Ok, Some(&version(number))).await;
    (request.key().to_vec(), request.value().to_vec())
}

fn pair(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (key.into(), value.into())
}

#[tokio::test]
async fn only_the_newest_value_of_a_key_is_queued_during_an_outage() {
    let broker = Broker::start().await;
    let (client, peer) = broker.connect(broker.settings()).await;
    disconnect(&client, peer).await;
    let first = wait(&client, ("a", "1"), newest()).await;
    let other = wait(&client, ("b", "1"), newest()).await;
    let second = wait(&client, ("a", "2"), newest()).await;
    let error = ended(first).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Superseded, Outcome::NotDone)
    );
    assert!(!error.is_retryable());
    let third = wait(&client, ("a", "3"), newest()).await;
    let error = ended(second).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Superseded);
    assert_eq!(
        (client.counters().superseded, client.counters().queued),
        (2, 2)
    );
    let (mut peer, _) = again(&broker, session_present()).await;
    // The newest waits behind what was there when it came.
    assert_eq!(stored(&mut peer, 1).await, pair("b", "1"));
    assert_eq!(stored(&mut peer, 2).await, pair("a", "3"));
    assert!(ended(other).await.unwrap().is_applied());
    assert_eq!(ended(third).await.unwrap().version(), Some(&version(2)));
}

#[tokio::test]
async fn requests_without_the_option_are_not_coalesced() {
    let broker = Broker::start().await;
    let (client, peer) = broker.connect(broker.settings()).await;
    disconnect(&client, peer).await;
    let values = [("1", each()), ("2", newest()), ("3", each())];
    let mut sets = Vec::new();
    for (value, options) in values {
        sets.push(wait(&client, ("a", value), options).await);
    }
    assert_eq!(client.counters().superseded, 0);
    let (mut peer, _) = again(&broker, session_present()).await;
    for (set, value) in sets.into_iter().zip(["1", "2", "3"]) {
        assert_eq!(stored(&mut peer, 1).await, pair("a", value));
        ended(set).await.unwrap();
    }
}

#[tokio::test]
async fn every_value_is_sent_while_connected() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings().max_in_flight(1)).await;
    let first = {
        let client = client.clone();
        tokio::spawn(async move { client.set_with("a", "1", &newest()).await })
    };
    let request = peer.request().await;
    let second = wait(&client, ("a", "2"), newest()).await;
    let third = wait(&client, ("a", "3"), newest()).await;
    assert_eq!(client.counters().superseded, 0);
    // In an outage they would be replaced, but for the one that was sent.
    disconnect(&client, peer).await;
    let fourth = wait(&client, ("a", "4"), newest()).await;
    assert_eq!(
        ended(third).await.unwrap_err().kind(),
        ErrorKind::Superseded
    );
    let (mut peer, _) = again(&broker, session_present()).await;
    let delivered = peer.request().await;
    assert_eq!(delivered.value(), request.value());
    peer.acknowledge(&delivered, ReasonCode::SUCCESS).await;
    peer.respond(&delivered, &Reply::Ok, Some(&version(1)))
        .await;
    ended(first).await.unwrap();
    for (set, value) in [(second, "2"), (fourth, "4")] {
        assert_eq!(stored(&mut peer, 2).await, pair("a", value));
        ended(set).await.unwrap();
    }
}

#[tokio::test]
async fn a_full_queue_accepts_a_replacement() {
    let broker = Broker::start().await;
    let (client, peer) = broker.connect(broker.settings().max_queued(1)).await;
    disconnect(&client, peer).await;
    let first = wait(&client, ("a", "1"), newest()).await;
    let refused = client.set_with("b", "1", &newest()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QueueFull);
    // A request that cannot wait replaces no queued one.
    let at_once = newest().at_once(true);
    let refused = client.set_with("a", "2", &at_once).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QueueFull);
    assert_eq!(client.counters().superseded, 0);
    let second = wait(&client, ("a", "2"), newest()).await;
    assert_eq!(
        ended(first).await.unwrap_err().kind(),
        ErrorKind::Superseded
    );
    let (mut peer, _) = again(&broker, session_present()).await;
    assert_eq!(stored(&mut peer, 1).await, pair("a", "2"));
    ended(second).await.unwrap();
}

#[tokio::test]
async fn a_dropped_request_is_removed_instead_of_superseded() {
    let broker = Broker::start().await;
    let (client, peer) = broker.connect(broker.settings()).await;
    disconnect(&client, peer).await;
    let first = wait(&client, ("a", "1"), newest()).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let second = wait(&client, ("a", "2"), newest()).await;
    assert_eq!(client.counters().superseded, 0);
    let (mut peer, _) = again(&broker, session_present()).await;
    assert_eq!(stored(&mut peer, 1).await, pair("a", "2"));
    ended(second).await.unwrap();
}
