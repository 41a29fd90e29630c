//! Messages that are sent again over the next connection, and the events about all others.
use super::{MAX, SessionHarness, resumed, tags};
use bytes::BytesMut;
use statestore_protocol::mqtt::session::Event;
use statestore_protocol::mqtt::{ConnAck, Limits, Publish, ReasonCode};

#[test]
fn a_publish_never_taken_by_the_transport_is_resent_without_dup() {
    let mut bench = SessionHarness::ready();
    bench.publish(1, 10_000);
    assert_eq!(bench.sent_publishes().len(), 1);
    bench.publish(2, 10_000);
    bench.session.connection_lost();
    assert!(!bench.session.has_output());
    bench.connect(&resumed(|_| {}));
    assert_eq!(tags(&bench.sent_publishes()), [(1, true), (2, false)]);
    // The second time both were on their way.
    bench.session.connection_lost();
    bench.connect(&resumed(|_| {}));
    assert!(bench.sent_publishes().iter().all(Publish::dup));
    assert_eq!(bench.session.resent(), 4);
}

#[test]
fn a_resent_publish_expires_at_its_deadline() {
    let mut bench = SessionHarness::ready();
    bench.publish(1, 9_000);
    bench.publish(2, 2_000);
    assert_eq!(bench.sent_publishes()[0].message_expiry(), Some(9));
    bench.session.connection_lost();
    bench.now_ms = 5_500;
    bench.connect(&resumed(|_| {}));
    let expiries: Vec<_> = bench
        .sent_publishes()
        .iter()
        .map(Publish::message_expiry)
        .collect();
    assert_eq!(expiries, [Some(4), Some(1)]);
}

#[test]
fn a_stale_publish_never_taken_by_the_transport_is_never_sent() {
    let mut bench = SessionHarness::ready();
    bench.publish(1, 2_000);
    let given_up = bench.publish(0, 90_000);
    assert_eq!(bench.sent_publishes().len(), 2);
    assert!(!bench.session.withdraw(given_up, 0), "it has left");
    bench.publish(2, 2_000);
    let cancelled = bench.publish(3, 90_000);
    bench.publish(4, 90_000);
    bench.session.connection_lost();
    assert!(bench.session.withdraw(cancelled, 3));
    assert!(!bench.session.withdraw(cancelled, 3), "it is gone");
    bench.now_ms = 5_000;
    assert!(
        bench.session.would_resend_stale(5_000),
        "the first one may have been executed or not"
    );
    bench.connect(&resumed(|_| {}));
    let again = bench.sent_publishes();
    assert_eq!(tags(&again), [(1, true), (0, true), (4, false)]);
    let expiries: Vec<_> = again.iter().map(Publish::message_expiry).collect();
    assert_eq!(expiries, [Some(1), Some(1), Some(85)]);
    assert!(
        matches!(bench.events[..], [.., Event::Dropped { tag: 2 }]),
        "{:?}",
        bench.events
    );
    for publish in again {
        bench.acknowledge(publish.packet_id().unwrap());
    }
    let left = (
        bench.session.unacknowledged(),
        bench.session.buffered_bytes(),
    );
    assert_eq!(left, (0, 0));
}

#[test]
fn a_partly_written_publish_counts_as_not_delivered() {
    for missing in [0, 1] {
        let mut bench = SessionHarness::ready();
        bench.publish(1, 9_000);
        bench.publish(2, 9_000);
        let bytes = bench.session.take_output(0);
        bench.session.written(bytes.len() - missing, false, 0);
        bench.session.connection_lost();
        // An attempt to connect that fails changes nothing.
        bench.session.connect(0).unwrap();
        bench.session.connection_lost();
        bench.session.connect(0).unwrap();
        bench.sent();
        bench.events.clear();
        let mut connack = BytesMut::new();
        ConnAck::new(ReasonCode::SUCCESS)
            .encode(MAX, &mut connack)
            .unwrap();
        bench.send(&connack).unwrap();
        let lost: Vec<_> = bench
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Lost {
                    tag,
                    maybe_delivered,
                    ..
                } => Some((*tag, *maybe_delivered)),
                _ => None,
            })
            .collect();
        assert_eq!(lost, [(1, true), (2, missing == 0)]);
    }
}

#[test]
fn a_publish_withdrawn_before_it_is_taken_is_not_sent() {
    let mut bench = SessionHarness::new();
    bench.connect(&ConnAck {
        limits: Limits {
            topic_alias_maximum: 1,
            ..Limits::default()
        },
        ..ConnAck::new(ReasonCode::SUCCESS)
    });
    let ids: Vec<_> = (0..5).map(|tag| bench.publish(tag, 9_000)).collect();
    assert!(!bench.session.withdraw(ids[1], 7), "another one's");
    // The first one would have defined the topic alias.
    for tag in [0, 1, 3] {
        assert!(bench.session.withdraw(ids[tag as usize], tag));
    }
    bench.publish(5, 9_000);
    let sent = bench.sent_publishes();
    assert_eq!(tags(&sent), [(2, false), (4, false), (5, false)]);
    let named: Vec<_> = sent
        .iter()
        .map(|publish| (publish.topic(), publish.topic_alias()))
        .collect();
    assert_eq!(
        named,
        [
            ("requests", None),
            ("requests", None),
            ("requests", Some(1))
        ]
    );
    bench.publish(6, 9_000);
    assert_eq!(bench.sent_publishes()[0].topic(), "");
    assert!(!bench.session.withdraw(ids[2], 2), "it has left");
    bench.acknowledge(sent[1].packet_id().unwrap());
    // The remaining messages are found although others before them are gone.
    bench.session.connection_lost();
    bench.connect(&resumed(|_| {}));
    let again = bench.sent_publishes();
    assert_eq!(tags(&again), [(2, true), (5, true), (6, true)]);
    assert!(again.iter().all(|publish| publish.topic() == "requests"));
}

#[test]
fn a_batch_with_a_withdrawn_publish_is_written_in_parts() {
    let mut bench = SessionHarness::ready();
    let ids: Vec<_> = (0..4).map(|tag| bench.publish(tag, 9_000)).collect();
    assert!(bench.session.withdraw(ids[1], 1));
    let bytes = bench.session.take_output(0);
    // The first one and the third one, without its last byte.
    bench.session.written(2 * bytes.len() / 3 - 1, false, 0);
    bench.session.connection_lost();
    bench.connect(&resumed(|_| {}));
    assert_eq!(
        tags(&bench.sent_publishes()),
        [(0, true), (2, false), (3, false)]
    );
}

#[test]
fn a_lost_session_reports_each_publish() {
    let mut bench = SessionHarness::ready();
    bench.publish(1, 9_000);
    bench.publish(2, 9_000);
    bench.sent();
    bench.publish(3, 9_000);
    bench.session.connection_lost();
    bench.events.clear();
    bench.connect(&ConnAck::new(ReasonCode::SUCCESS));
    let told: Vec<_> = bench
        .events
        .iter()
        .map(|event| match event {
            Event::Lost {
                tag,
                maybe_delivered,
                publish,
                is_harmless: false,
            } => {
                let payload = publish.as_ref().map(Publish::payload_bytes);
                format!("{tag} {maybe_delivered} {payload:?}")
            }
            Event::SessionLost => "lost".into(),
            Event::Ready { resumed } => format!("ready {resumed}"),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            "1 true None",
            "2 true None",
            "3 false Some([0, 0, 0, 3])",
            "lost",
            "ready false"
        ]
    );
    assert_eq!(
        (
            bench.session.unacknowledged(),
            bench.session.buffered_bytes()
        ),
        (0, 0)
    );
    assert_eq!(bench.sent(), []);
}

#[test]
fn a_publish_above_a_reduced_packet_limit_is_not_resent() {
    let mut bench = SessionHarness::ready();
    bench.publish(1, 9_000);
    bench.sent();
    bench.session.connection_lost();
    bench.events.clear();
    bench.connect(&resumed(|connack| connack.limits.max_packet_bytes = 10));
    assert!(bench.sent_publishes().is_empty());
    assert!(matches!(
        bench.events[..],
        [
            Event::Ready { resumed: true },
            Event::TooLarge {
                tag: 1,
                maybe_delivered: true
            }
        ]
    ));
    assert_eq!(bench.session.unacknowledged(), 0);
}
