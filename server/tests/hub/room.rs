//! While the storage has no room, what writes waits, and nothing else.
use crate::world::{Client, World, command, connect, id, message, request, set};
use bytes::BytesMut;
use statestore_protocol::mqtt::{Connect, Disconnect, Packet, PublishHeader, ReasonCode, Will};
use statestored::hub::{Closing, HubConfig, HubLimits};

fn world() -> World {
    World::durable(HubConfig::default())
}

fn send(world: &mut World, client: &mut Client, number: u16, payload: &[u8]) {
    let correlation = number.to_be_bytes();
    let header = PublishHeader {
        correlation_data: Some(&correlation),
        ..request(id(number))
    };
    world.publish(client, &header, payload);
}

fn ping(world: &mut World, client: &mut Client) {
    world.bytes(client, &[0xC0, 0]);
}

fn make_room(world: &mut World, client: &mut Client) {
    world.hub.set_storage_full(false, world.now);
    world.bytes(client, &[]);
    while let Some((sequence, _)) = world.hub.take_batch() {
        world.hub.durable(sequence);
    }
}

fn kinds(packets: &[Packet]) -> String {
    let kind = |packet: &Packet| match packet {
        Packet::PubAck(_) => 'a',
        Packet::Publish(_) => 'p',
        Packet::PingResp => '.',
        other => panic!("{other:?}"),
    };
    packets.iter().map(kind).collect()
}

#[test]
fn reads_and_messages_go_on() {
    let mut world = world();
    let mut client = world.client("me");
    world.subscribe(&mut client, "topic");
    world.hub.set_storage_full(true, world.now);
    send(&mut world, &mut client, 1, &command(&["GET", "k"]));
    send(&mut world, &mut client, 2, &command(&["SCAN", "*"]));
    send(&mut world, &mut client, 3, &command(&["KEYNOTIFY", "k"]));
    assert_eq!(kinds(&world.packets(&client)), "apapap");
    world.publish(&mut client, &message("topic", 4), b"SET k v");
    assert_eq!(kinds(&world.packets(&client)), "pa");
    for (number, write) in [
        set("k", "1"),
        command(&["DEL", "k"]),
        command(&["VDEL", "k", "1"]),
    ]
    .iter()
    .enumerate()
    {
        let mut writer = world.client(&number.to_string());
        send(&mut world, &mut writer, 1, write);
        assert!(world.packets(&writer).is_empty());
        assert!(!world.hub.has_batch());
    }
}

#[test]
fn what_waits_for_room_is_refused_once_the_disk_is_full() {
    let mut world = world();
    let mut client = world.client("me");
    world.hub.set_storage_full(true, world.now);
    send(&mut world, &mut client, 1, &set("k", "1"));
    assert!(world.packets(&client).is_empty());
    while world.hub.next_dirty().is_some() {}
    world.hub.storage_full(true, world.now);
    assert_eq!(world.hub.next_dirty(), Some(client.connection));
    world.bytes(&mut client, &[]);
    send(&mut world, &mut client, 2, &set("k", "2"));
    let packets = world.packets(&client);
    assert_eq!(kinds(&packets), "apap");
    for packet in packets {
        if let Packet::Publish(response) = packet {
            assert!(
                response
                    .payload_bytes()
                    .starts_with(b"-ERR the store is read-only")
            );
        }
    }
    // There is room on the disk again, but still too much waits for it.
    world.hub.storage_full(false, world.now);
    send(&mut world, &mut client, 3, &set("k", "3"));
    assert!(world.packets(&client).is_empty());
    make_room(&mut world, &mut client);
    assert_eq!(kinds(&world.packets(&client)), "ap");
}

#[test]
fn a_write_waits_with_all_behind_it_but_pings_are_answered() {
    let mut world = world();
    let mut client = world.client("me");
    world.hub.set_storage_full(true, world.now);
    ping(&mut world, &mut client);
    send(&mut world, &mut client, 1, &set("k", "1"));
    ping(&mut world, &mut client);
    send(&mut world, &mut client, 2, &command(&["GET", "k"]));
    assert_eq!(kinds(&world.packets(&client)), "..");
    // Half a packet.
    world.bytes(&mut client, &[0xC0]);
    assert!(world.packets(&client).is_empty());
    world.bytes(&mut client, &[0, 0xC0, 0]);
    assert_eq!(kinds(&world.packets(&client)), "..");
    while world.hub.next_dirty().is_some() {}
    world.hub.set_storage_full(false, world.now);
    assert_eq!(world.hub.next_dirty(), Some(client.connection));
    // The storage is full again at once, so one of two writes waits again.
    send(&mut world, &mut client, 3, &set("l", "1"));
    world.hub.set_storage_full(true, world.now);
    send(&mut world, &mut client, 4, &set("m", "1"));
    ping(&mut world, &mut client);
    assert_eq!(kinds(&world.packets(&client)), ".");
    make_room(&mut world, &mut client);
    assert_eq!(kinds(&world.packets(&client)), "apapapap");
    ping(&mut world, &mut client);
    assert_eq!(kinds(&world.packets(&client)), ".");
}

#[test]
fn time_in_which_nothing_is_read_does_not_count() {
    let mut world = world();
    let asked = Connect {
        keep_alive_s: 10,
        ..connect("me")
    };
    let (mut client, _) = world.join(&asked);
    world.hub.set_storage_full(true, world.now);
    let mut number = 0;
    while world.hub.accepts_input(client.connection) {
        number += 1;
        send(
            &mut world,
            &mut client,
            number,
            &set("k", &"v".repeat(1000)),
        );
        assert!(number < 1000, "it reads without an end");
    }
    world.pass(14_000);
    world.pass(1_000_000);
    assert_eq!(world.hub.closing(client.connection), Closing::No);
    world.hub.set_storage_full(false, world.now);
    world.bytes(&mut client, &[]);
    assert!(client.unread.is_empty());
    world.pass(14_000);
    assert_eq!(world.hub.closing(client.connection), Closing::No);
    world.pass(1_100);
    assert_eq!(world.disconnected(&client), ReasonCode::KEEP_ALIVE_TIMEOUT);
}

#[test]
fn while_it_is_read_a_client_has_to_show_that_it_lives() {
    let mut world = world();
    let asked = Connect {
        keep_alive_s: 10,
        ..connect("me")
    };
    let (mut client, _) = world.join(&asked);
    world.hub.set_storage_full(true, world.now);
    send(&mut world, &mut client, 1, &set("k", "1"));
    for _ in 0..10 {
        world.pass(10_000);
        ping(&mut world, &mut client);
        assert_eq!(kinds(&world.packets(&client)), ".");
    }
    world.pass(15_100);
    assert_eq!(world.disconnected(&client), ReasonCode::KEEP_ALIVE_TIMEOUT);
}

#[test]
fn a_disconnect_behind_a_write_is_not_overtaken_by_the_end_of_the_connection() {
    let mut world = world();
    let mut heir = world.client("heir");
    world.subscribe(&mut heir, "w");
    let asked = Connect {
        will: Some(Will {
            topic: "w".into(),
            ..will()
        }),
        ..connect("me")
    };
    let (mut client, _) = world.join(&asked);
    world.hub.set_storage_full(true, world.now);
    send(&mut world, &mut client, 1, &set("k", "1"));
    world.send(&mut client, |out| {
        Disconnect::new(ReasonCode::SUCCESS).encode(u32::MAX, out)
    });
    assert!(
        !world.hub.accepts_input(client.connection),
        "its end is not read"
    );
    world.hub.set_storage_full(false, world.now);
    world.bytes(&mut client, &[]);
    assert!(world.hub.has_batch());
    assert_eq!(world.hub.closing(client.connection), Closing::Now);
    world.lose(&client);
    assert!(world.packets(&heir).is_empty());
}

fn will() -> Will {
    Will {
        topic: String::new(),
        payload: bytes::Bytes::new(),
        qos: statestore_protocol::mqtt::QoS::AtLeastOnce,
        retain: false,
        delay_s: 0,
        message_expiry: None,
        payload_is_utf8: None,
        content_type: None,
        response_topic: None,
        correlation_data: None,
        user_properties: Vec::new(),
    }
}

#[test]
fn output_that_leaves_slowly_is_a_sign_of_life() {
    let mut world = World::limited(HubLimits {
        max_output_bytes: 1000,
        ..HubLimits::default()
    });
    let asked = Connect {
        keep_alive_s: 10,
        ..connect("me")
    };
    let (mut client, _) = world.join(&asked);
    send(&mut world, &mut client, 1, &set("k", &"v".repeat(1000)));
    let mut output = BytesMut::new();
    send(&mut world, &mut client, 2, &command(&["GET", "k"]));
    assert!(!world.hub.accepts_input(client.connection));
    for _ in 0..10 {
        world.pass(10_000);
        world.hub.progressed(client.connection, world.now);
    }
    assert_eq!(world.hub.closing(client.connection), Closing::No);
    world.pass(15_100);
    world
        .hub
        .take_output(client.connection, &mut output, world.now);
    assert_eq!(world.hub.closing(client.connection), Closing::AfterOutput);
}
