//! Messages to many clients are delivered in slices, so that other clients are served in between.
use crate::wills::will;
use crate::world::{Client, HubSimulation, command, connect, id, message, request, set};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{
    Connect, Packet, Publish, PublishHeader, ReasonCode, Subscription,
};
use statestore_protocol::topic;

#[test]
fn a_change_reaches_thousands_of_watchers_in_slices() {
    const WATCHERS: usize = 3_000;
    let mut world = HubSimulation::new();
    let mut writer = world.client("writer");
    let mut other = world.client("other");
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|number| {
            let mut client = world.client(&format!("watcher-{number:05}"));
            world.request(&mut client, &command(&["KEYNOTIFY", "k"]));
            client
        })
        .collect();
    let notified =
        |world: &HubSimulation| usize::try_from(world.hub.metrics().notifications).unwrap();
    let header = request(id(1));
    let payload = set("k", "1");
    let mut input = BytesMut::new();
    for _ in 0..2 {
        let write = |out: &mut BytesMut| out.extend_from_slice(&payload);
        header
            .encode(u32::MAX, &mut input, payload.len(), write)
            .unwrap();
    }
    world.hub.received(writer.connection, &mut input, world.now);
    assert!(notified(&world) < 200, "{}", notified(&world));
    assert!(!input.is_empty() && !world.hub.accepts_input(writer.connection));
    assert_eq!(world.packets(&writer).len(), 2, "it has its answer");
    // Others are served between, and their small notifications do not wait.
    world.request(&mut other, &command(&["KEYNOTIFY", "l"]));
    world.publish(&mut other, &request(id(2)), &set("l", "v"));
    assert_eq!(world.packets(&other).len(), 3);
    world.publish(&mut other, &request(id(3)), &set("k", "2"));
    assert_eq!(world.packets(&other).len(), 2);
    assert!(
        !world.hub.accepts_input(other.connection),
        "it is behind the first"
    );
    // A client that disconnects meanwhile receives no further message.
    let gone = &watchers[WATCHERS - 1];
    world.drop_connection(gone);
    let mut slices = 0;
    while world.hub.has_work() {
        let before = notified(&world);
        world.hub.work(world.now);
        assert!(notified(&world) - before <= 64);
        slices += 1;
    }
    assert!(slices >= 2 * WATCHERS / 64, "{slices}");
    assert!(
        world.hub.accepts_input(writer.connection) && world.hub.accepts_input(other.connection)
    );
    for watcher in &watchers[..WATCHERS - 1] {
        let payloads: Vec<_> = world
            .published(watcher)
            .iter()
            .map(|publish| publish.payload_bytes().to_vec())
            .collect();
        assert_eq!(payloads.len(), 2);
        assert!(payloads[0].ends_with(b"1\r\n") && payloads[1].ends_with(b"2\r\n"));
    }
    world.bytes(&mut writer, &input);
    assert_eq!(world.packets(&writer).len(), 2, "its second request");
}

#[test]
fn a_message_reaches_many_subscribers_in_slices_and_is_acknowledged_at_the_end() {
    let mut world = HubSimulation::new();
    let mut subscribers: Vec<_> = (0..200)
        .map(|number| world.client(&format!("s-{number}")))
        .collect();
    for client in &mut subscribers {
        world.subscribe(client, "a");
    }
    let mut publisher = world.client("publisher");
    let mut input = BytesMut::new();
    message("a", 1)
        .encode(u32::MAX, &mut input, 0, |_| ())
        .unwrap();
    message("b", 2)
        .encode(u32::MAX, &mut input, 0, |_| ())
        .unwrap();
    world
        .hub
        .received(publisher.connection, &mut input, world.now);
    assert!(world.packets(&publisher).is_empty());
    while world.hub.has_work() {
        world.hub.work(world.now);
    }
    assert_eq!(world.puback(&publisher, id(1)), ReasonCode::SUCCESS);
    world.bytes(&mut publisher, &input);
    assert_eq!(
        world.puback(&publisher, id(2)),
        ReasonCode::NO_MATCHING_SUBSCRIBERS
    );
    for client in &subscribers {
        assert_eq!(world.published(client).len(), 1);
    }
}

#[test]
fn subscribers_of_one_topic_are_found_in_slices() {
    const SUBSCRIBERS: usize = 8_000;
    let mut world = HubSimulation::new();
    let mut subscribers: Vec<_> = (0..SUBSCRIBERS)
        .map(|number| world.client(&format!("s-{number}")))
        .collect();
    for client in &mut subscribers {
        world.subscribe(client, "a");
    }
    let publisher = world.client("publisher");
    let mut input = BytesMut::new();
    message("a", 1)
        .encode(u32::MAX, &mut input, 0, |_| ())
        .unwrap();
    world
        .hub
        .received(publisher.connection, &mut input, world.now);
    let is_handed_out = |world: &mut HubSimulation, client| !world.published(client).is_empty();
    assert!(
        !subscribers.iter().any(|it| is_handed_out(&mut world, it)),
        "not all subscribers are found yet"
    );
    world.drop_connection(&subscribers[SUBSCRIBERS - 1]);
    while world.hub.has_work() {
        world.hub.work(world.now);
    }
    for client in &subscribers[..SUBSCRIBERS - 1] {
        assert_eq!(world.published(client).len(), 1);
    }
    assert_eq!(world.puback(&publisher, id(1)), ReasonCode::SUCCESS);
}

#[test]
fn a_large_value_goes_to_few_watchers_at_a_time() {
    let mut world = HubSimulation::new();
    for number in 0..10 {
        let mut client = world.client(&format!("watcher-{number}"));
        world.request(&mut client, &command(&["KEYNOTIFY", "k"]));
    }
    let mut writer = world.client("writer");
    world.publish(
        &mut writer,
        &request(id(1)),
        &set("k", &"v".repeat(200_000)),
    );
    let first = world.hub.metrics().notifications;
    assert!((1..=2).contains(&first), "{first}");
    world.advance(0);
    assert!(!world.hub.has_work());
    assert_eq!(world.hub.metrics().notifications, 10);
}

#[test]
fn a_long_key_goes_to_few_watchers_at_a_time() {
    let key = "k".repeat(16_000);
    let mut world = HubSimulation::new();
    for number in 0..60 {
        let mut client = world.client(&format!("watcher-{number}"));
        world.request(&mut client, &command(&["KEYNOTIFY", &key]));
    }
    let mut writer = world.client("writer");
    world.publish(&mut writer, &request(id(1)), &set(&key, "v"));
    let first = world.hub.metrics().notifications;
    assert!((1..=10).contains(&first), "{first}");
    world.advance(0);
    assert!(!world.hub.has_work());
    assert_eq!(world.hub.metrics().notifications, 60);
}

/// Sends a request five times at once. Returns the number of turns in which all are executed.
fn turns_of_five(world: &mut HubSimulation, client: &Client, payload: &Bytes) -> u64 {
    let mut input = BytesMut::new();
    for number in 1..=5 {
        let correlation = [u8::try_from(number).unwrap()];
        let header = PublishHeader {
            correlation_data: Some(&correlation),
            ..request(id(number))
        };
        let write = |out: &mut BytesMut| out.extend_from_slice(payload);
        header
            .encode(u32::MAX, &mut input, payload.len(), write)
            .unwrap();
    }
    let mut turns = 1;
    let before = world.hub.metrics().requests;
    while world.hub.received(client.connection, &mut input, world.now) {
        assert_eq!(world.hub.metrics().requests, before + turns);
        assert!(world.hub.accepts_input(client.connection));
        turns += 1;
    }
    assert!(input.is_empty());
    assert_eq!(world.packets(client).len(), 10);
    turns
}

#[test]
fn other_clients_are_served_between_long_scans() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    let long = "a".repeat(16_000);
    for key in 0..20 {
        world.request(&mut client, &set(&format!("{long}{key}"), "v"));
    }
    let pattern = format!("*{}b*", "a".repeat(8_000));
    let scan = command(&["SCAN", &pattern]);
    let turns = turns_of_five(&mut world, &client, &scan);
    assert_eq!(turns, 5, "one of these makes a turn");
}

#[test]
fn other_clients_are_served_between_reads_of_many_keys() {
    let mut world = HubSimulation::new();
    let client = world.client("me");
    let read = command(&[vec!["MGET"], vec!["k"; 3_000]].concat());
    let turns = turns_of_five(&mut world, &client, &read);
    assert_eq!(turns, 5, "one of these makes a turn");
}

/// Number of watchers: more than are notified in one slice.
const MANY: usize = 200;

/// The payloads of what was published to each of these clients.
fn payloads(world: &mut HubSimulation, clients: &[Client]) -> Vec<Vec<Vec<u8>>> {
    while world.hub.has_work() {
        world.hub.work(world.now);
    }
    let payload = |publish: &Publish| publish.payload_bytes().to_vec();
    let published = clients.iter().map(|client| world.published(client));
    published
        .map(|all| all.iter().map(payload).collect())
        .collect()
}

#[test]
fn changes_of_a_transaction_reach_many_watchers_in_their_order() {
    let mut world = HubSimulation::new();
    let watchers: Vec<_> = (0..MANY)
        .map(|number| {
            let mut client = world.client(&format!("watcher-{number:03}"));
            for key in ["a", "b"] {
                // Few clients watch the second key, so that they would be notified in one slice.
                if key == "a" || number >= MANY - 3 {
                    world.request(&mut client, &command(&["KEYNOTIFY", key]));
                }
            }
            client
        })
        .collect();
    let mut writer = world.client("writer");
    let transaction = command(&[
        "TXN", "3", "SET", "a", "1", "3", "SET", "b", "2", "2", "DEL", "a",
    ]);
    world.publish(&mut writer, &request(id(1)), &transaction);
    let told = payloads(&mut world, &watchers);
    let (of_one, of_both) = told.split_at(MANY - 3);
    let ends = |changes: &[Vec<u8>], expected: &[&[u8]]| {
        let mut pairs = changes.iter().zip(expected);
        changes.len() == expected.len() && pairs.all(|(change, end)| change.ends_with(end))
    };
    for changes in of_one {
        assert!(ends(changes, &[b"1\r\n", b"DELETE\r\n"]));
    }
    for changes in of_both {
        assert!(ends(changes, &[b"1\r\n", b"2\r\n", b"DELETE\r\n"]));
    }
}

#[test]
fn published_messages_arrive_in_order_even_if_the_publisher_disconnects() {
    let mut world = HubSimulation::new();
    let subscribers: Vec<_> = (0..MANY)
        .map(|number| {
            let mut client = world.client(&format!("s-{number:03}"));
            world.subscribe(&mut client, "w");
            client
        })
        .collect();
    let publish = |world: &mut HubSimulation, payload: &[u8]| {
        let (mut publisher, _) = world.join(&Connect {
            will: Some(will(0)),
            ..connect("publisher")
        });
        world.publish(&mut publisher, &message("w", 1), payload);
        publisher
    };
    // Large, so that fewer have it after one turn than get the small ones behind it in one.
    let large = vec![b'1'; 100_000];
    let first = publish(&mut world, &large);
    world.drop_connection(&first);
    let second = publish(&mut world, b"2");
    assert!(world.hub.has_work());
    let told = payloads(&mut world, &subscribers);
    for messages in told {
        let lengths: Vec<_> = messages.iter().map(Vec::len).collect();
        assert_eq!(lengths, [large.len(), "gone".len(), 1]);
    }
    assert_eq!(world.puback(&second, id(1)), ReasonCode::SUCCESS);
}

#[test]
fn pending_fanout_memory_is_bounded() {
    const TOPIC: &str = "a/b/c/d/e/f/g";
    let mut world = HubSimulation::new();
    let subscribers: Vec<_> = (0..300)
        .map(|number| {
            let mut client = world.client(&format!("s-{number}"));
            // All filters that match, each with an identifier, so that much has to be known of each subscriber.
            for mask in 0..128u32 {
                let level = |(place, name)| if mask >> place & 1 == 1 { "+" } else { name };
                let filter: Vec<_> = TOPIC.split('/').enumerate().map(level).collect();
                let filter = Subscription::at_least_once(filter.join("/"));
                world.subscribe_all(&mut client, Some(mask + 1), vec![filter]);
            }
            client
        })
        .collect();
    let publishers: Vec<_> = (0..300)
        .map(|number| {
            let mut client = world.client(&format!("p-{number}"));
            world.publish(&mut client, &message(TOPIC, 1), b"");
            client
        })
        .collect();
    let mut refused = 0;
    for publisher in &publishers {
        // A client whose input is not read waits until all have its message.
        if world.hub.accepts_input(publisher.connection) {
            assert_eq!(world.puback(publisher, id(1)), ReasonCode::QUOTA_EXCEEDED);
            refused += 1;
        }
    }
    // A message that many get waits without memory for them: they are looked for when it is the first.
    assert_eq!(refused, 0);
    let told = payloads(&mut world, &subscribers);
    let accepted = publishers.len() - refused;
    assert!(told.iter().all(|messages| messages.len() == accepted));
    let mut last = world.client("last");
    world.publish(&mut last, &message(TOPIC, 1), b"");
    payloads(&mut world, &subscribers);
    assert_eq!(world.puback(&last, id(1)), ReasonCode::SUCCESS);
}

/// A transaction that sets each of these keys.
fn set_all<'k>(keys: impl Iterator<Item = &'k str>) -> Bytes {
    let words = keys.flat_map(|key| ["3", "SET", key, "v"]);
    command(&["TXN"].into_iter().chain(words).collect::<Vec<_>>())
}

/// Connects this many clients that watch a key.
fn watchers(world: &mut HubSimulation, count: usize, key: &str) -> Vec<Client> {
    let clients = (0..count).map(|number| {
        let mut client = world.client(&format!("{key}-{number}"));
        world.request(&mut client, &command(&["KEYNOTIFY", key]));
        client
    });
    clients.collect()
}

#[test]
fn changes_per_turn_are_bounded_by_time() {
    const KEYS: usize = 300;
    let mut world = HubSimulation::new();
    let _many = watchers(&mut world, 100, "many");
    let mut one = world.client("one");
    let keys: Vec<_> = (0..KEYS).map(|number| format!("k{number:03}")).collect();
    for key in &keys {
        world.request(&mut one, &command(&["KEYNOTIFY", key]));
    }
    let mut writer = world.client("writer");
    let all = ["many"].into_iter().chain(keys.iter().map(String::as_str));
    world.publish(&mut writer, &request(id(1)), &set_all(all));
    let mut turns = 0;
    while world.hub.has_work() {
        world.hub.work(world.now);
        turns += 1;
    }
    assert!(turns <= (100 + KEYS).div_ceil(64), "{turns}");
    let told = world.published(&one);
    let told = told.iter().map(|publish| publish.topic().to_owned());
    let expected = keys
        .iter()
        .map(|key| topic::notification("one", key.as_bytes()));
    assert!(told.eq(expected), "each once, in their order");
}

#[test]
fn pending_notifications_are_counted_and_delay_writers() {
    const KEYS: usize = 2_000;
    const WRITERS: usize = 30;
    let mut world = HubSimulation::new();
    let _many = watchers(&mut world, 100, "many");
    let mut collector = world.client("collector");
    let keys: Vec<_> = (0..KEYS).map(|number| format!("{number:01000}")).collect();
    for key in &keys {
        world.request(&mut collector, &command(&["KEYNOTIFY", key]));
    }
    let all = ["many"].into_iter().chain(keys.iter().map(String::as_str));
    let payload = set_all(all);
    let mut clients: Vec<_> = (0..WRITERS)
        .map(|number| world.client(&format!("writer-{number}")))
        .collect();
    let mut reader = world.client("reader");
    let before = world.hub.metrics();
    for client in &mut clients {
        world.publish(client, &request(id(1)), &payload);
    }
    let now = world.hub.metrics();
    let executed = usize::try_from(now.requests - before.requests).unwrap();
    assert!((2..WRITERS / 2).contains(&executed), "{executed}");
    let waiting = clients
        .iter()
        .map(|client| client.unread.len())
        .sum::<usize>();
    let held = usize::try_from(now.held_bytes - before.held_bytes).unwrap() - waiting;
    assert!(held >= executed * KEYS * 1_000, "{held} of {executed}");
    assert!(held < 40_000_000, "{held}");
    // A client that sends no write does not wait, and a client that waits counts as alive.
    world.request(&mut reader, &command(&["GET", "many"]));
    let last = clients.last_mut().unwrap();
    world.assert_alive(last);
    world.drop_connection(&collector);
    while world.hub.has_work() {
        world.hub.work(world.now);
        for client in &mut clients {
            world.bytes(client, b"");
        }
    }
    for client in &clients {
        let packets = world.packets(client);
        assert!(matches!(
            packets[..],
            [Packet::PubAck(_), Packet::Publish(_)]
        ));
    }
    let left = world.hub.metrics().held_bytes;
    assert!(left < before.held_bytes + 2_000_000, "{left}");
}
