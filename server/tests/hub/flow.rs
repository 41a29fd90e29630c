//! Slow readers: memory stays bounded, and others are not held up.
use crate::world::{HubSimulation, command, connect, id, message, request, resume, set};
use bytes::BytesMut;
use statestore_protocol::mqtt::{
    Connect, Limits, Packet, PublishHeader, QoS, ReasonCode, Subscription,
};
use statestored_broker::hub::{CloseAction, HubLimits};

fn limits() -> HubLimits {
    HubLimits {
        max_output_bytes: 10_000,
        max_queued_messages: 5,
        ..HubLimits::default()
    }
}

#[test]
fn requests_wait_while_their_client_does_not_read() {
    let mut world = HubSimulation::limited(limits());
    let mut client = world.client("me");
    world.request(&mut client, &set("k", &"v".repeat(1000)));
    for number in 1..=100 {
        let correlation = [u8::try_from(number).unwrap()];
        let header = PublishHeader {
            correlation_data: Some(&correlation),
            ..request(id(number))
        };
        world.publish(&mut client, &header, &command(&["GET", "k"]));
    }
    assert!(!world.hub.accepts_input(client.connection));
    let executed = world.hub.metrics().requests;
    assert!((5..=15).contains(&executed), "{executed}");
    assert!(!client.unread.is_empty());

    let mut answered = Vec::new();
    while answered.len() < 100 {
        let packets = world.packets(&client);
        assert!(!packets.is_empty(), "nothing more came after {answered:?}");
        for packet in packets {
            if let Packet::Publish(response) = packet {
                answered.extend_from_slice(response.correlation_data().unwrap());
            }
        }
        assert!(world.hub.accepts_input(client.connection));
        world.bytes(&mut client, b"");
    }
    assert_eq!(answered, (1..=100).collect::<Vec<u8>>());
    assert!(client.unread.is_empty());
}

#[test]
fn a_request_that_waited_longer_than_its_expiry_is_not_executed() {
    let mut world = HubSimulation::limited(limits());
    let mut client = world.client("me");
    world.request(&mut client, &set("k", &"v".repeat(20_000)));
    let first = PublishHeader {
        correlation_data: Some(b"1"),
        ..request(id(1))
    };
    world.publish(&mut client, &first, &command(&["GET", "k"]));
    for (number, seconds) in [(2, 3), (3, 5)] {
        let correlation = [u8::try_from(number).unwrap()];
        let header = PublishHeader {
            correlation_data: Some(&correlation),
            message_expiry: Some(seconds),
            ..request(id(number))
        };
        world.publish(&mut client, &header, &command(&["GET", "absent"]));
    }
    world.advance(4_000);
    assert_eq!(world.packets(&client).len(), 2);
    world.bytes(&mut client, b"");
    let packets = world.packets(&client);
    let [
        Packet::PubAck(expired),
        Packet::PubAck(executed),
        Packet::Publish(_),
    ] = packets.as_slice()
    else {
        panic!("{packets:?}")
    };
    assert_eq!(expired.packet_id, id(2));
    assert_eq!(expired.reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
    assert_eq!(
        (executed.packet_id, executed.reason),
        (id(3), ReasonCode::SUCCESS)
    );
    assert_eq!(world.hub.metrics().requests_expired, 1);
}

#[test]
fn a_slow_subscriber_is_disconnected_and_keeps_its_queue() {
    let mut world = HubSimulation::limited(limits());
    let (mut slow, _) = world.join(&resume("slow"));
    world.subscribe(&mut slow, "a");
    let mut publisher = world.client("publisher");
    let mut sent = 0;
    while world.hub.close_action(slow.connection) == CloseAction::KeepOpen {
        sent += 1;
        world.publish(&mut publisher, &message("a", 1), &[0; 1000]);
        assert_eq!(world.packets(&publisher).len(), 1);
        assert!(sent < 100, "it is never disconnected");
    }
    assert!(sent > 10, "{sent}");
    assert_eq!(world.disconnected(&slow), ReasonCode::QUOTA_EXCEEDED);
    world.drop_connection(&slow);
    let mut back = world.open();
    world.send(&mut back, |out| resume("slow").encode(u32::MAX, out));
    let mut count = 0;
    loop {
        let packets = world.packets(&back);
        if packets.is_empty() {
            break;
        }
        for packet in packets {
            if let Packet::Publish(publish) = packet {
                count += 1;
                world.acknowledge(&mut back, publish.packet_id().unwrap());
            }
        }
    }
    assert_eq!(count, sent - 1, "all but the one that did not fit");
}

#[test]
fn qos_0_messages_to_a_slow_reader_are_dropped() {
    let mut world = HubSimulation::limited(limits());
    let mut slow = world.client("slow");
    let zero = Subscription {
        qos: QoS::AtMostOnce,
        ..Subscription::at_least_once("a")
    };
    world.subscribe_all(&mut slow, None, vec![zero]);
    let mut publisher = world.client("publisher");
    for _ in 0..50 {
        let header = PublishHeader {
            packet_id: None,
            ..message("a", 1)
        };
        world.publish(&mut publisher, &header, &[0; 1000]);
    }
    let got = world.published(&slow).len();
    assert!((9..=12).contains(&got), "{got}");
    assert_eq!(world.hub.metrics().dropped_full, 50 - got as u64);
    world.assert_alive(&mut slow);
}

#[test]
fn requests_of_a_client_that_does_not_acknowledge_are_refused_before_they_are_executed() {
    let by_bytes = HubLimits {
        max_queued_bytes: 2_000,
        ..HubLimits::default()
    };
    {
        let mut world = HubSimulation::limited(by_bytes);
        let (mut client, _) = world.join(&resume("me"));
        let mut unacknowledged = Vec::new();
        let refused = loop {
            let number = u16::try_from(unacknowledged.len()).unwrap() + 1;
            let correlation = number.to_be_bytes();
            let header = PublishHeader {
                correlation_data: Some(&correlation),
                ..request(id(number))
            };
            world.publish(&mut client, &header, &set("k", &number.to_string()));
            match world.packets(&client).as_slice() {
                [Packet::PubAck(_), Packet::Publish(response)] => {
                    unacknowledged.push(response.packet_id().unwrap());
                }
                [Packet::PubAck(puback)] => break puback.reason,
                other => panic!("{other:?}"),
            }
            assert!(number < 100, "there is no limit");
        };
        assert_eq!(refused, ReasonCode::QUOTA_EXCEEDED);
        assert!(unacknowledged.len() > 3, "{unacknowledged:?}");
        let executed = unacknowledged.len() as u64;
        assert_eq!(world.hub.metrics().requests, executed);
        // A client whose session ends with its connection leaves nothing behind, and is not affected.
        let mut other = world.client("other");
        world.request(&mut other, &command(&["GET", "k"]));
        for packet_id in unacknowledged {
            world.acknowledge(&mut client, packet_id);
        }
        let (puback, response) = world.request(&mut client, &command(&["GET", "k"]));
        assert_eq!(puback.reason, ReasonCode::SUCCESS);
        let last = format!("${}\r\n{executed}\r\n", executed.to_string().len());
        assert_eq!(response.payload_bytes(), last.as_bytes());
    }
}

#[test]
fn a_closing_connection_has_a_deadline() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    world.bytes(&mut client, &[0]);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::AfterOutput
    );
    world.advance(999);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::AfterOutput
    );
    world.advance(1);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::Immediately
    );
}

#[test]
fn a_connection_becomes_dirty_once() {
    let mut world = HubSimulation::new();
    let mut client = world.open();
    world.send(&mut client, |out| connect("me").encode(u32::MAX, out));
    assert_eq!(world.hub.next_dirty(), Some(client.connection));
    assert_eq!(world.hub.next_dirty(), None);
    let mut output = BytesMut::new();
    world
        .hub
        .take_output(client.connection, &mut output, world.now);
    assert!(!output.is_empty());
    assert_eq!(world.hub.next_dirty(), None);
}

#[test]
fn a_partial_packet_does_not_mark_a_connection_dirty_again() {
    let mut world = HubSimulation::new();
    let client = world.client("c");
    let mut input = BytesMut::from(&[0xC0, 0][..]);
    world.hub.received(client.connection, &mut input, world.now);
    let mut dirty = std::iter::from_fn(|| world.hub.next_dirty());
    assert_eq!(dirty.next(), Some(client.connection), "it has a PINGRESP");
    assert_eq!(dirty.next(), None);
    // The driver has not taken it yet.
    let mut input = BytesMut::from(&[0x32, 10][..]);
    world.hub.received(client.connection, &mut input, world.now);
    assert_eq!((input.len(), world.hub.next_dirty()), (2, None));
}

#[test]
fn a_watcher_with_a_small_maximum_packet_size_is_disconnected_with_the_reason() {
    let mut world = HubSimulation::new();
    let limits = Limits {
        max_packet_bytes: 400,
        ..Limits::default()
    };
    let mut small = world
        .join(&Connect {
            limits,
            ..connect("small")
        })
        .0;
    let mut large = world.client("large");
    for client in [&mut small, &mut large] {
        for key in ["k", "l"] {
            world.request(client, &command(&["KEYNOTIFY", key]));
        }
    }
    let mut writer = world.client("writer");
    world.request(&mut writer, &set("k", "fits"));
    world.request(&mut writer, &set("k", &"v".repeat(400)));
    assert_eq!(world.published(&large).len(), 2);
    assert_eq!(
        world.hub.close_action(small.connection),
        CloseAction::AfterOutput
    );
    let packets = world.packets(&small);
    let [Packet::Publish(first), Packet::Disconnect(last)] = &packets[..] else {
        panic!("{packets:?}")
    };
    assert!(first.payload_bytes().ends_with(b"fits\r\n"));
    assert_eq!(last.reason, ReasonCode::PACKET_TOO_LARGE);
    let why = last.reason_string.as_deref().unwrap_or_default();
    assert!(why.contains("Maximum Packet Size"), "{why}");
    let statistics = world.hub.metrics();
    assert_eq!(
        (statistics.dropped_too_large, statistics.connections_failed),
        (1, 1)
    );
    world.drop_connection(&small);
    world.request(&mut writer, &set("l", "v"));
    assert_eq!(world.published(&large).len(), 1, "all others go on");
}

#[test]
fn a_notification_may_be_as_large_as_the_largest_packet() {
    let mut world = HubSimulation::new();
    let mut writer = world.client("writer");
    let mut measure = world.client("watcher");
    world.request(&mut measure, &command(&["KEYNOTIFY", "k"]));
    world.request(&mut writer, &set("k", &"v".repeat(400)));
    let size = world.output(&measure).len();
    for (client, less) in [("watches", 0), ("watched", 1)] {
        let limits = Limits {
            max_packet_bytes: u32::try_from(size - less).unwrap(),
            ..Limits::default()
        };
        let mut watcher = world
            .join(&Connect {
                limits,
                ..connect(client)
            })
            .0;
        world.request(&mut watcher, &command(&["KEYNOTIFY", "k"]));
        world.request(&mut writer, &set("k", &"w".repeat(400)));
        if less == 0 {
            assert_eq!(world.output(&watcher).len(), size);
        } else {
            let reason = world.disconnected(&watcher);
            assert_eq!(reason, ReasonCode::PACKET_TOO_LARGE);
        }
    }
}
