//! Protocol violations of a client. The client loses its connection, and no other client does.
use crate::world::{Client, HubSimulation, MAX, connect, id, message};
use statestore_protocol::mqtt::{
    Auth, ConnAck, Connect, Disconnect, Packet, PublishHeader, QoS, ReasonCode, Subscription, Will,
};
use statestore_protocol::topic;
use statestored_broker::hub::{CloseAction, HubLimits};

/// Runs `misuse` as one of two clients; the other one must not notice.
fn assert_refused(reason: ReasonCode, misuse: impl FnOnce(&mut HubSimulation, &mut Client)) {
    let limits = HubLimits {
        max_packet_bytes: 2048,
        ..HubLimits::default()
    };
    let mut world = HubSimulation::limited(limits);
    let mut other = world.client("other");
    let mut client = world.client("me");
    misuse(&mut world, &mut client);
    assert_eq!(world.disconnected(&client), reason);
    world.bytes(&mut client, &[0xC0, 0]);
    assert!(world.packets(&client).is_empty() && client.unread.is_empty());
    world.drop_connection(&client);
    world.assert_alive(&mut other);
    assert_eq!(world.hub.metrics().connections_failed, 1);
    assert_eq!(world.hub.metrics().connections, 1);
}

#[test]
fn retained_messages_are_refused() {
    assert_refused(ReasonCode::RETAIN_NOT_SUPPORTED, |world, client| {
        let header = PublishHeader {
            retain: true,
            ..message("a", 1)
        };
        world.publish(client, &header, b"");
    });
}

#[test]
fn qos_2_is_refused() {
    assert_refused(ReasonCode::QOS_NOT_SUPPORTED, |world, client| {
        world.bytes(client, b"\x34\x06\x00\x01a\x00\x01\x00");
    });
}

#[test]
fn too_large_packets_are_refused_by_their_header() {
    assert_refused(ReasonCode::PACKET_TOO_LARGE, |world, client| {
        // 2,049 bytes in all; only the first four have come.
        world.bytes(client, &[0x30, 0xFE, 0x0F, 0]);
    });
}

#[test]
fn malformed_packets_are_rejected() {
    for bytes in [
        &b"\x36\x06\x00\x01a\x00\x01\x00"[..], // QoS 3
        b"\x30\x04\x00\x01\xFF\x00",           // topic not UTF-8
        b"\x30\x04\x00\x05a\x00",              // topic longer than the packet
        b"\x30\x04\x00\x01#\x00",              // wildcard in a topic name
        b"\x80\x07\x00\x01\x00\x00\x01a\x01",  // flags of SUBSCRIBE
        b"\x30\x05\x00\x01a\x01\x63",          // unknown property
        b"\xC0\xFF\xFF\xFF\xFF\x01",           // length of five bytes
    ] {
        assert_refused(ReasonCode::MALFORMED_PACKET, |world, client| {
            world.bytes(client, bytes);
        });
    }
}

#[test]
fn protocol_violations_are_refused() {
    for bytes in [
        &b"\x38\x04\x00\x01a\x00"[..],              // DUP with QoS 0
        b"\x32\x06\x00\x01a\x00\x00\x00",           // packet identifier 0
        b"\x30\x04\x00\x00\x00\x00",                // neither topic nor alias
        b"\x30\x06\x00\x01a\x02\x0B\x01",           // subscription identifier from a client
        b"\x82\x03\x00\x01\x00",                    // SUBSCRIBE without filters
        b"\x20\x03\x00\x00\x00",                    // CONNACK
        b"\x50\x02\x00\x01",                        // PUBREC
        b"\x82\x0D\x00\x01\x00\x00\x07$share/\x06", // no-local shared subscription
    ] {
        assert_refused(ReasonCode::PROTOCOL_ERROR, |world, client| {
            world.bytes(client, bytes);
        });
    }
    assert_refused(ReasonCode::PROTOCOL_ERROR, |world, client| {
        world.send(client, |out| {
            ConnAck::new(ReasonCode::SUCCESS).encode(MAX, out)
        });
    });
    assert_refused(ReasonCode::PROTOCOL_ERROR, |world, client| {
        let auth = Auth {
            reason: ReasonCode::REAUTHENTICATE,
            method: Some("X".into()),
            data: None,
            reason_string: None,
        };
        world.send(client, |out| auth.encode(MAX, out));
    });
    assert_refused(ReasonCode::PROTOCOL_ERROR, |world, client| {
        let expiry = Disconnect {
            session_expiry_s: Some(5),
            ..Disconnect::new(ReasonCode::SUCCESS)
        };
        world.send(client, |out| expiry.encode(MAX, out));
    });
}

#[test]
fn wrong_topic_aliases_are_refused() {
    for alias in [0, 65, u16::MAX] {
        assert_refused(ReasonCode::TOPIC_ALIAS_INVALID, |world, client| {
            let header = PublishHeader {
                topic_alias: Some(alias),
                ..message("a", 1)
            };
            world.publish(client, &header, b"");
        });
    }
    assert_refused(ReasonCode::PROTOCOL_ERROR, |world, client| {
        let header = PublishHeader {
            topic_alias: Some(1),
            ..message("", 1)
        };
        world.publish(client, &header, b"");
    });
}

#[test]
fn forbidden_response_topics_close_the_connection() {
    let below = format!("clients/statestore/v1/{}/x", topic::STORE_GUID);
    for response_topic in [topic::REQUEST, &below] {
        assert_refused(ReasonCode::TOPIC_NAME_INVALID, |world, client| {
            let header = PublishHeader {
                response_topic: Some(response_topic),
                correlation_data: Some(b"1"),
                ..message(topic::REQUEST, 1)
            };
            world.publish(client, &header, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        });
    }
}

#[test]
fn only_the_store_publishes_notifications_and_responses() {
    let guid = topic::STORE_GUID;
    let reserved = [
        topic::response("victim"),
        format!("clients/victim/services/statestore/v1/{guid}/command/invoke/response"),
        format!("clients/76696374696D/statestore/v1/{guid}/command/invoke/response"),
        format!("clients/victim/statestore/v1/{guid}/command/invoke"),
        format!("clients/with/slashes/statestore/v1/{guid}/command/invoke"),
        topic::notification("victim", b"k"),
    ];
    let mut world = HubSimulation::new();
    let mut victim = world.client("victim");
    world.subscribe(&mut victim, "clients/#");
    let mut client = world.client("me");
    for topic in &reserved {
        world.publish(&mut client, &message(topic, 1), b"");
        assert_eq!(
            world.puback(&client, id(1)),
            ReasonCode::NOT_AUTHORIZED,
            "{topic}"
        );
        let at_most_once = PublishHeader {
            packet_id: None,
            ..message(topic, 1)
        };
        world.publish(&mut client, &at_most_once, b"");
        let will = Will {
            topic: topic.clone(),
            payload: "v".into(),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay_s: 0,
            message_expiry: None,
            payload_is_utf8: None,
            content_type: None,
            response_topic: None,
            correlation_data: None,
            user_properties: Vec::new(),
        };
        let (_, connack) = world.try_join(&Connect {
            will: Some(will),
            ..connect("other")
        });
        assert_eq!(connack.reason, ReasonCode::TOPIC_NAME_INVALID, "{topic}");
    }
    world.assert_alive(&mut victim);
    for topic in [
        "clients/victim/other",
        "clients/victim/services/other/response",
        "other/services/statestore/x",
    ] {
        world.publish(&mut client, &message(topic, 1), b"");
        assert_ne!(
            world.puback(&client, id(1)),
            ReasonCode::NOT_AUTHORIZED,
            "{topic}"
        );
    }
}

#[test]
fn more_messages_than_receive_maximum_are_refused() {
    let limits = HubLimits {
        receive_maximum: 2,
        ..HubLimits::default()
    };
    let mut world = HubSimulation::limited(limits);
    let mut client = world.client("me");
    for _ in 0..3 {
        for number in 1..=2 {
            world.publish(&mut client, &message("a", number), b"");
        }
        assert_eq!(world.packets(&client).len(), 2);
    }
    for number in 1..=3 {
        world.publish(&mut client, &message("a", number), b"");
    }
    assert_eq!(
        world.disconnected(&client),
        ReasonCode::RECEIVE_MAXIMUM_EXCEEDED
    );
}

#[test]
fn a_will_is_published_for_a_client_that_was_refused() {
    let mut world = HubSimulation::new();
    let mut heir = world.client("heir");
    world.subscribe(&mut heir, "w");
    let will = Will {
        topic: "w".into(),
        payload: "gone".into(),
        qos: statestore_protocol::mqtt::QoS::AtMostOnce,
        retain: false,
        delay_s: 0,
        message_expiry: None,
        payload_is_utf8: None,
        content_type: None,
        response_topic: None,
        correlation_data: None,
        user_properties: Vec::new(),
    };
    let (mut client, _) = world.join(&Connect {
        will: Some(will),
        ..connect("me")
    });
    world.bytes(&mut client, &[0x00]);
    assert_eq!(world.disconnected(&client), ReasonCode::MALFORMED_PACKET);
    assert_eq!(world.published(&heir)[0].payload_bytes(), b"gone");
}

#[test]
fn a_client_with_a_tiny_maximum_packet_size_is_closed() {
    let mut world = HubSimulation::new();
    let limits = statestore_protocol::mqtt::Limits {
        max_packet_bytes: 4,
        ..Default::default()
    };
    let mut client = world.open();
    world.send(&mut client, |out| {
        Connect {
            limits,
            ..connect("me")
        }
        .encode(MAX, out)
    });
    assert_ne!(
        world.hub.close_action(client.connection),
        CloseAction::KeepOpen
    );
    for packet in world.packets(&client) {
        assert!(matches!(packet, Packet::Disconnect(_)), "{packet:?}");
    }
}

#[test]
fn invalid_subscriptions_are_refused_individually() {
    let limits = HubLimits {
        max_subscriptions: 2,
        ..HubLimits::default()
    };
    let mut world = HubSimulation::limited(limits);
    let mut client = world.client("me");
    let filters = ["a/#/b", topic::REQUEST, "$share/g/a", "ok/#", "b", "c", "b"];
    let subscriptions = filters.map(Subscription::at_least_once).to_vec();
    assert_eq!(
        world.subscribe_all(&mut client, None, subscriptions),
        [
            ReasonCode::TOPIC_FILTER_INVALID,
            ReasonCode::NOT_AUTHORIZED,
            ReasonCode::SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
            ReasonCode::GRANTED_QOS_1,
            ReasonCode::GRANTED_QOS_1,
            ReasonCode::QUOTA_EXCEEDED,
            ReasonCode::GRANTED_QOS_1,
        ]
    );
    world.assert_alive(&mut client);
}
