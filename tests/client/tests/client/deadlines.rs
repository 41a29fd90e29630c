//! Requests that time out, or whose caller is gone.
use crate::support::{Broker, session_present, value, version, within};
use crate::{again, ended, spawn_get, spawn_set};
use statestore::{ConnectionState, ErrorKind, GetOptions, Outcome, SetOptions};
use statestore_protocol::Reply;
use statestore_protocol::mqtt::ReasonCode;
use std::time::Duration;

#[tokio::test]
async fn requests_end_at_their_deadline() {
    let broker = Broker::start().await;
    let settings = broker.settings().max_in_flight(1);
    let (client, mut peer) = broker.connect(settings).await;
    let soon = GetOptions::new().timeout(Duration::from_millis(5));
    // Sent and not answered: the outcome is unknown.
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
        "GET \"k\": no response came within 5ms; it may have been executed nevertheless"
    );
    let request = peer.request().await;
    assert_eq!(request.publish.message_expiry(), Some(1));
    // Its slot is free again, and a late response is ignored.
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
async fn a_dropped_request_releases_its_resources() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings().max_in_flight(1)).await;
    let get = spawn_get(&client, "1");
    let request = peer.request().await;
    get.abort();
    assert!(get.await.unwrap_err().is_cancelled());
    // The request still counts: the store may be executing it.
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
async fn requests_wait_for_the_connection_until_their_deadline() {
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
    let soon = SetOptions::new().timeout(Duration::from_millis(5));
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
