//! A client that connects in the background.
use crate::support::{Broker, value, version, within};
use crate::{again, connack, ended, spawn_get};
use statestore::{Client, ConnectionState, Error, ErrorKind, GetOptions, LostReason, Outcome};
use statestore_protocol::mqtt::{ConnAck, ReasonCode};
use statestore_protocol::{Command, Event, Reply};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Waits until an attempt to connect has failed.
async fn failed(client: &Client) -> Error {
    let mut state = client.state();
    let state = within(state.wait_for(|state| matches!(state, ConnectionState::Reconnecting(_))));
    match &*state.await.unwrap() {
        ConnectionState::Reconnecting(error) => error.clone(),
        state => panic!("{state}"),
    }
}

/// Waits until the client has ended.
async fn end(client: &Client) -> (LostReason, Error) {
    let mut state = client.state();
    let state = within(state.wait_for(ConnectionState::is_closed)).await;
    match &*state.unwrap() {
        ConnectionState::Closed { lost_reason, error } => (*lost_reason, error.clone()),
        state => panic!("{state}"),
    }
}

#[tokio::test]
async fn calls_wait_for_the_connection() {
    let broker = Broker::start().await;
    let settings = broker.settings().lazy(true);
    let client = within(Client::connect(settings)).await.unwrap();
    assert!(matches!(
        *client.state().borrow(),
        ConnectionState::Connecting
    ));
    let get = spawn_get(&client, "k");
    let (mut peer, connect) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    assert!(connect.clean_start);
    let request = peer.answer(&value("v"), Some(&version(1))).await;
    assert_eq!(request.key(), b"k");
    assert_eq!(ended(get).await.unwrap().unwrap().value, "v");
    assert!(client.state().borrow().is_connected());
    assert_eq!(client.counters().reconnects, 0);
}

#[tokio::test]
async fn observers_wait_for_the_connection() {
    let broker = Broker::start().await;
    let client = Client::connect(broker.settings().lazy(true)).await.unwrap();
    let observing = tokio::spawn({
        let client = client.clone();
        async move { client.observe("k").await }
    });
    let (mut peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    let watch = peer.answer(&Reply::Ok, None).await;
    assert_eq!(watch.command, Command::Watch { key: "k".into() });
    let mut observer = ended(observing).await.unwrap();
    peer.notify(b"k", &Event::Set("v".into()), &version(1))
        .await;
    let set = statestore::Observation::Set {
        value: "v".into(),
        version: version(1),
    };
    assert_eq!(within(observer.next()).await, Some(set));
}

#[tokio::test]
async fn an_assigned_client_id_is_known_after_the_first_connection() {
    let broker = Broker::start().await;
    let settings = broker.settings().client_id("").lazy(true);
    let client = Client::connect(settings).await.unwrap();
    assert_eq!(client.client_id(), "");
    let get = spawn_get(&client, "k");
    let assigned = connack(|it| it.assigned_client_id = Some("auto".into()));
    let (mut peer, _) = again(&broker, assigned).await;
    let request = peer.answer(&Reply::Nil, None).await;
    let response = statestore_protocol::topic::response("auto");
    assert_eq!(request.publish.response_topic(), Some(response.as_str()));
    ended(get).await.unwrap();
    assert_eq!(client.client_id(), "auto");
}

#[tokio::test]
async fn failures_are_shown_by_the_state_and_retried() {
    let broker = Broker::start().await;
    let settings = broker.settings().lazy(true).reconnect_delay(HOUR, HOUR);
    let client = Client::connect(settings).await.unwrap();
    drop(within(broker.accept()).await);
    let cause = failed(&client).await;
    assert_eq!(cause.kind(), ErrorKind::Unreachable);

    let soon = GetOptions::new().timeout(Duration::from_millis(5));
    let error = within(client.get_with("k", &soon)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::NotDone)
    );
    let told = format!("; there was no connection so far: {cause}");
    assert!(error.to_string().contains(&told), "{error}");

    let get = spawn_get(&client, "k");
    client.reconnect_now();
    let (mut peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    peer.answer(&Reply::Nil, None).await;
    assert_eq!(ended(get).await.unwrap(), None);
}

#[tokio::test]
async fn fail_fast_calls_fail_after_the_first_failure() {
    let broker = Broker::start().await;
    let settings = broker.settings().lazy(true).fail_fast(true);
    let client = Client::connect(settings.reconnect_delay(HOUR, HOUR))
        .await
        .unwrap();
    let early = spawn_get(&client, "early");
    drop(within(broker.accept()).await);
    let cause = failed(&client).await;
    let error = within(client.get("k")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unreachable, Outcome::NotDone)
    );
    let told = format!("fail_fast is set and there was no connection so far: {cause}");
    assert!(error.to_string().contains(&told), "{error}");

    client.reconnect_now();
    let (mut peer, _) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    assert_eq!(peer.answer(&Reply::Nil, None).await.key(), b"early");
    ended(early).await.unwrap();
}

#[tokio::test]
async fn the_client_ends_after_its_limit() {
    let broker = Broker::start().await;
    let settings = broker
        .settings()
        .lazy(true)
        .connect_limit(Duration::from_millis(50));
    drop(broker);
    let client = Client::connect(settings.clone()).await.unwrap();
    let waiting = spawn_get(&client, "k");
    let (lost_reason, error) = end(&client).await;
    assert_eq!(
        (lost_reason, error.kind()),
        (LostReason::GaveUp, ErrorKind::Unreachable)
    );
    assert!(error.to_string().contains("gave up after 50ms"), "{error}");
    for error in [
        ended(waiting).await.unwrap_err(),
        within(client.get("k")).await.unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Closed, Outcome::NotDone),
            "{error}"
        );
    }

    // One attempt.
    let once = settings.connect_limit(Duration::ZERO);
    let client = Client::connect(once).await.unwrap();
    let (lost_reason, error) = end(&client).await;
    assert_eq!(lost_reason, LostReason::GaveUp);
    assert!(!error.to_string().contains("gave up"), "{error}");
}

#[tokio::test]
async fn unusable_settings_are_not_retried() {
    let broker = Broker::start().await;
    let settings = broker.settings().lazy(true);
    let error = within(Client::connect(settings.clone().client_id("#")))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSettings);
    let missing = settings.user_name("user").password_file("/no/such/file");
    let client = within(Client::connect(missing)).await.unwrap();
    let (lost_reason, error) = end(&client).await;
    assert_eq!(
        (lost_reason, error.kind()),
        (LostReason::GaveUp, ErrorKind::InvalidSettings)
    );
}

#[tokio::test]
async fn a_client_that_never_connected_is_closed_at_once() {
    let broker = Broker::start().await;
    let settings = broker.settings().lazy(true).reconnect_delay(HOUR, HOUR);
    let client = Client::connect(settings).await.unwrap();
    let get = spawn_get(&client, "k");
    within(client.close()).await;
    assert_eq!(ended(get).await.unwrap_err().kind(), ErrorKind::Closed);
}
