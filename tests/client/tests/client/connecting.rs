//! The first connection: what the client says, and what becomes of it.
use crate::support::{Broker, CLIENT_ID, session_present, within};
use crate::{again, connack, ended, spawn_get};
use statestore::{Client, ConnectionState, ErrorKind, Outcome, Settings};
use statestore_protocol::mqtt::{ConnAck, Packet, QoS, ReasonCode};
use statestore_protocol::{Reply, topic};
use std::time::Duration;

#[tokio::test]
async fn the_connect_contains_the_settings() {
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
async fn a_failed_first_connection_returns_its_reason_without_retry() {
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
async fn a_first_connection_is_retried_within_its_limit() {
    let broker = Broker::start().await;
    let settings = broker
        .settings()
        .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
        .connect_limit(Duration::MAX);
    let connecting = tokio::spawn(Client::connect(settings.clone()));
    // No answer, and answers that others would take for their last.
    drop(within(broker.accept()).await);
    for reason in [
        ReasonCode::SERVER_BUSY,
        ReasonCode::BAD_USER_NAME_OR_PASSWORD,
    ] {
        let mut peer = within(broker.accept()).await;
        peer.connect().await;
        peer.send_connack(ConnAck::new(reason)).await;
    }
    let (_peer, connect) = again(&broker, ConnAck::new(ReasonCode::SUCCESS)).await;
    assert!(connect.clean_start);
    let client = ended(connecting).await.unwrap();
    assert_eq!(client.counters().reconnects, 0);
    assert!(matches!(
        *client.state().borrow(),
        ConnectionState::Connected
    ));

    // Dropping the call ends the attempt.
    let connecting = tokio::spawn(Client::connect(settings.clone()));
    drop(within(broker.accept()).await);
    connecting.abort();
    assert!(connecting.await.unwrap_err().is_cancelled());

    // An error that requires other settings is not retried.
    let missing = settings.ca_file("/no/such/file").tls(true);
    let error = within(Client::connect(missing)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSettings);
}

#[tokio::test]
async fn the_first_connection_fails_after_its_limit() {
    let broker = Broker::start().await;
    let settings = broker
        .settings()
        .reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
        .connect_limit(Duration::from_millis(50));
    drop(broker);
    let began = std::time::Instant::now();
    let error = within(Client::connect(settings)).await.unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unreachable, Outcome::NotDone)
    );
    assert!(error.to_string().contains("gave up after 50ms"), "{error}");
}

#[tokio::test]
async fn a_silent_broker_times_out() {
    let broker = Broker::start().await;
    let settings = broker.settings().connect_timeout(Duration::from_millis(20));
    let (client, _peer) =
        within(async { tokio::join!(Client::connect(settings), broker.accept()) }).await;
    assert_eq!(client.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn an_assigned_client_id_is_used_for_later_connections() {
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
async fn a_session_of_an_earlier_client_is_ended_and_a_new_one_begun() {
    let broker = Broker::start().await;
    let accept = async {
        let mut peer = broker.accept().await;
        assert!(!peer.connect().await.clean_start);
        peer.send_connack(session_present()).await;
        match peer.packet().await {
            Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, ReasonCode::SUCCESS),
            other => panic!("a DISCONNECT was expected: {other:?}"),
        }
        assert_eq!(peer.packet_or_end().await, None);
        let mut peer = broker.accept().await;
        assert!(peer.connect().await.clean_start);
        peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
        peer.subscribe().await;
        peer
    };
    let connecting = Client::connect(broker.settings().clean_start(false));
    let (client, peer) = within(async { tokio::join!(connecting, accept) }).await;
    let client = client.unwrap();
    // From then on it is this client's own.
    drop(peer);
    let (mut peer, connect) = again(&broker, session_present()).await;
    assert!(!connect.clean_start);
    let get = spawn_get(&client, "k");
    peer.answer(&Reply::Nil, None).await;
    ended(get).await.unwrap();
}

#[tokio::test]
async fn a_broker_that_ignores_clean_start_is_rejected() {
    let broker = Broker::start().await;
    let error = broker
        .refuse(async |peer| peer.send_connack(session_present()).await)
        .await;
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
}

#[tokio::test]
async fn input_before_the_connack_is_limited() {
    for first in [0x20, 0xF0] {
        let broker = Broker::start().await;
        // The begin of 200 MB.
        let error = broker
            .refuse(async |peer| peer.send_bytes(&[first, 0x80, 0x84, 0xAF, 0x5F]).await)
            .await;
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    }
}
