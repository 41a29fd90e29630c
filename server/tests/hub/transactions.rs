//! Transactions of clients: permitted keys, the time at which responses leave, and retained state.
use crate::world::{Client, HubSimulation, command, id, request};
use bytes::Bytes;
use statestore_protocol::mqtt::{Packet, PublishHeader};
use statestored_access::Policy;
use statestored_access::policy::{KeyPatterns, KeyType};
use statestored_broker::hub::HubConfig;
use statestored_storage::Write;
use statestored_store::service::{Retention, ServiceConfig};
use std::sync::Arc;

fn txn(operations: &[&str]) -> Bytes {
    let mut words = vec!["TXN".to_owned()];
    for operation in operations {
        let own = operation.split(' ').map(str::to_owned).collect::<Vec<_>>();
        words.push(own.len().to_string());
        words.extend(own);
    }
    command(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The payloads of what was published to a client.
fn payloads(world: &mut HubSimulation, client: &Client) -> Vec<String> {
    let packets = world.packets(client);
    let payload = |packet: &Packet| match packet {
        Packet::Publish(publish) => {
            Some(String::from_utf8_lossy(publish.payload_bytes()).into_owned())
        }
        _ => None,
    };
    packets.iter().filter_map(payload).collect()
}

#[test]
fn response_and_notifications_are_sent_after_the_commit() {
    let mut world = HubSimulation::durable(HubConfig::default());
    let mut client = world.client("me");
    let mut watcher = world.client("watcher");
    for key in ["a", "b"] {
        world.request(&mut watcher, &command(&["KEYNOTIFY", key]));
    }
    world.publish(&mut client, &request(id(1)), &txn(&["SET a 1", "SET b 2"]));
    world.publish(&mut watcher, &request(id(2)), &command(&["GET", "b"]));
    // The refusal depends on a change that is not durable yet.
    let refused = txn(&["SET c 1", "SET a 2 NX"]);
    world.publish(&mut client, &request(id(3)), &refused);
    assert!(world.packets(&client).is_empty() && world.packets(&watcher).is_empty());
    let (commit, batch) = world.hub.take_batch().unwrap();
    assert!(matches!(batch.writes[..], [Write::Put(_), Write::Put(_)]));
    assert_eq!(world.hub.take_batch(), None);
    assert!(world.packets(&client).is_empty() && world.packets(&watcher).is_empty());
    world.hub.mark_durable(commit);
    let answers = payloads(&mut world, &client);
    assert!(answers[0].starts_with("*2\r\n$32\r\n"), "{answers:?}");
    assert!(
        answers[1].starts_with("*3\r\n:-1\r\n:1\r\n$32\r\n"),
        "{answers:?}"
    );
    let told = payloads(&mut world, &watcher);
    assert_eq!(told.len(), 3, "{told:?}");
    let notified = told.iter().filter(|it| it.contains("NOTIFY"));
    let notified = notified.map(|it| it.contains("$1\r\n1\r\n"));
    assert!(notified.eq([true, false]), "in their order: {told:?}");
}

#[test]
fn a_transaction_requires_write_rights_for_every_key() {
    let rules = "
rules:
- principals: {clientIds: [me]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: ReadWrite, keys: [mine/*]}, {method: Read, keys: [shared]}]
";
    let mut world = HubSimulation::with(HubConfig {
        policy: Some(Arc::new(Policy::parse(rules).unwrap())),
        ..HubConfig::default()
    });
    let mut me = world.client("me");
    for (operations, operation) in [
        (&["SET mine/a 1", "SET other 1"][..], 1),
        (&["DEL shared", "SET mine/a 1"], 0),
        // Before anything is looked at.
        (&["SET mine/a 1 IFV 1:1:StateStore", "DEL other"], 1),
    ] {
        let (_, response) = world.request(&mut me, &txn(operations));
        let refusal = format!("*3\r\n:-1\r\n:{operation}\r\n-ERR not authorized\r\n");
        assert_eq!(response.payload_bytes(), refusal.as_bytes());
    }
    assert_eq!(world.hub.service().size().keys, 0);
    assert_eq!(world.hub.metrics().requests_denied, 3);
    let (_, response) = world.request(&mut me, &txn(&["SET mine/a 1", "DEL mine/b"]));
    assert!(response.payload_bytes().starts_with(b"*2\r\n$32\r\n"));
    let (_, response) = world.request(&mut me, &command(&["CAPS"]));
    assert!(response.payload_bytes().starts_with(b"*14\r\n"));
}

#[test]
fn retention_applies_to_each_key_of_a_transaction() {
    let mut keys = KeyPatterns::default();
    keys.add(KeyType::Pattern, "kept/*").unwrap();
    let service = ServiceConfig {
        is_durable: true,
        retention: Retention::Custom {
            keys,
            on_request: true,
        },
        ..ServiceConfig::default()
    };
    let mut world = HubSimulation::with_service(HubConfig::default(), service);
    let mut client = world.client("me");
    let mut written = |properties: &[(&str, &str)], operations: &[&str]| {
        let header = PublishHeader {
            user_properties: properties,
            ..request(id(1))
        };
        world.publish(&mut client, &header, &txn(operations));
        let batch = world.hub.take_batch().map(|(commit, batch)| {
            world.hub.mark_durable(commit);
            batch.writes
        });
        assert!(payloads(&mut world, &client)[0].starts_with("*2\r\n$32\r\n"));
        let writes = batch.unwrap_or_default().into_iter();
        writes
            .map(|write| match write {
                Write::Put(record) => format!("put {:?}", record.key),
                Write::Delete(key) => format!("delete {key:?}"),
            })
            .collect::<Vec<_>>()
    };
    let ts = ("__ts", "001700000000000:00000:me");
    let both = ["SET kept/a 1", "SET other 1"];
    assert_eq!(written(&[ts], &both), ["put b\"kept/a\""]);
    let asked = written(&[ts, ("aio-persistence", "true")], &both);
    assert_eq!(asked, ["put b\"kept/a\"", "put b\"other\""]);
    let not_asked = written(&[ts], &["SET other 2", "DEL kept/a"]);
    assert_eq!(not_asked, ["delete b\"other\"", "delete b\"kept/a\""]);
    assert!(written(&[ts], &["SET x 1", "SET y 1"]).is_empty());
}
