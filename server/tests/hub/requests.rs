//! Requests to the store, responses and notifications.
use crate::world::{
    Client, HubSimulation, RESPONSES, START_WALL_MS, command, connect, id, message, request,
    resume, set,
};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{
    Connect, Limits, Packet, PacketId, Publish, PublishHeader, QoS, ReasonCode, Subscription,
};
use statestore_protocol::{Command, Hlc, Reply, topic};

fn properties(publish: &Publish) -> Vec<(&str, &str)> {
    publish.user_properties().collect()
}

fn refused(world: &mut HubSimulation, client: &mut Client, header: &PublishHeader<'_>) {
    world.publish(client, header, &set("k", "v"));
    let reason = world.puback(client, id(9));
    assert_eq!(reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
    assert_eq!(world.hub.service().size().keys, 0, "it was executed");
}

#[test]
fn a_response_needs_no_subscription() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    let (puback, response) = world.request(&mut client, &set("k", "v"));
    assert_eq!(
        (puback.packet_id, puback.reason),
        (id(9), ReasonCode::SUCCESS)
    );
    assert_eq!(response.qos(), QoS::AtLeastOnce);
    assert_eq!(response.topic(), RESPONSES);
    assert_eq!(response.correlation_data(), Some(&b"0123456789abcdef"[..]));
    assert_eq!(response.content_type(), Some("application/octet-stream"));
    assert_eq!(response.payload_bytes(), b"+OK\r\n");
    let [stat, version, ts] = properties(&response).try_into().unwrap();
    assert_eq!((stat, version), (("__stat", "200"), ("__protVer", "1.0")));
    assert_eq!(ts.0, "__ts");
    assert_eq!(
        Hlc::parse(ts.1.as_bytes()).unwrap().wall_ms(),
        START_WALL_MS
    );

    let header = PublishHeader {
        correlation_data: Some(b"other"),
        ..request(id(9))
    };
    world.publish(&mut client, &header, &command(&["GET", "k"]));
    let packets = world.packets(&client);
    let [Packet::PubAck(_), Packet::Publish(get)] = packets.as_slice() else {
        panic!("{packets:?}")
    };
    assert_eq!(get.payload_bytes(), b"$1\r\nv\r\n");
    assert_eq!(properties(get)[2], ts);
    assert_eq!(world.hub.metrics().requests, 2);
    assert_eq!(world.hub.metrics().responses, 2);
}

#[test]
fn an_error_of_the_store_is_a_response_like_any_other() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    for payload in [&b""[..], b"nonsense", b"*1\r\n$4\r\nQUIT\r\n"] {
        let (puback, response) = world.request(&mut client, payload);
        assert_eq!(puback.reason, ReasonCode::SUCCESS);
        assert!(response.payload_bytes().starts_with(b"-ERR "));
        assert_eq!(
            properties(&response),
            [("__stat", "200"), ("__protVer", "1.0")]
        );
    }
    world.assert_alive(&mut client);
}

#[test]
fn a_request_that_cannot_be_answered_is_not_executed() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    let whole = request(id(9));
    refused(
        &mut world,
        &mut client,
        &PublishHeader {
            response_topic: None,
            ..whole
        },
    );
    refused(
        &mut world,
        &mut client,
        &PublishHeader {
            correlation_data: None,
            ..whole
        },
    );
    refused(
        &mut world,
        &mut client,
        &PublishHeader {
            correlation_data: Some(b""),
            ..whole
        },
    );
    world.publish(
        &mut client,
        &PublishHeader {
            packet_id: None,
            ..whole
        },
        &set("k", "v"),
    );
    assert_eq!(world.hub.service().size().keys, 0);
    assert_eq!(world.hub.metrics().requests_refused, 4);
    world.assert_alive(&mut client);
}

#[test]
fn reason_strings_are_sent_only_if_requested() {
    for wanted in [true, false] {
        let mut world = HubSimulation::new();
        let asked = Connect {
            request_problem_information: wanted,
            ..connect("me")
        };
        let (mut client, _) = world.join(&asked);
        world.publish(&mut client, &message(topic::REQUEST, 1), b"");
        let packets = world.packets(&client);
        let [Packet::PubAck(puback)] = packets.as_slice() else {
            panic!("{packets:?}")
        };
        assert_eq!(puback.reason_string.is_some(), wanted);
    }
}

#[test]
fn a_redelivered_request_is_answered_again_and_not_executed_again() {
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&resume("me"));
    let nx = command(&["SET", "k", "v", "NX"]);
    world.publish(&mut client, &request(id(9)), &nx);
    let Some(Packet::Publish(first)) = world.packets(&client).pop() else {
        panic!("no response")
    };
    world.drop_connection(&client);
    let mut client = world.open();
    world.send(&mut client, |out| resume("me").encode(u32::MAX, out));
    assert_eq!(world.packets(&client).len(), 2, "CONNACK and the response");
    let header = PublishHeader {
        dup: true,
        ..request(id(9))
    };
    world.publish(&mut client, &header, &nx);
    let packets = world.packets(&client);
    let [Packet::PubAck(_), Packet::Publish(again)] = packets.as_slice() else {
        panic!("{packets:?}")
    };
    assert_eq!(again.payload_bytes(), b"+OK\r\n");
    assert_eq!(properties(again), properties(&first));
}

#[test]
fn requests_may_use_topic_aliases() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    for (number, topic) in [(1, topic::REQUEST), (2, "")] {
        let correlation = [u8::try_from(number).unwrap()];
        let header = PublishHeader {
            topic,
            topic_alias: Some(64),
            correlation_data: Some(&correlation),
            ..request(id(number))
        };
        world.publish(&mut client, &header, &set("k", "v"));
        let packets = world.packets(&client);
        assert!(matches!(
            packets.as_slice(),
            [Packet::PubAck(_), Packet::Publish(_)]
        ));
    }
    assert_eq!(world.hub.metrics().requests, 2);
}

#[test]
fn requests_responses_and_notifications_reach_no_other_client() {
    let mut world = HubSimulation::new();
    let mut spy = world.client("spy");
    for filter in [
        "#",
        "+/#",
        "clients/#",
        "statestore/v1/+/command/invoke",
        RESPONSES,
    ] {
        world.subscribe(&mut spy, filter);
    }
    let mut client = world.client("me");
    world.request(&mut client, &command(&["KEYNOTIFY", "k"]));
    world.publish(&mut client, &request(id(9)), &set("k", "v"));
    assert_eq!(
        world.packets(&client).len(),
        3,
        "PUBACK, response, notification"
    );
    assert!(world.packets(&spy).is_empty());
}

#[test]
fn notifications_need_no_subscription_and_end_with_the_connection() {
    let mut world = HubSimulation::new();
    let mut writer = world.client("writer");
    let (mut watcher, _) = world.join(&resume("watcher"));
    world.request(&mut watcher, &command(&["KEYNOTIFY", "k"]));
    world.request(&mut writer, &set("k", "v"));
    let notes = world.published(&watcher);
    let [note] = notes.as_slice() else {
        panic!("{notes:?}")
    };
    assert_eq!(note.topic(), topic::notification("watcher", b"k"));
    assert_eq!(
        note.payload_bytes(),
        b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$1\r\nv\r\n"
    );
    assert_eq!(note.qos(), QoS::AtLeastOnce);
    assert!(note.user_properties().any(|(name, _)| name == "__ts"));
    world.acknowledge(&mut watcher, note.packet_id().unwrap());
    assert_eq!(world.hub.metrics().notifications, 1);

    world.drop_connection(&watcher);
    let (watcher, connack) = world.join(&resume("watcher"));
    assert!(connack.session_present);
    let header = PublishHeader {
        correlation_data: Some(b"2"),
        ..request(id(9))
    };
    world.publish(&mut writer, &header, &set("k", "w"));
    assert!(
        world.packets(&watcher).is_empty(),
        "the watch ended with the connection"
    );
}

#[test]
fn an_expiry_is_notified_on_time() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    world.request(&mut client, &command(&["KEYNOTIFY", "k"]));
    let header = PublishHeader {
        correlation_data: Some(b"2"),
        ..request(id(9))
    };
    world.publish(
        &mut client,
        &header,
        &command(&["SET", "k", "v", "PX", "1500"]),
    );
    assert_eq!(world.packets(&client).len(), 3);
    world.advance(1_499);
    assert!(world.packets(&client).is_empty());
    world.advance(1);
    let notes = world.published(&client);
    assert_eq!(
        notes[0].payload_bytes(),
        b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n"
    );
    assert_eq!(world.hub.service().size().keys, 0);
}

#[test]
fn store_messages_carry_subscription_identifiers() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    for (identifier, filter) in [(5, "clients/me/#"), (3, "#"), (4, "other")] {
        let wanted = vec![Subscription::at_least_once(filter)];
        world.subscribe_all(&mut client, Some(identifier), wanted);
    }
    let (_, response) = world.request(&mut client, &command(&["KEYNOTIFY", "k"]));
    assert_eq!(
        response.subscription_identifiers().collect::<Vec<_>>(),
        [3, 5]
    );
}

#[test]
fn clients_cannot_publish_notifications() {
    let mut world = HubSimulation::new();
    let mut victim = world.client("victim");
    world.subscribe(&mut victim, "#");
    let mut client = world.client("me");
    let forged = topic::notification("victim", b"k");
    world.publish(&mut client, &message(&forged, 4), b"");
    assert_eq!(world.puback(&client, id(4)), ReasonCode::NOT_AUTHORIZED);
    let header = PublishHeader {
        packet_id: None,
        ..message(&forged, 4)
    };
    world.publish(&mut client, &header, b"");
    world.assert_alive(&mut client);
    assert!(world.packets(&victim).is_empty());
    assert_eq!(world.hub.metrics().messages_refused, 2);
}

#[test]
fn an_oversized_response_is_reported_in_the_puback() {
    let mut world = HubSimulation::new();
    let mut writer = world.client("writer");
    world.request(&mut writer, &set("k", &"v".repeat(1000)));
    let mut client = client_with_packet_size(&mut world, 500);
    world.publish(&mut client, &request(id(9)), &command(&["GET", "k"]));
    let reason = world.puback(&client, id(9));
    assert_eq!(reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
    assert_eq!(world.hub.metrics().dropped_too_large, 1);
    let (_, response) = world.request(&mut client, &command(&["GET", "absent"]));
    assert_eq!(response.payload_bytes(), b"$-1\r\n");
}

/// Returns a client that accepts packets of at most this size.
fn client_with_packet_size(world: &mut HubSimulation, max_packet_bytes: u32) -> Client {
    let limits = Limits {
        max_packet_bytes,
        ..Limits::default()
    };
    let connect = Connect {
        limits,
        ..connect("me")
    };
    world.join(&connect).0
}

/// Sends a request, and returns the reply after checking that its packet has at most `max_packet_bytes` bytes.
fn bounded_reply(
    world: &mut HubSimulation,
    client: &mut Client,
    payload: &[u8],
    max_packet_bytes: u32,
) -> Reply {
    let (puback, response) = world.request(client, payload);
    assert_eq!(puback.reason, ReasonCode::SUCCESS);
    assert!(response.packet_bytes() <= max_packet_bytes as usize);
    Reply::decode(&response.payload()).unwrap()
}

#[test]
fn several_entries_are_returned_in_parts_that_the_client_accepts() {
    const MAX_BYTES: u32 = 2_000;
    let mut world = HubSimulation::new();
    let mut writer = world.client("writer");
    let keys: Vec<_> = (0..600).map(|key| format!("key-{key:03}")).collect();
    let value = "v".repeat(100);
    for key in &keys[..50] {
        world.request(&mut writer, &set(key, &value));
    }
    let mut client = client_with_packet_size(&mut world, MAX_BYTES);
    let (mut found, mut responses) = (Vec::new(), 0);
    while found.len() < keys.len() {
        let rest = keys[found.len()..].iter().map(String::as_str);
        let words: Vec<_> = ["MGET"].into_iter().chain(rest).collect();
        let reply = bounded_reply(&mut world, &mut client, &command(&words), MAX_BYTES);
        let Reply::Entries { entries, omitted } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(entries.len() as u64 + omitted, words.len() as u64 - 1);
        found.extend(entries);
        responses += 1;
    }
    for (number, entry) in found.iter().enumerate() {
        let returned = entry.as_ref().map(|(value, _)| &value[..]);
        assert_eq!(returned, (number < 50).then_some(value.as_bytes()));
    }
    assert!((6..20).contains(&responses), "{responses}");
}

#[test]
fn pages_have_a_size_that_the_client_accepts() {
    const MAX_BYTES: u32 = 2_000;
    let mut world = HubSimulation::new();
    let mut writer = world.client("writer");
    for key in 0..200 {
        world.request(&mut writer, &set(&format!("key-{key:03}"), "value"));
    }
    let mut client = client_with_packet_size(&mut world, MAX_BYTES);
    for values in [false, true] {
        let (mut found, mut token) = (0, None);
        loop {
            let scan = Command::Scan {
                pattern: Bytes::from_static(b"*"),
                token,
                values,
            };
            let mut payload = BytesMut::new();
            scan.encode(&mut payload);
            let reply = bounded_reply(&mut world, &mut client, &payload, MAX_BYTES);
            let (count, next) = match reply {
                Reply::Page { keys, token } => (keys.len(), token),
                Reply::EntryPage { entries, token } => (entries.len(), token),
                other => panic!("{other:?}"),
            };
            found += count;
            token = next;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(found, 200);
    }
}

#[test]
fn an_entry_that_the_client_does_not_accept_is_reported_in_the_puback() {
    let mut world = HubSimulation::new();
    let mut writer = world.client("writer");
    world.request(&mut writer, &set("large", &"v".repeat(1000)));
    let mut client = client_with_packet_size(&mut world, 500);
    let read = command(&["MGET", "large", "absent"]);
    world.publish(&mut client, &request(id(9)), &read);
    let reason = world.puback(&client, id(9));
    assert_eq!(reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
    let read = command(&["MGET", "absent", "large"]);
    let (_, response) = world.request(&mut client, &read);
    assert_eq!(response.payload_bytes(), b"*2\r\n:1\r\n*1\r\n$-1\r\n");
}

#[test]
fn responses_wait_for_the_receive_maximum_of_the_client() {
    let mut world = HubSimulation::new();
    let limits = Limits {
        receive_maximum: 2,
        ..Limits::default()
    };
    let (mut client, _) = world.join(&Connect {
        limits,
        ..connect("me")
    });
    let wanted = vec![Subscription::at_least_once("clients/#")];
    world.subscribe_all(&mut client, Some(6), wanted);
    for number in 1..=5 {
        let correlation = [u8::try_from(number).unwrap()];
        let header = PublishHeader {
            correlation_data: Some(&correlation),
            ..request(id(number))
        };
        world.publish(&mut client, &header, &command(&["GET", "k"]));
    }
    let mut order = Vec::new();
    let mut waiting: Vec<PacketId> = Vec::new();
    for packet in world.packets(&client) {
        if let Packet::Publish(response) = packet {
            order.extend_from_slice(response.correlation_data().unwrap());
            waiting.push(response.packet_id().unwrap());
        }
    }
    assert_eq!(order, [1, 2]);
    while let Some(packet_id) = waiting.pop() {
        world.acknowledge(&mut client, packet_id);
        for response in world.published(&client) {
            let identifiers: Vec<_> = response.subscription_identifiers().collect();
            assert_eq!(identifiers, [6]);
            order.extend_from_slice(response.correlation_data().unwrap());
            waiting.push(response.packet_id().unwrap());
        }
    }
    assert_eq!(order, [1, 2, 3, 4, 5]);
}
