//! Observers of all keys that match a pattern: the present state, its end, the changes, and what differs after a gap.
mod ending;
mod fallback;
mod gaps;
mod mirror;
mod with_server;

use crate::capabilities::{answer_capabilities, play};
use crate::support::{Broker, CLIENT_ID, Peer, Request, version, within};
use bytes::{Bytes, BytesMut};
use statestore::{
    Capabilities, Client, MatchObservation, MatchObserver, ObserveMatchingOptions, TryNextError,
    Version,
};
use statestore_protocol::mqtt::{PublishHeader, ReasonCode};
use statestore_protocol::{Command, Event, PageEntry, Reply, topic};

/// A client of a store whose capabilities are known.
async fn connect(broker: &Broker, capabilities: Capabilities) -> (Client, Peer) {
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let asked = play(client.capabilities(), &mut peer, async |peer| {
        answer_capabilities(peer, capabilities).await;
    });
    asked.await.unwrap();
    (client, peer)
}

fn watch() -> Command {
    Command::WatchPattern {
        pattern: "k*".into(),
    }
}

fn stop() -> Command {
    Command::UnwatchPattern {
        pattern: "k*".into(),
    }
}

fn scan(token: Option<&'static str>) -> Command {
    Command::Scan {
        pattern: "k*".into(),
        token: token.map(Bytes::from),
        values: true,
    }
}

/// Observes `k*`. The keys are not read yet.
async fn observe_with(
    client: &Client,
    peer: &mut Peer,
    options: &ObserveMatchingOptions,
) -> MatchObserver {
    let store = async {
        let request = peer.answer(&Reply::Ok, None).await;
        assert_eq!(request.command, watch());
    };
    let observe = client.observe_matching_with("k*", options);
    let (observer, ()) = within(async { tokio::join!(observe, store) }).await;
    observer.unwrap()
}

/// Observes `k*` in a store with these keys, whose value is their name.
async fn observe(client: &Client, peer: &mut Peer, keys: &[(&'static str, u64)]) -> MatchObserver {
    let mut observer = observe_with(client, peer, &ObserveMatchingOptions::new()).await;
    answer_scan(peer, keys).await;
    for (key, number) in keys {
        assert_eq!(next(&mut observer).await, set(key, key, *number));
    }
    assert_eq!(next(&mut observer).await, MatchObservation::Complete);
    observer
}

fn page(keys: &[(&'static str, u64)], token: Option<&'static str>) -> Reply {
    let entry = |&(key, number): &(&'static str, u64)| PageEntry {
        key: key.into(),
        value: key.into(),
        version: Version::new(number, 0),
        expires_in_ms: None,
    };
    Reply::EntryPage {
        entries: keys.iter().map(entry).collect(),
        token: token.map(Bytes::from),
    }
}

/// Answers a SCAN of one page with these keys.
async fn answer_scan(peer: &mut Peer, keys: &[(&'static str, u64)]) {
    let request = peer.answer(&page(keys, None), None).await;
    assert_eq!(request.command, scan(None));
}

async fn respond(peer: &mut Peer, request: &Request, reply: &Reply) {
    peer.acknowledge(request, ReasonCode::SUCCESS).await;
    peer.respond(request, reply, None).await;
}

/// Responds to a GET.
async fn respond_with_version(
    peer: &mut Peer,
    request: &Request,
    value: &'static str,
    number: u64,
) {
    peer.acknowledge(request, ReasonCode::SUCCESS).await;
    let reply = Reply::Value(value.into());
    peer.respond(request, &reply, Some(&version(number))).await;
}

/// Reports a gap of the pattern, without a version.
async fn report_gap(peer: &mut Peer) {
    let mut payload = BytesMut::new();
    Event::Resync.encode(&mut payload);
    let topic = topic::notification(CLIENT_ID, b"k*");
    let header = PublishHeader {
        topic: &topic,
        ..PublishHeader::default()
    };
    peer.publish(&header, &payload).await;
}

async fn notify_set(peer: &mut Peer, key: &'static str, value: &'static str, number: u64) {
    let event = Event::Set(value.into());
    peer.notify(key.as_bytes(), &event, &version(number)).await;
}

async fn notify_deleted(peer: &mut Peer, key: &'static str, number: u64) {
    peer.notify(key.as_bytes(), &Event::Deleted, &version(number))
        .await;
}

async fn next(observer: &mut MatchObserver) -> MatchObservation {
    within(observer.next()).await.unwrap()
}

fn set(key: &'static str, value: &'static str, number: u64) -> MatchObservation {
    MatchObservation::Set {
        key: key.into(),
        value: value.into(),
        version: version(number),
    }
}

fn deleted(key: &'static str, number: Option<u64>) -> MatchObservation {
    MatchObservation::Deleted {
        key: key.into(),
        version: number.map(version),
    }
}

#[tokio::test]
async fn the_present_state_precedes_its_end_and_the_changes() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let store = async {
        answer_capabilities(&mut peer, Capabilities::ALL).await;
        let request = peer.answer(&Reply::Ok, None).await;
        assert_eq!(
            request.publish.payload(),
            &b"*3\r\n$9\r\nKEYNOTIFY\r\n$2\r\nk*\r\n$5\r\nMATCH\r\n"[..]
        );
        let first = page(&[("k2", 2), ("k1", 1)], Some("1"));
        assert_eq!(peer.answer(&first, None).await.command, scan(None));
        let second = page(&[("k3", 3)], None);
        assert_eq!(peer.answer(&second, None).await.command, scan(Some("1")));
    };
    let (observer, ()) = within(async { tokio::join!(client.observe_matching("k*"), store) }).await;
    let mut observer = observer.unwrap();
    assert_eq!(observer.pattern(), b"k*");
    for expected in [
        set("k2", "k2", 2),
        set("k1", "k1", 1),
        set("k3", "k3", 3),
        MatchObservation::Complete,
    ] {
        assert_eq!(next(&mut observer).await, expected);
    }
    notify_set(&mut peer, "k4", "new", 4).await;
    // It matches no pattern.
    notify_set(&mut peer, "other", "new", 5).await;
    notify_deleted(&mut peer, "k1", 6).await;
    assert_eq!(next(&mut observer).await, set("k4", "new", 4));
    assert_eq!(next(&mut observer).await, deleted("k1", Some(6)));
    assert_eq!(observer.try_next(), Err(TryNextError::Empty));
    let counters = client.counters();
    assert_eq!(
        (counters.notifications, counters.stale_notifications),
        (2, 1)
    );
}

#[tokio::test]
async fn an_empty_set_is_complete() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe(&client, &mut peer, &[]).await;
    notify_set(&mut peer, "k1", "first", 1).await;
    assert_eq!(next(&mut observer).await, set("k1", "first", 1));
}

#[tokio::test]
async fn a_notification_that_overtakes_the_scan_wins_if_it_is_newer() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe_with(&client, &mut peer, &ObserveMatchingOptions::new()).await;
    let request = peer.request().await;
    notify_set(&mut peer, "k1", "newer", 5).await;
    notify_set(&mut peer, "k2", "older", 1).await;
    respond(&mut peer, &request, &page(&[("k1", 3), ("k2", 4)], None)).await;
    let mut last = Vec::new();
    loop {
        match next(&mut observer).await {
            MatchObservation::Complete => break,
            event => last.push(event),
        }
    }
    assert_eq!(last.first(), Some(&set("k1", "newer", 5)));
    assert_eq!(last.last(), Some(&set("k2", "k2", 4)));
    // The notification of what was read arrives late.
    notify_set(&mut peer, "k2", "k2", 4).await;
    notify_set(&mut peer, "k2", "next", 6).await;
    assert_eq!(next(&mut observer).await, set("k2", "next", 6));
}

#[tokio::test]
async fn a_deletion_during_the_scan_is_not_undone_by_a_page() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe_with(&client, &mut peer, &ObserveMatchingOptions::new()).await;
    peer.answer(&page(&[("k1", 1)], Some("1")), None).await;
    let request = peer.request().await;
    assert_eq!(request.command, scan(Some("1")));
    assert_eq!(next(&mut observer).await, set("k1", "k1", 1));
    notify_deleted(&mut peer, "k1", 5).await;
    assert_eq!(next(&mut observer).await, deleted("k1", Some(5)));
    // The server had read the entry before it was deleted.
    notify_deleted(&mut peer, "k2", 6).await;
    respond(&mut peer, &request, &page(&[("k2", 2), ("k3", 3)], None)).await;
    assert_eq!(next(&mut observer).await, set("k3", "k3", 3));
    assert_eq!(next(&mut observer).await, MatchObservation::Complete);
    // A key that is created again has a higher version.
    notify_set(&mut peer, "k2", "again", 7).await;
    assert_eq!(next(&mut observer).await, set("k2", "again", 7));
}

#[tokio::test]
async fn a_slow_reader_gets_the_newest_state_of_each_key() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let mut observer = observe(&client, &mut peer, &[("k1", 1), ("k2", 2)]).await;
    for number in 3..50 {
        notify_set(&mut peer, "k1", "old", number).await;
    }
    notify_set(&mut peer, "k2", "new", 50).await;
    notify_deleted(&mut peer, "k1", 51).await;
    while client.counters().notifications < 49 {
        tokio::task::yield_now().await;
    }
    assert_eq!(observer.try_next(), Ok(deleted("k1", Some(51))));
    assert_eq!(observer.try_next(), Ok(set("k2", "new", 50)));
    assert_eq!(observer.try_next(), Err(TryNextError::Empty));
}
