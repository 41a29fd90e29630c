//! Connections that end: which the client makes again, and what it says to the broker.
use crate::support::{Broker, session_present, within};
use crate::{again, ended, spawn_get, spawn_set};
use bytes::BytesMut;
use statestore::{ConnectionState, ErrorKind, LostReason, Observation, Outcome};
use statestore_protocol::Reply;
use statestore_protocol::mqtt::{ConnAck, Packet, PacketId, PubAck, ReasonCode};
use std::time::Duration;

#[tokio::test]
async fn a_session_taken_over_by_another_client_is_not_resumed() {
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
    let ConnectionState::Closed {
        lost_reason, error, ..
    } = closed
    else {
        unreachable!()
    };
    assert_eq!(lost_reason, LostReason::TakenOver);
    assert_eq!(
        (error.kind(), error.mqtt_reason()),
        (ErrorKind::Closed, Some(ReasonCode::SESSION_TAKEN_OVER))
    );
    assert!(!error.is_retryable());
    assert!(!error.to_string().contains("connecting to"), "{error}");
    let error = ended(get).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Closed, Outcome::Unknown)
    );
    assert!(
        error.to_string().contains("took the session over"),
        "{error}"
    );
    assert_eq!(client.get("k").await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_session_taken_over_by_its_own_late_connect_is_resumed() {
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
async fn a_disconnect_reports_its_reason_and_whether_it_is_retryable() {
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
async fn a_client_closes_after_its_reconnect_limit() {
    let broker = Broker::start().await;
    let settings = broker.settings().reconnect_limit(Duration::from_millis(50));
    let (client, mut peer) = broker.connect(settings).await;
    // The limit counts from the last good connection, not from the first failure of all.
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
    let ConnectionState::Closed {
        lost_reason, error, ..
    } = closed.unwrap().clone()
    else {
        unreachable!()
    };
    assert_eq!(lost_reason, LostReason::GaveUp);
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    let error = ended(get).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Closed, Outcome::Unknown)
    );
    assert_eq!(client.get("k").await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_protocol_error_sends_a_disconnect_and_closes_the_connection() {
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
        match peer.packet_except_puback().await {
            Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, reason, "{bytes:02X?}"),
            other => panic!("a DISCONNECT was expected: {other:?}"),
        }
        (peer, _) = again(&broker, session_present()).await;
        assert_eq!(client.counters().protocol_errors, number as u64 + 1);
    }
}

#[tokio::test]
async fn an_oversized_packet_is_rejected() {
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
async fn repeated_protocol_errors_end_the_session_but_not_the_client() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let answer = peer.answer(&Reply::Ok, None);
    let (observer, _) = within(async { tokio::join!(client.observe("k"), answer) }).await;
    let mut observer = observer.unwrap();
    let set = spawn_set(&client, "k");
    peer.request().await;
    for _ in 0..3 {
        // The broker has queued a message for this session, with a topic alias that it never defined.
        peer.send_bytes(b"\x30\x06\0\0\x03\x23\0\x07").await;
        while !matches!(
            peer.packet_or_end().await,
            Some(Packet::Disconnect(_)) | None
        ) {}
        peer = broker.accept().await;
        let connect = peer.connect().await;
        if connect.clean_start {
            break;
        }
        peer.send_connack(session_present()).await;
    }
    // In the new session it is gone.
    peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
    peer.subscribe().await;
    let error = ended(set).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::SessionLost, Outcome::Unknown)
    );
    assert_eq!(within(observer.next()).await, Some(Observation::Resync));
    peer.answer(&Reply::Ok, None).await;
    let get = spawn_get(&client, "k");
    for _ in 0..2 {
        peer.answer(&Reply::Nil, None).await;
    }
    ended(get).await.unwrap();
}
