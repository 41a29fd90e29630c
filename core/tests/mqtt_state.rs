//! The state that both ends of an MQTT connection keep: packet ids, windows, aliases, keep-alive.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use proptest::prelude::*;
use statestore::mqtt::alias::{AliasError, InboundAliases, OutboundAliases, TopicName};
use statestore::mqtt::keep_alive::{Due, KeepAlive};
use statestore::mqtt::{PacketId, PacketIds, Window};
use std::collections::{HashSet, VecDeque};

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

#[test]
fn every_packet_id_is_given_out_once_and_then_none() {
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
                    prop_assert_eq!(window.get_mut(id(number)).copied(), expected);
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
fn a_shrunken_receive_maximum_holds_back_the_resends_and_keeps_their_order() {
    let mut window = Window::new(10);
    // The identifiers wrapped: the newest has the lowest.
    for number in [65_533, 65_534, 65_535, 1, 2] {
        window.push(id(number), ()).unwrap();
    }
    window.reconnected(2);
    assert!(!window.has_room());
    let mut resent = Vec::new();
    while !window.is_empty() {
        while let Some((id, ())) = window.next_resend() {
            resent.push(id.get());
        }
        assert_eq!(
            window.has_room(),
            resent.len() == 5 && window.len() < 2,
            "nothing new before the resends"
        );
        let oldest = window.iter().next().unwrap().0;
        window.acknowledge(oldest).unwrap();
    }
    assert_eq!(resent, [65_533, 65_534, 65_535, 1, 2]);
    assert!(window.has_room());
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

#[test]
fn outbound_aliases() {
    let mut aliases = OutboundAliases::new(2);
    assert_eq!(aliases.name("a"), TopicName::Define(1));
    assert_eq!(aliases.name("b"), TopicName::Define(2));
    assert_eq!(aliases.name("c"), TopicName::Plain);
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

#[test]
fn a_client_pings_after_silence_in_either_direction() {
    let mut client = KeepAlive::client(10, 2_000, 0);
    assert_eq!(client.wake_at_ms(), Some(10_000));
    client.sent(6_000);
    assert_eq!(client.wake_at_ms(), Some(10_000), "nothing was received");
    client.received(7_000);
    assert_eq!(client.wake_at_ms(), Some(16_000), "nothing was sent since");
    assert_eq!(client.poll(15_999), Due::Nothing);
    assert_eq!(client.poll(16_000), Due::Ping);
    assert_eq!(client.poll(16_000), Due::Nothing, "one ping at a time");
    assert_eq!(client.wake_at_ms(), Some(18_000));
    client.received(17_000);
    assert_eq!(
        client.wake_at_ms(),
        Some(26_000),
        "the answer starts the interval anew"
    );
}

#[test]
fn a_client_gives_up_when_a_ping_stays_unanswered_although_it_keeps_sending() {
    let mut client = KeepAlive::client(10, 2_000, 0);
    assert_eq!(client.poll(10_000), Due::Ping);
    client.sent(11_000);
    assert_eq!(client.poll(11_999), Due::Nothing);
    assert_eq!(client.poll(12_000), Due::PeerDead);
}

#[test]
fn a_server_waits_one_and_a_half_intervals() {
    let mut server = KeepAlive::server(10, 0);
    server.sent(14_000);
    assert_eq!(server.poll(14_999), Due::Nothing);
    server.received(1_000);
    assert_eq!(server.poll(15_999), Due::Nothing);
    assert_eq!(server.poll(16_000), Due::PeerDead);
}

#[test]
fn zero_seconds_switch_keep_alive_off() {
    assert_eq!(KeepAlive::client(0, 1, 0).wake_at_ms(), None);
    assert_eq!(KeepAlive::server(0, 0).poll(u64::MAX), Due::Nothing);
}
