//! Topics and filters that take long to compare: others have their turn between.
use crate::world::{Client, RESPONSES, World, command, id, request};
use bytes::BytesMut;
use statestore_protocol::mqtt::{PublishHeader, ReasonCode, Subscription};

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

fn subscribe(world: &mut World, client: &mut Client, topic: &str, identifier: Option<u32>) {
    let filters = filters(topic, 1_000);
    for filters in filters.chunks(100) {
        let granted = world.subscribe_all(client, identifier, filters.to_vec());
        assert!(granted.iter().all(|it| *it == ReasonCode::GRANTED_QOS_1));
    }
}

/// How many of these packets a turn takes.
fn taken(world: &mut World, client: &Client, packets: &[BytesMut]) -> usize {
    let mut input = BytesMut::from(&packets.concat()[..]);
    world.hub.received(client.connection, &mut input, world.now);
    let left = input.len() / packets[0].len();
    packets.len() - left
}

fn packets(count: u16, packet: impl Fn(u16) -> BytesMut) -> Vec<BytesMut> {
    (1..=count).map(packet).collect()
}

#[test]
fn messages_that_are_compared_with_many_filters() {
    let topic = ["a"; LEVELS].join("/");
    let mut world = World::new();
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
    let taken = taken(&mut world, &publisher, &messages);
    assert!((1..4).contains(&taken), "{taken}");
}

#[test]
fn responses_that_are_compared_with_many_filters() {
    let response_topic = format!("{RESPONSES}/{}", ["a"; 100].join("/"));
    let mut world = World::new();
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
    let taken = taken(&mut world, &client, &requests);
    assert!((1..4).contains(&taken), "{taken}");
}
