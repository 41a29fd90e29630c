//! Permissions of clients under a policy.
use crate::wills::will;
use crate::world::{Client, HubSimulation, command, connect, id, message, request, resume, set};
use statestore_protocol::mqtt::{Connect, ReasonCode, Subscription, Will};
use statestore_protocol::{Reply, topic};
use statestored_access::{Authenticator, Policy, Users};
use statestored_broker::hub::HubConfig;
use statestored_store::service::ServiceConfig;
use std::sync::Arc;

const RULES: &str = "
rules:
- principals: {clientIds: [reader]}
  brokerResources:
  - {method: Connect}
  - {method: Subscribe, topics: [news/+]}
  stateStoreResources: [{method: Read, keys: [shared/*, 'of/{principal.clientId}']}]
- principals: {clientIds: [writer]}
  brokerResources:
  - {method: Connect}
  - {method: Publish, topics: [news/#, clients/#]}
  stateStoreResources: [{method: ReadWrite, keys: [shared/*]}, {method: Write, keys: [secret]}]
- principals: {clientIds: [guest]}
  brokerResources: [{method: Connect}]
";

/// More clients than a change reaches at once.
const MANY: usize = 200;

const NOT_AUTHORIZED: &[u8] = b"-ERR not authorized\r\n";

fn policy(rules: &str) -> Arc<Policy> {
    Arc::new(Policy::parse(rules).unwrap())
}

fn world() -> HubSimulation {
    HubSimulation::with(HubConfig {
        policy: Some(policy(RULES)),
        ..HubConfig::default()
    })
}

fn send_request(world: &mut HubSimulation, client: &mut Client, payload: &[u8]) -> Vec<u8> {
    let (puback, response) = world.request(client, payload);
    assert_eq!(puback.reason, ReasonCode::SUCCESS);
    response.payload_bytes().to_vec()
}

fn subscribe(world: &mut HubSimulation, client: &mut Client, filter: &str) -> ReasonCode {
    let subscriptions = vec![Subscription::at_least_once(filter)];
    world.subscribe_all(client, None, subscriptions)[0]
}

#[test]
fn every_command_is_checked() {
    let mut world = world();
    let mut reader = world.client("reader");
    let mut writer = world.client("writer");
    for (payload, reads, writes) in [
        (set("shared/a", "1"), false, true),
        (command(&["GET", "shared/a"]), true, true),
        (command(&["KEYNOTIFY", "shared/a"]), true, true),
        (command(&["KEYNOTIFY", "shared/a", "STOP"]), true, true),
        (command(&["MGET", "shared/a", "shared/b"]), true, true),
        (command(&["MGET", "shared/a", "secret"]), false, false),
        (command(&["GET", "of/reader"]), true, false),
        (command(&["GET", "of/writer"]), false, false),
        (set("secret", "1"), false, true),
        (command(&["GET", "secret"]), false, false),
        (command(&["KEYNOTIFY", "secret"]), false, false),
        (command(&["VDEL", "secret", "1"]), false, true),
        (command(&["DEL", "other"]), false, false),
        (set("other", "1"), false, false),
    ] {
        for (client, is_allowed) in [(&mut reader, reads), (&mut writer, writes)] {
            let answer = send_request(&mut world, client, &payload);
            assert_eq!(answer != NOT_AUTHORIZED, is_allowed, "{payload:?}");
        }
    }
    assert_eq!(world.hub.metrics().requests_denied, 16);
    assert_eq!(world.hub.service().size().keys, 1, "shared/a");
}

#[test]
fn a_scan_returns_only_readable_keys() {
    let mut world = world();
    let mut writer = world.client("writer");
    for key in ["shared/a", "shared/b", "secret"] {
        assert_eq!(
            send_request(&mut world, &mut writer, &set(key, "1")),
            b"+OK\r\n"
        );
    }
    let mut reader = world.client("reader");
    for client in [&mut reader, &mut writer] {
        for scan in [&["SCAN", "*"][..], &["SCAN", "*", "VALUES"]] {
            let page = send_request(&mut world, client, &command(scan));
            let page = String::from_utf8(page).unwrap();
            assert!(
                page.contains("shared/a") && page.contains("shared/b"),
                "{page}"
            );
            assert!(!page.contains("secret"), "{page}");
        }
    }
}

/// The answers to all pages of a SCAN, as bytes.
fn pages(world: &mut HubSimulation, client: &mut Client, pattern: &str) -> Vec<Vec<u8>> {
    let mut pages = Vec::new();
    let mut scan = command(&["SCAN", pattern]);
    loop {
        let page = send_request(world, client, &scan);
        let Ok(Reply::Page { token, .. }) = Reply::decode(&page.clone().into()) else {
            panic!("not a page: {page:?}");
        };
        pages.push(page);
        let Some(token) = token else {
            return pages;
        };
        let words = [&b"SCAN"[..], pattern.as_bytes(), &token];
        let mut next = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            next.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            next.extend_from_slice(word);
            next.extend_from_slice(b"\r\n");
        }
        scan = next.into();
    }
}

/// All that a client observes of a store: the answers to every command about keys that it may not see, and all pages.
fn observed(hidden: &[String]) -> Vec<Vec<u8>> {
    let service = ServiceConfig {
        max_page_keys: 7,
        ..ServiceConfig::default()
    };
    let rules = "
rules:
- principals: {clientIds: [owner]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: ReadWrite, keys: ['*']}]
- principals: {clientIds: [reader]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: ReadWrite, keys: [shared/*]}]
";
    let hub = HubConfig {
        policy: Some(policy(rules)),
        ..HubConfig::default()
    };
    let mut world = HubSimulation::with_service(hub, service);
    let mut owner = world.client("owner");
    for key in 0..50 {
        send_request(&mut world, &mut owner, &set(&format!("shared/{key}"), "1"));
    }
    for key in hidden {
        send_request(&mut world, &mut owner, &set(key, "1"));
    }
    let mut reader = world.client("reader");
    let mut seen = Vec::new();
    for pattern in ["*", "shared/*", "secret/*", "secret/7"] {
        seen.extend(pages(&mut world, &mut reader, pattern));
    }
    for payload in [
        command(&["GET", "secret/7"]),
        command(&["MGET", "shared/7", "secret/7"]),
        command(&["SCAN", "*", "VALUES"]),
        set("secret/7", "1"),
        command(&["SET", "secret/7", "1", "NX"]),
        command(&["DEL", "secret/7"]),
        command(&["VDEL", "secret/7", "1"]),
        command(&["KEYNOTIFY", "secret/7"]),
        command(&["KEYNOTIFY", "secret/7", "STOP"]),
        set("shared/7", "2"),
    ] {
        seen.push(send_request(&mut world, &mut reader, &payload));
    }
    seen
}

#[test]
fn keys_that_a_client_may_not_read_change_nothing_that_it_observes() {
    let hidden: Vec<_> = (0..200).map(|key| format!("secret/{key}")).collect();
    let without = observed(&[]);
    for count in [1, 8, 200] {
        assert_eq!(observed(&hidden[..count]), without, "{count} hidden keys");
    }
}

#[test]
fn a_client_without_store_rules_cannot_use_the_store() {
    let mut world = world();
    let mut guest = world.client("guest");
    world.publish(&mut guest, &request(id(9)), &command(&["GET", "shared/a"]));
    assert_eq!(world.puback(&guest, id(9)), ReasonCode::NOT_AUTHORIZED);
    assert_eq!(world.hub.metrics().requests, 0);
    let own = topic::notification_filter("guest");
    assert_eq!(
        subscribe(&mut world, &mut guest, &own),
        ReasonCode::NOT_AUTHORIZED
    );
}

#[test]
fn connecting_publishing_and_subscribing_need_a_rule() {
    let mut world = world();
    let (_, connack) = world.try_join(&connect("stranger"));
    assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED);
    let (_, connack) = world.try_join(&connect(""));
    assert_eq!(
        connack.reason,
        ReasonCode::NOT_AUTHORIZED,
        "an id that the server gives"
    );

    let mut reader = world.client("reader");
    for (filter, reason) in [
        ("news/+", ReasonCode::GRANTED_QOS_1),
        ("news/a", ReasonCode::GRANTED_QOS_1),
        ("news/#", ReasonCode::NOT_AUTHORIZED),
        ("#", ReasonCode::NOT_AUTHORIZED),
        (&topic::response("reader"), ReasonCode::GRANTED_QOS_1),
        (
            &topic::notification_filter("reader"),
            ReasonCode::GRANTED_QOS_1,
        ),
    ] {
        assert_eq!(
            subscribe(&mut world, &mut reader, filter),
            reason,
            "{filter}"
        );
    }
    // A filter for topics of the store's messages: no other client publishes to them, nor to the topic above, which it matches.
    let above = "clients/reader/services/statestore";
    assert_eq!(
        subscribe(&mut world, &mut reader, &format!("{above}/#")),
        ReasonCode::GRANTED_QOS_1
    );
    let mut writer = world.client("writer");
    for (topic, reason) in [
        ("news/a", ReasonCode::SUCCESS),
        ("other", ReasonCode::NOT_AUTHORIZED),
        (above, ReasonCode::NOT_AUTHORIZED),
        ("news/a/b", ReasonCode::NO_MATCHING_SUBSCRIBERS),
    ] {
        world.publish(&mut writer, &message(topic, 1), b"x");
        assert_eq!(world.puback(&writer, id(1)), reason, "{topic}");
    }
    assert_eq!(world.published(&reader).len(), 1);
    let statistics = world.hub.metrics();
    assert_eq!(
        (
            statistics.messages_refused,
            statistics.subscriptions_refused
        ),
        (2, 2)
    );
}

#[test]
fn responses_and_notifications_of_others_cannot_be_subscribed() {
    let mut world = HubSimulation::with(HubConfig {
        policy: Some(policy(&RULES.replace("news/+", "'#'"))),
        ..HubConfig::default()
    });
    let mut reader = world.client("reader");
    for filter in [
        "#",
        &topic::response("me"),
        &topic::notification_filter("writer"),
    ] {
        assert_eq!(
            subscribe(&mut world, &mut reader, filter),
            ReasonCode::GRANTED_QOS_1
        );
    }
    let mut writer = world.client("writer");
    assert_eq!(
        send_request(
            &mut world,
            &mut writer,
            &command(&["KEYNOTIFY", "shared/a"])
        ),
        b"+OK\r\n"
    );
    world.publish(&mut writer, &request(id(9)), &set("shared/a", "1"));
    assert_eq!(
        world.packets(&writer).len(),
        3,
        "PUBACK, response and notification"
    );
    assert!(world.packets(&reader).is_empty());
}

fn with_will(client_id: &str, topic: &str) -> Connect {
    Connect {
        will: Some(Will {
            topic: topic.into(),
            ..will(0)
        }),
        ..connect(client_id)
    }
}

#[test]
fn a_will_requires_the_right_to_publish() {
    let mut world = world();
    let (_, connack) = world.try_join(&with_will("writer", "other"));
    assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED);
    let (writer, _) = world.join(&with_will("writer", "news/will"));
    let mut reader = world.client("reader");
    world.subscribe(&mut reader, "news/+");
    let withdrawn = RULES.replace("news/#", "news/other");
    assert_eq!(world.hub.set_policy(Some(policy(&withdrawn)), world.now), 1);
    assert_eq!(world.disconnected(&writer), ReasonCode::NOT_AUTHORIZED);
    world.drop_connection(&writer);
    assert!(world.published(&reader).is_empty());
}

#[test]
fn a_new_policy_ends_only_forbidden_subscriptions_and_watches() {
    let mut world = world();
    let (mut reader, _) = world.join(&resume("reader"));
    world.subscribe(&mut reader, "news/+");
    assert_eq!(
        send_request(
            &mut world,
            &mut reader,
            &command(&["KEYNOTIFY", "shared/a"])
        ),
        b"+OK\r\n"
    );
    let (mut writer, _) = world.join(&resume("writer"));
    let (mut guest, _) = world.join(&resume("guest"));

    // An unused permission is removed: all clients stay connected.
    let less = RULES
        .replace("of/{principal.clientId}", "nothing")
        .replace("secret", "nothing");
    assert_eq!(world.hub.set_policy(Some(policy(&less)), world.now), 0);
    for client in [&mut reader, &mut writer, &mut guest] {
        world.assert_alive(client);
    }
    assert_eq!(
        send_request(&mut world, &mut writer, &set("secret", "1")),
        NOT_AUTHORIZED
    );

    // A watch, a subscription, and the right to connect.
    assert_eq!(
        world.hub.set_policy(
            Some(policy(&RULES.replace("shared/*", "shared/b"))),
            world.now
        ),
        1
    );
    assert_eq!(world.disconnected(&reader), ReasonCode::NOT_AUTHORIZED);
    world.drop_connection(&reader);
    let (mut reader, connack) = world.join(&resume("reader"));
    assert!(
        !connack.session_present,
        "its subscriptions are gone with it"
    );
    world.subscribe(&mut reader, "news/+");
    assert_eq!(
        world
            .hub
            .set_policy(Some(policy(&RULES.replace("news/+", "news/a"))), world.now),
        1
    );
    assert_eq!(world.disconnected(&reader), ReasonCode::NOT_AUTHORIZED);
    assert_eq!(
        world
            .hub
            .set_policy(Some(policy(&RULES.replace("guest", "nobody"))), world.now),
        1
    );
    assert_eq!(world.disconnected(&guest), ReasonCode::NOT_AUTHORIZED);
    let (_, connack) = world.try_join(&resume("guest"));
    assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED);

    // Without a policy, everything is allowed again.
    assert_eq!(world.hub.set_policy(None, world.now), 0);
    assert_eq!(
        send_request(&mut world, &mut writer, &set("other", "1")),
        b"+OK\r\n"
    );
}

#[test]
fn a_reload_applies_to_new_clients_immediately_and_completes_after_all_others() {
    let mut world = HubSimulation::new();
    let clients: Vec<_> = (0..MANY)
        .map(|number| world.client(&format!("client-{number}")))
        .collect();
    let nobody = policy(&RULES.replace("guest", "nobody"));
    world.hub.begin_access_change(None, Some(nobody), world.now);
    let (_, connack) = world.try_join(&connect("guest"));
    assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED);
    let mut slices = 0;
    while world.hub.has_work() {
        assert_eq!(world.hub.take_access_change(), None);
        world.hub.work(world.now);
        slices += 1;
    }
    assert!(slices > 2, "{slices}");
    assert_eq!(world.hub.take_access_change(), Some(MANY));
    assert_eq!(world.hub.take_access_change(), None);
    for client in &clients {
        assert_eq!(world.disconnected(client), ReasonCode::NOT_AUTHORIZED);
    }
}

fn only_ann(password: &[u8]) -> Authenticator {
    let mut users = Users::default();
    users.add("ann", password);
    Authenticator::from(users)
}

/// Returns the CONNECT of a client of the user `ann`.
fn ann(number: usize, password: &'static str) -> Connect {
    Connect {
        user_name: Some("ann".into()),
        password: Some(password.into()),
        ..resume(&format!("client-{number}"))
    }
}

/// All of her clients are connected with her old password.
fn connect_many() -> HubSimulation {
    let mut world = HubSimulation::with(HubConfig {
        authenticator: only_ann(b"old"),
        ..HubConfig::default()
    });
    for number in 0..MANY {
        world.join(&ann(number, "old"));
    }
    world
}

#[test]
fn overlapping_reloads_reach_every_client() {
    let mut world = connect_many();
    world
        .hub
        .begin_access_change(Some(only_ann(b"new")), None, world.now);
    // The second change differs from the first for no user.
    world
        .hub
        .begin_access_change(Some(only_ann(b"new")), None, world.now);
    while world.hub.has_work() {
        world.hub.work(world.now);
    }
    assert_eq!(
        world.hub.take_access_change(),
        Some(0),
        "the first has reached all"
    );
    assert_eq!(world.hub.metrics().connections_failed, MANY as u64);
}

#[test]
fn a_client_with_the_new_password_is_not_disconnected() {
    let mut world = connect_many();
    world
        .hub
        .begin_access_change(Some(only_ann(b"new")), None, world.now);
    let mut back: Vec<_> = (0..MANY)
        .map(|number| world.join(&ann(number, "new")).0)
        .collect();
    while world.hub.has_work() {
        world.hub.work(world.now);
    }
    assert_eq!(world.hub.take_access_change(), Some(0));
    for client in &mut back {
        world.assert_alive(client);
    }
}

#[test]
fn a_disconnected_session_loses_forbidden_subscriptions() {
    let mut world = world();
    let (mut reader, _) = world.join(&resume("reader"));
    world.subscribe(&mut reader, "news/+");
    world.drop_connection(&reader);
    assert_eq!(world.hub.metrics().sessions, 1);
    assert_eq!(
        world
            .hub
            .set_policy(Some(policy(&RULES.replace("news/+", "news/a"))), world.now),
        0
    );
    assert_eq!(world.hub.metrics().sessions, 0);
}
