//! Several brokers: which is tried when, and what becomes of the session and of what runs in it.
use crate::support::{Broker, session_present, version, within};
use crate::{again, ended, spawn_get, spawn_set};
use statestore::{Client, ErrorKind, Hlc, Observation, Outcome, Settings};
use statestore_protocol::Reply;
use statestore_protocol::mqtt::{ConnAck, ReasonCode};
use statestored::{RunningServer, config::Config};
use std::net::TcpListener;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Settings of a client that knows all of these brokers.
fn settings(brokers: &[&Broker]) -> Settings {
    let (first, others) = brokers.split_first().unwrap();
    others.iter().fold(first.settings(), |settings, broker| {
        settings.add_address(broker.address().ip().to_string(), broker.address().port())
    })
}

/// Returns an address at which no server listens.
fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test]
async fn the_first_connection_is_made_to_the_first_broker_that_accepts_it() {
    let (busy, good) = (Broker::start().await, Broker::start().await);
    let url = format!(
        "mqtt://{},{},{}",
        unused_address(),
        busy.address(),
        good.address()
    );
    let connecting = tokio::spawn(Client::connect(url.parse::<Settings>().unwrap()));
    let mut peer = busy.accept().await;
    peer.connect().await;
    peer.send_connack(ConnAck::new(ReasonCode::SERVER_BUSY))
        .await;
    let (_peer, connect) = again(&good, ConnAck::new(ReasonCode::SUCCESS)).await;
    assert!(connect.clean_start);
    let client = ended(connecting).await.unwrap();
    assert!(client.state().borrow().is_connected());
}

#[tokio::test]
async fn the_error_of_each_broker_is_reported_with_its_address() {
    let (nobody, broker) = (unused_address(), Broker::start().await);
    let address = broker.address();
    let settings: Settings = format!("mqtt://{nobody},{address}").parse().unwrap();
    let connecting = tokio::spawn(Client::connect(settings));
    let mut peer = broker.accept().await;
    peer.connect().await;
    peer.send_connack(ConnAck::new(ReasonCode::BAD_USER_NAME_OR_PASSWORD))
        .await;
    let error = ended(connecting).await.unwrap_err();
    // The error that may be better later decides the kind.
    assert_eq!(
        (error.kind(), error.outcome(), error.is_retryable()),
        (ErrorKind::Unreachable, Outcome::NotDone, true)
    );
    let text = error.to_string();
    let begin = format!("connecting to {nobody},{address}: {nobody}: ");
    assert!(text.starts_with(&begin), "{text}");
    assert!(text.contains(&format!("; {address}: ")), "{text}");

    // An error that all brokers share is reported once.
    let settings: Settings = format!("mqtt://{nobody},{nobody}").parse().unwrap();
    let missing = settings.password_file("/no/such/file").user_name("user");
    let error = within(Client::connect(missing)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSettings);
    assert_eq!(error.to_string().matches("/no/such/file").count(), 1);
}

#[tokio::test]
async fn each_broker_has_its_own_connect_timeout() {
    let (silent, good) = (Broker::start().await, Broker::start().await);
    let settings = settings(&[&silent, &good]).connect_timeout(Duration::from_millis(50));
    let connecting = tokio::spawn(Client::connect(settings));
    let _peer = silent.accept().await;
    let _good = again(&good, ConnAck::new(ReasonCode::SUCCESS)).await;
    ended(connecting).await.unwrap();
}

#[tokio::test]
async fn a_cluster_continues_the_session_at_its_next_broker() {
    let (one, two) = (Broker::start().await, Broker::start().await);
    let (client, mut peer) = one.connect(settings(&[&one, &two])).await;
    let set = spawn_set(&client, "k");
    peer.request().await;
    drop((one, peer));
    let (mut peer, connect) = again(&two, session_present()).await;
    assert!(!connect.clean_start);
    // Delivered again, as the same request.
    let version = version(1);
    peer.answer(&Reply::Ok, Some(&version)).await;
    assert_eq!(ended(set).await.unwrap().version(), Some(&version));
    assert_eq!(client.counters().sessions_lost, 0);
}

#[tokio::test]
async fn reconnecting_begins_at_the_last_connected_broker() {
    let (one, two) = (Broker::start().await, Broker::start().await);
    let connecting = tokio::spawn(Client::connect(settings(&[&one, &two])));
    let mut peer = one.accept().await;
    peer.connect().await;
    peer.send_connack(ConnAck::new(ReasonCode::SERVER_BUSY))
        .await;
    let (mut peer, _) = again(&two, ConnAck::new(ReasonCode::SUCCESS)).await;
    let client = ended(connecting).await.unwrap();
    // A connection that held so long is no reason to leave its broker.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
    peer.disconnect(ReasonCode::SERVER_SHUTTING_DOWN).await;
    let (mut peer, _) = again(&two, session_present()).await;
    let get = spawn_get(&client, "k");
    peer.answer(&Reply::Nil, None).await;
    ended(get).await.unwrap();
}

#[tokio::test]
async fn an_outdated_session_of_a_former_broker_is_not_resumed() {
    let (one, two) = (Broker::start().await, Broker::start().await);
    let (client, mut peer) = one.connect(settings(&[&one, &two])).await;
    // A store whose clock is ahead.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ahead = u64::try_from(since.as_millis()).unwrap() + 30_000;
    let ahead = Hlc::new(ahead, 7, "StateStore").unwrap();
    let set = spawn_set(&client, "k");
    peer.answer(&Reply::Ok, Some(&ahead)).await;
    ended(set).await.unwrap();
    // A connection that did not hold is reason enough to try the next broker.
    drop(peer);
    // This broker has no session of the client: a new session begins.
    let (mut peer, connect) = again(&two, ConnAck::new(ReasonCode::SUCCESS)).await;
    assert!(!connect.clean_start);
    let get = spawn_get(&client, "k");
    let request = peer.answer(&Reply::Nil, None).await;
    ended(get).await.unwrap();
    let clock: Hlc = request.user("__ts").unwrap().parse().unwrap();
    assert!(clock > ahead, "it goes on where it was: {clock}");
    assert_eq!(client.counters().sessions_lost, 1);
    drop(peer);
    let (_peer, connect) = again(&one, ConnAck::new(ReasonCode::SUCCESS)).await;
    assert!(connect.clean_start, "it has the one before");
}

#[tokio::test]
async fn requests_continue_at_the_other_server() {
    let one = RunningServer::start(Config::in_memory()).unwrap();
    let two = RunningServer::start(Config::in_memory()).unwrap();
    let addresses = [one.addresses()[0], two.addresses()[0]];
    let settings: Settings = format!("mqtt://{},{}", addresses[0], addresses[1])
        .parse()
        .unwrap();
    let settings = settings.reconnect_delay(Duration::from_millis(1), Duration::from_millis(1));
    let client = within(Client::connect(settings)).await.unwrap();
    let mut observer = client.observe("k").await.unwrap();
    let first = client.set("k", "one").await.unwrap().version().cloned();
    let is_set = |observation: &Option<Observation>, text: &'static str| matches!(observation, Some(Observation::Set { value, .. }) if value == text);
    assert!(is_set(&within(observer.next()).await, "one"));

    one.stop().unwrap();
    let second = loop {
        match within(client.set("k", "two")).await {
            Ok(set) => break set.version().cloned(),
            // Sent to the first server while that ended.
            Err(error) => assert_eq!(error.outcome(), Outcome::Unknown, "{error}"),
        }
    };
    assert!(second > first, "{second:?} after {first:?}");
    let mut told = Vec::new();
    while !told.last().is_some_and(|last| is_set(last, "two")) {
        told.push(within(observer.next()).await);
    }
    assert_eq!(told[0], Some(Observation::Resync), "{told:?}");
    let counters = client.counters();
    assert_eq!((counters.reconnects, counters.sessions_lost), (1, 1));
    assert_eq!(
        client.get("k").await.unwrap().unwrap().version,
        second.unwrap()
    );
    two.stop().unwrap();
}
