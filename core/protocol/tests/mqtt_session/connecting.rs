//! How a connection begins, and what it takes for a session to go on.
use super::{MAX, SessionHarness, resumed};
use bytes::BytesMut;
use statestore_protocol::mqtt::session::{
    Event, PublishOptions, Session, SessionConfig, SessionError, Subscriptions,
};
use statestore_protocol::mqtt::{
    ConnAck, Connect, Packet, PublishHeader, ReasonCode, Subscription,
};

#[test]
fn no_publish_is_sent_before_the_subscriptions_are_granted() {
    let mut bench = SessionHarness::new();
    assert_eq!(
        (bench.session.capacity(), bench.session.wake_at_ms(false)),
        (0, None)
    );
    bench.session.connect(0).unwrap();
    let mut connack = BytesMut::new();
    ConnAck::new(ReasonCode::SUCCESS)
        .encode(MAX, &mut connack)
        .unwrap();
    bench.send(&connack).unwrap();
    assert_eq!(bench.session.capacity(), 0);
    let header = PublishHeader {
        topic: "t",
        ..PublishHeader::default()
    };
    let terms = PublishOptions {
        tag: 0,
        deadline_ms: 0,
        is_harmless: false,
    };
    assert!(bench.session.publish(&header, 0, |_| {}, terms).is_err());
    let mut bench = SessionHarness::ready();
    assert_eq!(
        bench.session.capacity(),
        65_534,
        "one identifier is kept to subscribe"
    );
    assert!(matches!(
        bench.events[..],
        [Event::Ready { resumed: false }]
    ));
    assert_eq!(bench.sent(), []);
}

#[test]
fn a_new_session_resends_nothing() {
    let mut bench = SessionHarness::ready();
    bench.publish(1, 2_000);
    bench.sent();
    bench.session.connection_lost();
    assert!(!bench.session.would_resend_stale(1_999));
    bench.session.force_clean_start();
    bench.session.connect(2_000).unwrap();
    // It is asked for until it is there.
    bench.session.connection_lost();
    bench.session.connect(2_000).unwrap();
    let [Packet::Connect(connect)] = &bench.sent()[..] else {
        panic!()
    };
    assert!(connect.clean_start);
    let mut connack = BytesMut::new();
    ConnAck::new(ReasonCode::SUCCESS)
        .encode(MAX, &mut connack)
        .unwrap();
    bench.events.clear();
    bench.send(&connack).unwrap();
    assert!(matches!(
        bench.events[..],
        [Event::Lost { tag: 1, .. }, Event::SessionLost]
    ));
    assert!(matches!(bench.sent()[..], [Packet::Subscribe(_)]));
    bench.session.connection_lost();
    bench.session.connect(2_000).unwrap();
    let [Packet::Connect(connect)] = &bench.sent()[..] else {
        panic!()
    };
    assert!(!connect.clean_start, "once");
}

#[test]
fn a_full_window_leaves_a_packet_identifier_for_a_subscribe() {
    let mut bench = SessionHarness::ready();
    while bench.session.capacity() > 0 {
        bench.publish(0, 1 << 40);
    }
    bench.sent();
    for _ in 0..3 {
        bench.session.connection_lost();
        bench.session.connect(0).unwrap();
        bench.sent();
        bench.session.connection_lost();
        bench.session.connect(0).unwrap();
        bench.sent();
        let mut connack = BytesMut::new();
        resumed(|_| {}).encode(MAX, &mut connack).unwrap();
        bench.send(&connack).unwrap();
        let packets = bench.sent();
        // Whether the session is the known one; the second time the answer was missed, and a new one begins.
        assert!(
            matches!(packets[..], [Packet::Unsubscribe(_) | Packet::Subscribe(_)]),
            "{packets:?}"
        );
    }
}

#[test]
fn a_session_of_another_client_is_not_resumed() {
    let mut bench = SessionHarness::new();
    bench.session = Session::new(SessionConfig {
        connect: Connect {
            client_id: "me".into(),
            clean_start: false,
            ..Connect::default()
        },
        subscriptions: Subscriptions::new(|_| vec![Subscription::at_least_once("answers")]),
        ping_timeout_ms: 5_000,
    });
    bench.session.connect(0).unwrap();
    bench.sent();
    let mut connack = BytesMut::new();
    resumed(|_| {}).encode(MAX, &mut connack).unwrap();
    assert_eq!(bench.send(&connack), Err(SessionError::UnknownSession));
    bench.session.connection_lost();
    bench.session.force_clean_start();
    bench.session.connect(0).unwrap();
    let [Packet::Connect(connect)] = &bench.sent()[..] else {
        panic!()
    };
    assert!(connect.clean_start);
    // A broker that keeps it nevertheless breaks the protocol.
    let error = bench.send(&connack).unwrap_err();
    assert_eq!(error.reason(), Some(ReasonCode::PROTOCOL_ERROR));
}

#[test]
fn packets_before_the_connack_are_limited_in_size() {
    // CONNACK and AUTH of 200 MB.
    for first in [0x20, 0xF0] {
        let mut bench = SessionHarness::new();
        bench.session.connect(0).unwrap();
        let error = bench.send(&[first, 0x80, 0x84, 0xAF, 0x5F]).unwrap_err();
        assert_eq!(error.reason(), Some(ReasonCode::PACKET_TOO_LARGE));
    }
    // 256 KiB are the most, header included: a broker may want to say as much as four long strings.
    for (remaining, is_taken) in [([0xFC, 0xFF, 0x0F], true), ([0xFD, 0xFF, 0x0F], false)] {
        let mut bench = SessionHarness::new();
        bench.session.connect(0).unwrap();
        let received = bench.send(&[&[0x20][..], &remaining].concat());
        let refused = received.err().and_then(|error| error.reason());
        let expected = (!is_taken).then_some(ReasonCode::PACKET_TOO_LARGE);
        assert_eq!(refused, expected, "{remaining:?}");
    }
    // Afterwards the limit is the one that was stated.
    let mut bench = SessionHarness::ready();
    bench.send(&[0x30, 0x80, 0x84, 0xAF, 0x5F]).unwrap();
}

#[test]
fn a_session_without_its_subscriptions_is_not_resumed() {
    let mut bench = SessionHarness::new();
    bench.session.connect(0).unwrap();
    let mut connack = BytesMut::new();
    ConnAck::new(ReasonCode::SUCCESS)
        .encode(MAX, &mut connack)
        .unwrap();
    bench.send(&connack).unwrap();
    bench.session.connection_lost();
    // The broker has the session now, but in it nothing is subscribed.
    bench.connect(&resumed(|_| {}));
    assert!(matches!(
        bench.events[..],
        [Event::Ready { resumed: false }]
    ));
}
