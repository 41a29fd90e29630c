//! Watches of patterns by clients with rights.
use crate::world::{Client, HubSimulation, command, connect, id, request, resume, set};
use statestore_protocol::mqtt::{Packet, Publish, ReasonCode};
use statestore_protocol::topic;
use statestored_access::Policy;
use statestored_broker::hub::HubConfig;
use std::sync::Arc;

const RULES: &str = "
rules:
- principals: {clientIds: [reader]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: Read, keys: [shared/*, of/reader]}]
- principals: {clientIds: [blind]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: Write, keys: [shared/*]}]
- principals: {clientIds: [writer, admin]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: ReadWrite, keys: ['*']}]
";

const RESYNC: &[u8] = b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nRESYNC\r\n";

fn policy(rules: &str) -> Arc<Policy> {
    Arc::new(Policy::parse(rules).unwrap())
}

fn world() -> HubSimulation {
    HubSimulation::with(HubConfig {
        policy: Some(policy(RULES)),
        ..HubConfig::default()
    })
}

fn send_request(world: &mut HubSimulation, client: &mut Client, parts: &[&str]) -> Vec<u8> {
    let (puback, response) = world.request(client, &command(parts));
    assert_eq!(puback.reason, ReasonCode::SUCCESS);
    response.payload_bytes().to_vec()
}

fn watch(world: &mut HubSimulation, client: &mut Client, pattern: &str) {
    let response = send_request(world, client, &["KEYNOTIFY", pattern, "MATCH"]);
    assert_eq!(response, b"+OK\r\n", "{pattern}");
}

/// Takes what was sent to a client, and acknowledges it.
fn notifications(world: &mut HubSimulation, client: &mut Client) -> Vec<Publish> {
    let published = world.published(client);
    for publish in &published {
        world.acknowledge(client, publish.packet_id().unwrap());
    }
    published
}

/// Topics of the notifications to a client about keys or patterns.
fn topics(client_id: &str, names: &[&str]) -> Vec<String> {
    let topic = |name: &&str| topic::notification(client_id, name.as_bytes());
    names.iter().map(topic).collect()
}

fn notified_topics(world: &mut HubSimulation, client: &mut Client) -> Vec<String> {
    let published = notifications(world, client);
    published.iter().map(|it| it.topic().to_owned()).collect()
}

#[test]
fn a_client_is_notified_only_of_keys_that_it_may_read() {
    let mut world = world();
    let mut reader = world.client("reader");
    let mut admin = world.client("admin");
    for client in [&mut reader, &mut admin] {
        watch(&mut world, client, "*");
        watch(&mut world, client, "s*");
    }
    watch(&mut world, &mut reader, "secret*");
    let mut writer = world.client("writer");
    let keys = ["shared/a", "secret", "of/reader", "of/other"];
    for key in keys {
        send_request(&mut world, &mut writer, &["SET", key, "1"]);
    }
    assert_eq!(
        notified_topics(&mut world, &mut reader),
        topics("reader", &["shared/a", "of/reader"])
    );
    assert_eq!(
        notified_topics(&mut world, &mut admin),
        topics("admin", &keys)
    );
}

#[test]
fn a_client_that_may_read_nothing_may_not_watch_patterns() {
    let mut world = world();
    let mut blind = world.client("blind");
    let response = send_request(&mut world, &mut blind, &["KEYNOTIFY", "*", "MATCH"]);
    assert_eq!(response, b"-ERR not authorized\r\n");
    let response = send_request(&mut world, &mut blind, &["KEYNOTIFY", "*", "MATCH", "STOP"]);
    assert_eq!(response, b":0\r\n");
}

#[test]
fn a_new_policy_applies_to_later_changes_and_is_a_gap() {
    let mut world = world();
    let mut reader = world.client("reader");
    watch(&mut world, &mut reader, "*");
    let mut writer = world.client("writer");
    let changed = RULES.replace("shared/*, of/reader", "secret");
    assert_eq!(world.hub.set_policy(Some(policy(&changed)), world.now), 0);
    let gap = notifications(&mut world, &mut reader);
    let [gap] = gap.as_slice() else {
        panic!("{gap:?}")
    };
    assert_eq!(gap.topic(), topic::notification("reader", b"*"));
    assert_eq!(gap.payload_bytes(), RESYNC);
    assert!(world.packets(&writer).is_empty(), "it watches no pattern");
    for key in ["shared/a", "secret"] {
        send_request(&mut world, &mut writer, &["SET", key, "1"]);
    }
    assert_eq!(
        notified_topics(&mut world, &mut reader),
        topics("reader", &["secret"])
    );
    // Without a right to any key, the watch goes on.
    let none = RULES.replace("Read, keys: [shared/*, of/reader]", "Write, keys: [x]");
    assert_eq!(world.hub.set_policy(Some(policy(&none)), world.now), 0);
    assert_eq!(notifications(&mut world, &mut reader).len(), 1);
    send_request(&mut world, &mut writer, &["SET", "secret", "2"]);
    assert!(world.packets(&reader).is_empty());
}

#[test]
fn a_watch_of_a_pattern_ends_with_the_connection() {
    let mut world = HubSimulation::new();
    let (mut watcher, _) = world.join(&resume("watcher"));
    watch(&mut world, &mut watcher, "k*");
    let mut writer = world.client("writer");
    world.request(&mut writer, &set("k", "1"));
    assert_eq!(notifications(&mut world, &mut watcher).len(), 1);
    world.drop_connection(&watcher);
    let (watcher, connack) = world.join(&resume("watcher"));
    assert!(connack.session_present);
    world.request(&mut writer, &set("k", "2"));
    assert!(world.packets(&watcher).is_empty());
}

#[test]
fn a_notification_waits_until_the_change_is_durable() {
    let mut world = HubSimulation::durable(HubConfig::default());
    let mut watcher = world.client("watcher");
    watch(&mut world, &mut watcher, "k*");
    let mut writer = world.client("writer");
    world.publish(&mut writer, &request(id(9)), &set("k", "1"));
    assert!(world.packets(&watcher).is_empty());
    let (commit, _) = world.hub.take_batch().unwrap();
    world.hub.mark_durable(commit);
    assert_eq!(
        notified_topics(&mut world, &mut watcher),
        topics("watcher", &["k"])
    );
}

#[test]
fn a_watch_that_ends_meanwhile_gets_no_more_of_a_large_fan_out() {
    let mut world = HubSimulation::new();
    let names: Vec<_> = (0..200).map(|number| format!("w{number:03}")).collect();
    let mut watchers = Vec::new();
    for name in &names {
        let (mut client, _) = world.join(&connect(name));
        watch(&mut world, &mut client, "k*");
        watchers.push(client);
    }
    let mut writer = world.client("writer");
    world.publish(&mut writer, &request(id(9)), &set("k", "1"));
    assert!(world.hub.has_work(), "not all are notified at once");
    let last = watchers.last_mut().unwrap();
    let stop = command(&["KEYNOTIFY", "k*", "MATCH", "STOP"]);
    world.publish(last, &request(id(9)), &stop);
    world.advance(0);
    let told = |world: &mut HubSimulation, client: &Client| {
        let notes = world.packets(client);
        let is_note = |packet: &&Packet| matches!(packet, Packet::Publish(note) if note.topic().contains("/command/notify/"));
        notes.iter().filter(is_note).count()
    };
    let (last, others) = watchers.split_last().unwrap();
    assert_eq!(told(&mut world, last), 0);
    for client in others {
        assert_eq!(told(&mut world, client), 1);
    }
}

#[test]
fn other_clients_have_their_turn_between_costly_comparisons() {
    let mut world = HubSimulation::new();
    let mut watcher = world.client("watcher");
    for number in 0..5 {
        // Each place of a long key is compared with the run, up to its last bytes.
        let pattern = format!("*{}b{number}*", "a".repeat(28));
        watch(&mut world, &mut watcher, &pattern);
    }
    watch(&mut world, &mut watcher, "k*");
    let key = |number| format!("k{number:02}{}", "a".repeat(1_000));
    let keys: Vec<_> = (0..100).map(key).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let mut words = vec!["TXN"];
    for key in &keys {
        words.extend(["3", "SET", *key, "v"]);
    }
    let mut writer = world.client("writer");
    world.publish(&mut writer, &request(id(9)), &command(&words));
    assert!(world.hub.has_work(), "not all are compared at once");
    let mut other = world.client("other");
    let response = send_request(&mut world, &mut other, &["GET", "k"]);
    assert_eq!(response, b"$-1\r\n");
    assert!(world.hub.has_work());
    world.advance(0);
    assert!(!world.hub.has_work());
    assert_eq!(
        notified_topics(&mut world, &mut watcher),
        topics("watcher", &keys)
    );
}
