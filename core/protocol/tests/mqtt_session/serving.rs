//! A session of a server: it acknowledges by itself, and stops accepting requests before it ends.
use super::{MAX, SessionHarness, session};
use bytes::BytesMut;
use statestore_protocol::mqtt::session::SessionError;
use statestore_protocol::mqtt::{ConnAck, Packet, PacketId, PublishHeader, ReasonCode, UnsubAck};

fn serving(receive_maximum: Option<u16>) -> SessionHarness {
    let mut bench = SessionHarness::new();
    bench.session = match receive_maximum {
        None => session(),
        Some(most) => super::session_with(|connect| connect.limits.receive_maximum = most),
    }
    .with_manual_acks();
    bench.connect(&ConnAck::new(ReasonCode::SUCCESS));
    bench
}

fn message(id: u16) -> BytesMut {
    let mut bytes = BytesMut::new();
    let header = PublishHeader {
        topic: "requests",
        packet_id: PacketId::new(id),
        ..PublishHeader::default()
    };
    header.encode(MAX, &mut bytes, 0, |_| {}).unwrap();
    bytes
}

#[test]
fn manual_acks_follow_earlier_publishes() {
    let mut bench = serving(None);
    bench.send(&message(7)).unwrap();
    assert_eq!(bench.events.len(), 2, "{:?}", bench.events);
    assert_eq!(bench.sent(), []);
    bench.publish(1, 1000);
    let id = PacketId::new(7).unwrap();
    let reason = ReasonCode::QUOTA_EXCEEDED;
    bench.session.acknowledge(id, reason).unwrap();
    let sent = bench.sent();
    let [Packet::Publish(_), Packet::PubAck(puback)] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!((puback.packet_id, puback.reason), (id, reason));
}

#[test]
fn pending_manual_acks_may_exceed_the_receive_maximum_but_not_the_packet_identifiers() {
    let mut bench = serving(Some(2));
    for id in 1..=u16::MAX {
        bench.send(&message(id)).unwrap();
    }
    let id = PacketId::new(1).unwrap();
    bench.session.acknowledge(id, ReasonCode::SUCCESS).unwrap();
    bench.send(&message(1)).unwrap();
    assert_eq!(bench.send(&message(2)), Err(SessionError::TooManyMessages));
}

#[test]
fn a_drained_session_still_acknowledges_and_resubscribes_on_reconnect() {
    let mut bench = serving(None);
    bench.send(&message(7)).unwrap();
    bench.session.drain().unwrap();
    bench.session.drain().unwrap();
    let sent = bench.sent();
    let [Packet::Unsubscribe(unsubscribe)] = &sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(unsubscribe.filters, ["me/answers"]);
    assert!(!bench.session.is_drained());
    let mut bytes = BytesMut::new();
    let unsuback = UnsubAck {
        packet_id: unsubscribe.packet_id,
        reasons: vec![ReasonCode::SUCCESS],
        reason_string: None,
    };
    unsuback.encode(MAX, &mut bytes).unwrap();
    bench.send(&bytes).unwrap();
    assert!(bench.session.is_drained());
    let id = PacketId::new(7).unwrap();
    bench.session.acknowledge(id, ReasonCode::SUCCESS).unwrap();
    assert!(matches!(bench.sent()[..], [Packet::PubAck(_)]));
    assert!(bench.send(&bytes).is_err(), "it was answered before");
    bench.session.connection_lost();
    assert!(!bench.session.is_drained());
}
