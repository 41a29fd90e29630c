//! A client whose requests have their outcomes later.
use crate::keyspace::{Optimistic, Weather};
use crate::shared::Shared;
use crate::world::{Client, START_WALL_MS, World, command, id, message, request, resume, set};
use bytes::BytesMut;
use statestore_protocol::mqtt::{Connect, Packet, PublishHeader, ReasonCode};
use statestored::access::Users;
use statestored::hub::{Hub, HubConfig, HubLimits};
use statestored::service::{Now, Service, ServiceConfig};

const CALM: Weather = Weather {
    seed: 1,
    delay_ms: 100,
    refused: 0,
    lost: 0,
};

fn world(weather: Weather, limits: HubLimits) -> (World, Shared) {
    let config = HubConfig {
        limits,
        ..HubConfig::default()
    };
    world_with(weather, config)
}

fn world_with(weather: Weather, config: HubConfig) -> (World, Shared) {
    let shared = Shared::default();
    let keyspace = Optimistic::new(shared.clone(), u64::MAX, weather);
    let service = Service::new(ServiceConfig::default(), keyspace);
    let world = World {
        hub: Hub::new(config, service),
        now: Now {
            wall_ms: START_WALL_MS,
            mono_ms: 0,
        },
    };
    (world, shared)
}

/// Sends a request, or whatever it is, and does not wait.
fn send(world: &mut World, client: &mut Client, header: &PublishHeader<'_>, payload: &[u8]) {
    let write = |out: &mut BytesMut| out.extend_from_slice(payload);
    let unread = &mut client.unread;
    header
        .encode(u32::MAX, unread, payload.len(), write)
        .unwrap();
    take(world, client);
}

fn take(world: &mut World, client: &mut Client) {
    while world
        .hub
        .received(client.connection, &mut client.unread, world.now)
    {}
}

/// A request whose correlation data is its packet identifier.
fn ask(world: &mut World, client: &mut Client, number: u16, payload: &[u8]) {
    let correlation = number.to_be_bytes();
    let header = PublishHeader {
        correlation_data: Some(&correlation),
        ..request(id(number))
    };
    send(world, client, &header, payload);
}

/// The packet identifiers of PUBACKs that report no error, and the correlation data of responses.
fn answers(packets: &[Packet]) -> (Vec<u16>, Vec<Vec<u8>>) {
    let (mut acknowledged, mut answered) = (Vec::new(), Vec::new());
    for packet in packets {
        match packet {
            Packet::PubAck(puback) => {
                assert_eq!(puback.reason_string, None);
                acknowledged.push(puback.packet_id.get());
            }
            Packet::Publish(publish) => {
                answered.push(publish.correlation_data().unwrap().to_vec());
            }
            other => panic!("{other:?}"),
        }
    }
    (acknowledged, answered)
}

#[test]
fn responses_overtake_each_other_and_acknowledgements_do_not() {
    let (mut world, _) = world(CALM, HubLimits::default());
    let mut client = world.client("me");
    for number in 1..=9 {
        ask(
            &mut world,
            &mut client,
            number,
            &set(&number.to_string(), "v"),
        );
    }
    // Not a request, but behind them.
    send(&mut world, &mut client, &message("somewhere", 10), b"");
    assert!(world.packets(&client).is_empty());
    assert_eq!(world.hub.statistics().requests_under_way, 9);
    world.pass(1_000);
    let (acknowledged, answered) = answers(&world.packets(&client));
    assert_eq!(acknowledged, (1..=10).collect::<Vec<_>>());
    let in_order: Vec<_> = (1..=9u16).map(|it| it.to_be_bytes().to_vec()).collect();
    assert_ne!(
        answered, in_order,
        "this seed makes them overtake each other"
    );
    let mut sorted = answered;
    sorted.sort();
    assert_eq!(sorted, in_order);
}

#[test]
fn requests_under_way_count_against_the_receive_maximum() {
    let limits = HubLimits {
        receive_maximum: 3,
        ..HubLimits::default()
    };
    let (mut world, _) = world(CALM, limits);
    let mut client = world.client("me");
    for number in 1..=3 {
        ask(&mut world, &mut client, number, &set("k", "v"));
    }
    assert!(world.packets(&client).is_empty());
    ask(&mut world, &mut client, 4, &set("k", "v"));
    let reason = world.disconnected(&client);
    assert_eq!(reason, ReasonCode::RECEIVE_MAXIMUM_EXCEEDED);
}

#[test]
fn a_connection_on_which_much_is_awaited_is_not_read_until_outcomes_come() {
    let limits = HubLimits {
        max_output_bytes: 10_000,
        ..HubLimits::default()
    };
    let (mut world, shared) = world(CALM, limits);
    let mut client = world.client("me");
    for number in 1..=50 {
        ask(
            &mut world,
            &mut client,
            number,
            &set("k", &"v".repeat(1_000)),
        );
    }
    let under_way = world.hub.statistics().requests_under_way;
    assert!((5..10).contains(&under_way), "{under_way}");
    assert!(!world.hub.accepts_input(client.connection) && !client.unread.is_empty());
    let mut acknowledged = Vec::new();
    for _ in 0..1_000 {
        world.pass(50);
        while let Some(dirty) = world.hub.next_dirty() {
            assert_eq!(dirty, client.connection);
            take(&mut world, &mut client);
        }
        acknowledged.extend(answers(&world.packets(&client)).0);
    }
    assert_eq!(acknowledged, (1..=50).collect::<Vec<_>>());
    assert_eq!(shared.lock().changes.len(), 50);
}

#[test]
fn a_request_that_comes_again_before_its_outcome_is_executed_once() {
    let (mut world, shared) = world(CALM, HubLimits::default());
    let (mut client, _) = world.join(&resume("me"));
    ask(&mut world, &mut client, 1, &set("k", "v"));
    let held = world.hub.statistics().held_bytes;
    world.lose(&client);
    let (mut client, connack) = world.join(&resume("me"));
    assert!(connack.session_present);
    ask(&mut world, &mut client, 1, &set("k", "v"));
    assert_eq!(world.hub.statistics().requests_under_way, 2);
    assert!(world.hub.statistics().held_bytes > held, "both are counted");
    world.pass(1_000);
    let (acknowledged, answered) = answers(&world.packets(&client));
    assert_eq!((acknowledged, answered.len()), (vec![1], 2));
    assert_eq!(shared.lock().changes.len(), 1);
    // And once more, after it.
    ask(&mut world, &mut client, 1, &set("k", "v"));
    assert_eq!(answers(&world.packets(&client)).0, [1]);
    assert_eq!(shared.lock().changes.len(), 1);
}

#[test]
fn what_a_client_asked_that_is_gone_for_good_happens_and_leaves_nothing() {
    let (mut world, shared) = world(CALM, HubLimits::default());
    let mut client = world.client("me");
    ask(&mut world, &mut client, 1, &set("k", "v"));
    world.lose(&client);
    let mut next = world.client("me");
    world.pass(1_000);
    assert_eq!(shared.lock().changes.len(), 1);
    assert!(world.packets(&next).is_empty());
    assert_eq!(world.hub.statistics().dropped_no_session, 1);
    ask(&mut world, &mut next, 1, &set("k", "w"));
    world.pass(1_000);
    assert_eq!(answers(&world.packets(&next)).0, [1]);
    assert_eq!(
        shared.lock().changes.len(),
        2,
        "a new session, a new request"
    );
    world.lose(&next);
    assert_eq!(world.hub.statistics().held_bytes, 0);
}

#[test]
fn what_a_user_asked_is_nothing_to_the_next_one_with_its_client_id() {
    let mut users = Users::default();
    for user in ["ann", "bob"] {
        assert!(users.add(user, b"1"));
    }
    let config = HubConfig {
        authenticator: users.into(),
        ..HubConfig::default()
    };
    let (mut world, shared) = world_with(CALM, config);
    let login = |user: &str| Connect {
        user_name: Some(user.into()),
        password: Some("1".into()),
        ..resume("me")
    };
    let absent = command(&["SET", "k", "v", "NX"]);
    let (mut ann, _) = world.join(&login("ann"));
    ask(&mut world, &mut ann, 1, &absent);
    world.lose(&ann);
    // The same to the last byte, while the outcome of the first one is still to come.
    let (mut bob, connack) = world.join(&login("bob"));
    assert!(!connack.session_present);
    ask(&mut world, &mut bob, 1, &absent);
    world.pass(1_000);
    let packets = world.packets(&bob);
    let told = packets.iter().filter_map(|packet| match packet {
        Packet::Publish(publish) => Some(publish.payload_bytes()),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [b":-1\r\n"]);
    assert_eq!(shared.lock().changes.len(), 1);
}

#[test]
fn a_request_whose_time_is_over_in_the_keyspace_did_not_happen() {
    let slow = Weather {
        delay_ms: 100_000,
        ..CALM
    };
    let (mut world, shared) = world(slow, HubLimits::default());
    let (mut client, _) = world.join(&resume("me"));
    let expiring = PublishHeader {
        message_expiry: Some(1),
        ..request(id(1))
    };
    send(&mut world, &mut client, &expiring, &set("k", "v"));
    world.pass(300_000);
    let reason = world.puback(&client, id(1));
    assert_eq!(reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
    assert_eq!(world.hub.statistics().requests_expired, 1);
    assert!(shared.lock().changes.is_empty());
    // The same again is another attempt.
    send(&mut world, &mut client, &request(id(1)), &set("k", "v"));
    world.pass(300_000);
    assert_eq!(answers(&world.packets(&client)).0, [1]);
    assert_eq!(shared.lock().changes.len(), 1);
}

#[test]
fn nothing_is_said_of_what_nobody_knows_and_it_is_not_tried_again() {
    let foggy = Weather { lost: 100, ..CALM };
    let (mut world, shared) = world(foggy, HubLimits::default());
    let (mut client, _) = world.join(&resume("me"));
    for round in 1..=2 {
        for number in 1..=20 {
            ask(
                &mut world,
                &mut client,
                number,
                &set(&number.to_string(), "v"),
            );
        }
        world.pass(1_000);
        let (acknowledged, answered) = answers(&world.packets(&client));
        assert_eq!(acknowledged, (1..=20).collect::<Vec<_>>());
        assert!(answered.is_empty());
        assert_eq!(world.hub.statistics().requests_unknown, 20 * round);
        let made = shared.lock().changes.len();
        assert!(
            (1..20).contains(&made),
            "{made}: some happened, some did not"
        );
        assert_eq!(made, shared.lock().entries.len(), "none twice");
    }
    // Reads lose nothing.
    ask(&mut world, &mut client, 21, &command(&["SCAN", "*"]));
    world.pass(1_000);
    assert_eq!(answers(&world.packets(&client)).1.len(), 1);
}
