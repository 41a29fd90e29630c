//! Gaps: the connection is lost, the store reports one, or a notification is in doubt.
use super::{
    answer_scan, connect, deleted, next, notify_deleted, notify_set, observe, observe_with, page,
    report_gap, respond, set, watch,
};
use crate::capabilities::answer_capabilities;
use crate::observe::reconnect;
use crate::support::{Broker, Peer};
use statestore::{Capabilities, Hlc, MatchObservation, ObserveMatchingOptions};
use statestore_protocol::{Event, Reply};

/// Answers the requests before the SCAN on a new connection.
async fn answer_restart(peer: &mut Peer) {
    answer_capabilities(peer, Capabilities::ALL).await;
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch());
}

#[tokio::test]
async fn after_a_reconnect_only_the_differences_follow() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let keys = [("k1", 1), ("k2", 2), ("k3", 3)];
    let mut observer = observe(&client, &mut peer, &keys).await;

    let mut peer = reconnect(&broker, peer).await;
    answer_restart(&mut peer).await;
    answer_scan(&mut peer, &[("k1", 1), ("k3", 4), ("k4", 5)]).await;
    for expected in [
        MatchObservation::Resync,
        set("k3", "k3", 4),
        set("k4", "k4", 5),
        deleted("k2", None),
        MatchObservation::Resynced,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }

    // Nothing changed.
    let mut peer = reconnect(&broker, peer).await;
    answer_restart(&mut peer).await;
    answer_scan(&mut peer, &[("k1", 1), ("k3", 4), ("k4", 5)]).await;
    assert_eq!(next(&mut observer).await, MatchObservation::Resync);
    assert_eq!(next(&mut observer).await, MatchObservation::Resynced);
    notify_set(&mut peer, "k1", "next", 6).await;
    assert_eq!(next(&mut observer).await, set("k1", "next", 6));

    // The store was restored from a backup: versions may be lower.
    let mut peer = reconnect(&broker, peer).await;
    answer_restart(&mut peer).await;
    answer_scan(&mut peer, &[("k1", 1)]).await;
    for expected in [
        MatchObservation::Resync,
        set("k1", "k1", 1),
        deleted("k3", None),
        deleted("k4", None),
        MatchObservation::Resynced,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }
}

#[tokio::test]
async fn notifications_from_before_the_watch_started_again_are_ignored() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe(&client, &mut peer, &[("k1", 1)]).await;
    let mut peer = reconnect(&broker, peer).await;
    // The broker delivers what the session held back. The key was deleted since.
    notify_set(&mut peer, "k1", "late", 2).await;
    answer_restart(&mut peer).await;
    answer_scan(&mut peer, &[]).await;
    for expected in [
        MatchObservation::Resync,
        deleted("k1", None),
        MatchObservation::Resynced,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }
}

#[tokio::test]
async fn a_reported_gap_reads_the_keys_again_without_another_watch() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe(&client, &mut peer, &[("k1", 1), ("k2", 2)]).await;
    report_gap(&mut peer).await;
    let request = peer.request().await;
    // A change during the scan is part of the differences.
    notify_deleted(&mut peer, "k1", 5).await;
    respond(&mut peer, &request, &page(&[("k1", 1), ("k2", 3)], None)).await;
    for expected in [
        MatchObservation::Resync,
        deleted("k1", Some(5)),
        set("k2", "k2", 3),
        MatchObservation::Resynced,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }
    assert_eq!(client.counters().malformed_messages, 0);
}

#[tokio::test]
async fn a_gap_during_the_first_scan_begins_it_again() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe_with(&client, &mut peer, &ObserveMatchingOptions::new()).await;
    peer.answer(&page(&[("k1", 1), ("k2", 2)], Some("1")), None)
        .await;
    let request = peer.request().await;
    assert_eq!(next(&mut observer).await, set("k1", "k1", 1));
    assert_eq!(next(&mut observer).await, set("k2", "k2", 2));
    report_gap(&mut peer).await;
    respond(&mut peer, &request, &page(&[("k3", 3)], None)).await;
    answer_scan(&mut peer, &[("k2", 2), ("k3", 3)]).await;
    for expected in [
        MatchObservation::Resync,
        set("k3", "k3", 3),
        deleted("k1", None),
        MatchObservation::Complete,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }
}

#[tokio::test]
async fn a_notification_that_contradicts_an_earlier_one_is_verified() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe(&client, &mut peer, &[("k1", 1)]).await;
    notify_set(&mut peer, "k1", "forged", 50).await;
    assert_eq!(next(&mut observer).await, set("k1", "forged", 50));
    notify_set(&mut peer, "k1", "true", 2).await;
    assert_eq!(next(&mut observer).await, MatchObservation::Resync);
    answer_scan(&mut peer, &[("k1", 2)]).await;
    assert_eq!(next(&mut observer).await, set("k1", "k1", 2));
    assert_eq!(next(&mut observer).await, MatchObservation::Resynced);
}

#[tokio::test]
async fn forged_notifications_do_not_delay_the_end_of_the_present_state() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe_with(&client, &mut peer, &ObserveMatchingOptions::new()).await;
    let request = peer.request().await;
    let end_of_time = Hlc::new(u64::MAX, 0, "StateStore").unwrap();
    peer.notify(b"k1", &Event::Deleted, &end_of_time).await;
    respond(&mut peer, &request, &page(&[("k1", 1)], None)).await;
    assert_eq!(next(&mut observer).await, set("k1", "k1", 1));
    assert_eq!(next(&mut observer).await, MatchObservation::Complete);
    // The change may be real, so the keys are read again.
    answer_scan(&mut peer, &[("k1", 2)]).await;
    for expected in [
        MatchObservation::Resync,
        set("k1", "k1", 2),
        MatchObservation::Resynced,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }
    assert_eq!(client.counters().clock_skews, 1);
}

#[tokio::test]
async fn a_store_that_lost_the_extension_is_followed_key_by_key() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe(&client, &mut peer, &[("k1", 1), ("k2", 2)]).await;
    let mut peer = reconnect(&broker, peer).await;
    crate::capabilities::reject_capabilities(&mut peer).await;
    super::fallback::answer_scan(&mut peer, &["k1"]).await;
    super::fallback::answer_keys(&mut peer, &[("k1", 3)]).await;
    for expected in [
        MatchObservation::Resync,
        set("k1", "k1", 3),
        deleted("k2", None),
        MatchObservation::Resynced,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }
    notify_set(&mut peer, "k1", "next", 4).await;
    assert_eq!(next(&mut observer).await, set("k1", "next", 4));
}
