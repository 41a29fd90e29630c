//! The client's session as a state machine: bytes and times in, bytes and events out, no socket and no clock.
#![allow(clippy::unwrap_used)]

use bytes::BytesMut;
use proptest::prelude::*;
use statestore_protocol::mqtt::session::{Event, Session, SessionConfig, SessionError, Terms};
use statestore_protocol::mqtt::{
    ConnAck, Connect, Limits, Packet, PacketId, PubAck, Publish, PublishHeader, ReasonCode, SubAck,
    Subscription, decode, encode_pingresp,
};
use std::collections::VecDeque;

const MAX: u32 = Limits::MAX_PACKET_BYTES;

fn session() -> Session<u32> {
    Session::new(SessionConfig {
        connect: Connect {
            client_id: "me".into(),
            keep_alive_s: 60,
            ..Connect::default()
        },
        subscriptions: |client_id| {
            vec![Subscription::at_least_once(format!("{client_id}/answers"))]
        },
        ping_timeout_ms: 5_000,
    })
}

/// A session with the other end of its connection.
struct Bench {
    session: Session<u32>,
    now_ms: u64,
    events: Vec<Event<u32>>,
}

impl Bench {
    fn new() -> Self {
        Self {
            session: session(),
            now_ms: 0,
            events: Vec::new(),
        }
    }

    fn ready() -> Self {
        let mut bench = Self::new();
        bench.connect(&ConnAck::new(ReasonCode::SUCCESS));
        bench
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        let mut stream = BytesMut::from(bytes);
        let events = &mut self.events;
        self.session
            .receive(&mut stream, self.now_ms, usize::MAX, |event| {
                events.push(event);
            })
            .map(drop)
    }

    /// Connects, up to the SUBACK if the session is new.
    fn connect(&mut self, connack: &ConnAck) {
        self.session.connect(self.now_ms).unwrap();
        assert!(matches!(self.sent()[..], [Packet::Connect(_)]));
        let mut bytes = BytesMut::new();
        connack.encode(MAX, &mut bytes).unwrap();
        self.send(&bytes).unwrap();
        if !self.session.is_ready() {
            let Ok([Packet::Subscribe(subscribe)]) = <[_; 1]>::try_from(self.sent()) else {
                panic!()
            };
            let suback = SubAck {
                packet_id: subscribe.packet_id,
                reasons: vec![ReasonCode::GRANTED_QOS_1],
                reason_string: None,
            };
            let mut bytes = BytesMut::new();
            suback.encode(MAX, &mut bytes).unwrap();
            self.send(&bytes).unwrap();
        }
    }

    /// What the session wants to be written.
    fn sent(&mut self) -> Vec<Packet> {
        let mut bytes = BytesMut::from(&self.session.take_output(self.now_ms)[..]);
        self.session.written(bytes.len(), false, self.now_ms);
        std::iter::from_fn(|| decode(&mut bytes, MAX).unwrap()).collect()
    }

    fn sent_publishes(&mut self) -> Vec<Publish> {
        let publish = |packet| match packet {
            Packet::Publish(publish) => Some(publish),
            _ => None,
        };
        self.sent().into_iter().filter_map(publish).collect()
    }

    fn publish(&mut self, tag: u32, deadline_ms: u64) -> PacketId {
        let payload = tag.to_be_bytes();
        let header = PublishHeader {
            topic: "requests",
            message_expiry: Some(9),
            ..PublishHeader::default()
        };
        self.session
            .publish(
                &header,
                4,
                |out| out.extend_from_slice(&payload),
                Terms {
                    tag,
                    deadline_ms,
                    is_harmless: false,
                },
            )
            .unwrap()
    }

    fn acknowledge(&mut self, id: PacketId) {
        let mut bytes = BytesMut::new();
        PubAck::success(id).encode(MAX, &mut bytes).unwrap();
        self.send(&bytes).unwrap();
    }
}

fn tag(publish: &Publish) -> u32 {
    u32::from_be_bytes(publish.payload_bytes().try_into().unwrap())
}

fn resumed(change: impl FnOnce(&mut ConnAck)) -> ConnAck {
    let mut connack = ConnAck {
        session_present: true,
        ..ConnAck::new(ReasonCode::SUCCESS)
    };
    change(&mut connack);
    connack
}

#[test]
fn nothing_is_published_before_the_subscriptions_are_made() {
    let mut bench = Bench::new();
    assert_eq!(
        (bench.session.room(), bench.session.wake_at_ms(false)),
        (0, None)
    );
    bench.session.connect(0).unwrap();
    let mut connack = BytesMut::new();
    ConnAck::new(ReasonCode::SUCCESS)
        .encode(MAX, &mut connack)
        .unwrap();
    bench.send(&connack).unwrap();
    assert_eq!(bench.session.room(), 0);
    let header = PublishHeader {
        topic: "t",
        ..PublishHeader::default()
    };
    let terms = Terms {
        tag: 0,
        deadline_ms: 0,
        is_harmless: false,
    };
    assert!(bench.session.publish(&header, 0, |_| {}, terms).is_err());
    let mut bench = Bench::ready();
    assert_eq!(
        bench.session.room(),
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
fn a_silent_connection_is_pinged_and_a_dead_one_given_up() {
    let mut bench = Bench::ready();
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
fn the_server_s_keep_alive_counts() {
    let mut bench = Bench::new();
    bench.connect(&ConnAck {
        server_keep_alive_s: Some(2),
        ..ConnAck::new(ReasonCode::SUCCESS)
    });
    assert_eq!(bench.session.wake_at_ms(false), Some(2_000));
    let mut bench = Bench::new();
    bench.connect(&ConnAck {
        server_keep_alive_s: Some(0),
        ..ConnAck::new(ReasonCode::SUCCESS)
    });
    assert_eq!(bench.session.wake_at_ms(false), None);
}

#[test]
fn messages_are_acknowledged_in_their_order_after_they_were_handed_over() {
    let mut bench = Bench::ready();
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
    let ids: Vec<_> = [7, 3, 9]
        .map(|id| Packet::PubAck(PubAck::success(PacketId::new(id).unwrap())))
        .into();
    assert_eq!(bench.sent(), ids);
}

#[test]
fn acknowledgements_do_not_pile_up_for_a_broker_that_reads_nothing() {
    let mut bench = Bench::ready();
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
fn what_was_never_handed_to_the_transport_is_not_marked_as_a_duplicate() {
    let mut bench = Bench::ready();
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
fn a_resent_publish_expires_when_nobody_wants_it_any_more() {
    let mut bench = Bench::ready();
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

/// What was sent, each with whether it is marked as a duplicate.
fn tags(publishes: &[Publish]) -> Vec<(u32, bool)> {
    publishes
        .iter()
        .map(|publish| (tag(publish), publish.dup()))
        .collect()
}

#[test]
fn what_nobody_wants_any_more_and_no_transport_got_is_never_sent() {
    let mut bench = Bench::ready();
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
        bench.session.would_do_harm(5_000),
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
fn a_new_session_has_nothing_to_send_again() {
    let mut bench = Bench::ready();
    bench.publish(1, 2_000);
    bench.sent();
    bench.session.connection_lost();
    assert!(!bench.session.would_do_harm(1_999));
    bench.session.renew();
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
fn what_the_transport_got_a_part_of_did_not_arrive() {
    for missing in [0, 1] {
        let mut bench = Bench::ready();
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
                } => Some((*tag, *maybe_delivered)),
                _ => None,
            })
            .collect();
        assert_eq!(lost, [(1, true), (2, missing == 0)]);
    }
}

#[test]
fn what_is_withdrawn_before_it_was_handed_out_leaves_no_trace() {
    let mut bench = Bench::new();
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
    // What is left is found although others before it are gone.
    bench.session.connection_lost();
    bench.connect(&resumed(|_| {}));
    let again = bench.sent_publishes();
    assert_eq!(tags(&again), [(2, true), (5, true), (6, true)]);
    assert!(again.iter().all(|publish| publish.topic() == "requests"));
}

#[test]
fn a_batch_from_which_something_was_withdrawn_is_handed_over_bit_by_bit() {
    let mut bench = Bench::ready();
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
fn a_publish_that_is_never_acknowledged_ends_the_connection_in_the_end() {
    let mut bench = Bench::ready();
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
    let mut bench = Bench::ready();
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
fn as_many_publishes_as_there_may_be_leave_a_packet_identifier_to_subscribe_with() {
    let mut bench = Bench::ready();
    while bench.session.room() > 0 {
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
fn a_session_of_somebody_else_s_is_not_continued() {
    let mut bench = Bench::new();
    bench.session = Session::new(SessionConfig {
        connect: Connect {
            client_id: "me".into(),
            clean_start: false,
            ..Connect::default()
        },
        subscriptions: |_| vec![Subscription::at_least_once("answers")],
        ping_timeout_ms: 5_000,
    });
    bench.session.connect(0).unwrap();
    bench.sent();
    let mut connack = BytesMut::new();
    resumed(|_| {}).encode(MAX, &mut connack).unwrap();
    assert_eq!(bench.send(&connack), Err(SessionError::UnknownSession));
    bench.session.connection_lost();
    bench.session.renew();
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
fn little_is_taken_from_a_broker_that_has_not_accepted_the_connection() {
    // CONNACK and AUTH of 200 MB.
    for first in [0x20, 0xF0] {
        let mut bench = Bench::new();
        bench.session.connect(0).unwrap();
        let error = bench.send(&[first, 0x80, 0x84, 0xAF, 0x5F]).unwrap_err();
        assert_eq!(error.reason(), Some(ReasonCode::PACKET_TOO_LARGE));
    }
    // Afterwards the limit is the one that was stated.
    let mut bench = Bench::ready();
    bench.send(&[0x30, 0x80, 0x84, 0xAF, 0x5F]).unwrap();
}

#[test]
fn a_lost_session_says_what_became_of_each_publish() {
    let mut bench = Bench::ready();
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
            } => format!("{tag} {maybe_delivered}"),
            Event::SessionLost => "lost".into(),
            Event::Ready { resumed } => format!("ready {resumed}"),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["1 true", "2 true", "3 false", "lost", "ready false"]);
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
fn a_session_whose_subscriptions_were_not_made_is_no_session_to_resume() {
    let mut bench = Bench::new();
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

#[test]
fn a_broker_that_takes_only_smaller_packets_now_gets_no_larger_ones_again() {
    let mut bench = Bench::ready();
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

#[test]
fn memory_is_given_back_with_the_acknowledgements() {
    let mut bench = Bench::ready();
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
fn packet_identifiers_are_used_again() {
    let mut bench = Bench::ready();
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

/// One thing that happens to a session.
#[derive(Debug, Clone)]
enum Step {
    Publish,
    /// The transport takes what there is.
    Write,
    /// The broker acknowledges the n-th of what it has.
    Acknowledge(usize),
    /// The connection is cut and made again; whether the session is kept, and the new Receive Maximum.
    Reconnect(bool, u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Publish),
        3 => Just(Step::Write),
        4 => (0usize..8).prop_map(Step::Acknowledge),
        1 => (any::<bool>(), 1u16..6).prop_map(|(kept, maximum)| Step::Reconnect(kept, maximum)),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn each_publish_ends_once_and_in_the_meantime_keeps_its_place(steps in steps()) {
        let mut bench = Bench::ready();
        let mut limit = 65_535;
        let mut next_tag = 0;
        // What the broker has and did not acknowledge, in the order of arrival.
        let mut unacknowledged: VecDeque<Publish> = VecDeque::new();
        let mut ended = Vec::new();
        // What did not end, in the order of the first sending.
        let mut open: Vec<u32> = Vec::new();
        // An end, so that every publish can end.
        let end = [Step::Reconnect(true, 65_535), Step::Write];
        for step in steps.into_iter().chain(end) {
            match step {
                Step::Publish => {
                    if bench.session.room() > 0 {
                        bench.publish(next_tag, 1_000_000);
                        open.push(next_tag);
                        next_tag += 1;
                    }
                }
                Step::Write => unacknowledged.extend(bench.sent_publishes()),
                Step::Acknowledge(index) => {
                    if let Some(publish) = unacknowledged.remove(index) {
                        bench.acknowledge(publish.packet_id().unwrap());
                    }
                }
                Step::Reconnect(kept, maximum) => {
                    unacknowledged.clear();
                    limit = usize::from(maximum);
                    bench.session.connection_lost();
                    let mut connack = ConnAck::new(ReasonCode::SUCCESS);
                    connack.session_present = kept;
                    connack.limits.receive_maximum = maximum;
                    bench.connect(&connack);
                    let again: Vec<_> = bench.sent_publishes();
                    let tags: Vec<_> = again.iter().map(tag).collect();
                    let expected: &[u32] = if kept { &open[..open.len().min(limit)] } else { &[] };
                    prop_assert_eq!(tags, expected);
                    unacknowledged.extend(again);
                }
            }
            for event in bench.events.drain(..) {
                if let Event::Acknowledged { tag, .. } | Event::Lost { tag, .. } | Event::TooLarge { tag, .. } = event {
                    ended.push(tag);
                    open.retain(|other| *other != tag);
                }
            }
            prop_assert!(unacknowledged.len() <= limit);
            prop_assert_eq!(bench.session.unacknowledged(), open.len());
        }
        while let Some(publish) = unacknowledged.pop_front() {
            bench.acknowledge(publish.packet_id().unwrap());
            unacknowledged.extend(bench.sent_publishes());
        }
        for event in &bench.events {
            if let Event::Acknowledged { tag, .. } = event {
                ended.push(*tag);
            }
        }
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..next_tag).collect::<Vec<_>>());
        prop_assert_eq!(bench.session.buffered_bytes(), 0);
    }

    #[test]
    fn any_bytes_of_the_broker_end_in_an_error_or_in_nothing(
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        connected in any::<bool>(),
    ) {
        let mut bench = if connected { Bench::ready() } else { Bench::new() };
        if !connected {
            bench.session.connect(0).unwrap();
        }
        let _ = bench.send(&bytes);
    }
}
