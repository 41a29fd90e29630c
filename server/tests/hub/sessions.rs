//! Sessions that outlive their connection.
use crate::world::{HubSimulation, command, connect, id, message, request, resume, set};
use statestore_protocol::mqtt::{Connect, Limits, Packet, PublishHeader, ReasonCode};
use statestored_broker::hub::{CloseAction, HubLimits};

#[test]
fn messages_wait_for_a_session_and_its_subscriptions_stay() {
    let mut world = HubSimulation::new();
    let (mut client, connack) = world.join(&resume("me"));
    assert!(!connack.session_present);
    world.subscribe(&mut client, "a");
    world.drop_connection(&client);
    let mut publisher = world.client("publisher");
    for number in 1..=3 {
        world.publish(
            &mut publisher,
            &message("a", number),
            &[number.to_be_bytes()[1]],
        );
        assert_eq!(world.puback(&publisher, id(number)), ReasonCode::SUCCESS);
    }
    let unacknowledged = PublishHeader {
        packet_id: None,
        ..message("a", 1)
    };
    world.publish(&mut publisher, &unacknowledged, b"QoS 0 does not wait");
    let mut client = world.open();
    world.send(&mut client, |out| resume("me").encode(u32::MAX, out));
    let packets = world.packets(&client);
    let Packet::ConnAck(connack) = &packets[0] else {
        panic!("{packets:?}")
    };
    assert!(connack.session_present);
    let payloads: Vec<_> = packets[1..]
        .iter()
        .map(|packet| match packet {
            Packet::Publish(publish) => {
                assert!(!publish.dup());
                publish.payload_bytes().to_vec()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(payloads, [[1], [2], [3]]);
}

#[test]
fn a_session_ends_after_its_expiry_interval() {
    for (seconds, present) in [(59, true), (60, false)] {
        let mut world = HubSimulation::new();
        let (mut client, _) = world.join(&resume("me"));
        world.subscribe(&mut client, "a");
        world.drop_connection(&client);
        world.advance(seconds * 1000);
        let mut publisher = world.client("publisher");
        world.publish(&mut publisher, &message("a", 1), b"");
        let reason = world.puback(&publisher, id(1));
        assert_eq!(reason == ReasonCode::SUCCESS, present);
        let mut client = world.open();
        world.send(&mut client, |out| resume("me").encode(u32::MAX, out));
        let Some(Packet::ConnAck(connack)) = world.packets(&client).into_iter().next() else {
            panic!("no CONNACK")
        };
        assert_eq!(connack.session_present, present);
    }
}

#[test]
fn a_clean_start_and_zero_expiry_discard_the_session() {
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&resume("me"));
    world.subscribe(&mut client, "a");
    world.drop_connection(&client);
    assert!(!world.join(&connect("me")).1.session_present);
    assert_eq!(world.hub.metrics().sessions, 1);
    let (client, connack) = world.join(&Connect {
        clean_start: false,
        ..connect("me")
    });
    assert!(!connack.session_present);
    world.drop_connection(&client);
    assert_eq!(world.hub.metrics().sessions, 0);
    let mut publisher = world.client("publisher");
    world.publish(&mut publisher, &message("a", 1), b"");
    assert_eq!(
        world.puback(&publisher, id(1)),
        ReasonCode::NO_MATCHING_SUBSCRIBERS
    );
}

#[test]
fn unacknowledged_messages_are_sent_again_in_order_with_dup() {
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&resume("me"));
    world.subscribe(&mut client, "a");
    let mut publisher = world.client("publisher");
    for number in 1..=4 {
        world.publish(
            &mut publisher,
            &message("a", number),
            &[number.to_be_bytes()[1]],
        );
    }
    let sent = world.published(&client);
    world.acknowledge(&mut client, sent[1].packet_id().unwrap());
    world.request(&mut client, &set("k", "v"));
    world.publish(&mut client, &request(id(8)), &command(&["GET", "k"]));
    let response = world.packets(&client).pop().unwrap();
    world.drop_connection(&client);
    world.publish(&mut publisher, &message("a", 5), &[5]);

    let limits = Limits {
        receive_maximum: 2,
        ..Limits::default()
    };
    let mut client = world.open();
    world.send(&mut client, |out| {
        Connect {
            limits,
            ..resume("me")
        }
        .encode(u32::MAX, out)
    });
    let mut packets = world.packets(&client);
    let Packet::ConnAck(connack) = packets.remove(0) else {
        panic!("no CONNACK")
    };
    assert!(connack.session_present);
    let mut got = Vec::new();
    while !packets.is_empty() {
        assert!(packets.len() <= 2, "more than the new Receive Maximum");
        for packet in std::mem::take(&mut packets) {
            let Packet::Publish(publish) = packet else {
                panic!("{packet:?}")
            };
            let packet_id = publish.packet_id().unwrap();
            got.push((publish.dup(), packet_id, publish.payload_bytes().to_vec()));
            world.acknowledge(&mut client, packet_id);
            packets.extend(world.packets(&client));
        }
    }
    let Packet::Publish(response) = response else {
        panic!("{response:?}")
    };
    let again = |publish: &statestore_protocol::mqtt::Publish| {
        (
            true,
            publish.packet_id().unwrap(),
            publish.payload_bytes().to_vec(),
        )
    };
    assert_eq!(
        got[..4],
        [
            again(&sent[0]),
            again(&sent[2]),
            again(&sent[3]),
            again(&response)
        ]
    );
    assert_eq!((got[4].0, &got[4].2[..], got.len()), (false, &[5][..], 5));
}

#[test]
fn message_expiry_continues_in_the_queue() {
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&resume("me"));
    world.subscribe(&mut client, "a");
    world.drop_connection(&client);
    let mut publisher = world.client("publisher");
    for (number, seconds) in [(1, 10), (2, 20)] {
        let header = PublishHeader {
            message_expiry: Some(seconds),
            ..message("a", number)
        };
        world.publish(&mut publisher, &header, b"");
    }
    world.advance(12_500);
    let mut client = world.open();
    world.send(&mut client, |out| resume("me").encode(u32::MAX, out));
    let packets = world.packets(&client);
    let [Packet::ConnAck(_), Packet::Publish(second)] = packets.as_slice() else {
        panic!("{packets:?}")
    };
    assert_eq!(second.message_expiry(), Some(8), "7.5 seconds are left");
    assert_eq!(world.hub.metrics().dropped_expired, 1);
}

#[test]
fn the_queue_of_a_session_is_bounded() {
    let by_count = HubLimits {
        max_queued_messages: 2,
        ..HubLimits::default()
    };
    let by_bytes = HubLimits {
        max_queued_bytes: 4_000,
        ..HubLimits::default()
    };
    for limits in [by_count, by_bytes] {
        let mut world = HubSimulation::limited(limits);
        let (mut client, _) = world.join(&resume("me"));
        world.subscribe(&mut client, "a");
        world.drop_connection(&client);
        let mut publisher = world.client("publisher");
        let mut reasons = Vec::new();
        for number in 1..=4u16 {
            let payload = [number.to_be_bytes()[1]; 2000];
            world.publish(&mut publisher, &message("a", number), &payload);
            reasons.push(world.puback(&publisher, id(number)));
        }
        assert_eq!(reasons[..2], [ReasonCode::SUCCESS; 2]);
        assert_eq!(reasons[2..], [ReasonCode::QUOTA_EXCEEDED; 2]);
        assert_eq!(world.hub.metrics().dropped_full, 2);
        let mut client = world.open();
        world.send(&mut client, |out| resume("me").encode(u32::MAX, out));
        let packets = world.packets(&client);
        let [_, Packet::Publish(first), Packet::Publish(second)] = packets.as_slice() else {
            panic!("{packets:?}")
        };
        assert_eq!(
            (first.payload_bytes()[0], second.payload_bytes()[0]),
            (1, 2),
            "the oldest stay"
        );
    }
}

#[test]
fn a_second_connection_takes_the_session_over() {
    let mut world = HubSimulation::new();
    let (mut old, _) = world.join(&resume("me"));
    world.subscribe(&mut old, "a");
    world.request(&mut old, &command(&["KEYNOTIFY", "k"]));
    let (mut new, connack) = world.join(&resume("me"));
    assert!(connack.session_present);
    assert_eq!(world.disconnected(&old), ReasonCode::SESSION_TAKEN_OVER);
    world.drop_connection(&old);
    world.assert_alive(&mut new);
    let mut other = world.client("other");
    world.publish(&mut other, &message("a", 1), b"");
    assert_eq!(world.puback(&other, id(1)), ReasonCode::SUCCESS);
    assert_eq!(world.published(&new).len(), 1);
    world.request(&mut other, &set("k", "v"));
    assert!(
        world.packets(&new).is_empty(),
        "watches ended with the old connection"
    );
    assert_eq!(world.hub.metrics().sessions, 2);
}

#[test]
fn a_response_is_queued_for_a_disconnected_requester() {
    let mut world = HubSimulation::new();
    let limits = Limits {
        receive_maximum: 1,
        ..Limits::default()
    };
    let (mut client, _) = world.join(&Connect {
        limits,
        ..resume("me")
    });
    for number in 1..=2 {
        let correlation = [u8::try_from(number).unwrap()];
        let header = PublishHeader {
            correlation_data: Some(&correlation),
            ..request(id(number))
        };
        world.publish(&mut client, &header, &command(&["GET", "k"]));
    }
    world.drop_connection(&client);
    let mut client = world.open();
    world.send(&mut client, |out| resume("me").encode(u32::MAX, out));
    let packets = world.packets(&client);
    let [
        Packet::ConnAck(_),
        Packet::Publish(first),
        Packet::Publish(second),
    ] = packets.as_slice()
    else {
        panic!("{packets:?}")
    };
    assert_eq!(
        (first.dup(), first.correlation_data()),
        (true, Some(&[1][..]))
    );
    assert_eq!(
        (second.dup(), second.correlation_data()),
        (false, Some(&[2][..]))
    );
}

#[test]
fn a_message_too_large_for_the_new_connection_is_skipped() {
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&resume("me"));
    world.subscribe(&mut client, "a");
    let mut publisher = world.client("publisher");
    world.publish(&mut publisher, &message("a", 1), &[0; 400]);
    world.publish(&mut publisher, &message("a", 2), b"short");
    world.drop_connection(&client);
    world.publish(&mut publisher, &message("a", 3), &[0; 400]);
    let limits = Limits {
        max_packet_bytes: 200,
        ..Limits::default()
    };
    let mut client = world.open();
    world.send(&mut client, |out| {
        Connect {
            limits,
            ..resume("me")
        }
        .encode(u32::MAX, out)
    });
    let packets = world.packets(&client);
    let [Packet::ConnAck(_), Packet::Publish(short)] = packets.as_slice() else {
        panic!("{packets:?}")
    };
    assert_eq!(short.payload_bytes(), b"short");
    assert_eq!(world.hub.metrics().dropped_too_large, 2);
    world.assert_alive(&mut client);
}

#[test]
fn shutdown_sends_disconnect() {
    let mut world = HubSimulation::new();
    let client = world.client("me");
    let opening = world.open();
    world.hub.shut_down(world.now);
    assert_eq!(
        world.disconnected(&client),
        ReasonCode::SERVER_SHUTTING_DOWN
    );
    assert_eq!(
        world.hub.close_action(opening.connection),
        CloseAction::Immediately
    );
}
