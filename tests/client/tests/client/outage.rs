//! Calls while the connection is lost.
use crate::support::{Broker, session_present, version, within};
use crate::{again, ended, spawn_set};
use statestore::{
    Client, ConnectionState, Error, ErrorKind, LockOptions, ObserveOptions, Outcome, SetOptions,
    UpdateOptions,
};
use statestore_protocol::Reply;
use std::error::Error as _;
use std::time::Duration;

async fn lost(client: &Client) -> Error {
    let mut state = client.state();
    let state = within(state.wait_for(|state| matches!(state, ConnectionState::Reconnecting(_))));
    match &*state.await.unwrap() {
        ConnectionState::Reconnecting(error) => error.clone(),
        state => panic!("{state}"),
    }
}

fn check(error: &Error, cause: &Error) {
    assert_eq!(
        (error.kind(), error.outcome(), error.is_retryable()),
        (ErrorKind::Unreachable, Outcome::NotDone, true),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("fail_fast") && text.contains(&cause.to_string()),
        "{text}"
    );
    assert!(error.source().is_some(), "{text}");
}

#[tokio::test]
async fn fail_fast_calls_fail_immediately_during_an_outage() {
    let broker = Broker::start().await;
    let hour = Duration::from_secs(3600);
    let settings = broker.settings().request_timeout(hour).fail_fast(true);
    let (client, mut peer) = broker.connect(settings.reconnect_delay(hour, hour)).await;
    let under_way = spawn_set(&client, "under way");
    peer.request().await;
    drop(peer);
    let cause = lost(&client).await;

    check(&within(client.get("k")).await.unwrap_err(), &cause);
    check(&within(client.set("k", "v")).await.unwrap_err(), &cause);
    check(&within(client.del("k")).await.unwrap_err(), &cause);
    check(&within(client.vdel("k", "v")).await.unwrap_err(), &cause);
    check(&within(client.scan("*").next()).await.unwrap_err(), &cause);
    check(&within(client.capabilities()).await.unwrap_err(), &cause);
    check(
        &within(client.get_many(&["a", "b"])).await.unwrap_err(),
        &cause,
    );
    for set in within(client.set_many(&[("a", "1"), ("b", "2")])).await {
        check(&set.unwrap_err(), &cause);
    }
    let patient = ObserveOptions::new().timeout(hour);
    check(
        &within(client.observe_with("k", &patient))
            .await
            .unwrap_err(),
        &cause,
    );
    let patient = UpdateOptions::new().timeout(hour);
    let change = |_: Option<&_>| Some("v");
    check(
        &within(client.update_with("k", &patient, change))
            .await
            .unwrap_err(),
        &cause,
    );
    let patient = LockOptions::default();
    check(
        &within(client.lock_with("l", &patient)).await.unwrap_err(),
        &cause,
    );
    check(
        &within(client.lease("l").unwrap().acquire())
            .await
            .unwrap_err(),
        &cause,
    );

    client.reconnect_now();
    let (mut peer, _) = again(&broker, session_present()).await;
    // The broker delivers it again, and only it.
    let request = peer.answer(&Reply::Ok, Some(&version(1))).await;
    assert_eq!(request.key(), b"under way");
    ended(under_way).await.unwrap();
    let set = spawn_set(&client, "later");
    assert_eq!(
        peer.answer(&Reply::Ok, Some(&version(2))).await.key(),
        b"later"
    );
    ended(set).await.unwrap();
}

#[tokio::test]
async fn a_time_out_reports_the_lost_connection() {
    let broker = Broker::start().await;
    let hour = Duration::from_secs(3600);
    let (client, peer) = broker
        .connect(broker.settings().reconnect_delay(hour, hour))
        .await;
    drop(peer);
    let cause = lost(&client).await;
    let soon = SetOptions::new().timeout(Duration::from_millis(5));
    let error = within(client.set_with("k", "v", &soon)).await.unwrap_err();
    let text = error.to_string();
    let told = format!("s ago: {cause}");
    assert!(
        text.contains("; the connection was lost ") && text.contains(&told),
        "{text}"
    );
}
