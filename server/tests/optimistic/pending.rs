//! A client whose requests have their outcomes later.
use crate::keyspace::{FaultRates, OptimisticKeyspace};
use crate::shared::SharedMap;
use crate::world::{
    Client, HubSimulation, START_WALL_MS, command, id, message, request, resume, set,
};
use bytes::BytesMut;
use statestore_protocol::mqtt::{Connect, Packet, PublishHeader, ReasonCode};
use statestored_access::Users;
use statestored_broker::hub::{Hub, HubConfig, HubLimits};
use statestored_store::service::{ClockReading, Service, ServiceConfig};

const CALM: FaultRates = FaultRates {
    seed: 1,
    delay_ms: 100,
    refused: 0,
    lost: 0,
};

fn world(weather: FaultRates, limits: HubLimits) -> (HubSimulation, SharedMap) {
    let config = HubConfig {
        limits,
        ..HubConfig::default()
    };
    world_with(weather, config)
}

fn world_with(weather: FaultRates, config: HubConfig) -> (HubSimulation, SharedMap) {
    let shared = SharedMap::default();
    let keyspace = OptimisticKeyspace::new(shared.clone(), u64::MAX, weather);
    let service = Service::new(ServiceConfig::default(), keyspace);
    let world = HubSimulation {
        hub: Hub::new(config, service),
        now: ClockReading {
            wall_ms: START_WALL_MS,
            mono_ms: 0,
        },
    };
    (world, shared)
}

/// Sends a request, or whatever it is, and does not wait.
fn send(
    world: &mut HubSimulation,
    client: &mut Client,
    header: &PublishHeader<'_>,
    payload: &[u8],
) {
    let write = |out: &mut BytesMut| out.extend_from_slice(payload);
    let unread = &mut client.unread;
    header
        .encode(u32::MAX, unread, payload.len(), write)
        .unwrap();
    drive(world, client);
}

fn drive(world: &mut HubSimulation, client: &mut Client) {
    while world
        .hub
        .received(client.connection, &mut client.unread, world.now)
    {}
}

/// A request whose correlation data is its packet identifier.
fn send_request(world: &mut HubSimulation, client: &mut Client, number: u16, payload: &[u8]) {
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
fn responses_may_be_reordered_and_acknowledgements_are_not() {
    let (mut world, _) = world(CALM, HubLimits::default());
    let mut client = world.client("me");
    for number in 1..=9 {
        send_request(
            &mut world,
            &mut client,
            number,
            &set(&number.to_string(), "v"),
        );
    }
    // Not a request, but behind them.
    send(&mut world, &mut client, &message("somewhere", 10), b"");
    assert!(world.packets(&client).is_empty());
    assert_eq!(world.hub.metrics().requests_pending, 9);
    world.advance(1_000);
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
fn pending_requests_count_against_the_receive_maximum() {
    let limits = HubLimits {
        receive_maximum: 3,
        ..HubLimits::default()
    };
    let (mut world, _) = world(CALM, limits);
    let mut client = world.client("me");
    for number in 1..=3 {
        send_request(&mut world, &mut client, number, &set("k", "v"));
    }
    assert!(world.packets(&client).is_empty());
    send_request(&mut world, &mut client, 4, &set("k", "v"));
    let reason = world.disconnected(&client);
    assert_eq!(reason, ReasonCode::RECEIVE_MAXIMUM_EXCEEDED);
}

#[test]
fn a_connection_with_many_pending_requests_is_not_read() {
    let limits = HubLimits {
        max_output_bytes: 10_000,
        ..HubLimits::default()
    };
    let (mut world, shared) = world(CALM, limits);
    let mut client = world.client("me");
    for number in 1..=50 {
        send_request(
            &mut world,
            &mut client,
            number,
            &set("k", &"v".repeat(1_000)),
        );
    }
    let under_way = world.hub.metrics().requests_pending;
    assert!((5..10).contains(&under_way), "{under_way}");
    assert!(!world.hub.accepts_input(client.connection) && !client.unread.is_empty());
    let mut acknowledged = Vec::new();
    for _ in 0..1_000 {
        world.advance(50);
        while let Some(dirty) = world.hub.next_dirty() {
            assert_eq!(dirty, client.connection);
            drive(&mut world, &mut client);
        }
        acknowledged.extend(answers(&world.packets(&client)).0);
    }
    assert_eq!(acknowledged, (1..=50).collect::<Vec<_>>());
    assert_eq!(shared.lock().changes.len(), 50);
}

#[test]
fn a_request_redelivered_while_pending_is_executed_once() {
    let (mut world, shared) = world(CALM, HubLimits::default());
    let (mut client, _) = world.join(&resume("me"));
    send_request(&mut world, &mut client, 1, &set("k", "v"));
    let held = world.hub.metrics().held_bytes;
    world.drop_connection(&client);
    let (mut client, connack) = world.join(&resume("me"));
    assert!(connack.session_present);
    send_request(&mut world, &mut client, 1, &set("k", "v"));
    assert_eq!(world.hub.metrics().requests_pending, 2);
    assert!(world.hub.metrics().held_bytes > held, "both are counted");
    world.advance(1_000);
    let (acknowledged, answered) = answers(&world.packets(&client));
    assert_eq!((acknowledged, answered.len()), (vec![1], 2));
    assert_eq!(shared.lock().changes.len(), 1);
    // And once more, after it.
    send_request(&mut world, &mut client, 1, &set("k", "v"));
    assert_eq!(answers(&world.packets(&client)).0, [1]);
    assert_eq!(shared.lock().changes.len(), 1);
}

#[test]
fn a_pending_request_of_an_ended_session_is_executed_and_leaves_nothing() {
    let (mut world, shared) = world(CALM, HubLimits::default());
    let mut client = world.client("me");
    send_request(&mut world, &mut client, 1, &set("k", "v"));
    world.drop_connection(&client);
    let mut next = world.client("me");
    world.advance(1_000);
    assert_eq!(shared.lock().changes.len(), 1);
    assert!(world.packets(&next).is_empty());
    assert_eq!(world.hub.metrics().dropped_no_session, 1);
    send_request(&mut world, &mut next, 1, &set("k", "w"));
    world.advance(1_000);
    assert_eq!(answers(&world.packets(&next)).0, [1]);
    assert_eq!(
        shared.lock().changes.len(),
        2,
        "a new session, a new request"
    );
    world.drop_connection(&next);
    assert_eq!(world.hub.metrics().held_bytes, 0);
}

#[test]
fn a_pending_request_does_not_answer_another_user_with_the_same_client_id() {
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
    send_request(&mut world, &mut ann, 1, &absent);
    world.drop_connection(&ann);
    // The same to the last byte, while the outcome of the first one is still to come.
    let (mut bob, connack) = world.join(&login("bob"));
    assert!(!connack.session_present);
    send_request(&mut world, &mut bob, 1, &absent);
    world.advance(1_000);
    let packets = world.packets(&bob);
    let told = packets.iter().filter_map(|packet| match packet {
        Packet::Publish(publish) => Some(publish.payload_bytes()),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [b":-1\r\n"]);
    assert_eq!(shared.lock().changes.len(), 1);
}

#[test]
fn a_request_that_expires_in_the_keyspace_is_not_executed() {
    let slow = FaultRates {
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
    world.advance(300_000);
    let reason = world.puback(&client, id(1));
    assert_eq!(reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
    assert_eq!(world.hub.metrics().requests_expired, 1);
    assert!(shared.lock().changes.is_empty());
    // The same again is another attempt.
    send(&mut world, &mut client, &request(id(1)), &set("k", "v"));
    world.advance(300_000);
    assert_eq!(answers(&world.packets(&client)).0, [1]);
    assert_eq!(shared.lock().changes.len(), 1);
}

#[test]
fn an_unknown_outcome_sends_no_response_and_is_not_retried() {
    let foggy = FaultRates { lost: 100, ..CALM };
    let (mut world, shared) = world(foggy, HubLimits::default());
    let (mut client, _) = world.join(&resume("me"));
    for round in 1..=2 {
        for number in 1..=20 {
            send_request(
                &mut world,
                &mut client,
                number,
                &set(&number.to_string(), "v"),
            );
        }
        world.advance(1_000);
        let (acknowledged, answered) = answers(&world.packets(&client));
        assert_eq!(acknowledged, (1..=20).collect::<Vec<_>>());
        assert!(answered.is_empty());
        assert_eq!(world.hub.metrics().requests_unknown, 20 * round);
        let made = shared.lock().changes.len();
        assert!(
            (1..20).contains(&made),
            "{made}: some happened, some did not"
        );
        assert_eq!(made, shared.lock().entries.len(), "none twice");
    }
    // Reads lose nothing.
    send_request(&mut world, &mut client, 21, &command(&["SCAN", "*"]));
    world.advance(1_000);
    assert_eq!(answers(&world.packets(&client)).1.len(), 1);
}
