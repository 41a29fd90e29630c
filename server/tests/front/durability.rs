//! Nothing leaves that a crash could undo.
use crate::world::{Client, World, command, connect, id, message, request, resume, set};
use statestore::mqtt::{Connect, Limits, Packet, PublishHeader, ReasonCode};
use statestored::front::{FrontConfig, FrontLimits};
use statestored::storage::Write;

fn world() -> World {
    World::with(FrontConfig {
        is_durable: true,
        ..FrontConfig::default()
    })
}

fn send(world: &mut World, client: &mut Client, number: u16, payload: &[u8]) {
    let correlation = number.to_be_bytes();
    let header = PublishHeader {
        correlation_data: Some(&correlation),
        ..request(id(number))
    };
    world.publish(client, &header, payload);
}

fn kinds(packets: &[Packet]) -> String {
    let kind = |packet: &Packet| match packet {
        Packet::PubAck(_) => 'a',
        Packet::Publish(_) => 'p',
        Packet::PingResp => '.',
        Packet::Disconnect(_) => 'd',
        other => panic!("{other:?}"),
    };
    packets.iter().map(kind).collect()
}

#[test]
fn an_answer_waits_for_the_writes_before_it() {
    let mut world = world();
    let mut client = world.client("me");
    let mut other = world.client("other");
    send(&mut world, &mut other, 1, &command(&["GET", "k"]));
    assert_eq!(kinds(&world.packets(&other)), "ap", "there is no write yet");

    send(&mut world, &mut client, 1, &set("k", "1"));
    send(&mut world, &mut other, 2, &command(&["GET", "k"]));
    assert!(world.packets(&client).is_empty() && world.packets(&other).is_empty());
    let (first, batch) = world.front.take_batch().unwrap();
    assert_eq!(first, 1);
    assert!(matches!(batch.writes.as_slice(), [Write::Put(_)]));

    send(&mut world, &mut client, 2, &set("k", "2"));
    world.bytes(&mut client, &[0xC0, 0]);
    let (second, _) = world.front.take_batch().unwrap();
    assert_eq!(world.front.take_batch(), None);
    send(&mut world, &mut other, 3, &command(&["GET", "k"]));

    world.front.durable(first);
    assert_eq!(kinds(&world.packets(&client)), "ap");
    let packets = world.packets(&other);
    assert_eq!(kinds(&packets), "ap");
    let Packet::Publish(get) = &packets[1] else {
        panic!()
    };
    assert_eq!(get.payload_bytes(), b"$1\r\n1\r\n");
    world.front.durable(second);
    assert_eq!(kinds(&world.packets(&client)), "ap.");
    assert_eq!(kinds(&world.packets(&other)), "ap");
    send(&mut world, &mut other, 4, &command(&["GET", "k"]));
    assert_eq!(
        kinds(&world.packets(&other)),
        "ap",
        "everything is durable again"
    );
}

#[test]
fn connections_are_announced_when_their_output_may_leave() {
    let mut world = world();
    let mut client = world.client("me");
    while world.front.next_dirty().is_some() {}
    send(&mut world, &mut client, 1, &set("k", "1"));
    assert_eq!(world.front.next_dirty(), None);
    assert!(world.front.has_batch());
    let (sequence, _) = world.front.take_batch().unwrap();
    assert!(!world.front.has_batch());
    world.front.durable(sequence);
    assert_eq!(world.front.next_dirty(), Some(client.connection));
}

#[test]
fn a_refused_set_waits_for_what_it_saw() {
    let mut world = world();
    let mut client = world.client("me");
    send(&mut world, &mut client, 1, &set("k", "1"));
    send(
        &mut world,
        &mut client,
        2,
        &command(&["SET", "k", "2", "NX"]),
    );
    let (sequence, batch) = world.front.take_batch().unwrap();
    assert_eq!(batch.writes.len(), 1);
    assert!(world.packets(&client).is_empty());
    world.front.durable(sequence);
    assert_eq!(kinds(&world.packets(&client)), "apap");
}

#[test]
fn notifications_wait_too() {
    let mut world = world();
    let mut watcher = world.client("watcher");
    let mut client = world.client("me");
    send(&mut world, &mut watcher, 1, &command(&["KEYNOTIFY", "k"]));
    assert_eq!(kinds(&world.packets(&watcher)), "ap");
    send(
        &mut world,
        &mut client,
        1,
        &command(&["SET", "k", "v", "PX", "100"]),
    );
    let (sequence, _) = world.front.take_batch().unwrap();
    assert!(world.packets(&watcher).is_empty());
    world.front.durable(sequence);
    assert_eq!(kinds(&world.packets(&watcher)), "p");
    world.pass(100);
    assert!(
        world.packets(&watcher).is_empty(),
        "the deletion is not durable yet"
    );
    let (sequence, batch) = world.front.take_batch().unwrap();
    assert!(matches!(batch.writes.as_slice(), [Write::Delete(_)]) && batch.clock.is_some());
    world.front.durable(sequence);
    assert_eq!(kinds(&world.packets(&watcher)), "p");
}

#[test]
fn a_message_that_waits_in_a_session_waits_for_its_write_as_well() {
    let mut world = world();
    let limits = Limits {
        receive_maximum: 1,
        ..Limits::default()
    };
    let asked = Connect {
        limits,
        ..resume("me")
    };
    let (mut client, _) = world.join(&asked);
    send(&mut world, &mut client, 1, &set("k", "1"));
    send(&mut world, &mut client, 2, &set("k", "2"));
    world.lose(&client);
    let mut client = world.open();
    world.send(&mut client, |out| asked.encode(u32::MAX, out));
    let packets = world.packets(&client);
    assert!(
        matches!(packets.as_slice(), [Packet::ConnAck(_)]),
        "{packets:?}"
    );
    let (sequence, _) = world.front.take_batch().unwrap();
    world.front.durable(sequence);
    let again = world.published(&client);
    assert!(again.len() == 1 && again[0].dup());
    world.acknowledge(&mut client, again[0].packet_id().unwrap());
    let next = world.published(&client);
    assert!(next.len() == 1 && !next[0].dup());
    assert_eq!(next[0].correlation_data(), Some(&2u16.to_be_bytes()[..]));
}

#[test]
fn ordinary_messages_do_not_wait() {
    let mut world = world();
    let mut client = world.client("me");
    let mut other = world.client("other");
    world.subscribe(&mut other, "a");
    send(&mut world, &mut client, 1, &set("k", "1"));
    world.publish(&mut client, &message("a", 2), b"x");
    assert_eq!(world.published(&other).len(), 1);
    assert!(
        world.packets(&client).is_empty(),
        "its PUBACKs keep their order"
    );
}

#[test]
fn unsent_pubacks_count_against_receive_maximum() {
    let limits = FrontLimits {
        receive_maximum: 3,
        ..FrontLimits::default()
    };
    let mut world = World::with(FrontConfig {
        is_durable: true,
        limits,
        ..FrontConfig::default()
    });
    let mut client = world.client("me");
    for number in 1..=3 {
        send(&mut world, &mut client, number, &set("k", "1"));
    }
    let (sequence, _) = world.front.take_batch().unwrap();
    world.front.durable(sequence);
    assert_eq!(kinds(&world.packets(&client)), "apapap");
    for number in 1..=4 {
        send(&mut world, &mut client, number, &set("k", "2"));
    }
    assert_eq!(
        world.disconnected(&client),
        ReasonCode::RECEIVE_MAXIMUM_EXCEEDED
    );
}

#[test]
fn a_failed_storage_acknowledges_nothing_and_ends_all_connections() {
    let mut world = world();
    let mut client = world.client("me");
    let idle = world.client("idle");
    send(&mut world, &mut client, 1, &set("k", "1"));
    world.front.take_batch().unwrap();
    world.front.storage_failed(world.now);
    for client in [&client, &idle] {
        let packets = world.packets(client);
        assert_eq!(kinds(&packets), "d");
        let Packet::Disconnect(disconnect) = &packets[0] else {
            panic!()
        };
        assert_eq!(disconnect.reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
    }
}

#[test]
fn in_memory_nothing_waits_and_there_are_no_batches() {
    let mut world = World::new();
    let (mut client, _) = world.join(&connect("me"));
    send(&mut world, &mut client, 1, &set("k", "1"));
    assert_eq!(kinds(&world.packets(&client)), "ap");
    assert!(!world.front.has_batch());
    assert_eq!(world.front.take_batch(), None);
}
