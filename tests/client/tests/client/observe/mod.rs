//! Observing keys: one watch for all observers of a key, rising versions, and a report of each gap.
mod cancellation;
mod distrusted_versions;
mod ending;
mod initial;
mod renewing;

use crate::support::{Broker, CLIENT_ID, Peer, session_present, version, within};
use statestore::{Client, Hlc, Observation, ObserveOptions, Observer, Overflow};
use statestore_protocol::mqtt::{PublishHeader, ReasonCode};
use statestore_protocol::{Command, Event, Reply, topic};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};

async fn observe(client: &Client, peer: &mut Peer, key: &str) -> Observer {
    let (observer, request) =
        within(async { tokio::join!(client.observe(key), peer.answer(&Reply::Ok, None)) }).await;
    assert_eq!(
        request.command,
        Command::Watch {
            key: key.to_owned().into()
        }
    );
    observer.unwrap()
}

async fn next(observer: &mut Observer) -> Observation {
    within(observer.next()).await.unwrap()
}

fn set(text: &'static str, number: u64) -> Observation {
    Observation::Set {
        value: text.into(),
        version: version(number),
    }
}

fn deleted(number: u64) -> Observation {
    Observation::Deleted {
        version: Some(version(number)),
    }
}

/// Makes the connection again; the session is kept.
pub(crate) async fn reconnect(broker: &Broker, peer: Peer) -> Peer {
    drop(peer);
    let mut peer = broker.accept().await;
    peer.connect().await;
    peer.send_connack(session_present()).await;
    peer.confirm_session().await;
    peer
}

/// A version that is ahead of the local clock, in milliseconds.
fn ahead(ms: u64) -> Hlc {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_ms = u64::try_from(now.as_millis()).unwrap();
    Hlc::new(now_ms + ms, 0, "StateStore").unwrap()
}

#[tokio::test]
async fn changes_are_observed_in_the_order_of_their_versions() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    assert_eq!(observer.key(), b"k");
    peer.notify(b"k", &Event::Set("a".into()), &version(2))
        .await;
    assert_eq!(next(&mut observer).await, set("a", 2));
    // A duplicate, an old notification, and one for a key without observers.
    peer.notify(b"k", &Event::Set("a".into()), &version(2))
        .await;
    peer.notify(b"k", &Event::Deleted, &version(1)).await;
    peer.notify(b"other", &Event::Deleted, &version(3)).await;
    peer.notify(b"k", &Event::Deleted, &version(3)).await;
    assert_eq!(next(&mut observer).await, deleted(3));
    let counters = client.counters();
    assert_eq!(
        (counters.notifications, counters.stale_notifications),
        (2, 3)
    );
}

#[tokio::test]
async fn observers_of_one_key_share_a_watch_and_the_last_one_ends_it() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut first = observe(&client, &mut peer, "k").await;
    // No second request: this would hang otherwise.
    let mut second = within(client.observe("k")).await.unwrap();
    peer.notify(b"k", &Event::Set("a".into()), &version(1))
        .await;
    assert_eq!(next(&mut first).await, set("a", 1));
    assert_eq!(next(&mut second).await, set("a", 1));
    drop(first);
    peer.notify(b"k", &Event::Deleted, &version(2)).await;
    assert_eq!(next(&mut second).await, deleted(2));
    drop(second);
    let stop = peer.answer(&Reply::Ok, None).await;
    assert_eq!(stop.command, Command::Unwatch { key: "k".into() });
    // A later observer starts a new watch.
    observe(&client, &mut peer, "k").await;
}

#[tokio::test]
async fn a_key_that_is_observed_again_while_its_watch_ends_is_watched() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    drop(observe(&client, &mut peer, "k").await);
    let stop = peer.request().await;
    assert_eq!(stop.command, Command::Unwatch { key: "k".into() });
    let mut observer = {
        let mut observing = pin!(client.observe("k"));
        let too_early = poll_fn(|context| Poll::Ready(observing.as_mut().poll(context))).await;
        assert!(
            too_early.is_pending(),
            "the store is about to end the watch"
        );
        let answer = async {
            peer.acknowledge(&stop, ReasonCode::SUCCESS).await;
            peer.respond(&stop, &Reply::Ok, None).await;
            let watch = peer.answer(&Reply::Ok, None).await;
            assert_eq!(watch.command, Command::Watch { key: "k".into() });
        };
        within(async { tokio::join!(observing, answer) })
            .await
            .0
            .unwrap()
    };
    peer.notify(b"k", &Event::Deleted, &version(1)).await;
    assert_eq!(next(&mut observer).await, deleted(1));
}

#[tokio::test]
async fn a_slow_observer_gets_the_newest_state_or_the_number_of_dropped_changes() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut latest = observe(&client, &mut peer, "k").await;
    let options = ObserveOptions::new().overflow(Overflow::All(2));
    let mut all = client.observe_with("k", &options).await.unwrap();
    for number in 1..=5 {
        peer.notify(b"k", &Event::Deleted, &version(number)).await;
    }
    while client.counters().notifications < 5 {
        tokio::task::yield_now().await;
    }
    assert_eq!(next(&mut latest).await, deleted(5));
    assert_eq!(next(&mut all).await, Observation::Lagged(3));
    assert_eq!(next(&mut all).await, deleted(4));
    assert_eq!(next(&mut all).await, deleted(5));
}

#[tokio::test]
async fn invalid_notifications_are_counted_and_ignored() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    let good = topic::notification(CLIENT_ID, b"k");
    let timestamp = [("__ts", "1:0:StateStore")];
    for (topic, users, payload) in [
        (
            "somewhere/else",
            &timestamp[..],
            &b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n"[..],
        ),
        (
            &good[..good.len() - 1],
            &timestamp,
            b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n",
        ),
        (&good, &[], b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n"),
        (
            &good,
            &[("__ts", "now")],
            b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n",
        ),
        (&good, &timestamp, b""),
        (&good, &timestamp, b"*9999999\r\n"),
    ] {
        peer.publish(
            &PublishHeader {
                topic,
                user_properties: users,
                ..PublishHeader::default()
            },
            payload,
        )
        .await;
    }
    peer.notify(b"k", &Event::Deleted, &version(2)).await;
    assert_eq!(next(&mut observer).await, deleted(2));
    assert_eq!(client.counters().malformed_messages, 6);
}

#[tokio::test]
async fn changes_before_the_watch_started_are_not_observed() {
    let broker = Broker::start().await;
    let (client, peer) = broker.connect(broker.settings()).await;
    let serve = async {
        let mut peer = peer;
        // The store watches, and a change follows; but the connection is lost before the client hears of it.
        let watch = peer.request().await;
        let mut peer = reconnect(&broker, peer).await;
        peer.notify(b"k", &Event::Set("before".into()), &version(1))
            .await;
        let again = peer.request().await;
        assert_eq!(again.command, watch.command);
        peer.acknowledge(&again, ReasonCode::SUCCESS).await;
        peer.respond(&again, &Reply::Ok, None).await;
        let once_more = peer.request().await;
        peer.acknowledge(&once_more, ReasonCode::SUCCESS).await;
        peer.respond(&once_more, &Reply::Ok, None).await;
        peer
    };
    let (observer, mut peer) = within(async { tokio::join!(client.observe("k"), serve) }).await;
    let mut observer = observer.unwrap();
    peer.notify(b"k", &Event::Set("after".into()), &version(3))
        .await;
    assert_eq!(next(&mut observer).await, set("after", 3));
}
