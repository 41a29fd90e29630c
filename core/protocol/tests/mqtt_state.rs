//! The state that both ends of an MQTT connection keep: packet ids, windows, aliases, keep-alive.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use proptest::prelude::*;
use statestore_protocol::mqtt::alias::{AliasError, InboundAliases, OutboundAliases, TopicName};
use statestore_protocol::mqtt::keep_alive::{ClientKeepAlive, KeepAliveAction, ServerKeepAlive};
use statestore_protocol::mqtt::{
    Limits, Packet, PacketId, PacketIds, Publish, PublishHeader, Window, decode,
};
use std::collections::{HashSet, VecDeque};

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

#[test]
fn packet_ids_are_allocated_once_each_until_exhausted() {
    let mut ids = PacketIds::new();
    let all: HashSet<_> = std::iter::from_fn(|| ids.allocate()).collect();
    assert_eq!(all.len(), 65_535);
    assert_eq!(ids.in_use(), 65_535);
    assert_eq!(ids.allocate(), None);
    assert!(ids.release(id(300)));
    assert!(!ids.release(id(300)));
    assert_eq!(ids.allocate(), Some(id(300)));
}

proptest! {
    #[test]
    fn packet_ids_behave_like_a_set(steps in proptest::collection::vec(prop_oneof![Just(None), (1u16..40).prop_map(Some)],
            0..100)) {
        let mut ids = PacketIds::new();
        let mut model = HashSet::new();
        for step in steps {
            match step {
                None => prop_assert!(model.insert(ids.allocate().unwrap())),
                Some(number) => prop_assert_eq!(ids.release(id(number)), model.remove(&id(number))),
            }
            prop_assert_eq!(ids.in_use(), model.len());
            prop_assert!((1..60).map(id).all(|id| ids.is_in_use(id) == model.contains(&id)));
        }
    }

    #[test]
    fn a_window_behaves_like_a_queue(steps in proptest::collection::vec((0u8..8, 1u16..12, 1u16..6), 0..300)) {
        let mut window = Window::new(4);
        // Id, value, sent on this connection; in order.
        let mut model: VecDeque<(PacketId, u32, bool)> = VecDeque::new();
        let mut limit = 4;
        let mut value = 0;
        for (kind, number, new_limit) in steps {
            let outstanding = model.iter().filter(|entry| entry.2).count();
            let resending = model.iter().any(|entry| !entry.2);
            match kind {
                0..3 => {
                    let known = model.iter().any(|entry| entry.0 == id(number));
                    let fits = !known && !resending && outstanding < limit;
                    prop_assert_eq!(window.push(id(number), value).is_ok(), fits);
                    if fits {
                        model.push_back((id(number), value, true));
                        value += 1;
                    }
                }
                3..5 => {
                    let place = model.iter().position(|entry| entry.0 == id(number));
                    let expected = place.and_then(|place| model.remove(place)).map(|entry| entry.1);
                    prop_assert_eq!(window.acknowledge(id(number)), expected);
                }
                5 => {
                    limit = usize::from(new_limit);
                    window.reconnected(new_limit);
                    for entry in &mut model {
                        entry.2 = false;
                    }
                }
                6 => {
                    let next = model.iter_mut().find(|entry| !entry.2).filter(|_| outstanding < limit);
                    let expected = next.map(|entry| { entry.2 = true; (entry.0, entry.1) });
                    prop_assert_eq!(window.next_resend().map(|(id, value)| (id, *value)), expected);
                }
                _ => {
                    let expected = model.iter().find(|entry| entry.0 == id(number)).map(|entry| entry.1);
                    prop_assert_eq!(window.get_mut(id(number)).map(|(_, value)| *value), expected);
                }
            }
            prop_assert_eq!(window.len(), model.len());
            prop_assert_eq!(window.is_empty(), model.is_empty());
            prop_assert_eq!(
                window.iter().map(|(id, value)| (id, *value)).collect::<Vec<_>>(),
                model.iter().map(|entry| (entry.0, entry.1)).collect::<Vec<_>>()
            );
        }
        let rest: Vec<_> = window.drain().collect();
        prop_assert_eq!(rest, model.iter().map(|entry| (entry.0, entry.1)).collect::<Vec<_>>());
        prop_assert!(window.is_empty());
    }
}

#[test]
fn a_reduced_receive_maximum_delays_resends_in_order() {
    let mut window = Window::new(10);
    // The identifiers wrapped: the newest has the lowest.
    for number in [65_533, 65_534, 65_535, 1, 2] {
        window.push(id(number), ()).unwrap();
    }
    assert_eq!((window.limit(), window.has_resend()), (10, false));
    window.reconnected(2);
    assert!(!window.has_capacity());
    assert_eq!((window.limit(), window.has_resend()), (2, true));
    let mut resent = Vec::new();
    while !window.is_empty() {
        while let Some((id, ())) = window.next_resend() {
            resent.push(id.get());
        }
        assert_eq!(
            window.has_capacity(),
            resent.len() == 5 && window.len() < 2,
            "nothing new before the resends"
        );
        let oldest = window.iter().next().unwrap().0;
        window.acknowledge(oldest).unwrap();
    }
    assert_eq!(resent, [65_533, 65_534, 65_535, 1, 2]);
    assert!(window.has_capacity());
}

#[test]
fn inbound_aliases() {
    let mut aliases = InboundAliases::new(2);
    assert_eq!(aliases.resolve("a", None), Ok(None));
    assert_eq!(aliases.resolve("", Some(1)), Err(AliasError::Unknown(1)));
    assert_eq!(aliases.resolve("a", Some(1)), Ok(None));
    assert_eq!(aliases.resolve("", Some(1)).unwrap().as_deref(), Some("a"));
    assert_eq!(aliases.resolve("b", Some(1)), Ok(None));
    assert_eq!(aliases.resolve("", Some(1)).unwrap().as_deref(), Some("b"));
    assert_eq!(
        aliases.resolve("c", Some(3)),
        Err(AliasError::AboveMaximum(3))
    );
    assert_eq!(
        aliases.resolve("c", Some(0)),
        Err(AliasError::AboveMaximum(0))
    );
}

/// A PUBLISH with this topic and this alias.
fn publish(topic: &str, topic_alias: Option<u16>) -> Publish {
    let header = PublishHeader {
        topic,
        topic_alias,
        ..PublishHeader::default()
    };
    let mut out = bytes::BytesMut::new();
    header
        .encode(Limits::MAX_PACKET_BYTES, &mut out, 0, |_| {})
        .unwrap();
    match decode(&mut out, Limits::MAX_PACKET_BYTES) {
        Ok(Some(Packet::Publish(publish))) => publish,
        other => panic!("{other:?}"),
    }
}

#[test]
fn inbound_aliases_of_received_publishes() {
    let mut aliases = InboundAliases::new(2);
    assert_eq!(aliases.topic_of(&publish("plain", None)), Ok(None));
    assert_eq!(aliases.topic_of(&publish("first", Some(1))), Ok(None));
    assert_eq!(aliases.topic_of(&publish("second", Some(2))), Ok(None));
    assert_eq!(aliases.bytes(), 11);
    let topic = aliases.topic_of(&publish("", Some(2))).unwrap();
    assert_eq!(topic.as_deref(), Some("second"));
    let is_short = |aliases: &InboundAliases, topic, alias| {
        aliases.is_alias_of(&publish(topic, alias), "first")
    };
    assert!(is_short(&aliases, "", Some(1)));
    assert!(!is_short(&aliases, "", Some(2)), "of another topic");
    assert!(!is_short(&aliases, "first", Some(1)), "it has its name");
    assert!(!is_short(&aliases, "first", None));
    // Another topic takes the place of the first, and the same one takes its own.
    assert_eq!(aliases.topic_of(&publish("one", Some(1))), Ok(None));
    assert_eq!(aliases.topic_of(&publish("one", Some(1))), Ok(None));
    assert_eq!(aliases.bytes(), 9);
    assert!(!is_short(&aliases, "", Some(1)));
}

#[test]
fn outbound_aliases() {
    let mut aliases = OutboundAliases::new(2);
    assert_eq!(aliases.name("a"), TopicName::Define(1));
    assert_eq!(aliases.name("b"), TopicName::Define(2));
    assert_eq!(aliases.name("c"), TopicName::Plain);
    assert_eq!(aliases.name("a"), TopicName::Plain, "it may be withdrawn");
    aliases.mark_sent();
    assert_eq!(aliases.name("a"), TopicName::Alias(1));
    assert_eq!(OutboundAliases::new(0).name("a"), TopicName::Plain);
    aliases.reconnected(1);
    assert_eq!(
        aliases.name("b"),
        TopicName::Plain,
        "its alias is above the new maximum"
    );
    assert_eq!(aliases.name("a"), TopicName::Define(1));
    aliases.undefine(1);
    assert_eq!(aliases.name("a"), TopicName::Define(1));
    assert_eq!(aliases.topic(2).as_deref(), Some("b"));
}

/// Everything that is handed out is taken at once.
fn send(client: &mut ClientKeepAlive, bytes: usize, awaits: bool, now_ms: u64) {
    client.output_taken(bytes, awaits, now_ms);
    client.written(bytes, false, now_ms);
}

#[test]
fn a_client_pings_after_silence_in_either_direction() {
    let mut client = ClientKeepAlive::new(10, 2_000, 0);
    assert_eq!(client.wake_at_ms(false), Some(10_000));
    send(&mut client, 9, false, 6_000);
    assert_eq!(
        client.wake_at_ms(false),
        Some(10_000),
        "nothing was received"
    );
    client.received(7_000);
    assert_eq!(
        client.wake_at_ms(false),
        Some(16_000),
        "nothing was sent since"
    );
    assert_eq!(client.poll(false, 15_999), KeepAliveAction::Nothing);
    assert_eq!(client.poll(false, 16_000), KeepAliveAction::Ping);
    assert_eq!(
        client.poll(false, 16_000),
        KeepAliveAction::Nothing,
        "one ping at a time"
    );
    send(&mut client, 2, false, 16_000);
    assert_eq!(client.wake_at_ms(false), Some(18_000));
    client.received(17_000);
    assert_eq!(
        client.wake_at_ms(false),
        Some(26_000),
        "the answer starts the interval anew"
    );
}

#[test]
fn an_unanswered_ping_ends_the_connection_despite_further_output() {
    let mut client = ClientKeepAlive::new(10, 2_000, 0);
    assert_eq!(client.poll(false, 10_000), KeepAliveAction::Ping);
    send(&mut client, 2, false, 10_000);
    send(&mut client, 500, false, 11_000);
    assert_eq!(client.poll(false, 11_999), KeepAliveAction::Nothing);
    assert_eq!(client.poll(false, 12_000), KeepAliveAction::PeerDead);
}

#[test]
fn a_client_keeps_a_slow_link_that_makes_progress() {
    let mut client = ClientKeepAlive::new(5, 10_000, 0);
    // 12 MB at 1 Mbit/s, in pieces of 125 kB; an answer comes when all of it has arrived.
    client.output_taken(12_000_000, true, 0);
    let mut now_ms = 0;
    for _ in 0..96 {
        assert_eq!(
            client.poll(true, now_ms),
            KeepAliveAction::Nothing,
            "at {now_ms}"
        );
        now_ms += 1_000;
        client.written(125_000, true, now_ms);
    }
    // Only now there is room for a PINGREQ, and its time begins when it has left, not when it was due.
    assert_eq!(client.poll(true, now_ms), KeepAliveAction::Ping);
    client.output_taken(2, true, now_ms);
    now_ms += 3_000;
    client.written(2, true, now_ms);
    assert_eq!(client.poll(true, now_ms + 9_999), KeepAliveAction::Nothing);
    assert_eq!(
        client.poll(true, now_ms + 10_000),
        KeepAliveAction::PeerDead
    );
}

#[test]
fn a_client_closes_a_connection_that_accepts_no_bytes() {
    let mut client = ClientKeepAlive::new(60, 10_000, 0);
    client.output_taken(1_000_000, true, 1_000);
    client.written(400_000, false, 1_000);
    assert_eq!(client.poll(true, 10_999), KeepAliveAction::Nothing);
    client.written(1, true, 5_000);
    assert_eq!(client.poll(true, 14_999), KeepAliveAction::Nothing);
    assert_eq!(client.wake_at_ms(true), Some(15_000));
    assert_eq!(client.poll(true, 15_000), KeepAliveAction::PeerDead);
}

#[test]
fn a_client_detects_silence_within_five_seconds_of_a_pending_response() {
    for last_ms in [0, 700, 1_999] {
        let mut client = ClientKeepAlive::new(60, 10_000, 0);
        // The last bytes come at `last_ms`; requests go out all the time.
        let (mut now_ms, mut pings) = (0, 0);
        let dead_ms = loop {
            send(&mut client, 300, true, now_ms);
            match client.poll(true, now_ms) {
                KeepAliveAction::Nothing => {}
                KeepAliveAction::Ping => {
                    pings += 1;
                    send(&mut client, 2, true, now_ms);
                }
                KeepAliveAction::PeerDead => break now_ms,
            }
            now_ms += 100;
            if now_ms <= last_ms {
                client.received(now_ms);
            }
        };
        assert_eq!(pings, 1);
        assert!((4_400..=5_000).contains(&(dead_ms - last_ms)), "{dead_ms}");
    }
}

#[test]
fn a_client_pings_every_two_seconds_while_a_response_is_pending() {
    let mut client = ClientKeepAlive::new(60, 10_000, 0);
    send(&mut client, 300, true, 50_000);
    client.received(50_001);
    let mut pings = Vec::new();
    for now_ms in 50_001..57_000 {
        match client.poll(true, now_ms) {
            KeepAliveAction::Nothing => {}
            KeepAliveAction::Ping => {
                pings.push(now_ms);
                send(&mut client, 2, true, now_ms);
                client.received(now_ms + 1);
            }
            KeepAliveAction::PeerDead => panic!("at {now_ms}"),
        }
    }
    assert_eq!(pings, [52_001, 54_002, 56_003]);
    // The answer is there: one look whether there is anything left, and then the keep-alive only.
    client.received(57_000);
    assert_eq!(client.wake_at_ms(false), Some(58_003));
    assert_eq!(client.poll(false, 58_003), KeepAliveAction::Nothing);
    assert_eq!(client.wake_at_ms(false), Some(56_003 + 60_000));
}

#[test]
fn a_server_times_out_after_one_and_a_half_keep_alive_intervals() {
    let mut server = ServerKeepAlive::new(10, 0);
    assert!(!server.is_expired(14_999));
    server.received(1_000);
    server.partial(1, false, 1_000);
    assert!(!server.is_expired(15_999));
    assert!(server.is_expired(16_000));
}

#[test]
fn a_server_accepts_a_slow_large_packet_but_not_an_endless_one() {
    // 1 MiB at 2 KiB/s, with keep-alive 10 s.
    let mut server = ServerKeepAlive::new(10, 0);
    for second in 1..512 {
        let now_ms = second * 1000;
        assert!(!server.is_expired(now_ms), "at {now_ms}");
        server.received(now_ms);
        server.partial(usize::try_from(second).unwrap() * 2048, false, now_ms);
    }
    server.received(512_000);
    server.partial(0, true, 512_000);
    assert_eq!(server.wake_at_ms(), Some(527_000));
    // A byte a second; each new packet has a time of its own.
    for (begins_ms, packet) in [(520_000, 1), (530_000, 2)] {
        server.received(begins_ms);
        server.partial(1, true, begins_ms);
        let dribbles = (1..100).find(|second| {
            let now_ms = begins_ms + second * 1000;
            server.received(now_ms);
            server.partial(usize::try_from(*second).unwrap(), false, now_ms);
            packet == 1 && *second == 10 || server.is_expired(now_ms)
        });
        assert_eq!(dribbles, Some(if packet == 1 { 10 } else { 16 }));
    }
}

#[test]
fn a_client_sends_no_ping_while_output_is_unwritten() {
    let mut client = ClientKeepAlive::new(10, 20_000, 0);
    client.output_taken(100, false, 0);
    assert_eq!(client.wake_at_ms(false), Some(20_000), "when it is stuck");
    client.written(100, true, 5_000);
    assert_eq!(client.wake_at_ms(false), Some(10_000));
}

#[test]
fn a_partial_packet_gets_one_second_per_kibibyte() {
    let mut server = ServerKeepAlive::new(10, 0);
    server.partial(10_240, true, 0);
    server.received(20_000);
    assert_eq!(server.wake_at_ms(), Some(25_000));
    server.partial(0, true, 20_000);
    server.received(30_000);
    assert_eq!(server.wake_at_ms(), Some(45_000));
}

#[test]
fn a_paused_server_does_not_time_out_the_client() {
    let mut server = ServerKeepAlive::new(10, 0);
    server.received(1_000);
    server.partial(5, true, 1_000);
    server.paused(11_000);
    server.paused(12_000);
    assert_eq!(server.wake_at_ms(), None);
    assert!(!server.is_expired(1_000_000));
    server.resumed(111_000);
    assert_eq!(server.wake_at_ms(), Some(116_000));
}

#[test]
fn zero_seconds_switch_keep_alive_off() {
    let mut client = ClientKeepAlive::new(0, 1, 0);
    send(&mut client, 1, true, 0);
    assert_eq!(client.wake_at_ms(true), None);
    assert_eq!(client.poll(true, 1 << 40), KeepAliveAction::Nothing);
    assert!(!ServerKeepAlive::new(0, 0).is_expired(u64::MAX));
}
