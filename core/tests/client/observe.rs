//! Observing keys: one watch for all observers of a key, rising versions, no gap that is not told.
use crate::support::{Broker, CLIENT_ID, Peer, session_present, value, version, within};
use statestore::{
    Client, ErrorKind, Hlc, LostReason, Observation, ObserveOptions, Observer, Outcome, Overflow,
};
use statestore_protocol::mqtt::{ConnAck, PublishHeader, ReasonCode};
use statestore_protocol::{Command, Event, Reply, ServiceError, topic};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
async fn reconnect(broker: &Broker, peer: Peer) -> Peer {
    drop(peer);
    let mut peer = broker.accept().await;
    peer.connect().await;
    peer.send_connack(session_present()).await;
    peer
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
    // A duplicate, an old one, and one for nobody.
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
    // Whoever comes later begins anew.
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
async fn after_a_reconnect_the_watch_is_renewed_and_the_key_is_read() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set("a".into()), &version(1))
        .await;
    assert_eq!(next(&mut observer).await, set("a", 1));

    let watch = Command::Watch { key: "k".into() };
    let get = Command::Get { key: "k".into() };
    // It changed meanwhile.
    let mut peer = reconnect(&broker, peer).await;
    assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch);
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(
        peer.answer(&value("b"), Some(&version(2))).await.command,
        get
    );
    assert_eq!(next(&mut observer).await, set("b", 2));

    // It did not change: the marker is all, and the next change is the next observation.
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

    // It was deleted.
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
async fn a_slow_observer_gets_the_newest_state_or_is_told_how_much_it_missed() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut latest = observe(&client, &mut peer, "k").await;
    let options = ObserveOptions {
        overflow: Overflow::All(2),
        ..ObserveOptions::default()
    };
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
async fn what_is_no_notification_is_counted_and_does_no_harm() {
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
async fn a_watch_that_cannot_begin_says_why() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let refusal = Reply::Error(ServiceError::NotAuthorized);
    let (observer, _) =
        within(async { tokio::join!(client.observe("k"), peer.answer(&refusal, None)) }).await;
    let error = observer.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::NotAuthorized, Outcome::NotDone)
    );
    assert!(
        error.to_string().starts_with("KEYNOTIFY \"k\": "),
        "{error}"
    );

    let soon = ObserveOptions {
        timeout: Some(Duration::from_millis(5)),
        ..ObserveOptions::default()
    };
    let error = client.observe_with("k", &soon).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::Unknown)
    );
    // The watch that nobody wants any more is ended.
    assert_eq!(
        peer.answer(&Reply::Ok, None).await.command,
        Command::Watch { key: "k".into() }
    );
    assert_eq!(
        peer.answer(&Reply::Count(0), None).await.command,
        Command::Unwatch { key: "k".into() }
    );
}

#[tokio::test]
async fn a_broker_that_refuses_notifications_still_serves_requests() {
    let broker = Broker::start().await;
    let accept = async {
        let mut peer = broker.accept().await;
        peer.connect().await;
        peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
        peer.answer_subscribe(&[ReasonCode::GRANTED_QOS_1, ReasonCode::NOT_AUTHORIZED])
            .await;
        peer
    };
    let (client, mut peer) =
        within(async { tokio::join!(Client::connect(broker.settings()), accept) }).await;
    let client = client.unwrap();
    let error = client.observe("k").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.mqtt_reason()),
        (ErrorKind::Rejected, Some(ReasonCode::NOT_AUTHORIZED))
    );
    let (entry, _) =
        within(async { tokio::join!(client.get("k"), peer.answer(&Reply::Nil, None)) }).await;
    assert_eq!(entry.unwrap(), None);
}

#[tokio::test]
async fn a_watch_that_is_no_longer_allowed_ends_its_observers() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Error(ServiceError::NotAuthorized), None)
        .await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(within(observer.next()).await, None);
    assert_eq!(observer.error().unwrap().kind(), ErrorKind::NotAuthorized);
    assert_eq!(observer.lost_reason(), Some(LostReason::Refused));
}

#[tokio::test]
async fn observers_of_a_session_that_was_taken_over_say_so() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    assert_eq!(observer.lost_reason(), None);
    peer.disconnect(ReasonCode::SESSION_TAKEN_OVER).await;
    assert_eq!(within(observer.next()).await, None);
    assert_eq!(observer.lost_reason(), Some(LostReason::TakenOver));
    let error = observer.error().unwrap();
    assert_eq!(
        (error.kind(), error.mqtt_reason()),
        (ErrorKind::Closed, Some(ReasonCode::SESSION_TAKEN_OVER))
    );
    // Who closes the client afterwards does not change why it ended.
    within(client.close()).await;
    assert_eq!(observer.lost_reason(), Some(LostReason::TakenOver));
}

#[tokio::test]
async fn observers_of_a_client_that_gave_up_say_so() {
    let broker = Broker::start().await;
    let settings = broker.settings().reconnect_limit(Duration::ZERO);
    let (client, mut peer) = broker.connect(settings).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    drop((broker, peer));
    assert_eq!(within(observer.next()).await, None);
    assert_eq!(observer.lost_reason(), Some(LostReason::GaveUp));
    assert_eq!(observer.error().unwrap().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn observers_end_with_the_client() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    within(client.close()).await;
    assert_eq!(within(observer.next()).await, None);
    assert!(observer.error().is_none());
    assert_eq!(observer.lost_reason(), Some(LostReason::Closed));
    assert_eq!(
        client.observe("k").await.unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[tokio::test]
async fn what_changed_before_the_watch_began_is_not_observed() {
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

#[tokio::test]
async fn an_observer_that_was_told_nothing_yet_is_told_the_state_after_a_reconnect() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut early = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Deleted, &version(1)).await;
    assert_eq!(next(&mut early).await, deleted(1));
    let mut late = within(client.observe("k")).await.unwrap();
    // It was set and deleted again meanwhile, and the late one may have read what was set.
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
async fn an_observer_that_comes_while_the_watch_is_renewed_is_told_of_the_gap() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let _first = observe(&client, &mut peer, "k").await;
    let mut peer = reconnect(&broker, peer).await;
    let renewal = peer.request().await;
    assert_eq!(renewal.command, Command::Watch { key: "k".into() });
    let options = ObserveOptions {
        overflow: Overflow::All(10),
        ..ObserveOptions::default()
    };
    let mut second = {
        let mut observing = pin!(client.observe_with("k", &options));
        let too_early = poll_fn(|context| Poll::Ready(observing.as_mut().poll(context))).await;
        assert!(too_early.is_pending());
        // It was on its way when the connection was lost; what came after it was missed.
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
async fn what_was_read_over_a_former_connection_is_not_told() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let options = ObserveOptions {
        overflow: Overflow::All(10),
        ..ObserveOptions::default()
    };
    let mut observer = {
        let observing = client.observe_with("k", &options);
        let (observer, _) =
            within(async { tokio::join!(observing, peer.answer(&Reply::Ok, None)) }).await;
        observer.unwrap()
    };
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    let read = peer.request().await;
    assert_eq!(read.command, Command::Get { key: "k".into() });
    assert_eq!(next(&mut observer).await, Observation::Resync);
    drop(peer);
    // After a CONNECT without an answer, the client asks for its session before it is ready.
    broker.accept().await.connect().await;
    let mut peer = broker.accept().await;
    peer.connect().await;
    peer.send_connack(session_present()).await;
    peer.acknowledge(&read, ReasonCode::SUCCESS).await;
    peer.respond(&read, &value("c"), Some(&version(3))).await;
    peer.recognize().await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    // The key is read before the watch is renewed, which is too early, and after it.
    peer.answer(&value("c"), Some(&version(3))).await;
    peer.answer(&Reply::Ok, None).await;
    peer.answer(&value("d"), Some(&version(4))).await;
    assert_eq!(next(&mut observer).await, set("d", 4));
}

#[tokio::test]
async fn after_a_store_lost_its_keys_lower_versions_are_news() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set("a".into()), &version(9))
        .await;
    assert_eq!(next(&mut observer).await, set("a", 9));
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    peer.answer(&Reply::Nil, None).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(
        next(&mut observer).await,
        Observation::Deleted { version: None }
    );
    peer.notify(b"k", &Event::Set("b".into()), &version(1))
        .await;
    assert_eq!(next(&mut observer).await, set("b", 1));
}

/// A version that is ahead of the local clock, in milliseconds.
fn ahead(ms: u64) -> Hlc {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_ms = u64::try_from(now.as_millis()).unwrap();
    Hlc::new(now_ms + ms, 0, "StateStore").unwrap()
}

#[tokio::test]
async fn a_forged_version_silences_no_observer() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    // Not so far ahead that it is seen to be forged.
    let forged = ahead(55_000);
    peer.notify(b"k", &Event::Set("forged".into()), &forged)
        .await;
    assert_eq!(
        next(&mut observer).await,
        Observation::Set {
            value: "forged".into(),
            version: forged
        }
    );
    let begin = Instant::now();
    for number in 1..=50 {
        peer.notify(b"k", &Event::Set("true".into()), &version(number))
            .await;
    }
    let get = peer.answer(&value("true"), Some(&version(50))).await;
    assert_eq!(get.command, Command::Get { key: "k".into() });
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("true", 50));
    // From here on the true versions count. One that is old is asked for again, but not at once.
    peer.notify(b"k", &Event::Deleted, &version(51)).await;
    assert_eq!(next(&mut observer).await, deleted(51));
    peer.notify(b"k", &Event::Deleted, &version(49)).await;
    peer.answer(&Reply::Nil, None).await;
    assert!(begin.elapsed() >= Duration::from_secs(1));
    peer.notify(b"k", &Event::Set("a".into()), &version(52))
        .await;
    assert_eq!(next(&mut observer).await, set("a", 52));
}

#[tokio::test]
async fn a_version_too_far_ahead_is_not_believed() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    let end_of_time = Hlc::new(u64::MAX, u64::MAX, "z").unwrap();
    peer.notify(b"k", &Event::Set("forged".into()), &end_of_time)
        .await;
    // Of a key that nobody watches it does not even reach the clock.
    peer.notify(b"other", &Event::Deleted, &end_of_time).await;
    peer.notify(b"other", &Event::Deleted, &ahead(55_000)).await;
    let get = peer.answer(&value("true"), Some(&version(1))).await;
    assert_eq!(get.command, Command::Get { key: "k".into() });
    assert!(get.user("__ts").unwrap() < ahead(30_000).to_string().as_str());
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("true", 1));
    assert_eq!(client.counters().clock_skews, 1);
    peer.notify(b"k", &Event::Deleted, &version(2)).await;
    assert_eq!(next(&mut observer).await, deleted(2));
}

#[tokio::test]
async fn a_reading_out_of_doubt_that_fails_is_made_again_and_ends_nothing() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Deleted, &version(9)).await;
    assert_eq!(next(&mut observer).await, deleted(9));
    peer.notify(b"k", &Event::Deleted, &version(1)).await;
    let get = peer.request().await;
    peer.acknowledge(&get, ReasonCode::SERVER_BUSY).await;
    peer.answer(&value("a"), Some(&version(2))).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("a", 2));
}

#[tokio::test]
async fn a_store_that_is_set_back_while_a_gap_is_read_is_followed() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    peer.notify(b"k", &Event::Set("old".into()), &version(9))
        .await;
    assert_eq!(next(&mut observer).await, set("old", 9));
    let mut peer = reconnect(&broker, peer).await;
    peer.answer(&Reply::Ok, None).await;
    let get = peer.request().await;
    // It changed after it was read, and before the answer arrived.
    peer.notify(b"k", &Event::Set("new".into()), &version(2))
        .await;
    peer.acknowledge(&get, ReasonCode::SUCCESS).await;
    peer.respond(&get, &value("back"), Some(&version(1))).await;
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("back", 1));
    let get = peer.answer(&value("new"), Some(&version(2))).await;
    assert_eq!(get.command, Command::Get { key: "k".into() });
    assert_eq!(next(&mut observer).await, Observation::Resync);
    assert_eq!(next(&mut observer).await, set("new", 2));
}

/// Polls a future once and drops it.
async fn give_up<F: Future>(future: F) {
    let mut future = pin!(future);
    let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending()));
    assert!(polled.await);
}

#[tokio::test]
async fn an_observer_gives_one_observation_to_one_taker() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer, "k").await;
    assert_eq!(observer.try_next(), None);
    give_up(observer.next()).await;
    peer.notify(b"k", &Event::Deleted, &version(1)).await;
    within(observer.ready()).await;
    // Whoever is ready and does not take leaves it to the next one.
    within(observer.ready()).await;
    assert_eq!(observer.try_next(), Some(deleted(1)));
    assert_eq!(observer.try_next(), None);
    within(client.close()).await;
    within(observer.ready()).await;
    assert_eq!(observer.try_next(), None);
    assert!(observer.lost_reason().is_some());
}

#[tokio::test]
async fn a_change_of_the_holder_is_not_lost_with_a_future_that_is_dropped() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let lease = client.lease("k").unwrap();
    let (holders, _) =
        within(async { tokio::join!(lease.observe(), peer.answer(&Reply::Ok, None)) }).await;
    let mut holders = holders.unwrap();
    let (first, _) =
        within(async { tokio::join!(holders.next(), peer.answer(&Reply::Nil, None)) }).await;
    assert_eq!(first.unwrap().unwrap(), None);
    let now = ahead(0);
    peer.notify(b"k", &Event::Set("one".into()), &now).await;
    // The notification was taken, and the key is being read.
    let get = tokio::select! {
        holder = holders.next() => panic!("it was not read yet: {holder:?}"),
        get = peer.request() => get,
    };
    assert_eq!(get.command, Command::Get { key: "k".into() });
    let answer = async { peer.answer(&value("one"), Some(&now)).await };
    let (holder, _) = within(async { tokio::join!(holders.next(), answer) }).await;
    let holding = holder.unwrap().unwrap().unwrap();
    assert_eq!(holding.holder.name(), "one");
    within(client.close()).await;
    assert!(within(holders.next()).await.is_none());
    assert_eq!(holders.lost_reason(), Some(LostReason::Closed));
}

#[tokio::test]
async fn a_change_of_the_leader_is_not_lost_with_a_future_that_is_dropped() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let election = client.election("k").unwrap();
    let watches = async {
        peer.answer(&Reply::Ok, None).await;
        peer.answer(&Reply::Ok, None).await;
    };
    let (leaders, ()) = within(async { tokio::join!(election.observe(), watches) }).await;
    let mut leaders = leaders.unwrap();
    let (first, _) =
        within(async { tokio::join!(leaders.next(), peer.answer(&Reply::Nil, None)) }).await;
    assert_eq!(first.unwrap().unwrap(), None);
    let now = ahead(0);
    peer.notify(b"k", &Event::Set("one".into()), &now).await;
    tokio::select! {
        leader = leaders.next() => panic!("it was not read yet: {leader:?}"),
        _ = peer.request() => {}
    }
    let answers = async {
        peer.answer(&value("one"), Some(&now)).await;
        peer.answer(&Reply::Nil, None).await;
    };
    let (leader, ()) = within(async { tokio::join!(leaders.next(), answers) }).await;
    assert_eq!(leader.unwrap().unwrap().unwrap().holder.name(), "one");
    within(client.close()).await;
    assert!(within(leaders.next()).await.is_none());
    assert_eq!(leaders.lost_reason(), Some(LostReason::Closed));
}
