//! Mirrors: local copies of all entries whose keys match a pattern.
use super::{answer_scan, connect, deleted, notify_deleted, notify_set, set, stop, watch};
use crate::capabilities::answer_capabilities;
use crate::observe::reconnect;
use crate::support::{Broker, Peer, version, within};
use statestore::{
    Capabilities, Client, Entry, ErrorKind, LostReason, MatchObservation, Mirror, MirrorChanges,
    MirrorOptions, TryNextError,
};
use statestore_protocol::Reply;
use std::time::Duration;

/// Mirrors `k*` of a store with these keys, whose value is their name.
async fn mirror(client: &Client, peer: &mut Peer, keys: &[(&'static str, u64)]) -> Mirror {
    let store = async {
        assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch());
        answer_scan(peer, keys).await;
    };
    let (mirror, ()) = within(async { tokio::join!(client.mirror("k*"), store) }).await;
    let mirror = mirror.unwrap();
    within(mirror.synced()).await.unwrap();
    mirror
}

async fn next(changes: &mut MirrorChanges) -> MatchObservation {
    within(changes.next()).await.unwrap()
}

#[tokio::test]
async fn a_synced_mirror_has_all_entries_and_follows_their_changes() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mirror = mirror(&client, &mut peer, &[("k1", 1), ("k2", 2)]).await;
    assert_eq!(mirror.pattern(), b"k*");
    assert_eq!(mirror.len(), 2);
    assert_eq!(mirror.get("k1"), Some(Entry::new("k1", version(1))));
    assert_eq!(mirror.get("absent"), None);
    assert_eq!(mirror.stale_since(), None);

    let mut changes = mirror.changes();
    let before = mirror.snapshot();
    notify_set(&mut peer, "k3", "new", 3).await;
    notify_deleted(&mut peer, "k1", 4).await;
    assert_eq!(next(&mut changes).await, set("k3", "new", 3));
    assert_eq!(next(&mut changes).await, deleted("k1", Some(4)));
    assert_eq!(changes.try_next(), Err(TryNextError::Empty));
    assert!(!mirror.contains_key("k1"));
    assert_eq!(mirror.get("k3"), Some(Entry::new("new", version(3))));
    assert_eq!(before.len(), 2, "a snapshot does not change");
    assert!(before.contains_key(&b"k1"[..]));

    drop((mirror, changes));
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, stop());
}

#[tokio::test]
async fn a_mirror_is_stale_from_the_loss_of_the_connection_until_the_differences_arrived() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mirror = mirror(&client, &mut peer, &[("k1", 1), ("k2", 2)]).await;
    let mut changes = mirror.changes();
    let mut peer = reconnect(&broker, peer).await;
    assert_eq!(next(&mut changes).await, MatchObservation::Resync);
    assert!(mirror.stale_since().is_some());
    assert_eq!(mirror.get("k1"), Some(Entry::new("k1", version(1))));
    answer_capabilities(&mut peer, Capabilities::ALL).await;
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch());
    answer_scan(&mut peer, &[("k2", 5)]).await;
    within(mirror.synced()).await.unwrap();
    assert_eq!(mirror.stale_since(), None);
    assert_eq!(mirror.get("k1"), None);
    assert_eq!(mirror.get("k2"), Some(Entry::new("k2", version(5))));
    for expected in [
        set("k2", "k2", 5),
        deleted("k1", None),
        MatchObservation::Resynced,
    ] {
        assert_eq!(next(&mut changes).await, expected);
    }
}

#[tokio::test]
async fn entries_above_the_limit_end_the_mirror_with_its_last_state() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let options = MirrorOptions::new().max_bytes(10);
    let store = async {
        assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch());
        answer_scan(&mut peer, &[("k1", 1), ("k2", 2)]).await;
    };
    let (mirror, ()) =
        within(async { tokio::join!(client.mirror_with("k*", &options), store) }).await;
    let mirror = mirror.unwrap();
    within(mirror.synced()).await.unwrap();
    let mut changes = mirror.changes();
    // A smaller value makes room.
    notify_set(&mut peer, "k1", "", 3).await;
    assert_eq!(next(&mut changes).await, set("k1", "", 3));
    notify_set(&mut peer, "k3", "long", 4).await;
    assert_eq!(next(&mut changes).await, set("k3", "long", 4));
    assert_eq!(within(changes.next()).await, None);
    assert!(!changes.is_lagging());
    assert_eq!(mirror.lost_reason(), Some(LostReason::Refused));
    assert_eq!(mirror.error().unwrap().kind(), ErrorKind::TooLarge);
    assert!(mirror.stale_since().is_some());
    assert_eq!(mirror.get("k2"), Some(Entry::new("k2", version(2))));
    // Its watch ends, too.
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, stop());
}

#[tokio::test]
async fn a_mirror_ends_with_its_client() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mirror = mirror(&client, &mut peer, &[]).await;
    assert!(mirror.is_empty());
    let mut changes = mirror.changes();
    client.close_within(Duration::ZERO).await;
    assert_eq!(within(changes.next()).await, None);
    assert_eq!(mirror.lost_reason(), Some(LostReason::Closed));
    assert!(mirror.error().is_none());
    assert!(mirror.stale_since().is_some());
    assert_eq!(
        within(mirror.synced()).await.unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[tokio::test]
async fn a_closed_mirror_keeps_its_last_state_and_ends_its_changes() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mirror = mirror(&client, &mut peer, &[("k1", 1)]).await;
    let mut changes = mirror.changes();
    let clone = mirror.clone();
    mirror.close();
    mirror.close();
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, stop());
    assert_eq!(within(changes.next()).await, None);
    assert_eq!(changes.try_next(), Err(TryNextError::Ended));
    assert_eq!(clone.lost_reason(), Some(LostReason::Closed));
    assert!(clone.error().is_none() && clone.stale_since().is_some());
    assert_eq!(clone.get("k1"), Some(Entry::new("k1", version(1))));
    assert_eq!(
        within(clone.synced()).await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    // Later changes end at once.
    assert_eq!(within(clone.changes().next()).await, None);
}

#[tokio::test]
async fn changes_end_when_the_last_clone_of_their_mirror_is_dropped() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mirror = mirror(&client, &mut peer, &[]).await;
    let mut changes = mirror.changes();
    drop(mirror);
    assert_eq!(within(changes.next()).await, None);
    assert!(!changes.is_lagging());
}
