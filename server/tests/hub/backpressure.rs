//! While the storage has no room, what writes waits, and nothing else.
use crate::world::{Client, HubSimulation, command, connect, id, message, request, set};
use bytes::BytesMut;
use statestore_protocol::mqtt::{Connect, Disconnect, Packet, PublishHeader, ReasonCode, Will};
use statestored_broker::hub::{CloseAction, HubConfig, HubLimits};

fn world() -> HubSimulation {
    HubSimulation::durable(HubConfig::default())
}

fn send(world: &mut HubSimulation, client: &mut Client, number: u16, payload: &[u8]) {
    let correlation = number.to_be_bytes();
    let header = PublishHeader {
        correlation_data: Some(&correlation),
        ..request(id(number))
    };
    world.publish(client, &header, payload);
}

fn ping(world: &mut HubSimulation, client: &mut Client) {
    world.bytes(client, &[0xC0, 0]);
}

fn free_storage(world: &mut HubSimulation, client: &mut Client) {
    world.hub.set_storage_backlogged(false, world.now);
    world.bytes(client, &[]);
    while let Some((sequence, _)) = world.hub.take_batch() {
        world.hub.mark_durable(sequence);
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
fn reads_and_messages_continue_while_the_storage_is_busy() {
    let mut world = world();
    let mut client = world.client("me");
    world.subscribe(&mut client, "topic");
    world.hub.set_storage_backlogged(true, world.now);
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
fn waiting_writes_are_refused_once_the_disk_is_full() {
    let mut world = world();
    let mut client = world.client("me");
    world.hub.set_storage_backlogged(true, world.now);
    send(&mut world, &mut client, 1, &set("k", "1"));
    assert!(world.packets(&client).is_empty());
    while world.hub.next_dirty().is_some() {}
    world.hub.set_read_only(true, world.now);
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
    world.hub.set_read_only(false, world.now);
    send(&mut world, &mut client, 3, &set("k", "3"));
    assert!(world.packets(&client).is_empty());
    free_storage(&mut world, &mut client);
    assert_eq!(kinds(&world.packets(&client)), "ap");
}

#[test]
fn a_waiting_write_blocks_later_packets_but_not_pings() {
    let mut world = world();
    let mut client = world.client("me");
    world.hub.set_storage_backlogged(true, world.now);
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
    world.hub.set_storage_backlogged(false, world.now);
    assert_eq!(world.hub.next_dirty(), Some(client.connection));
    // The storage is full again at once, so one of two writes waits again.
    send(&mut world, &mut client, 3, &set("l", "1"));
    world.hub.set_storage_backlogged(true, world.now);
    send(&mut world, &mut client, 4, &set("m", "1"));
    ping(&mut world, &mut client);
    assert_eq!(kinds(&world.packets(&client)), ".");
    free_storage(&mut world, &mut client);
    assert_eq!(kinds(&world.packets(&client)), "apapapap");
    ping(&mut world, &mut client);
    assert_eq!(kinds(&world.packets(&client)), ".");
}

#[test]
fn paused_reading_does_not_count_against_keep_alive() {
    let mut world = world();
    let asked = Connect {
        keep_alive_s: 10,
        ..connect("me")
    };
    let (mut client, _) = world.join(&asked);
    world.hub.set_storage_backlogged(true, world.now);
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
    world.advance(14_000);
    world.advance(1_000_000);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::KeepOpen
    );
    world.hub.set_storage_backlogged(false, world.now);
    world.bytes(&mut client, &[]);
    assert!(client.unread.is_empty());
    world.advance(14_000);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::KeepOpen
    );
    world.advance(1_100);
    assert_eq!(world.disconnected(&client), ReasonCode::KEEP_ALIVE_TIMEOUT);
}

#[test]
fn keep_alive_applies_while_the_client_is_read() {
    let mut world = world();
    let asked = Connect {
        keep_alive_s: 10,
        ..connect("me")
    };
    let (mut client, _) = world.join(&asked);
    world.hub.set_storage_backlogged(true, world.now);
    send(&mut world, &mut client, 1, &set("k", "1"));
    for _ in 0..10 {
        world.advance(10_000);
        ping(&mut world, &mut client);
        assert_eq!(kinds(&world.packets(&client)), ".");
    }
    world.advance(15_100);
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
    world.hub.set_storage_backlogged(true, world.now);
    send(&mut world, &mut client, 1, &set("k", "1"));
    world.send(&mut client, |out| {
        Disconnect::new(ReasonCode::SUCCESS).encode(u32::MAX, out)
    });
    assert!(
        !world.hub.accepts_input(client.connection),
        "its end is not read"
    );
    world.hub.set_storage_backlogged(false, world.now);
    world.bytes(&mut client, &[]);
    assert!(world.hub.has_batch());
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::Immediately
    );
    world.drop_connection(&client);
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
fn slow_output_counts_as_activity() {
    let mut world = HubSimulation::limited(HubLimits {
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
        world.advance(10_000);
        world
            .hub
            .record_output_progress(client.connection, world.now);
    }
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::KeepOpen
    );
    world.advance(15_100);
    world
        .hub
        .take_output(client.connection, &mut output, world.now);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::AfterOutput
    );
}
