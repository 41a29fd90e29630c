//! The end of a client: closed, forgotten, or left behind by its runtime.
use crate::support::{Broker, version, within};
use crate::{ended, spawn_get, spawn_set};
use statestore::{Client, ConnectionState, ErrorKind, Outcome, Settings};
use statestore_protocol::Reply;
use statestore_protocol::mqtt::{ConnAck, Packet, ReasonCode};
use std::time::Duration;

#[tokio::test]
async fn closing_ends_all_requests_and_sends_a_disconnect() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let get = spawn_get(&client, "k");
    peer.request().await;
    within(client.close_within(Duration::ZERO)).await;
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
async fn only_a_session_with_a_client_id_outlives_the_client() {
    for (client_id, outlives) in [(None, false), (Some(""), false), (Some("gateway"), true)] {
        let broker = Broker::start().await;
        let address = broker.address();
        let mut settings =
            Settings::new(address.ip().to_string(), address.port()).clean_start(false);
        if let Some(client_id) = client_id {
            settings = settings.client_id(client_id);
        }
        let accept = async {
            let mut peer = broker.accept().await;
            let connect = peer.connect().await;
            let mut connack = ConnAck::new(ReasonCode::SUCCESS);
            if client_id == Some("") {
                connack.assigned_client_id = Some("assigned".to_owned());
            }
            peer.send_connack(connack).await;
            peer.subscribe().await;
            (peer, connect)
        };
        let (client, (mut peer, connect)) =
            within(async { tokio::join!(Client::connect(settings), accept) }).await;
        assert_eq!(connect.clean_start, !outlives, "{client_id:?}");
        within(client.unwrap().close()).await;
        let Packet::Disconnect(disconnect) = peer.packet().await else {
            panic!("a DISCONNECT was expected");
        };
        let ends_now = disconnect.session_expiry_s == Some(0);
        assert_eq!(ends_now, !outlives, "{client_id:?}");
    }
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_client() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let clone = client.clone();
    drop(client);
    let get = spawn_get(&clone, "k");
    peer.answer(&Reply::Nil, None).await;
    ended(get).await.unwrap();
    drop(clone);
    assert!(matches!(
        peer.packet_except_puback().await,
        Packet::Disconnect(_)
    ));
}

#[tokio::test]
async fn shutting_down_the_runtime_ends_the_requests() {
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
async fn closing_waits_for_pending_requests() {
    let broker = Broker::start().await;
    // The second one waits in the queue for the answer to the first one.
    let (client, mut peer) = broker.connect(broker.settings().max_in_flight(1)).await;
    let sent = spawn_set(&client, "sent");
    let request = peer.request().await;
    let queued = spawn_set(&client, "queued");
    while client.counters().queued == 0 {
        tokio::task::yield_now().await;
    }
    let closing = tokio::spawn({
        let client = client.clone();
        async move { client.close_within(Duration::MAX).await }
    });
    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
    peer.respond(&request, &Reply::Ok, Some(&version(1))).await;
    assert!(ended(sent).await.unwrap().is_applied());
    assert_eq!(
        peer.answer(&Reply::Ok, Some(&version(2))).await.key(),
        b"queued"
    );
    assert!(ended(queued).await.unwrap().is_applied());
    within(closing).await.unwrap();
    assert!(client.state().borrow().is_closed());
}

#[tokio::test]
async fn closing_is_bounded_and_unfinished_requests_have_an_unknown_outcome() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings().max_in_flight(1)).await;
    let sent = spawn_set(&client, "sent");
    peer.request().await;
    let queued = spawn_set(&client, "queued");
    while client.counters().queued == 0 {
        tokio::task::yield_now().await;
    }
    within(client.close_within(Duration::from_millis(10))).await;
    for (set, outcome) in [(sent, Outcome::Unknown), (queued, Outcome::NotDone)] {
        let error = ended(set).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Closed, outcome)
        );
    }
}
