//! Messages between clients.
use crate::world::{HubSimulation, connect, id, message, resume};
use bytes::BytesMut;
use statestore_protocol::mqtt::{
    Packet, PublishHeader, QoS, ReasonCode, Subscription, UnsubAck, Unsubscribe,
};

#[test]
fn subscribers_receive_messages_and_pubacks_report_matching_subscribers() {
    let mut world = HubSimulation::new();
    let mut publisher = world.client("publisher");
    let mut exact = world.client("exact");
    world.subscribe(&mut exact, "a/b");
    let mut wild = world.client("wild");
    world.subscribe(&mut wild, "a/+");
    world.publish(&mut publisher, &message("a/b", 1), b"one");
    assert_eq!(world.puback(&publisher, id(1)), ReasonCode::SUCCESS);
    world.publish(&mut publisher, &message("a/c", 2), b"two");
    world.publish(&mut publisher, &message("x", 3), b"none");
    let reasons: Vec<_> = world
        .packets(&publisher)
        .into_iter()
        .map(|packet| match packet {
            Packet::PubAck(puback) => (puback.packet_id.get(), puback.reason),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        reasons,
        [
            (2, ReasonCode::SUCCESS),
            (3, ReasonCode::NO_MATCHING_SUBSCRIBERS)
        ]
    );
    let payloads = |messages: Vec<statestore_protocol::mqtt::Publish>| -> Vec<Vec<u8>> {
        messages
            .iter()
            .map(|message| message.payload_bytes().to_vec())
            .collect()
    };
    assert_eq!(payloads(world.published(&exact)), [b"one"]);
    assert_eq!(payloads(world.published(&wild)), [b"one", b"two"]);
}

#[test]
fn wildcards_at_the_front_do_not_match_dollar_topics() {
    let mut world = HubSimulation::new();
    let mut all = world.client("all");
    world.subscribe(&mut all, "#");
    world.subscribe(&mut all, "+/x");
    let mut publisher = world.client("publisher");
    world.publish(&mut publisher, &message("$own/x", 1), b"");
    assert_eq!(
        world.puback(&publisher, id(1)),
        ReasonCode::NO_MATCHING_SUBSCRIBERS
    );
    world.subscribe(&mut all, "$own/#");
    world.publish(&mut publisher, &message("$own/x", 1), b"");
    assert_eq!(world.published(&all).len(), 1);
}

#[test]
fn overlapping_subscriptions_deliver_once_with_the_highest_qos_and_all_identifiers() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    let at_most_once = Subscription {
        qos: QoS::AtMostOnce,
        ..Subscription::at_least_once("a/#")
    };
    let reasons = world.subscribe_all(&mut client, Some(200), vec![at_most_once]);
    assert_eq!(reasons, [ReasonCode::SUCCESS]);
    let at_most_twice = Subscription {
        qos: QoS::ExactlyOnce,
        ..Subscription::at_least_once("+/b")
    };
    let reasons = world.subscribe_all(&mut client, Some(7), vec![at_most_twice]);
    assert_eq!(
        reasons,
        [ReasonCode::GRANTED_QOS_1],
        "QoS 2 is granted as 1"
    );
    let mut publisher = world.client("publisher");
    world.publish(&mut publisher, &message("a/b", 1), b"x");
    let got = world.published(&client);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].qos(), QoS::AtLeastOnce);
    assert_eq!(
        got[0].subscription_identifiers().collect::<Vec<_>>(),
        [7, 200]
    );
}

#[test]
fn the_lower_qos_of_publisher_and_subscription_counts() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    world.subscribe(&mut client, "one");
    let zero = Subscription {
        qos: QoS::AtMostOnce,
        ..Subscription::at_least_once("zero")
    };
    world.subscribe_all(&mut client, None, vec![zero]);
    let mut publisher = world.client("publisher");
    let unacknowledged = PublishHeader {
        packet_id: None,
        ..message("one", 1)
    };
    world.publish(&mut publisher, &unacknowledged, b"");
    world.publish(&mut publisher, &message("zero", 1), b"");
    let got = world.published(&client);
    assert_eq!([got[0].qos(), got[1].qos()], [QoS::AtMostOnce; 2]);
}

#[test]
fn no_local_keeps_own_messages_away() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    let others = Subscription {
        no_local: true,
        ..Subscription::at_least_once("a")
    };
    world.subscribe_all(&mut client, None, vec![others]);
    world.publish(&mut client, &message("a", 1), b"mine");
    assert_eq!(
        world.puback(&client, id(1)),
        ReasonCode::NO_MATCHING_SUBSCRIBERS
    );
    let mut other = world.client("other");
    world.publish(&mut other, &message("a", 1), b"theirs");
    assert_eq!(world.published(&client).len(), 1);
}

#[test]
fn a_later_subscription_to_the_same_filter_replaces_the_earlier_one() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    world.subscribe_all(&mut client, Some(1), vec![Subscription::at_least_once("a")]);
    let lower = Subscription {
        qos: QoS::AtMostOnce,
        ..Subscription::at_least_once("a")
    };
    world.subscribe_all(&mut client, None, vec![lower]);
    let mut publisher = world.client("publisher");
    world.publish(&mut publisher, &message("a", 1), b"");
    let got = world.published(&client);
    assert_eq!((got.len(), got[0].qos()), (1, QoS::AtMostOnce));
    assert_eq!(got[0].subscription_identifiers().count(), 0);
}

#[test]
fn unsubscribing_ends_delivery() {
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&connect("me"));
    world.subscribe(&mut client, "a");
    let packet = Unsubscribe {
        packet_id: id(5),
        filters: vec!["a".into(), "b".into(), "x#".into()],
    };
    world.send(&mut client, |out| packet.encode(u32::MAX, out));
    let packets = world.packets(&client);
    let [
        Packet::UnsubAck(UnsubAck {
            packet_id, reasons, ..
        }),
    ] = packets.as_slice()
    else {
        panic!("{packets:?}")
    };
    assert_eq!(*packet_id, id(5));
    assert_eq!(
        *reasons,
        [
            ReasonCode::SUCCESS,
            ReasonCode::NO_SUBSCRIPTION_EXISTED,
            ReasonCode::TOPIC_FILTER_INVALID
        ]
    );
    let mut publisher = world.client("publisher");
    world.publish(&mut publisher, &message("a", 1), b"");
    assert_eq!(
        world.puback(&publisher, id(1)),
        ReasonCode::NO_MATCHING_SUBSCRIBERS
    );
}

#[test]
fn all_properties_are_forwarded() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    world.subscribe(&mut client, "a");
    let mut publisher = world.client("publisher");
    let header = PublishHeader {
        payload_is_utf8: Some(true),
        content_type: Some("text/plain"),
        response_topic: Some("answers"),
        correlation_data: Some(&[0, 255]),
        message_expiry: Some(30),
        topic_alias: Some(3),
        user_properties: &[("b", "2"), ("a", "1"), ("b", "2")],
        ..message("a", 1)
    };
    world.publish(&mut publisher, &header, "ü".as_bytes());
    let got = world.published(&client);
    let got = &got[0];
    assert_eq!((got.topic(), got.topic_alias()), ("a", None));
    assert_eq!(got.payload_is_utf8(), Some(true));
    assert!(!got.dup() && !got.retain());
    assert_eq!(got.content_type(), Some("text/plain"));
    assert_eq!(got.response_topic(), Some("answers"));
    assert_eq!(got.correlation_data(), Some(&[0, 255][..]));
    assert_eq!(got.message_expiry(), Some(30));
    assert_eq!(got.payload_bytes(), "ü".as_bytes());
    let properties: Vec<_> = got.user_properties().collect();
    assert_eq!(properties, [("b", "2"), ("a", "1"), ("b", "2")]);
}

#[test]
fn the_same_calls_give_the_same_bytes() {
    let run = || {
        let mut world = HubSimulation::new();
        let mut output = BytesMut::new();
        let mut clients: Vec<_> = (0..20)
            .map(|number| {
                let mut client = world.join(&resume(&format!("client-{number}"))).0;
                world.subscribe(&mut client, "a/+");
                world.subscribe(&mut client, "a/b");
                client
            })
            .collect();
        for publisher in &mut clients {
            world.publish(publisher, &message("a/b", 1), b"x");
            while let Some(id) = world.hub.next_dirty() {
                world.hub.take_output(id, &mut output, world.now);
            }
        }
        output
    };
    assert_eq!(run(), run());
}

#[test]
fn payload_properties_are_forwarded_unchanged() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    world.subscribe(&mut client, "a");
    let mut publisher = world.client("publisher");
    for payload_is_utf8 in [None, Some(false), Some(true)] {
        let header = PublishHeader {
            payload_is_utf8,
            ..message("a", 1)
        };
        world.publish(&mut publisher, &header, b"text");
        let got = world.published(&client);
        assert_eq!(got[0].payload_is_utf8(), payload_is_utf8);
        world.acknowledge(&mut client, got[0].packet_id().unwrap());
    }
}
