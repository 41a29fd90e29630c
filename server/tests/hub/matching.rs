//! Topics and filters that take long to compare: others have their turn between.
use crate::world::{Client, HubSimulation, RESPONSES, command, id, request, set};
use bytes::BytesMut;
use statestore_protocol::mqtt::{Packet, PublishHeader, ReasonCode, Subscription};
use statestore_protocol::topic;
use statestored_access::UserLimits;
use statestored_broker::hub::HubLimits;

/// Levels that a filter may have.
const LEVELS: usize = 128;

/// Filters of many levels that all match `topic`, and of which no two have the same wildcards.
fn filters(topic: &str, count: usize) -> Vec<Subscription> {
    let filter = |number: usize| {
        let levels = topic.split('/').enumerate().map(|(depth, level)| {
            let is_any = depth < 10 && number >> depth & 1 == 1;
            if is_any { "+" } else { level }
        });
        Subscription::at_least_once(levels.collect::<Vec<_>>().join("/"))
    };
    (0..count).map(filter).collect()
}

fn subscribe(world: &mut HubSimulation, client: &mut Client, topic: &str, identifier: Option<u32>) {
    let filters = filters(topic, 1_000);
    for filters in filters.chunks(100) {
        let granted = world.subscribe_all(client, identifier, filters.to_vec());
        assert!(granted.iter().all(|it| *it == ReasonCode::GRANTED_QOS_1));
    }
}

/// How many of these packets a turn takes.
fn packets_processed_per_turn(
    world: &mut HubSimulation,
    client: &Client,
    packets: &[BytesMut],
) -> usize {
    let mut input = BytesMut::from(&packets.concat()[..]);
    world.hub.received(client.connection, &mut input, world.now);
    let left = input.len() / packets[0].len();
    packets.len() - left
}

fn packets(count: u16, packet: impl Fn(u16) -> BytesMut) -> Vec<BytesMut> {
    (1..=count).map(packet).collect()
}

#[test]
fn matching_many_filters_bounds_messages_per_turn() {
    let topic = ["a"; LEVELS].join("/");
    let mut world = HubSimulation::new();
    let mut subscriber = world.client("subscriber");
    subscribe(&mut world, &mut subscriber, &topic, None);
    let publisher = world.client("publisher");
    let messages = packets(40, |number| {
        let mut packet = BytesMut::new();
        let header = PublishHeader {
            topic: &topic,
            packet_id: Some(id(number)),
            ..PublishHeader::default()
        };
        header.encode(u32::MAX, &mut packet, 0, |_| {}).unwrap();
        packet
    });
    let taken = packets_processed_per_turn(&mut world, &publisher, &messages);
    assert!((1..4).contains(&taken), "{taken}");
}

#[test]
fn matching_many_filters_bounds_notifications_per_turn() {
    const WATCHERS: usize = 32;
    let mut world = HubSimulation::new();
    for number in 0..WATCHERS {
        let name = format!("watcher-{number:02}");
        let mut client = world.client(&name);
        let topic = topic::notification(&name, b"k");
        subscribe(&mut world, &mut client, &topic, Some(1));
        world.request(&mut client, &command(&["KEYNOTIFY", "k"]));
    }
    let mut writer = world.client("writer");
    world.publish(&mut writer, &request(id(1)), &set("k", "1"));
    let notified =
        |world: &HubSimulation| usize::try_from(world.hub.metrics().notifications).unwrap();
    let first = notified(&world);
    assert!(first < WATCHERS / 2, "{first}");
    while world.hub.has_work() {
        world.hub.work(world.now);
    }
    assert_eq!(notified(&world), WATCHERS);
}

#[test]
fn matching_many_filters_bounds_responses_per_turn() {
    let response_topic = format!("{RESPONSES}/{}", ["a"; 100].join("/"));
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    subscribe(&mut world, &mut client, &response_topic, Some(1));
    let requests = packets(40, |number| {
        let mut packet = BytesMut::new();
        let payload = command(&["GET", "k"]);
        let header = PublishHeader {
            response_topic: Some(&response_topic),
            ..request(id(number))
        };
        header
            .encode(u32::MAX, &mut packet, payload.len(), |out| {
                out.extend_from_slice(&payload);
            })
            .unwrap();
        packet
    });
    let taken = packets_processed_per_turn(&mut world, &client, &requests);
    assert!((1..4).contains(&taken), "{taken}");
}

/// Subscribes sessions to all combinations of `a` and `+` on this number of levels, each with this end.
fn subscribe_combinations(world: &mut HubSimulation, levels: usize, end: &str) {
    let filter = |number: usize| {
        let level = |at| if number >> at & 1 == 1 { "+/" } else { "a/" };
        let filter: String = (0..levels).map(level).chain([end]).collect();
        Subscription::at_least_once(filter)
    };
    let filters: Vec<_> = (0..1 << levels).map(filter).collect();
    for (number, filters) in filters.chunks(1_000).enumerate() {
        let mut subscriber = world.client(&format!("subscriber-{number}"));
        for filters in filters.chunks(100) {
            let granted = world.subscribe_all(&mut subscriber, None, filters.to_vec());
            assert!(granted.iter().all(|it| *it == ReasonCode::GRANTED_QOS_1));
        }
    }
}

fn message(topic: &str, number: u16) -> BytesMut {
    let mut packet = BytesMut::new();
    let header = PublishHeader {
        topic,
        packet_id: Some(id(number)),
        ..PublishHeader::default()
    };
    header.encode(u32::MAX, &mut packet, 0, |_| {}).unwrap();
    packet
}

#[test]
fn mismatches_at_the_last_level_are_cheap() {
    let mut world = HubSimulation::new();
    subscribe_combinations(&mut world, 14, "z");
    let publisher = world.client("publisher");
    let topic = ["a"; 15].join("/");
    let messages = packets(40, |number| message(&topic, number));
    assert_eq!(
        packets_processed_per_turn(&mut world, &publisher, &messages),
        40
    );
    let answers = world.packets(&publisher);
    assert_eq!(answers.len(), 40);
    for answer in answers {
        let Packet::PubAck(puback) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(puback.reason, ReasonCode::NO_MATCHING_SUBSCRIBERS);
    }
}

#[test]
fn other_clients_are_served_between_slices_of_a_search() {
    let mut world = HubSimulation::new();
    subscribe_combinations(&mut world, 13, "z/a");
    let publisher = world.client("publisher");
    let other = world.client("other");
    let mut input = message(&["a"; 15].join("/"), 1);
    world
        .hub
        .received(publisher.connection, &mut input, world.now);
    assert!(world.packets(&publisher).is_empty());
    // The message of another client does not wait behind it.
    let mut input = message("another/topic", 1);
    world.hub.received(other.connection, &mut input, world.now);
    assert_eq!(
        world.puback(&other, id(1)),
        ReasonCode::NO_MATCHING_SUBSCRIBERS
    );
    let mut slices = 0;
    while world.hub.has_work() {
        world.hub.work(world.now);
        slices += 1;
    }
    assert!((4..100).contains(&slices), "{slices}");
    assert_eq!(
        world.puback(&publisher, id(1)),
        ReasonCode::NO_MATCHING_SUBSCRIBERS
    );
}

#[test]
fn wildcard_subscriptions_of_a_user_are_limited() {
    let mut limits = HubLimits::default();
    limits.users.default_limits = UserLimits::parse("subscriptions=2").unwrap();
    let mut world = HubSimulation::limited(limits);
    let mut one = world.client("one");
    let mut other = world.client("other");
    let granted = |world: &mut HubSimulation, client: &mut Client, filter: &str| {
        let subscriptions = vec![Subscription::at_least_once(filter)];
        world.subscribe_all(client, None, subscriptions)[0]
    };
    assert_eq!(
        granted(&mut world, &mut one, "a/+"),
        ReasonCode::GRANTED_QOS_1
    );
    assert_eq!(
        granted(&mut world, &mut one, "a/+"),
        ReasonCode::GRANTED_QOS_1
    );
    assert_eq!(
        granted(&mut world, &mut other, "a/#"),
        ReasonCode::GRANTED_QOS_1
    );
    for client in [&mut one, &mut other] {
        assert_eq!(
            granted(&mut world, client, "b/+"),
            ReasonCode::QUOTA_EXCEEDED
        );
        assert_eq!(granted(&mut world, client, "b"), ReasonCode::GRANTED_QOS_1);
    }
    // The subscriptions of a session that has ended count no more.
    world.disconnect(other, ReasonCode::SUCCESS);
    assert_eq!(
        granted(&mut world, &mut one, "b/+"),
        ReasonCode::GRANTED_QOS_1
    );
}

#[test]
fn the_default_limit_is_65_536_wildcard_subscriptions() {
    let mut world = HubSimulation::new();
    // A subscription without wildcards is one of them.
    subscribe_combinations(&mut world, 16, "z");
    let mut client = world.client("me");
    for (filter, expected) in [
        ("x/+", ReasonCode::GRANTED_QOS_1),
        ("y/+", ReasonCode::QUOTA_EXCEEDED),
    ] {
        let subscriptions = vec![Subscription::at_least_once(filter)];
        let granted = world.subscribe_all(&mut client, None, subscriptions);
        assert_eq!(granted, [expected]);
    }
}
