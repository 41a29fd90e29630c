//! State that a session reports of itself, of the broker and of the connection.
use super::{MAX, SessionHarness, resumed, session_with};
use bytes::BytesMut;
use statestore_protocol::mqtt::session::{
    Event, PublishOptions, Session, SessionConfig, SessionError, Subscriptions,
};
use statestore_protocol::mqtt::{
    ConnAck, Connect, Limits, Packet, PacketId, PublishHeader, ReasonCode, SubAck, Subscription,
    UnsubAck, decode,
};

/// Sends the SUBACK of a packet identifier.
fn grant(
    bench: &mut SessionHarness,
    packet_id: PacketId,
    reason: ReasonCode,
) -> Result<(), SessionError> {
    let suback = SubAck {
        packet_id,
        reasons: vec![reason],
        reason_string: None,
    };
    let mut bytes = BytesMut::new();
    suback.encode(MAX, &mut bytes).unwrap();
    bench.send(&bytes)
}

/// Connects anew; what the session says when this is the answer.
fn reconnect(bench: &mut SessionHarness, connack: &ConnAck) -> Vec<Packet> {
    bench.session.connect(0).unwrap();
    bench.sent();
    let mut bytes = BytesMut::new();
    connack.encode(MAX, &mut bytes).unwrap();
    bench.send(&bytes).unwrap();
    bench.sent()
}

/// A session that has asked for its subscription, and under which packet identifier.
fn subscribing() -> (SessionHarness, PacketId) {
    let mut bench = SessionHarness::new();
    let packets = reconnect(&mut bench, &ConnAck::new(ReasonCode::SUCCESS));
    let [Packet::Subscribe(subscribe)] = &packets[..] else {
        panic!("{packets:?}")
    };
    let id = subscribe.packet_id;
    (bench, id)
}

#[test]
fn an_assigned_client_id_is_used() {
    let mut bench = SessionHarness::new();
    assert_eq!(bench.session.client_id(), "me");
    let limits = Limits {
        receive_maximum: 7,
        max_packet_bytes: 1000,
        topic_alias_maximum: 3,
    };
    bench.connect(&ConnAck {
        assigned_client_id: Some("you".into()),
        limits,
        ..ConnAck::new(ReasonCode::SUCCESS)
    });
    assert_eq!(bench.session.client_id(), "you");
    assert_eq!(bench.session.peer_limits(), limits);
    assert_eq!(bench.session.granted(), [ReasonCode::GRANTED_QOS_1]);
}

#[test]
fn sessions_are_counted() {
    let mut bench = SessionHarness::ready();
    assert_eq!(bench.session.number(), 1);
    for number in [2, 3] {
        bench.session.connection_lost();
        bench.connect(&ConnAck::new(ReasonCode::SUCCESS));
        assert_eq!(bench.session.number(), number);
    }
    bench.session.connection_lost();
    bench.connect(&resumed(|_| {}));
    assert_eq!(bench.session.number(), 3);
}

#[test]
fn unsent_bytes_are_counted_until_the_transport_takes_them() {
    let mut bench = SessionHarness::ready();
    bench.publish(1, 9_000);
    let waiting = bench.session.unsent_bytes();
    let output = bench.session.take_output(0);
    assert_eq!(
        (waiting, bench.session.unsent_bytes()),
        (output.len(), waiting)
    );
    bench.session.written(5, false, 0);
    assert_eq!(bench.session.unsent_bytes(), waiting - 5);
    bench.session.written(waiting - 5, false, 0);
    assert_eq!(bench.session.unsent_bytes(), 0);
}

#[test]
fn a_clean_start_is_for_the_first_connection_only() {
    let mut bench = SessionHarness::new();
    bench.session = session_with(|connect| connect.clean_start = true);
    for is_clean in [true, false] {
        bench.session.connect(0).unwrap();
        let [Packet::Connect(connect)] = &bench.sent()[..] else {
            panic!()
        };
        assert_eq!(connect.clean_start, is_clean);
        bench.session.connection_lost();
        bench.connect(&ConnAck::new(ReasonCode::SUCCESS));
        bench.session.connection_lost();
    }
}

#[test]
fn disconnect_encodes_its_arguments_and_is_empty_while_offline() {
    let bench = SessionHarness::new();
    let nobody = bench.session.disconnect(ReasonCode::SUCCESS, None);
    assert!(nobody.is_empty(), "{nobody:?}");
    let bench = SessionHarness::ready();
    let mut bytes = bench
        .session
        .disconnect(ReasonCode::UNSPECIFIED_ERROR, Some(9));
    let Some(Packet::Disconnect(disconnect)) = decode(&mut bytes, MAX).unwrap() else {
        panic!()
    };
    let said = (disconnect.reason, disconnect.session_expiry_s);
    assert_eq!(said, (ReasonCode::UNSPECIFIED_ERROR, Some(9)));
}

#[test]
fn only_the_suback_of_the_own_subscribe_is_accepted() {
    let (mut bench, id) = subscribing();
    let other = PacketId::new(id.get() + 1).unwrap();
    let error = grant(&mut bench, other, ReasonCode::GRANTED_QOS_1).unwrap_err();
    assert!(matches!(error, SessionError::Protocol(_)), "{error:?}");
    assert!(!bench.session.is_ready());
    let (mut bench, id) = subscribing();
    let error = grant(&mut bench, id, ReasonCode::NOT_AUTHORIZED).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the broker refused the subscription of `me/answers`: not authorized (0x87)"
    );
    assert!(!bench.session.is_ready());
}

/// A session that asks whether it is the known one, and under which packet identifier; what was granted before.
fn verifying(granted: ReasonCode) -> (SessionHarness, Vec<Packet>) {
    let (mut bench, id) = subscribing();
    // A refused one ends the connection, so that the session has it only as the last of several.
    grant(&mut bench, id, granted).unwrap();
    bench.session.connection_lost();
    // The CONNECT may be late.
    bench.session.connect(0).unwrap();
    bench.sent();
    bench.session.connection_lost();
    let packets = reconnect(&mut bench, &resumed(|_| {}));
    (bench, packets)
}

#[test]
fn only_the_unsuback_of_the_own_query_verifies_the_session() {
    for (offset, is_it) in [(0, true), (1, false)] {
        let (mut bench, packets) = verifying(ReasonCode::GRANTED_QOS_1);
        let [Packet::Unsubscribe(unsubscribe)] = &packets[..] else {
            panic!("{packets:?}")
        };
        let unsuback = UnsubAck {
            packet_id: PacketId::new(unsubscribe.packet_id.get() + offset).unwrap(),
            reasons: vec![ReasonCode::SUCCESS],
            reason_string: None,
        };
        let mut bytes = BytesMut::new();
        unsuback.encode(MAX, &mut bytes).unwrap();
        assert_eq!(bench.send(&bytes).is_ok(), is_it);
    }
}

#[test]
fn an_unanswered_verification_is_repeated() {
    let (mut bench, packets) = verifying(ReasonCode::GRANTED_QOS_1);
    assert!(
        matches!(packets[..], [Packet::Unsubscribe(_)]),
        "{packets:?}"
    );
    bench.session.connection_lost();
    bench.events.clear();
    reconnect(&mut bench, &resumed(|_| {}));
    // The session's only subscription may be lost with the query: the session counts as another one.
    assert!(
        matches!(bench.events[..], [Event::SessionLost]),
        "{:?}",
        bench.events
    );
}

/// A session of which one CONNECT, at the time 0, was never answered, and which is ready nevertheless.
fn with_unanswered_connect() -> SessionHarness {
    let (mut bench, packets) = verifying(ReasonCode::GRANTED_QOS_1);
    let [Packet::Unsubscribe(unsubscribe)] = &packets[..] else {
        panic!("{packets:?}")
    };
    let unsuback = UnsubAck {
        packet_id: unsubscribe.packet_id,
        reasons: vec![ReasonCode::SUCCESS],
        reason_string: None,
    };
    let mut bytes = BytesMut::new();
    unsuback.encode(MAX, &mut bytes).unwrap();
    bench.send(&bytes).unwrap();
    let [Packet::Subscribe(subscribe)] = &bench.sent()[..] else {
        panic!()
    };
    let id = subscribe.packet_id;
    grant(&mut bench, id, ReasonCode::GRANTED_QOS_1).unwrap();
    assert!(bench.session.is_ready());
    bench
}

#[test]
fn a_session_is_verified_after_a_takeover_by_its_own_late_connect() {
    let mut bench = with_unanswered_connect();
    assert!(bench.session.explains_takeover(0));
    assert!(!bench.session.explains_takeover(0), "there was one");
    bench.session.connection_lost();
    let packets = reconnect(&mut bench, &resumed(|_| {}));
    assert!(matches!(packets[..], [Packet::Unsubscribe(_)]));
}

#[test]
fn unanswered_connects_expire_after_ten_minutes() {
    for (now_ms, excuses) in [(600_000, true), (600_001, false)] {
        let mut bench = with_unanswered_connect();
        assert_eq!(bench.session.explains_takeover(now_ms), excuses);
    }
}

#[test]
fn a_refused_subscription_cannot_verify_the_session() {
    let mut bench = SessionHarness::new();
    let subscriptions =
        Subscriptions::new(|_| ["needed", "wanted"].map(Subscription::at_least_once).into());
    bench.session = Session::new(SessionConfig {
        connect: Connect {
            client_id: "me".into(),
            ..Connect::default()
        },
        subscriptions,
        ping_timeout_ms: 5_000,
    });
    let packets = reconnect(&mut bench, &ConnAck::new(ReasonCode::SUCCESS));
    let [Packet::Subscribe(subscribe)] = &packets[..] else {
        panic!("{packets:?}")
    };
    let suback = SubAck {
        packet_id: subscribe.packet_id,
        reasons: vec![ReasonCode::GRANTED_QOS_1, ReasonCode::NOT_AUTHORIZED],
        reason_string: None,
    };
    let mut bytes = BytesMut::new();
    suback.encode(MAX, &mut bytes).unwrap();
    bench.send(&bytes).unwrap();
    bench.session.connection_lost();
    for _ in 0..2 {
        bench.session.connect(0).unwrap();
        bench.sent();
        bench.session.connection_lost();
    }
    bench.events.clear();
    let packets = reconnect(&mut bench, &resumed(|_| {}));
    assert!(matches!(bench.events[..], [Event::SessionLost]));
    assert!(matches!(packets[..], [Packet::Subscribe(_)]));
}

#[test]
fn a_resent_publish_keeps_its_properties() {
    let mut bench = SessionHarness::ready();
    let header = PublishHeader {
        topic: "requests",
        retain: true,
        message_expiry: Some(9),
        payload_is_utf8: Some(true),
        content_type: Some("text/plain"),
        response_topic: Some("me/answers"),
        correlation_data: Some(b"correlation"),
        user_properties: &[("a", "b"), ("a", "c")],
        ..PublishHeader::default()
    };
    let terms = PublishOptions {
        tag: 1,
        deadline_ms: 9_000,
        is_harmless: false,
    };
    let write = |out: &mut BytesMut| out.extend_from_slice(b"payload");
    bench.session.publish(&header, 7, write, terms).unwrap();
    let first = bench.sent_publishes().remove(0);
    bench.session.connection_lost();
    bench.connect(&resumed(|_| {}));
    let again = bench.sent_publishes().remove(0);
    let mut packet = BytesMut::new();
    PublishHeader {
        packet_id: first.packet_id(),
        dup: true,
        ..header
    }
    .encode(MAX, &mut packet, 7, write)
    .unwrap();
    assert_eq!(decode(&mut packet, MAX), Ok(Some(Packet::Publish(again))));
}

#[test]
fn a_pending_acknowledgement_shortens_the_ping_timeout() {
    let [idle, waiting] = [0, 1].map(|publishes| {
        let mut bench = SessionHarness::ready();
        for tag in 0..publishes {
            bench.publish(tag, 100_000);
        }
        bench.sent();
        let mut asked_ms = 0;
        loop {
            bench.now_ms = bench.session.wake_at_ms(false).unwrap();
            match bench.session.poll(false, bench.now_ms) {
                Ok(()) if bench.sent() == [Packet::PingReq] => asked_ms = bench.now_ms,
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error, SessionError::PeerDead);
                    return bench.now_ms - asked_ms;
                }
            }
        }
    });
    assert_eq!((idle, waiting), (5_000, 2_500));
}

#[test]
fn session_errors_contain_the_reason_of_the_broker() {
    let mut bench = SessionHarness::new();
    bench.session.connect(0).unwrap();
    let mut bytes = BytesMut::new();
    ConnAck {
        reason_string: Some("not \"here\"".into()),
        ..ConnAck::new(ReasonCode::NOT_AUTHORIZED)
    }
    .encode(MAX, &mut bytes)
    .unwrap();
    let error = bench.send(&bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"the broker refused the connection: not authorized (0x87), "not \"here\"""#
    );
    let plain = SessionError::Refused(ConnAck::new(ReasonCode::NOT_AUTHORIZED).into());
    assert_eq!(
        plain.to_string(),
        "the broker refused the connection: not authorized (0x87)"
    );
    let subscriptions = Subscriptions::new(|_| Vec::new());
    assert_eq!(format!("{subscriptions:?}"), "Subscriptions");
}
