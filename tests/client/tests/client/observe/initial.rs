//! Observers that get the present state of their key first.
use super::{deleted, next, reconnect, set};
use crate::support::{Broker, Peer, value, version, within};
use statestore::{Client, ErrorKind, Observation, ObserveOptions, Observer, TryNextError};
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{Command, Event, Reply, ServiceError};

fn options() -> ObserveOptions {
    ObserveOptions::new().initial(true)
}

fn get() -> Command {
    Command::Get {
        key: "k".into(),
        remaining: false,
        eventual: false,
    }
}

/// Observes the key, which has this state.
async fn observe(client: &Client, peer: &mut Peer, reply: &Reply, number: u64) -> Observer {
    let store = async {
        let watch = peer.answer(&Reply::Ok, None).await;
        assert_eq!(watch.command, Command::Watch { key: "k".into() });
        let version = version(number);
        let read = peer.answer(reply, Some(&version)).await;
        assert_eq!(read.command, get());
    };
    let options = options();
    let (observer, ()) =
        within(async { tokio::join!(client.observe_with("k", &options), store) }).await;
    observer.unwrap()
}

#[tokio::test]
async fn the_first_observation_is_the_present_state() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, &value("a"), 3).await;
    assert_eq!(observer.try_next().unwrap(), set("a", 3));
    // The notification of that state, and of an earlier one, arrive late.
    for (text, number) in [("before", 2), ("a", 3), ("b", 4)] {
        peer.notify(b"k", &Event::Set(text.into()), &version(number))
            .await;
    }
    assert_eq!(next(&mut observer).await, set("b", 4));
    assert_eq!(observer.try_next(), Err(TryNextError::Empty));
}

#[tokio::test]
async fn an_absent_key_is_a_deletion_without_a_version() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let store = async {
        peer.answer(&Reply::Ok, None).await;
        peer.answer(&Reply::Nil, None).await;
        peer
    };
    let options = options();
    let (observer, mut peer) =
        within(async { tokio::join!(client.observe_with("k", &options), store) }).await;
    let mut observer = observer.unwrap();
    assert_eq!(
        observer.try_next().unwrap(),
        Observation::Deleted { version: None }
    );
    peer.notify(b"k", &Event::Set("a".into()), &version(1))
        .await;
    assert_eq!(next(&mut observer).await, set("a", 1));
}

#[tokio::test]
async fn a_notification_that_overtakes_the_read_is_the_first_observation() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let store = async {
        peer.answer(&Reply::Ok, None).await;
        let read = peer.request().await;
        peer.notify(b"k", &Event::Deleted, &version(4)).await;
        peer.acknowledge(&read, ReasonCode::SUCCESS).await;
        peer.respond(&read, &value("a"), Some(&version(3))).await;
    };
    let options = options();
    let (observer, ()) =
        within(async { tokio::join!(client.observe_with("k", &options), store) }).await;
    let mut observer = observer.unwrap();
    assert_eq!(observer.try_next().unwrap(), deleted(4));
    assert_eq!(observer.try_next(), Err(TryNextError::Empty));
}

#[tokio::test]
async fn after_a_reconnect_only_a_state_that_differs_follows() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, &value("a"), 3).await;
    assert_eq!(observer.try_next().unwrap(), set("a", 3));

    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    assert_eq!(
        peer.answer(&value("a"), Some(&version(3))).await.command,
        get()
    );
    assert_eq!(next(&mut observer).await, Observation::Resync);
    peer.notify(b"k", &Event::Set("b".into()), &version(4))
        .await;
    assert_eq!(next(&mut observer).await, set("b", 4));
}

#[tokio::test]
async fn observers_without_the_option_get_no_present_state() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut plain = super::observe(&client, &mut peer, "k").await;
    // The watch has started already.
    let options = options();
    let store = async {
        assert_eq!(
            peer.answer(&value("a"), Some(&version(3))).await.command,
            get()
        );
    };
    let (observer, ()) =
        within(async { tokio::join!(client.observe_with("k", &options), store) }).await;
    let mut observer = observer.unwrap();
    assert_eq!(observer.try_next().unwrap(), set("a", 3));
    assert_eq!(plain.try_next(), Err(TryNextError::Empty));
    // For the other observer, the change is news.
    peer.notify(b"k", &Event::Set("a".into()), &version(3))
        .await;
    assert_eq!(next(&mut plain).await, set("a", 3));
    peer.notify(b"k", &Event::Deleted, &version(4)).await;
    assert_eq!(next(&mut observer).await, deleted(4));
}

#[tokio::test]
async fn a_rejected_read_ends_the_observation() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let store = async {
        peer.answer(&Reply::Ok, None).await;
        peer.answer(&Reply::Error(ServiceError::NotAuthorized), None)
            .await;
        let stop = peer.answer(&Reply::Ok, None).await;
        assert_eq!(stop.command, Command::Unwatch { key: "k".into() });
    };
    let options = options();
    let (observer, ()) =
        within(async { tokio::join!(client.observe_with("k", &options), store) }).await;
    assert_eq!(observer.unwrap_err().kind(), ErrorKind::NotAuthorized);
}
