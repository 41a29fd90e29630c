//! The session over a lost connection: kept or lost, and what is sent a second time.
use crate::support::{Broker, CLIENT_ID, Peer, Request, session_present, version, within};
use crate::{again, ended, spawn_get, spawn_set};
use statestore::{
    Client, ConnectionState, Error, ErrorKind, Outcome, Retry, SetOptions, SetOutcome,
};
use statestore_protocol::mqtt::{ConnAck, ReasonCode};
use statestore_protocol::{Hlc, Reply, ServiceError, topic};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

#[tokio::test]
async fn a_kept_session_resumes_its_requests() {
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
    assert_eq!(ended(one).await.unwrap().version(), Some(&version(1)));
    assert_eq!(ended(two).await.unwrap().version(), Some(&version(2)));
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
async fn a_lost_session_repeats_safe_requests_and_fails_others_as_unknown() {
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
        let options = SetOptions::new().retry(retry);
        tokio::spawn(async move { client.set_with("k", "v", &options).await })
    };
    assert_eq!(peer.request().await.key(), b"k");
    drop(peer);
    let (peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    (client, broker, peer, set)
}

#[tokio::test]
async fn a_write_is_repeated_only_with_retry_always() {
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
    assert_eq!(ended(set).await.unwrap().version(), Some(&version(2)));
    assert_eq!(client.counters().resent, 1);
}

#[tokio::test]
async fn a_failed_repetition_has_an_unknown_outcome() {
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
    let options = SetOptions::new().retry(Retry::Always);
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
async fn a_rejection_is_certain_only_without_an_earlier_delivery() {
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
        peer.confirm_session().await;
        let again = peer.request().await;
        peer.acknowledge(&again, ReasonCode::QUOTA_EXCEEDED).await;
        peer
    };
    let (result, _peer) = within(async { tokio::join!(client.set("k", "v"), refuse) }).await;
    assert_eq!(result.unwrap_err().outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn an_unpolled_call_does_not_block_others_after_a_lost_session() {
    // More than a socket buffers while the peer does not read.
    const LARGE: usize = 14 * 1024 * 1024;
    let broker = Broker::start().await;
    let settings = broker.settings().request_timeout(Duration::from_secs(60));
    let (client, mut peer) = broker.connect(settings).await;
    let warm_up = spawn_set(&client, "warm-up");
    peer.answer(&Reply::Ok, Some(&version(1))).await;
    ended(warm_up).await.unwrap();
    let token = Hlc::new(7, 0, "holder").unwrap();
    let options = SetOptions::new().fencing_token(token.clone()).persist(true);
    let mut held = pin!(client.set_with("held", vec![b'v'; LARGE], &options));
    let polled = poll_fn(|context| Poll::Ready(held.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    let second = spawn_set(&client, "second");
    tokio::task::yield_now().await;
    drop(peer);

    // The caller does something else meanwhile, such as waiting for another call.
    let (mut peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    let first = peer.request().await;
    assert_eq!((first.key(), first.value().len()), (&b"held"[..], LARGE));
    assert_eq!(first.user("__ft"), Some(&*token.to_string()));
    assert_eq!(first.user("aio-persistence"), Some("true"));
    assert!(
        first
            .user("__ts")
            .is_some_and(|text| text.parse::<Hlc>().is_ok())
    );
    assert!(!first.publish.dup(), "it is a new message");
    let next = peer.request().await;
    assert_eq!(next.key(), b"second");
    for request in [&first, &next] {
        peer.acknowledge(request, ReasonCode::SUCCESS).await;
        peer.respond(request, &Reply::Ok, Some(&version(2))).await;
    }
    assert_eq!(ended(second).await.unwrap().version(), Some(&version(2)));
    assert_eq!(within(held).await.unwrap().version(), Some(&version(2)));
}

#[tokio::test]
async fn an_unpolled_repeated_call_does_not_block_others() {
    let broker = Broker::start().await;
    let settings = broker
        .settings()
        .max_in_flight(1)
        .request_timeout(Duration::from_secs(60));
    let (client, mut peer) = broker.connect(settings).await;
    let mut held = pin!(client.get("held"));
    let polled = poll_fn(|context| Poll::Ready(held.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    let second = spawn_get(&client, "second");
    let request = peer.request().await;
    assert_eq!(request.key(), b"held");
    // With that, nothing but the call itself knows what was sent.
    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    drop(peer);

    let (mut peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    assert_eq!(peer.answer(&Reply::Nil, None).await.key(), b"second");
    assert!(ended(second).await.unwrap().is_none());
    let (found, request) =
        within(async { tokio::join!(held, peer.answer(&Reply::Nil, None)) }).await;
    assert_eq!(request.key(), b"held");
    assert!(found.unwrap().is_none());
}

#[tokio::test]
async fn a_new_session_repeats_requests_in_the_order_of_the_calls() {
    const LARGE: usize = 14 * 1024 * 1024;
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    // Requests that ended in their order have left their places in the opposite one.
    let gets: Vec<_> = (0..3).map(|_| spawn_get(&client, "before")).collect();
    let mut requests = Vec::new();
    for _ in &gets {
        requests.push(peer.request().await);
    }
    for (request, get) in requests.iter().zip(gets) {
        peer.acknowledge(request, ReasonCode::SUCCESS).await;
        peer.respond(request, &Reply::Nil, None).await;
        ended(get).await.unwrap();
    }
    let set = |value: Vec<u8>| {
        let client = client.clone();
        let options = SetOptions::new().retry(Retry::Always);
        tokio::spawn(async move { client.set_with("k", value, &options).await })
    };
    let mut sets = vec![set(b"1".to_vec()), set(b"2".to_vec())];
    // One request is acknowledged and not answered, one is not acknowledged, and one is never read completely.
    let first = peer.request().await;
    peer.acknowledge(&first, ReasonCode::SUCCESS).await;
    assert_eq!(peer.request().await.value(), b"2");
    sets.push(set(vec![b'3'; LARGE]));
    tokio::task::yield_now().await;
    drop(peer);

    let (mut peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    for (value, set) in (b'1'..).zip(sets) {
        let request = peer.answer(&Reply::Ok, Some(&version(value.into()))).await;
        assert_eq!(request.value()[0], value, "the newest value comes last");
        ended(set).await.unwrap();
    }
}
