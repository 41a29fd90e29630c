//! Connections that fail, are lost, come back, and end.
#![allow(clippy::unwrap_used)]

mod support;

use bytes::BytesMut;
use statestore::mqtt::{
    ConnAck, Connect, Packet, PacketId, PubAck, PublishHeader, QoS, ReasonCode,
};
use statestore::protocol::{Reply, ServiceError, topic};
use statestore::{
    Client, ConnectionState, DelOptions, Error, ErrorKind, GetOptions, Outcome, Retry, SetOptions,
    SetOutcome, Settings,
};
use std::time::Duration;
use support::{Broker, CLIENT_ID, Peer, Request, session_present, value, version, within};

fn connack(change: impl FnOnce(&mut ConnAck)) -> ConnAck {
    let mut connack = ConnAck::new(ReasonCode::SUCCESS);
    change(&mut connack);
    connack
}

/// Runs a call as a task, so that it goes on while the test plays the broker.
fn spawn_get(
    client: &Client,
    key: &'static str,
) -> tokio::task::JoinHandle<Result<Option<statestore::Entry>, Error>> {
    let client = client.clone();
    tokio::spawn(async move { client.get(key).await })
}

fn spawn_set(
    client: &Client,
    key: &'static str,
) -> tokio::task::JoinHandle<Result<SetOutcome, Error>> {
    let client = client.clone();
    tokio::spawn(async move { client.set(key, "v").await })
}

async fn ended<T>(task: tokio::task::JoinHandle<T>) -> T {
    within(task).await.unwrap()
}

/// The broker's end of the next connection, its CONNECT answered.
async fn again(broker: &Broker, answer: ConnAck) -> (Peer, Connect) {
    let mut peer = broker.accept().await;
    let connect = peer.connect().await;
    let resumed = answer.session_present;
    peer.send_connack(answer).await;
    if !resumed {
        peer.subscribe().await;
    }
    (peer, connect)
}

#[tokio::test]
async fn the_connect_says_what_the_settings_say() {
    let broker = Broker::start().await;
    let settings = broker
        .settings()
        .user_name("user")
        .password(&b"\xFFpass"[..])
        .keep_alive(Duration::from_millis(29_001))
        .session_expiry(Duration::from_secs(77))
        .max_packet_bytes(1 << 20);
    let accept = async {
        let mut peer = broker.accept().await;
        let connect = peer.connect().await;
        peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
        (connect, peer.subscribe().await, peer)
    };
    let (client, (connect, filters, _peer)) =
        within(async { tokio::join!(Client::connect(settings), accept) }).await;
    assert_eq!(client.unwrap().client_id(), CLIENT_ID);
    assert_eq!(connect.client_id, CLIENT_ID);
    assert!(connect.clean_start);
    assert_eq!(connect.keep_alive_s, 30);
    assert_eq!(connect.session_expiry_s, 77);
    assert_eq!(connect.limits.max_packet_bytes, 1 << 20);
    assert_eq!(connect.user_name.as_deref(), Some("user"));
    assert_eq!(connect.password.as_deref(), Some(&b"\xFFpass"[..]));
    assert_eq!(
        filters,
        [
            topic::response(CLIENT_ID),
            topic::notification_filter(CLIENT_ID)
        ]
    );
}

#[tokio::test]
async fn a_first_connection_that_fails_says_why_and_is_not_retried() {
    let broker = Broker::start().await;
    for (reason, kind, retryable) in [
        (
            ReasonCode::BAD_USER_NAME_OR_PASSWORD,
            ErrorKind::NotAuthenticated,
            false,
        ),
        (
            ReasonCode::NOT_AUTHORIZED,
            ErrorKind::NotAuthenticated,
            false,
        ),
        (ReasonCode::SERVER_BUSY, ErrorKind::ConnectionRefused, true),
        (ReasonCode(0xEE), ErrorKind::ConnectionRefused, false),
    ] {
        let error = broker
            .refuse(async |peer| peer.send_connack(ConnAck::new(reason)).await)
            .await;
        assert_eq!(
            (error.kind(), error.outcome()),
            (kind, Outcome::NotDone),
            "{error}"
        );
        assert_eq!(error.mqtt_reason(), Some(reason));
        assert_eq!(error.is_retryable(), retryable, "{error}");
    }
    let error = broker
        .refuse(async |peer| {
            peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
            peer.answer_subscribe(&[ReasonCode::NOT_AUTHORIZED, ReasonCode::GRANTED_QOS_1])
                .await;
        })
        .await;
    assert_eq!(error.kind(), ErrorKind::NotAuthenticated);
    assert!(
        error.to_string().contains(&topic::response(CLIENT_ID)),
        "{error}"
    );
    let error = broker
        .refuse(async |peer| peer.send_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n").await)
        .await;
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    let error = broker
        .refuse(async |peer| {
            peer.send_connack(connack(|it| it.maximum_qos = QoS::AtMostOnce))
                .await;
        })
        .await;
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");

    let settings = broker.settings();
    let address = settings.address();
    drop(broker);
    let error = Client::connect(settings).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(
        error
            .to_string()
            .starts_with(&format!("connecting to {address}: ")),
        "{error}"
    );
    let error = Client::connect(Settings::new("host.invalid", 1883))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_broker_that_says_nothing_is_given_up() {
    let broker = Broker::start().await;
    let settings = broker.settings().connect_timeout(Duration::from_millis(20));
    let (client, _peer) =
        within(async { tokio::join!(Client::connect(settings), broker.accept()) }).await;
    assert_eq!(client.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn an_assigned_client_id_is_used_from_then_on() {
    let broker = Broker::start().await;
    let assigned = connack(|it| it.assigned_client_id = Some("auto".into()));
    let (client, mut peer) = broker
        .connect_with(broker.settings().client_id(""), assigned)
        .await;
    assert_eq!(client.client_id(), "auto");
    let get = spawn_get(&client, "k");
    let request = peer.answer(&Reply::Nil, None).await;
    assert_eq!(
        request.publish.response_topic(),
        Some(topic::response("auto").as_str())
    );
    ended(get).await.unwrap();
    drop(peer);
    let (_peer, connect) = again(&broker, session_present()).await;
    assert_eq!(connect.client_id, "auto");
}

#[tokio::test]
async fn no_more_are_sent_than_the_broker_allows_and_the_rest_keeps_its_order() {
    let broker = Broker::start().await;
    let allowed = connack(|it| it.limits.receive_maximum = 2);
    let (client, mut peer) = broker.connect_with(broker.settings(), allowed).await;
    let keys = ["a", "b", "c", "d", "e"];
    let many = tokio::spawn({
        let client = client.clone();
        async move { client.get_many(&keys).await }
    });
    let first = peer.request().await;
    let second = peer.request().await;
    assert_eq!((first.key(), second.key()), (&b"a"[..], &b"b"[..]));
    assert_eq!(
        (client.counters().in_flight, client.counters().queued),
        (2, 3)
    );
    // A response alone makes no room, an acknowledgement does.
    peer.respond(&first, &Reply::Nil, None).await;
    peer.acknowledge(&second, ReasonCode::SUCCESS).await;
    let third = peer.request().await;
    assert_eq!(third.key(), b"c");
    peer.acknowledge(&first, ReasonCode::SUCCESS).await;
    let fourth = peer.request().await;
    peer.acknowledge(&third, ReasonCode::SUCCESS).await;
    let fifth = peer.request().await;
    assert_eq!((fourth.key(), fifth.key()), (&b"d"[..], &b"e"[..]));
    for request in [&second, &third, &fourth, &fifth] {
        peer.respond(request, &Reply::Nil, None).await;
    }
    assert_eq!(ended(many).await.unwrap(), [None, None, None, None, None]);
}

#[tokio::test]
async fn a_full_queue_refuses() {
    let broker = Broker::start().await;
    let settings = broker.settings().max_in_flight(1).max_queued(1);
    let (client, mut peer) = broker.connect(settings).await;
    let first = spawn_get(&client, "1");
    let request = peer.request().await;
    let second = spawn_get(&client, "2");
    while client.counters().queued == 0 {
        tokio::task::yield_now().await;
    }
    let error = client.get("3").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::QueueFull, Outcome::NotDone)
    );
    assert!(error.is_retryable());
    // Whoever does not want to wait is refused even earlier.
    for error in [
        client
            .try_get("4", &GetOptions::default())
            .await
            .unwrap_err(),
        client
            .try_set("4", "v", &SetOptions::default())
            .await
            .unwrap_err(),
        client
            .try_del("4", &DelOptions::default())
            .await
            .unwrap_err(),
        client
            .try_vdel("4", "v", &DelOptions::default())
            .await
            .unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::QueueFull, Outcome::NotDone)
        );
    }
    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    peer.respond(&request, &Reply::Nil, None).await;
    ended(first).await.unwrap();
    assert_eq!(peer.answer(&Reply::Nil, None).await.key(), b"2");
    ended(second).await.unwrap();
}

#[tokio::test]
async fn buffered_bytes_are_limited_but_a_single_large_request_passes() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker
        .connect(broker.settings().max_buffered_bytes(10_000))
        .await;
    let set = |size: usize| {
        let client = client.clone();
        tokio::spawn(async move { client.set("k", vec![0; size]).await })
    };
    let first = set(50_000);
    let request = peer.request().await;
    let second = set(10);
    while client.counters().queued == 0 {
        tokio::task::yield_now().await;
    }
    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    peer.respond(&request, &Reply::Ok, Some(&version(1))).await;
    ended(first).await.unwrap();
    peer.answer(&Reply::Ok, Some(&version(2))).await;
    ended(second).await.unwrap();
}

#[tokio::test]
async fn what_must_not_wait_is_sent_at_once_or_not_at_all() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings().max_in_flight(1)).await;
    let (options, version) = (SetOptions::default(), version(1));
    let set = client.try_set("k", "v", &options);
    let answer = peer.answer(&Reply::Ok, Some(&version));
    let (set, _) = within(async { tokio::join!(set, answer) }).await;
    assert!(set.unwrap().is_applied());
    // The queue is empty, but the only place is taken.
    let first = spawn_get(&client, "1");
    let request = peer.request().await;
    let no_wait = GetOptions::default();
    let error = client.try_get("2", &no_wait).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    peer.respond(&request, &Reply::Nil, None).await;
    ended(first).await.unwrap();
    // Without a connection nothing can be sent at once.
    let mut state = client.state();
    drop(peer);
    within(state.wait_for(|state| !state.is_connected()))
        .await
        .unwrap();
    let error = client.try_get("3", &no_wait).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::QueueFull, Outcome::NotDone)
    );
}

#[tokio::test]
async fn values_over_the_own_limit_are_not_sent() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings().max_value_bytes(3)).await;
    for error in [
        client.set("k", "long").await.unwrap_err(),
        client.vdel("k", "long").await.unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::TooLarge, Outcome::NotDone)
        );
    }
    let set = spawn_set(&client, "fits");
    let request = peer.answer(&Reply::Ok, Some(&version(1))).await;
    assert_eq!(request.key(), b"fits");
    ended(set).await.unwrap();
}

#[tokio::test]
async fn what_is_too_large_for_the_broker_fails_at_once() {
    let broker = Broker::start().await;
    let small = connack(|it| it.limits.max_packet_bytes = 1_000);
    let (client, mut peer) = broker.connect_with(broker.settings(), small).await;
    let error = client.set("k", vec![0; 1_000]).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TooLarge, Outcome::NotDone)
    );
    assert!(!error.is_retryable());
    let get = spawn_get(&client, "k");
    assert_eq!(peer.answer(&Reply::Nil, None).await.key(), b"k");
    ended(get).await.unwrap();
}

#[tokio::test]
async fn a_refused_publish_ends_its_request() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    for (reason, kind, retryable) in [
        (
            ReasonCode::NO_MATCHING_SUBSCRIBERS,
            ErrorKind::NoStore,
            true,
        ),
        (ReasonCode::QUOTA_EXCEEDED, ErrorKind::Rejected, true),
        (ReasonCode::NOT_AUTHORIZED, ErrorKind::Rejected, false),
        (ReasonCode(0xF0), ErrorKind::Rejected, false),
    ] {
        let set = spawn_set(&client, "k");
        let request = peer.request().await;
        peer.acknowledge(&request, reason).await;
        let error = ended(set).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone));
        assert_eq!(
            (error.mqtt_reason(), error.is_retryable()),
            (Some(reason), retryable)
        );
    }
}

#[tokio::test]
async fn time_that_is_up() {
    let broker = Broker::start().await;
    let settings = broker.settings().max_in_flight(1);
    let (client, mut peer) = broker.connect(settings).await;
    let soon = GetOptions {
        timeout: Some(Duration::from_millis(5)),
    };
    // Sent and not answered: nobody knows.
    let started = std::time::Instant::now();
    let error = client.get_with("k", &soon).await.unwrap_err();
    assert!(
        started.elapsed() >= Duration::from_millis(5),
        "no earlier than said"
    );
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::Unknown)
    );
    assert_eq!(
        error.to_string(),
        "GET \"k\": no response came within 5ms; it may have been carried out nevertheless"
    );
    let request = peer.request().await;
    assert_eq!(request.publish.message_expiry(), Some(1));
    // Its place is free again, and a late response harms nobody.
    let get = spawn_get(&client, "l");
    let next = peer.request().await;
    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    peer.respond(&request, &value("late"), Some(&version(1)))
        .await;
    peer.acknowledge(&next, ReasonCode::SUCCESS).await;
    // Waiting for its turn: it certainly did not happen.
    let error = client.get_with("m", &soon).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::NotDone)
    );
    peer.respond(&next, &Reply::Nil, None).await;
    assert_eq!(ended(get).await.unwrap(), None);
    let counters = client.counters();
    assert_eq!(
        (
            counters.timed_out,
            counters.unmatched_responses,
            counters.completed
        ),
        (2, 1, 1)
    );
    assert_eq!((counters.in_flight, counters.queued), (0, 0));
}

#[tokio::test]
async fn a_request_whose_caller_went_away_leaves_nothing_behind() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings().max_in_flight(1)).await;
    let get = spawn_get(&client, "1");
    let request = peer.request().await;
    get.abort();
    assert!(get.await.unwrap_err().is_cancelled());
    // It still counts: the store may be working on it.
    assert_eq!(client.counters().in_flight, 1);
    let queued = spawn_get(&client, "2");
    while client.counters().queued == 0 {
        tokio::task::yield_now().await;
    }
    queued.abort();
    assert!(queued.await.unwrap_err().is_cancelled());
    assert_eq!(client.counters().queued, 0);
    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    peer.respond(&request, &Reply::Nil, None).await;
    let get = spawn_get(&client, "3");
    assert_eq!(peer.answer(&Reply::Nil, None).await.key(), b"3");
    ended(get).await.unwrap();
    assert_eq!(client.counters().in_flight, 0);
}

#[tokio::test]
async fn a_kept_session_goes_on_where_it_was() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut state = client.state();
    // Acknowledged; sent and not acknowledged; twice.
    let one = spawn_set(&client, "1");
    let first = peer.request().await;
    peer.acknowledge(&first, ReasonCode::SUCCESS).await;
    let two = spawn_set(&client, "2");
    let second = peer.request().await;
    let three = spawn_get(&client, "3");
    let third = peer.request().await;
    drop(peer);

    let (mut peer, connect) = again(&broker, session_present()).await;
    assert!(!connect.clean_start);
    assert_eq!(connect.client_id, CLIENT_ID);
    let same = |again: &Request, before: &Request| {
        assert_eq!(again.packet_id(), before.packet_id());
        assert_eq!(
            again.publish.correlation_data(),
            before.publish.correlation_data()
        );
        assert_eq!(again.publish.payload(), before.publish.payload());
        assert_eq!(again.publish.topic(), topic::REQUEST);
        assert!(again.publish.dup() && !before.publish.dup());
    };
    let second_again = peer.request().await;
    same(&second_again, &second);
    let third_again = peer.request().await;
    same(&third_again, &third);
    // The response to the acknowledged one was waiting for us.
    peer.respond(&first, &Reply::Ok, Some(&version(1))).await;
    for request in [&second_again, &third_again] {
        peer.acknowledge(request, ReasonCode::SUCCESS).await;
    }
    peer.respond(&second_again, &Reply::Ok, Some(&version(2)))
        .await;
    peer.respond(&third_again, &Reply::Nil, None).await;
    assert_eq!(ended(one).await.unwrap().version(), &version(1));
    assert_eq!(ended(two).await.unwrap().version(), &version(2));
    assert_eq!(ended(three).await.unwrap(), None);
    within(state.wait_for(ConnectionState::is_connected))
        .await
        .unwrap();
    let counters = client.counters();
    assert_eq!(
        (counters.reconnects, counters.sessions_lost, counters.resent),
        (1, 0, 2)
    );
}

#[tokio::test]
async fn resends_stay_within_a_lower_receive_maximum_and_go_before_anything_new() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let sets: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|key| spawn_set(&client, key))
        .collect();
    for _ in 0..3 {
        peer.request().await;
    }
    drop(peer);
    let mut lower = session_present();
    lower.limits.receive_maximum = 1;
    let (mut peer, _) = again(&broker, lower).await;
    let new = spawn_set(&client, "d");
    for key in [b"a", b"b", b"c", b"d"] {
        let request = peer.request().await;
        assert_eq!(request.key(), key);
        peer.respond(&request, &Reply::Ok, Some(&version(1))).await;
        peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    }
    for set in sets {
        ended(set).await.unwrap();
    }
    ended(new).await.unwrap();
}

#[tokio::test]
async fn a_lost_session_repeats_what_is_safe_and_says_unknown_of_the_rest() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let acknowledged_get = spawn_get(&client, "1");
    let first = peer.request().await;
    peer.acknowledge(&first, ReasonCode::SUCCESS).await;
    let get = spawn_get(&client, "2");
    peer.request().await;
    let set = spawn_set(&client, "3");
    peer.request().await;
    drop(peer);

    let (mut peer, connect) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    assert!(!connect.clean_start);
    let error = ended(set).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::SessionLost, Outcome::Unknown)
    );
    let mut keys = Vec::new();
    for _ in 0..2 {
        let request = peer.answer(&Reply::Nil, None).await;
        assert!(
            !request.publish.dup(),
            "it is a new message in a new session"
        );
        keys.push(request.key().to_vec());
    }
    keys.sort();
    assert_eq!(keys, [b"1", b"2"]);
    assert_eq!(ended(acknowledged_get).await.unwrap(), None);
    assert_eq!(ended(get).await.unwrap(), None);
    assert_eq!(client.counters().sessions_lost, 1);
}

/// Loses the session while a SET with this rule is unacknowledged, and returns the next connection.
async fn lose_session_during_set(
    retry: Retry,
) -> (
    Client,
    Broker,
    Peer,
    tokio::task::JoinHandle<Result<SetOutcome, Error>>,
) {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let set = {
        let client = client.clone();
        let options = SetOptions {
            retry,
            ..SetOptions::default()
        };
        tokio::spawn(async move { client.set_with("k", "v", &options).await })
    };
    assert_eq!(peer.request().await.key(), b"k");
    drop(peer);
    let (peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    (client, broker, peer, set)
}

#[tokio::test]
async fn a_write_is_sent_again_only_if_its_caller_says_so() {
    for retry in [Retry::Safe, Retry::Never] {
        let (client, _broker, mut peer, set) = lose_session_during_set(retry).await;
        let error = ended(set).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::SessionLost, Outcome::Unknown)
        );
        let get = spawn_get(&client, "next");
        assert_eq!(peer.answer(&Reply::Nil, None).await.key(), b"next");
        ended(get).await.unwrap();
    }
    let (client, _broker, mut peer, set) = lose_session_during_set(Retry::Always).await;
    let request = peer.answer(&Reply::Ok, Some(&version(2))).await;
    assert_eq!(request.key(), b"k");
    assert!(!request.publish.dup(), "it is a new message");
    assert_eq!(ended(set).await.unwrap().version(), &version(2));
    assert_eq!(client.counters().resent, 1);
}

#[tokio::test]
async fn a_failure_of_the_second_time_says_nothing_about_the_first() {
    // The store refuses.
    let (_client, _broker, mut peer, set) = lose_session_during_set(Retry::Always).await;
    let refusal = Reply::Error(ServiceError::QuotaExceeded);
    peer.answer(&refusal, None).await;
    let error = ended(set).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::QuotaExceeded, Outcome::Unknown)
    );
    // The broker refuses.
    let (_client, _broker, mut peer, set) = lose_session_during_set(Retry::Always).await;
    let request = peer.request().await;
    peer.acknowledge(&request, ReasonCode::NO_MATCHING_SUBSCRIBERS)
        .await;
    let error = ended(set).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::NoStore, Outcome::Unknown)
    );
    // The client is closed before it is sent again.
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let options = SetOptions {
        retry: Retry::Always,
        ..SetOptions::default()
    };
    let set = {
        let client = client.clone();
        tokio::spawn(async move { client.set_with("k", "v", &options).await })
    };
    peer.request().await;
    drop(peer);
    let mut peer = broker.accept().await;
    peer.connect().await;
    within(client.close()).await;
    let error = ended(set).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Closed, Outcome::Unknown)
    );
}

#[tokio::test]
async fn requests_wait_for_the_connection_until_their_own_time_is_up() {
    let broker = Broker::start().await;
    let (client, peer) = broker.connect(broker.settings()).await;
    let mut state = client.state();
    drop(peer);
    let reason = within(state.wait_for(|state| matches!(state, ConnectionState::Reconnecting(_))))
        .await
        .unwrap()
        .clone();
    let ConnectionState::Reconnecting(reason) = reason else {
        unreachable!()
    };
    assert_eq!(reason.kind(), ErrorKind::Unreachable);
    let soon = SetOptions {
        timeout: Some(Duration::from_millis(5)),
        ..SetOptions::default()
    };
    let error = client.set_with("k", "v", &soon).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::NotDone)
    );
    let set = spawn_set(&client, "k");
    let (mut peer, _) = again(&broker, session_present()).await;
    peer.answer(&Reply::Ok, Some(&version(1))).await;
    ended(set).await.unwrap();
}

#[tokio::test]
async fn a_session_taken_over_by_another_client_is_left_to_it() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut state = client.state();
    let get = spawn_get(&client, "k");
    peer.request().await;
    peer.disconnect(ReasonCode::SESSION_TAKEN_OVER).await;
    let closed = within(state.wait_for(ConnectionState::is_closed))
        .await
        .unwrap()
        .clone();
    let ConnectionState::Closed(reason) = closed else {
        unreachable!()
    };
    assert_eq!(reason.mqtt_reason(), Some(ReasonCode::SESSION_TAKEN_OVER));
    let error = ended(get).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Closed, Outcome::Unknown)
    );
    assert!(error.to_string().contains("session taken over"), "{error}");
    assert_eq!(client.get("k").await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_session_that_a_late_connect_of_the_client_s_own_took_over_is_taken_back() {
    let broker = Broker::start().await;
    let (client, peer) = broker.connect(broker.settings()).await;
    drop(peer);
    // The connection ends without an answer to its CONNECT.
    broker.accept().await.connect().await;
    let (mut peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    peer.disconnect(ReasonCode::SESSION_TAKEN_OVER).await;
    let (mut peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    let get = spawn_get(&client, "k");
    peer.answer(&Reply::Nil, None).await;
    ended(get).await.unwrap();
    peer.disconnect(ReasonCode::SESSION_TAKEN_OVER).await;
    let mut state = client.state();
    within(state.wait_for(ConnectionState::is_closed))
        .await
        .unwrap();
}

#[tokio::test]
async fn any_other_disconnect_is_followed_by_a_reconnect() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    peer.disconnect(ReasonCode::SERVER_SHUTTING_DOWN).await;
    let (mut peer, _) = again(&broker, session_present()).await;
    let get = spawn_get(&client, "k");
    peer.answer(&Reply::Nil, None).await;
    ended(get).await.unwrap();
}

#[tokio::test]
async fn a_disconnect_says_why_and_whether_trying_again_helps() {
    for (reason, kind, retryable) in [
        (ReasonCode::SERVER_BUSY, ErrorKind::Unreachable, true),
        (ReasonCode::KEEP_ALIVE_TIMEOUT, ErrorKind::Unreachable, true),
        (ReasonCode::SERVER_MOVED, ErrorKind::Unreachable, false),
        (
            ReasonCode::NOT_AUTHORIZED,
            ErrorKind::NotAuthenticated,
            false,
        ),
    ] {
        let broker = Broker::start().await;
        let (client, mut peer) = broker.connect(broker.settings()).await;
        peer.disconnect(reason).await;
        let mut state = client.state();
        let is_lost = |state: &ConnectionState| matches!(state, ConnectionState::Reconnecting(_));
        let lost = within(state.wait_for(is_lost)).await.unwrap().clone();
        let ConnectionState::Reconnecting(error) = lost else {
            unreachable!()
        };
        assert_eq!((error.kind(), error.mqtt_reason()), (kind, Some(reason)));
        assert_eq!(error.is_retryable(), retryable, "{error}");
    }
}

#[tokio::test]
async fn a_client_that_may_not_try_for_ever_gives_up_for_good() {
    let broker = Broker::start().await;
    let settings = broker.settings().reconnect_limit(Duration::from_millis(50));
    let (client, mut peer) = broker.connect(settings).await;
    // What the limit counts from is the last connection that was good, not the first failure of all.
    for _ in 0..2 {
        drop(peer);
        peer = again(&broker, session_present()).await.0;
        let get = spawn_get(&client, "k");
        peer.answer(&Reply::Nil, None).await;
        ended(get).await.unwrap();
    }
    let get = spawn_get(&client, "k");
    peer.request().await;
    drop((broker, peer));
    let mut state = client.state();
    let closed = within(state.wait_for(ConnectionState::is_closed)).await;
    let ConnectionState::Closed(reason) = closed.unwrap().clone() else {
        unreachable!()
    };
    assert_eq!(reason.kind(), ErrorKind::Unreachable, "{reason}");
    let error = ended(get).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Closed, Outcome::Unknown)
    );
    assert_eq!(client.get("k").await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_broker_that_breaks_the_protocol_is_told_so_and_left() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut unknown_id = BytesMut::new();
    PubAck::success(PacketId::new(9).unwrap())
        .encode(u32::MAX, &mut unknown_id)
        .unwrap();
    let mut qos_2 = BytesMut::from(&b"\x34\x06\0\x01t\0\x01\0"[..]);
    for (number, (bytes, reason)) in [
        (&unknown_id[..], ReasonCode::PROTOCOL_ERROR),
        (&qos_2.split()[..], ReasonCode::PROTOCOL_ERROR),
        (b"\x20\x03\0\0\0", ReasonCode::PROTOCOL_ERROR),
        (b"\xC0\0", ReasonCode::PROTOCOL_ERROR),
        (b"\xF0\0", ReasonCode::PROTOCOL_ERROR),
        (b"\x90\x04\0\x01\0\0", ReasonCode::PROTOCOL_ERROR),
        (b"\x00\0", ReasonCode::MALFORMED_PACKET),
        (b"\x30\xFF\xFF\xFF\xFF", ReasonCode::MALFORMED_PACKET),
        (
            b"\x30\x06\0\0\x03\x23\0\x11",
            ReasonCode::TOPIC_ALIAS_INVALID,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        peer.send_bytes(bytes).await;
        match peer.packet_but_puback().await {
            Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, reason, "{bytes:02X?}"),
            other => panic!("a DISCONNECT was expected: {other:?}"),
        }
        (peer, _) = again(&broker, session_present()).await;
        assert_eq!(client.counters().protocol_errors, number as u64 + 1);
    }
}

#[tokio::test]
async fn an_oversized_packet_is_refused() {
    let broker = Broker::start().await;
    let (_client, mut peer) = broker
        .connect(broker.settings().max_packet_bytes(2_000))
        .await;
    peer.send_bytes(b"\x30\xFF\x7F").await;
    match peer.packet().await {
        Packet::Disconnect(disconnect) => {
            assert_eq!(disconnect.reason, ReasonCode::PACKET_TOO_LARGE);
        }
        other => panic!("a DISCONNECT was expected: {other:?}"),
    }
}

#[tokio::test]
async fn batches_of_any_size_are_followed_by_the_next() {
    let broker = Broker::start().await;
    let (_client, mut peer) = broker.connect(broker.settings()).await;
    let response_topic = topic::response(CLIENT_ID);
    let header = |id| PublishHeader {
        topic: &response_topic,
        packet_id: PacketId::new(id),
        ..PublishHeader::default()
    };
    // Around the numbers of packets that are handled at a time.
    for count in [1, 63, 64, 65, 127, 128, 129, 256, 384] {
        let mut batch = BytesMut::new();
        for id in 1..=count {
            header(id).encode(u32::MAX, &mut batch, 0, |_| {}).unwrap();
        }
        peer.send_bytes(&batch).await;
        for _ in 0..count {
            assert!(matches!(peer.packet().await, Packet::PubAck(_)));
        }
    }
}

#[tokio::test]
async fn foreign_responses_are_counted_and_acknowledged() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let response_topic = topic::response(CLIENT_ID);
    for correlation_data in [
        None,
        Some(&b""[..]),
        Some(b"short"),
        Some(&[0; 16]),
        Some(&[0; 70]),
    ] {
        peer.publish(
            &PublishHeader {
                topic: &response_topic,
                correlation_data,
                ..PublishHeader::default()
            },
            b"+OK\r\n",
        )
        .await;
        assert!(matches!(peer.packet().await, Packet::PubAck(_)));
    }
    assert_eq!(client.counters().unmatched_responses, 5);
}

#[tokio::test]
async fn topic_aliases_serve_both_directions() {
    let broker = Broker::start().await;
    let aliases = connack(|it| it.limits.topic_alias_maximum = 1);
    let (client, mut peer) = broker.connect_with(broker.settings(), aliases).await;
    let response_topic = topic::response(CLIENT_ID);
    for number in 0..3 {
        let get = spawn_get(&client, "k");
        let request = peer.request().await;
        let expected = if number == 0 { topic::REQUEST } else { "" };
        assert_eq!(
            (request.publish.topic(), request.publish.topic_alias()),
            (expected, Some(1))
        );
        peer.acknowledge(&request, ReasonCode::SUCCESS).await;
        let topic = if number == 0 {
            response_topic.as_str()
        } else {
            ""
        };
        let header = PublishHeader {
            topic,
            topic_alias: Some(16),
            correlation_data: request.publish.correlation_data(),
            user_properties: &[("__stat", "200")],
            ..PublishHeader::default()
        };
        peer.publish(&header, b"$-1\r\n").await;
        assert_eq!(ended(get).await.unwrap(), None);
    }
    // An unacknowledged request that was named by its alias is named in full on the next connection.
    let get = spawn_get(&client, "k");
    assert_eq!(peer.request().await.publish.topic(), "");
    drop(peer);
    let (mut peer, _) = again(&broker, session_present()).await;
    let request = peer.answer(&Reply::Nil, None).await;
    assert_eq!(
        (request.publish.topic(), request.publish.topic_alias()),
        (topic::REQUEST, None)
    );
    ended(get).await.unwrap();
}

#[tokio::test]
async fn closing_ends_everything_and_says_goodbye() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let get = spawn_get(&client, "k");
    peer.request().await;
    within(client.close()).await;
    let error = ended(get).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Closed, Outcome::Unknown)
    );
    let error = client.set("k", "v").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Closed, Outcome::NotDone)
    );
    match peer.packet().await {
        Packet::Disconnect(disconnect) => {
            assert_eq!(
                (disconnect.reason, disconnect.session_expiry_s),
                (ReasonCode::SUCCESS, Some(0))
            );
        }
        other => panic!("a DISCONNECT was expected: {other:?}"),
    }
    assert!(peer.packet_or_end().await.is_none());
    within(client.close()).await;
}

#[tokio::test]
async fn a_client_that_nobody_holds_closes_itself() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let clone = client.clone();
    drop(client);
    let get = spawn_get(&clone, "k");
    peer.answer(&Reply::Nil, None).await;
    ended(get).await.unwrap();
    drop(clone);
    assert!(matches!(
        peer.packet_but_puback().await,
        Packet::Disconnect(_)
    ));
}

#[tokio::test]
async fn a_client_whose_runtime_is_gone_ends_its_requests() {
    let broker = Broker::start().await;
    let settings = broker.settings();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let connecting = runtime.spawn(Client::connect(settings));
    let mut peer = broker.accept().await;
    peer.connect().await;
    peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
    peer.subscribe().await;
    let client = ended(connecting).await.unwrap();
    let get = spawn_get(&client, "k");
    peer.request().await;
    runtime.shutdown_background();
    let error = ended(get).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Closed, Outcome::Unknown)
    );
    assert!(
        error.to_string().contains("its runtime was shut down"),
        "{error}"
    );
    within(client.close()).await;
}

#[tokio::test]
async fn a_client_can_be_closed_while_it_reconnects() {
    let broker = Broker::start().await;
    let settings = broker
        .settings()
        .reconnect_delay(Duration::from_secs(3600), Duration::from_secs(3600));
    let (client, peer) = broker.connect(settings).await;
    let mut state = client.state();
    drop(broker);
    drop(peer);
    within(state.wait_for(|state| matches!(state, ConnectionState::Reconnecting(_))))
        .await
        .unwrap();
    within(client.close()).await;
    assert!(client.state().borrow().is_closed());
}

#[tokio::test]
async fn values_pass_whatever_their_size() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    for size in [0, 1, 127, 128, 16_384, 65_536, 3_000_000] {
        let bytes = vec![0xA5; size];
        let set = tokio::spawn({
            let (client, bytes) = (client.clone(), bytes.clone());
            async move { client.set("k", bytes).await }
        });
        let request = peer.answer(&Reply::Ok, Some(&version(1))).await;
        assert_eq!(
            request.publish.payload().len(),
            request.publish.payload_bytes().len()
        );
        ended(set).await.unwrap();
        let get = spawn_get(&client, "k");
        peer.answer(&Reply::Value(bytes.clone().into()), Some(&version(1)))
            .await;
        assert_eq!(ended(get).await.unwrap().unwrap().value, bytes);
    }
}

#[tokio::test]
async fn a_refusal_is_certain_only_if_nothing_was_delivered_before() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    for (reason, outcome) in [
        (ReasonCode::QUOTA_EXCEEDED, Outcome::NotDone),
        (ReasonCode::NO_MATCHING_SUBSCRIBERS, Outcome::NotDone),
        (ReasonCode::UNSPECIFIED_ERROR, Outcome::Unknown),
        (ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR, Outcome::Unknown),
    ] {
        let refuse = async {
            let request = peer.request().await;
            peer.acknowledge(&request, reason).await;
        };
        let (result, ()) = within(async { tokio::join!(client.set("k", "v"), refuse) }).await;
        assert_eq!(result.unwrap_err().outcome(), outcome, "{reason}");
    }
    // The first delivery may have been executed, so the refusal of the second says nothing about it.
    let refuse = async {
        peer.request().await;
        drop(peer);
        let mut peer = broker.accept().await;
        peer.connect().await;
        peer.send_connack(session_present()).await;
        let again = peer.request().await;
        peer.acknowledge(&again, ReasonCode::QUOTA_EXCEEDED).await;
        peer
    };
    let (result, _peer) = within(async { tokio::join!(client.set("k", "v"), refuse) }).await;
    assert_eq!(result.unwrap_err().outcome(), Outcome::Unknown);
}
