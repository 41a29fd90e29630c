//! Recovery of a session from connections that ended in the middle of an exchange.
#![allow(clippy::unwrap_used)]

use bytes::BytesMut;
use statestore_protocol::mqtt::session::{
    Event, PublishOptions, Session, SessionConfig, SessionError, Subscriptions,
};
use statestore_protocol::mqtt::{
    ConnAck, Connect, Disconnect, EncodeError, Limits, Packet, PubAck, PublishHeader, ReasonCode,
    SubAck, Subscription, UnsubAck, decode,
};

const MAX: u32 = Limits::MAX_PACKET_BYTES;

/// A session with one PUBLISH that is not acknowledged, tagged 7.
fn session() -> Session<u32> {
    opened(unconnected())
}

fn unconnected() -> Session<u32> {
    Session::new(SessionConfig {
        connect: Connect {
            client_id: "me".into(),
            keep_alive_s: 10,
            ..Connect::default()
        },
        subscriptions: Subscriptions::new(|_| {
            ["answers", "news"].map(Subscription::at_least_once).into()
        }),
        ping_timeout_ms: 5_000,
    })
}

fn opened(mut session: Session<u32>) -> Session<u32> {
    session.connect(0).unwrap();
    assert!(matches!(sent(&mut session)[..], [Packet::Connect(_)]));
    receive(&mut session, |out| {
        ConnAck::new(ReasonCode::SUCCESS).encode(MAX, out)
    });
    subscribed(&mut session);
    let header = PublishHeader {
        topic: "requests",
        ..PublishHeader::default()
    };
    let terms = PublishOptions {
        tag: 7,
        deadline_ms: 9_000,
        is_harmless: false,
    };
    session.publish(&header, 0, |_| {}, terms).unwrap();
    assert!(matches!(sent(&mut session)[..], [Packet::Publish(_)]));
    session
}

fn sent(session: &mut Session<u32>) -> Vec<Packet> {
    let mut bytes = BytesMut::from(&session.take_output(0)[..]);
    session.written(bytes.len(), false, 0);
    std::iter::from_fn(|| decode(&mut bytes, MAX).unwrap()).collect()
}

/// Receives a packet and returns the events of the session.
fn receive(
    session: &mut Session<u32>,
    encode: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>,
) -> Vec<Event<u32>> {
    let mut bytes = BytesMut::new();
    encode(&mut bytes).unwrap();
    let mut events = Vec::new();
    session
        .receive(&mut bytes, 0, 10, |event| events.push(event))
        .unwrap();
    events
}

/// The session subscribes, and is granted it.
fn subscribed(session: &mut Session<u32>) -> Vec<Event<u32>> {
    let packets = sent(session);
    let [Packet::Subscribe(subscribe)] = &packets[..] else {
        panic!("{packets:?}")
    };
    assert_eq!(subscribe.subscriptions.len(), 2);
    let suback = SubAck {
        packet_id: subscribe.packet_id,
        reasons: vec![ReasonCode::GRANTED_QOS_1; 2],
        reason_string: None,
    };
    receive(session, |out| suback.encode(MAX, out))
}

/// A connection that ends before the CONNACK, and one with a session.
fn unanswered_then_present(session: &mut Session<u32>) -> Vec<Event<u32>> {
    session.connection_lost();
    session.connect(0).unwrap();
    sent(session);
    session.connection_lost();
    present(session)
}

/// A connection with a session.
fn present(session: &mut Session<u32>) -> Vec<Event<u32>> {
    present_at(session, 0)
}

fn present_at(session: &mut Session<u32>, now_ms: u64) -> Vec<Event<u32>> {
    session.connect(now_ms).unwrap();
    sent(session);
    let connack = ConnAck {
        session_present: true,
        ..ConnAck::new(ReasonCode::SUCCESS)
    };
    receive(session, |out| connack.encode(MAX, out))
}

/// The session asks for its last subscription, and hears this.
fn answer_verification(session: &mut Session<u32>, reason: ReasonCode) -> Vec<Event<u32>> {
    let packets = sent(session);
    let [Packet::Unsubscribe(unsubscribe)] = &packets[..] else {
        panic!("{packets:?}")
    };
    assert_eq!(unsubscribe.filters, ["news"]);
    let unsuback = UnsubAck {
        packet_id: unsubscribe.packet_id,
        reasons: vec![reason],
        reason_string: None,
    };
    receive(session, |out| unsuback.encode(MAX, out))
}

#[test]
fn an_offline_session_has_no_wake_up_time() {
    let mut session = session();
    session.poll(false, 10_000).unwrap();
    assert!(matches!(sent(&mut session)[..], [Packet::PingReq]));
    let at_ms = session.wake_at_ms(false).unwrap();
    assert_eq!(session.poll(false, at_ms), Err(SessionError::PeerDead));
    session.connection_lost();
    assert_eq!(session.wake_at_ms(false), None);
}

#[test]
fn a_kept_session_resumes_immediately() {
    let mut session = session();
    session.connection_lost();
    let events = present(&mut session);
    assert!(matches!(events[..], [Event::Ready { resumed: true }]));
    assert!(matches!(&sent(&mut session)[..], [Packet::Publish(publish)] if publish.dup()));
}

#[test]
fn a_session_after_an_unanswered_connect_is_continued_if_it_has_the_subscription() {
    let mut session = session();
    assert!(unanswered_then_present(&mut session).is_empty());
    assert!(!session.is_ready());
    assert!(answer_verification(&mut session, ReasonCode::SUCCESS).is_empty());
    let events = subscribed(&mut session);
    assert!(matches!(events[..], [Event::Ready { resumed: true }]));
    assert!(matches!(&sent(&mut session)[..], [Packet::Publish(publish)] if publish.dup()));
}

#[test]
fn a_session_begun_by_an_unanswered_connect_is_new() {
    let mut session = session();
    unanswered_then_present(&mut session);
    let events = answer_verification(&mut session, ReasonCode::NO_SUBSCRIPTION_EXISTED);
    assert!(matches!(
        events[..],
        [
            Event::Lost {
                tag: 7,
                maybe_delivered: true,
                publish: None,
                ..
            },
            Event::SessionLost
        ]
    ));
    let events = subscribed(&mut session);
    assert!(matches!(events[..], [Event::Ready { resumed: false }]));
    assert!(sent(&mut session).is_empty(), "nothing is sent twice");
}

#[test]
fn an_unanswered_verification_counts_as_negative() {
    let mut session = session();
    unanswered_then_present(&mut session);
    assert!(matches!(sent(&mut session)[..], [Packet::Unsubscribe(_)]));
    session.connection_lost();
    let events = present(&mut session);
    assert!(matches!(
        events[..],
        [Event::Lost { tag: 7, .. }, Event::SessionLost]
    ));
    subscribed(&mut session);
    assert!(session.is_ready());
}

#[test]
fn pending_pubacks_do_not_use_window_capacity() {
    let mut session = session();
    assert!(session.buffered_bytes() > 0);
    let events = receive(&mut session, |out| {
        let header = PublishHeader {
            topic: "answers",
            packet_id: 1.try_into().ok(),
            ..PublishHeader::default()
        };
        header.encode(MAX, out, 0, |_| {})?;
        PubAck::success(1.try_into().unwrap()).encode(MAX, out)
    });
    assert!(matches!(
        events[..],
        [Event::Message { .. }, Event::Acknowledged { tag: 7, .. }]
    ));
    assert!(session.has_output());
    assert_eq!(session.buffered_bytes(), 0);
}

/// A connection that was ready is taken over by another one; whether that may have been the session's own.
fn taken_over(session: &mut Session<u32>, now_ms: u64) -> bool {
    let mut bytes = BytesMut::new();
    let disconnect = Disconnect::new(ReasonCode::SESSION_TAKEN_OVER);
    disconnect.encode(MAX, &mut bytes).unwrap();
    let end = session.receive(&mut bytes, now_ms, 10, |_| {}).unwrap_err();
    assert_eq!(end, SessionError::Disconnected(disconnect));
    session.connection_lost();
    session.explains_takeover(now_ms)
}

#[test]
fn a_takeover_is_by_another_client_if_every_connect_was_answered() {
    let mut session = session();
    assert!(!taken_over(&mut session, 0));
    // A refusal is an answer.
    session.connect(0).unwrap();
    let mut refused = BytesMut::new();
    ConnAck::new(ReasonCode::SERVER_BUSY)
        .encode(MAX, &mut refused)
        .unwrap();
    session.receive(&mut refused, 0, 10, |_| {}).unwrap_err();
    session.connection_lost();
    present(&mut session);
    assert!(!taken_over(&mut session, 0));
}

#[test]
fn each_unanswered_connect_explains_one_takeover() {
    let mut session = session();
    unanswered_then_present(&mut session);
    answer_verification(&mut session, ReasonCode::SUCCESS);
    subscribed(&mut session);
    assert!(taken_over(&mut session, 0));
    // The session that is there now may be one that the late CONNECT began.
    present(&mut session);
    let events = answer_verification(&mut session, ReasonCode::NO_SUBSCRIPTION_EXISTED);
    assert!(matches!(
        events[..],
        [Event::Lost { tag: 7, .. }, Event::SessionLost]
    ));
    subscribed(&mut session);
    assert!(!taken_over(&mut session, 0));
}

#[test]
fn an_unanswered_connect_may_still_begin_a_session_while_others_are_answered() {
    let mut session = session();
    unanswered_then_present(&mut session);
    answer_verification(&mut session, ReasonCode::SUCCESS);
    subscribed(&mut session);
    session.connection_lost();
    present(&mut session);
    let events = answer_verification(&mut session, ReasonCode::NO_SUBSCRIPTION_EXISTED);
    assert!(matches!(
        events[..],
        [Event::Lost { tag: 7, .. }, Event::SessionLost]
    ));
}

#[test]
fn a_late_connect_of_a_former_client_may_begin_the_session() {
    let of_its_own = session();
    let mut session = opened(unconnected().with_reused_client_id());
    session.connection_lost();
    present(&mut session);
    answer_verification(&mut session, ReasonCode::SUCCESS);
    subscribed(&mut session);
    session.connection_lost();
    present_at(&mut session, 600_000);
    let events = answer_verification(&mut session, ReasonCode::NO_SUBSCRIPTION_EXISTED);
    assert!(matches!(
        events[..],
        [Event::Lost { tag: 7, .. }, Event::SessionLost]
    ));
    subscribed(&mut session);
    // Ten minutes after the first connection nothing of a former client is under way, and the session is continued at once.
    for (mut session, now_ms) in [(session, 600_001), (of_its_own, 0)] {
        session.connection_lost();
        present_at(&mut session, now_ms);
        assert!(session.is_ready());
    }
}

#[test]
fn an_old_unanswered_connect_explains_no_takeover() {
    let mut session = session();
    unanswered_then_present(&mut session);
    assert!(!taken_over(&mut session, 600_001));
}

#[test]
fn many_unanswered_connects_explain_few_takeovers() {
    let mut session = session();
    for _ in 0..100 {
        session.connection_lost();
        session.connect(0).unwrap();
    }
    let excused = (0..100).take_while(|_| {
        present(&mut session);
        taken_over(&mut session, 0)
    });
    assert_eq!(excused.count(), 3);
}
