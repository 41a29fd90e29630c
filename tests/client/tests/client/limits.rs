//! Limits of the broker and of the settings: number of requests, bytes, length of a queue.
use crate::capabilities::reject_capabilities;
use crate::support::{Broker, version, within};
use crate::{connack, ended, spawn_get, spawn_set};
use statestore::{
    CancellationRecorder, Client, DelOptions, ErrorKind, GetOptions, Outcome, SetOptions, Settings,
    Transaction,
};
use statestore_protocol::Reply;
use statestore_protocol::mqtt::ReasonCode;
use statestored::{RunningServer, config::Config};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

#[tokio::test]
async fn requests_above_the_receive_maximum_wait_in_order() {
    let broker = Broker::start().await;
    let allowed = connack(|it| it.limits.receive_maximum = 2);
    let (client, mut peer) = broker.connect_with(broker.settings(), allowed).await;
    let keys = ["a", "b", "c", "d", "e"];
    let many = tokio::spawn({
        let client = client.clone();
        async move { client.get_many(&keys).await }
    });
    reject_capabilities(&mut peer).await;
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
async fn a_full_queue_rejects_requests() {
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
    // A request with `at_once` is refused even earlier.
    let get = GetOptions::new().at_once(true);
    let set = SetOptions::new().at_once(true);
    let del = DelOptions::new().at_once(true);
    for error in [
        client.get_with("4", &get).await.unwrap_err(),
        client.set_with("4", "v", &set).await.unwrap_err(),
        client.del_with("4", &del).await.unwrap_err(),
        client.vdel_with("4", "v", &del).await.unwrap_err(),
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
async fn an_at_once_request_is_sent_immediately_or_fails() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings().max_in_flight(1)).await;
    let (options, version) = (SetOptions::new().at_once(true), version(1));
    let set = client.set_with("k", "v", &options);
    let answer = peer.answer(&Reply::Ok, Some(&version));
    let (set, _) = within(async { tokio::join!(set, answer) }).await;
    assert!(set.unwrap().is_applied());
    // The queue is empty, but the only place is taken.
    let first = spawn_get(&client, "1");
    let request = peer.request().await;
    let at_once = GetOptions::new().at_once(true);
    let error = client.get_with("2", &at_once).await.unwrap_err();
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
    let error = client.get_with("3", &at_once).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::QueueFull, Outcome::NotDone)
    );
}

#[tokio::test]
async fn values_above_the_configured_limit_are_not_sent() {
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
async fn a_request_above_the_packet_limit_of_the_broker_fails_immediately() {
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

/// Polls a call once, so that it begins.
async fn begin<F: Future>(mut call: Pin<&mut F>) {
    let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending()));
    assert!(polled.await);
}

#[tokio::test]
async fn requests_are_sent_in_the_order_of_their_first_poll() {
    let broker = Broker::start().await;
    let allowed = connack(|it| it.limits.receive_maximum = 1);
    let (client, mut peer) = broker.connect_with(broker.settings(), allowed).await;
    let first = spawn_set(&client, "first");
    let request = peer.request().await;
    let mut second = pin!(client.set("second", "v"));
    begin(second.as_mut()).await;
    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    peer.respond(&request, &Reply::Ok, Some(&version(1))).await;
    ended(first).await.unwrap();
    // The second request gets the free slot, but its future is not polled.
    let third = spawn_set(&client, "third");
    let request = peer.answer(&Reply::Ok, Some(&version(2))).await;
    assert_eq!(request.key(), b"second");
    let request = peer.answer(&Reply::Ok, Some(&version(3))).await;
    assert_eq!(request.key(), b"third");
    ended(third).await.unwrap();
    assert_eq!(within(second).await.unwrap().version(), Some(&version(2)));
}

/// Drops a call after it has begun and returns the outcome that is reported for it.
async fn dropped<F: Future>(call: F) -> Option<Outcome> {
    let mut call = Box::pin(call);
    begin(call.as_mut()).await;
    let abandoned = CancellationRecorder::begin();
    drop(call);
    abandoned.outcome()
}

#[tokio::test]
async fn a_dropped_call_reports_its_outcome() {
    let broker = Broker::start().await;
    let allowed = connack(|it| it.limits.receive_maximum = 1);
    let (client, mut peer) = broker.connect_with(broker.settings(), allowed).await;
    let set = async {
        client.set("k", "v").await.unwrap();
    };
    let mut set = Box::pin(set);
    begin(set.as_mut()).await;
    let request = peer.request().await;
    // Behind it nothing is sent.
    assert_eq!(dropped(client.set("k", "v")).await, Some(Outcome::NotDone));
    assert_eq!(dropped(client.get("k")).await, Some(Outcome::NotDone));
    let abandoned = CancellationRecorder::begin();
    drop(set);
    assert_eq!(abandoned.outcome(), Some(Outcome::Unknown));
    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    // A read that was sent does no harm.
    let mut get = Box::pin(client.get("k"));
    begin(get.as_mut()).await;
    peer.request().await;
    let abandoned = CancellationRecorder::begin();
    drop(get);
    assert_eq!(abandoned.outcome(), Some(Outcome::NotDone));
    // The outcome of any other future is unknown.
    assert_eq!(dropped(std::future::pending::<()>()).await, None);
}

#[tokio::test]
async fn a_key_above_the_limit_of_the_store_is_an_invalid_argument() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let settings = Settings::from_url(&server.url()).unwrap();
    let client = within(Client::connect(settings)).await.unwrap();
    let key = "k".repeat(16_384);
    client.set(&key, "value").await.unwrap();
    let key = key + "k";
    let transaction = Transaction::new();
    let transaction = transaction.set("short", "value", &SetOptions::new());
    let transaction = transaction.set(&key, "value", &SetOptions::new());
    let in_a_transaction = client.transact(&transaction).await.unwrap_err();
    assert_eq!(in_a_transaction.operation(), Some(1));
    for (error, what) in [
        (client.set(&key, "value").await.unwrap_err(), "key"),
        (client.get(&key).await.unwrap_err(), "key"),
        (client.get_many([&key]).await.unwrap_err(), "key"),
        (client.del(&key).await.unwrap_err(), "key"),
        (client.vdel(&key, "value").await.unwrap_err(), "key"),
        (client.observe(&key).await.unwrap_err(), "key"),
        (client.lock(&key).await.unwrap_err(), "key"),
        (client.scan(&key).next_page().await.unwrap_err(), "pattern"),
        (in_a_transaction, "key"),
    ] {
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidArgument, Outcome::NotDone)
        );
        let expected = format!("the store refused: the {what} is longer than 16384 bytes");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}
