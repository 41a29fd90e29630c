//! Duties of a session on a live connection: pings, acknowledgements, memory.
use super::{MAX, SessionHarness, resumed, tags};
use bytes::BytesMut;
use statestore_protocol::mqtt::session::SessionError;
use statestore_protocol::mqtt::{
    ConnAck, Packet, PacketId, PubAck, PublishHeader, ReasonCode, encode_pingresp,
};

#[test]
fn a_silent_connection_is_pinged_and_a_dead_one_closed() {
    let mut bench = SessionHarness::ready();
    assert_eq!(bench.session.wake_at_ms(false), Some(60_000));
    bench.now_ms = 60_000;
    bench.session.poll(false, 60_000).unwrap();
    assert_eq!(bench.sent(), [Packet::PingReq]);
    bench.now_ms = 61_000;
    let mut pong = BytesMut::new();
    encode_pingresp(&mut pong);
    bench.send(&pong).unwrap();
    assert_eq!(bench.session.wake_at_ms(false), Some(120_000));
    bench.now_ms = 120_000;
    bench.session.poll(false, 120_000).unwrap();
    assert_eq!(bench.sent(), [Packet::PingReq]);
    assert_eq!(bench.session.wake_at_ms(false), Some(125_000));
    assert_eq!(
        bench.session.poll(false, 125_000),
        Err(SessionError::PeerDead)
    );
    bench.session.connection_lost();
    assert_eq!(
        bench.session.wake_at_ms(false),
        None,
        "nobody is to be pinged"
    );
    assert_eq!(bench.session.poll(false, 1_000_000), Ok(()));
}

#[test]
fn the_server_keep_alive_overrides_the_own_one() {
    let mut bench = SessionHarness::new();
    bench.connect(&ConnAck {
        server_keep_alive_s: Some(2),
        ..ConnAck::new(ReasonCode::SUCCESS)
    });
    assert_eq!(bench.session.wake_at_ms(false), Some(2_000));
    let mut bench = SessionHarness::new();
    bench.connect(&ConnAck {
        server_keep_alive_s: Some(0),
        ..ConnAck::new(ReasonCode::SUCCESS)
    });
    assert_eq!(bench.session.wake_at_ms(false), None);
}

#[test]
fn messages_are_acknowledged_in_order_after_delivery() {
    let mut bench = SessionHarness::ready();
    let mut bytes = BytesMut::new();
    for id in [7, 3, 9] {
        let header = PublishHeader {
            topic: "t",
            packet_id: PacketId::new(id),
            ..PublishHeader::default()
        };
        header.encode(MAX, &mut bytes, 0, |_| {}).unwrap();
    }
    PublishHeader {
        topic: "t",
        ..PublishHeader::default()
    }
    .encode(MAX, &mut bytes, 0, |_| {})
    .unwrap();
    bench.events.clear();
    bench.send(&bytes).unwrap();
    assert_eq!(bench.events.len(), 4);
    assert!(bench.session.has_output() && bench.session.has_only_pubacks());
    let ids: Vec<_> = [7, 3, 9]
        .map(|id| Packet::PubAck(PubAck::success(PacketId::new(id).unwrap())))
        .into();
    assert_eq!(bench.sent(), ids);
    bench.send(&bytes).unwrap();
    bench.publish(1, 1000);
    assert!(!bench.session.has_only_pubacks());
    let sent = bench.sent();
    assert_eq!(sent[..3], ids);
    assert!(matches!(sent[3..], [Packet::Publish(_)]), "{sent:?}");
}

#[test]
fn pending_pubacks_are_bounded_if_the_broker_reads_nothing() {
    let mut bench = SessionHarness::ready();
    let message = |id| {
        let header = PublishHeader {
            topic: "t",
            packet_id: PacketId::new(id),
            ..PublishHeader::default()
        };
        let mut bytes = BytesMut::new();
        header.encode(MAX, &mut bytes, 0, |_| {}).unwrap();
        bytes
    };
    for _ in 0..2 {
        for id in 1..=65_535 {
            bench.send(&message(id)).unwrap();
        }
        assert_eq!(bench.sent().len(), 65_535);
    }
    for id in 1..=65_535 {
        bench.send(&message(id)).unwrap();
    }
    let error = bench.send(&message(1)).unwrap_err();
    assert_eq!(error, SessionError::TooManyMessages);
    assert_eq!(error.reason(), Some(ReasonCode::RECEIVE_MAXIMUM_EXCEEDED));
    bench.session.connection_lost();
    bench.connect(&resumed(|_| {}));
    bench.send(&message(1)).unwrap();
}

#[test]
fn a_publish_that_is_never_acknowledged_ends_the_connection() {
    let mut bench = SessionHarness::ready();
    bench.publish(1, 9_000);
    bench.sent();
    // Others are, all the time, and a ping is answered.
    for second in 1..14 {
        bench.now_ms = second * 1000;
        let id = bench.publish(0, 100_000);
        bench.sent();
        bench.acknowledge(id);
        assert_eq!(bench.session.poll(true, bench.now_ms), Ok(()));
    }
    let at_ms = bench.session.wake_at_ms(false).unwrap();
    assert!(at_ms <= 14_000, "5 s after its deadline");
    bench.now_ms = 14_000;
    let error = bench.session.poll(false, 14_000).unwrap_err();
    assert_eq!(error, SessionError::Unacknowledged);
    // Sent again, it has time again.
    bench.session.connection_lost();
    bench.connect(&resumed(|_| {}));
    assert_eq!(tags(&bench.sent_publishes()), [(1, true)]);
    bench.now_ms = 18_000;
    bench.acknowledge(PacketId::MIN);
    assert_eq!(bench.session.poll(false, 30_000), Ok(()));
}

#[test]
fn a_publish_that_is_still_being_written_is_not_overdue() {
    let mut bench = SessionHarness::ready();
    bench.publish(1, 9_000);
    let bytes = bench.session.take_output(0);
    for second in 1..20 {
        bench.session.written(1, true, second * 1000);
        assert_eq!(bench.session.poll(false, second * 1000), Ok(()));
    }
    bench.session.written(bytes.len() - 19, true, 20_000);
    assert_eq!(bench.session.poll(false, 24_000), Ok(()));
    bench.now_ms = 24_500;
    bench.send(&[0xD0, 0]).unwrap();
    assert_eq!(
        bench.session.poll(false, 25_000),
        Err(SessionError::Unacknowledged)
    );
}

#[test]
fn acknowledgements_release_memory() {
    let mut bench = SessionHarness::ready();
    for round in 0..100 {
        for number in 0..50 {
            bench.publish(number, 9_000);
        }
        let publishes = bench.sent_publishes();
        assert_eq!(publishes.len(), 50);
        assert!(bench.session.buffered_bytes() > 0);
        // In any order.
        for index in 0..50 {
            let publish = &publishes[(index * 7 + round) % 50];
            bench.acknowledge(publish.packet_id().unwrap());
        }
        assert_eq!(bench.session.buffered_bytes(), 0);
    }
}

#[test]
fn packet_identifiers_are_reused() {
    let mut bench = SessionHarness::ready();
    for round in 0..700 {
        for number in 0..100 {
            bench.publish(number, 9_000);
        }
        let publishes = bench.sent_publishes();
        assert_eq!(publishes.len(), 100, "in round {round}");
        for publish in publishes {
            bench.acknowledge(publish.packet_id().unwrap());
        }
    }
}
