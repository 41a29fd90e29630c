//! How observers of patterns end, and what cannot begin.
use super::{answer_scan, connect, next, notify_set, observe, observe_with, set, stop, watch};
use crate::support::{Broker, within};
use statestore::{
    Capabilities, ErrorKind, LostReason, MatchObservation, ObserveMatchingOptions, Outcome,
    TransactionRecord,
};
use statestore_protocol::{Command, Event, Reply, ServiceError};
use std::time::Duration;

#[tokio::test]
async fn the_last_observer_of_a_pattern_ends_its_watch() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let first = observe(&client, &mut peer, &[("k1", 1)]).await;
    let mut second = observe(&client, &mut peer, &[("k1", 1)]).await;
    drop(first);
    notify_set(&mut peer, "k1", "next", 2).await;
    assert_eq!(next(&mut second).await, set("k1", "next", 2));
    drop(second);
    let request = peer.answer(&Reply::Ok, None).await;
    assert_eq!(request.command, stop());
    assert_eq!(
        request.publish.payload(),
        &b"*4\r\n$9\r\nKEYNOTIFY\r\n$2\r\nk*\r\n$5\r\nMATCH\r\n$4\r\nSTOP\r\n"[..]
    );
    // A later observer starts a new watch.
    observe(&client, &mut peer, &[]).await;
}

#[tokio::test]
async fn more_keys_than_the_limit_end_the_observer() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let options = ObserveMatchingOptions::new().max_keys(2);
    let mut observer = observe_with(&client, &mut peer, &options).await;
    answer_scan(&mut peer, &[("k1", 1), ("k2", 2)]).await;
    for expected in [
        set("k1", "k1", 1),
        set("k2", "k2", 2),
        MatchObservation::Complete,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }
    assert_eq!(observer.lost_reason(), None);
    notify_set(&mut peer, "k3", "new", 3).await;
    while let Some(event) = within(observer.next()).await {
        assert_eq!(event, set("k3", "new", 3));
    }
    assert_eq!(observer.lost_reason(), Some(LostReason::Refused));
    let error = observer.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("more than 2 keys"), "{error}");
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, stop());
}

#[tokio::test]
async fn a_rejected_watch_returns_its_reason() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let refusal = Reply::Error(ServiceError::QuotaExceeded);
    let (observer, request) =
        within(async { tokio::join!(client.observe_matching("k*"), peer.answer(&refusal, None)) })
            .await;
    assert_eq!(request.command, watch());
    let error = observer.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::QuotaExceeded, Outcome::NotDone)
    );
    assert_eq!(peer.answer(&Reply::Count(0), None).await.command, stop());

    let error = client.observe_matching("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_watch_that_does_not_start_in_time_is_ended() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let soon = ObserveMatchingOptions::new().timeout(Duration::from_millis(100));
    let error = client.observe_matching_with("k*", &soon).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch());
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, stop());
}

#[tokio::test]
async fn closing_the_client_ends_the_observer_without_an_error() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe(&client, &mut peer, &[]).await;
    client.close_within(Duration::ZERO).await;
    assert_eq!(within(observer.next()).await, None);
    assert_eq!(observer.lost_reason(), Some(LostReason::Closed));
    assert!(observer.error().is_none());
}

#[tokio::test]
async fn an_unfinished_transaction_ends_the_observer() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe(&client, &mut peer, &[]).await;
    let record = [&TransactionRecord::PREFIX[..], b"rest"].concat();
    let version = crate::support::version(1);
    peer.notify(b"k1", &Event::Set(record.into()), &version)
        .await;
    assert_eq!(within(observer.next()).await, None);
    assert_eq!(observer.lost_reason(), Some(LostReason::Refused));
    assert!(TransactionRecord::of(&observer.error().unwrap()).is_some());
}

#[tokio::test]
async fn a_pattern_and_one_of_its_keys_are_observed_independently() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe(&client, &mut peer, &[]).await;
    let store = async {
        let request = peer.answer(&Reply::Ok, None).await;
        assert_eq!(request.command, Command::Watch { key: "k1".into() });
    };
    let (single, ()) = within(async { tokio::join!(client.observe("k1"), store) }).await;
    let mut single = single.unwrap();
    // The store sends one notification for both.
    notify_set(&mut peer, "k1", "a", 1).await;
    assert_eq!(next(&mut observer).await, set("k1", "a", 1));
    within(single.next()).await.unwrap();
    assert_eq!(client.counters().notifications, 1);
}
