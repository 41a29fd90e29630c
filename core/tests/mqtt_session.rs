//! The client's session as a state machine: bytes and times in, bytes and events out, no socket and no clock.
#![allow(clippy::unwrap_used)]

use bytes::BytesMut;
use proptest::prelude::*;
use statestore::mqtt::session::{Event, Session, SessionConfig, SessionError};
use statestore::mqtt::{
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

    fn publish(&mut self, tag: u32, deadline_ms: u64) {
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
                tag,
                deadline_ms,
            )
            .unwrap();
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
    assert!(bench.session.publish(&header, 0, |_| {}, 0, 0).is_err());
    let mut bench = Bench::ready();
    assert_eq!(bench.session.room(), 65_535);
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
    let again: Vec<_> = bench
        .sent_publishes()
        .iter()
        .map(|publish| (tag(publish), publish.dup()))
        .collect();
    assert_eq!(again, [(1, true), (2, false)]);
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
