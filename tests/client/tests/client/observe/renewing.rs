//! Watches that are renewed after a reconnect, and what was missed meanwhile.
use super::{deleted, next, observe, reconnect, set};
use crate::support::{Broker, session_present, value, version, within};
use statestore::{Observation, ObserveOptions, Overflow};
use statestore_protocol::mqtt::{ConnAck, ReasonCode};
use statestore_protocol::{Command, Event, Reply};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

#[tokio::test]
async fn after_a_reconnect_the_watch_is_renewed_and_the_key_is_read() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set("a".into()), &version(1))
        .await;
    assert_eq!(next(&mut observer).await, set("a", 1));

    let watch = Command::Watch { key: "k".into() };
    let get = Command::Get {
        key: "k".into(),
        remaining: false,
        eventual: false,
    };
    // The key changed meanwhile.
    let mut peer = reconnect(&broker, peer).await;
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch);
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(
        peer.answer(&value("b"), Some(&version(2))).await.command,
        get
    );
    assert_eq!(next(&mut observer).await, set("b", 2));

    // The key did not change: only the marker is reported, and the next change is the next observation.
    let mut peer = reconnect(&broker, peer).await;
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch);
    assert_eq!(
        peer.answer(&value("b"), Some(&version(2))).await.command,
        get
    );
    assert_eq!(next(&mut observer).await, Observation::Resync);
    peer.notify(b"k", &Event::Set("c".into()), &version(3))
        .await;
    assert_eq!(next(&mut observer).await, set("c", 3));

    // The key was deleted.
    let mut peer = reconnect(&broker, peer).await;
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch);
    assert_eq!(peer.answer(&Reply::Nil, None).await.command, get);
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(
        next(&mut observer).await,
        Observation::Deleted { version: None }
    );

    // The store was set back: its versions are lower than the one seen.
    let mut peer = reconnect(&broker, peer).await;
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch);
    assert_eq!(
        peer.answer(&value("old"), Some(&version(1))).await.command,
        get
    );
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("old", 1));
    peer.notify(b"k", &Event::Deleted, &version(2)).await;
    assert_eq!(next(&mut observer).await, deleted(2));
}

#[tokio::test]
async fn a_notification_after_the_renewal_is_newer_than_what_is_read() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    let get = peer.request().await;
    peer.notify(b"k", &Event::Set("new".into()), &version(5))
        .await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("new", 5));
    // Read before that change: absent.
    peer.acknowledge(&get, ReasonCode::SUCCESS).await;
    peer.respond(&get, &Reply::Nil, None).await;
    peer.notify(b"k", &Event::Set("newer".into()), &version(6))
        .await;
    assert_eq!(next(&mut observer).await, set("newer", 6));
}

#[tokio::test]
async fn a_renewal_that_is_cut_off_starts_again() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    let mut peer = reconnect(&broker, peer).await;
    let renewal = peer.request().await;
    assert_eq!(renewal.command, Command::Watch { key: "k".into() });
    // Cut before the answer; then the session is lost as well.
    drop(peer);
    let mut peer = broker.accept().await;
    peer.connect().await;
    peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
    peer.subscribe().await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    // The request of the lost session comes again, and what it began may belong to the old connection, so it is asked
    // for once more.
    loop {
        let request = peer.request().await;
        peer.acknowledge(&request, ReasonCode::SUCCESS).await;
        match request.command {
            Command::Watch { .. } => peer.respond(&request, &Reply::Ok, None).await,
            Command::Get { .. } => {
                peer.respond(&request, &value("v"), Some(&version(1))).await;
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let mut seen = next(&mut observer).await;
    if seen == Observation::Resync {
        seen = next(&mut observer).await;
    }
    assert_eq!(seen, set("v", 1));
}

#[tokio::test]
async fn an_observer_without_observations_gets_the_state_after_a_reconnect() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut early = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Deleted, &version(1)).await;
    assert_eq!(next(&mut early).await, deleted(1));
    let mut late = within(client.observe("k")).await.unwrap();
    // The key was set and deleted again meanwhile, and the late response may have the value in between.
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    peer.answer(&Reply::Nil, None).await;
    assert_eq!(next(&mut early).await, Observation::Resync);
    assert_eq!(next(&mut late).await, Observation::Resync);
    assert_eq!(
        next(&mut late).await,
        Observation::Deleted { version: None }
    );
    peer.notify(b"k", &Event::Set("a".into()), &version(2))
        .await;
    assert_eq!(next(&mut early).await, set("a", 2));
    assert_eq!(next(&mut late).await, set("a", 2));
}

#[tokio::test]
async fn an_observer_added_during_a_renewal_gets_a_resync() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let _first = observe(&client, &mut peer, "k").await;
    let mut peer = reconnect(&broker, peer).await;
    let renewal = peer.request().await;
    assert_eq!(renewal.command, Command::Watch { key: "k".into() });
    let options = ObserveOptions::new().overflow(Overflow::All(10));
    let mut second = {
        let mut observing = pin!(client.observe_with("k", &options));
        let too_early = poll_fn(|context| Poll::Ready(observing.as_mut().poll(context))).await;
        assert!(too_early.is_pending());
        // The notification was in transit when the connection was lost; later ones were missed.
        peer.notify(b"k", &Event::Set("a".into()), &version(1))
            .await;
        peer.respond(&renewal, &Reply::Ok, None).await;
        within(observing).await.unwrap()
    };
    peer.answer(&value("c"), Some(&version(3))).await;
    assert_eq!(next(&mut second).await, Observation::Resync);
    assert_eq!(next(&mut second).await, set("a", 1));
    assert_eq!(next(&mut second).await, set("c", 3));
}

#[tokio::test]
async fn a_read_over_a_former_connection_is_not_delivered() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let options = ObserveOptions::new().overflow(Overflow::All(10));
    let mut observer = {
        let observing = client.observe_with("k", &options);
        let (observer, _) =
            within(async { tokio::join!(observing, peer.answer(&Reply::Ok, None)) }).await;
        observer.unwrap()
    };
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    let read = peer.request().await;
    assert_eq!(
        read.command,
        Command::Get {
            key: "k".into(),
            remaining: false,
            eventual: false
        }
    );
    assert_eq!(next(&mut observer).await, Observation::Resync);
    drop(peer);
    // After a CONNECT without an answer, the client asks for its session before it is ready.
    broker.accept().await.connect().await;
    let mut peer = broker.accept().await;
    peer.connect().await;
    peer.send_connack(session_present()).await;
    peer.acknowledge(&read, ReasonCode::SUCCESS).await;
    peer.respond(&read, &value("c"), Some(&version(3))).await;
    peer.confirm_session().await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    // The key is read before the watch is renewed, which is too early, and after it.
    peer.answer(&value("c"), Some(&version(3))).await;
    peer.answer(&Reply::Ok, None).await;
    peer.answer(&value("d"), Some(&version(4))).await;
    assert_eq!(next(&mut observer).await, set("d", 4));
}
