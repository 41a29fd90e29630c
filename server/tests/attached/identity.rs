//! Identity of the sender, asserted by the broker: rules about keys apply, and cannot be evaded.
use super::plugin::{BrokerWithPlugin, KEY, PASSWORD, refused};
use super::world::{Peer, Store, command, now};
use harness::Mosquitto;
use ring::hmac::{self, HMAC_SHA256};
use statestore_protocol::mqtt::{Connect, PublishHeader, QoS, ReasonCode, Will};
use statestore_protocol::topic;
use std::fmt::Write;
use std::path::Path;

const PROPERTY: &str = "statestore-identity";
const NOT_AUTHORIZED: &[u8] = b"-ERR not authorized\r\n";
const RULES: &str = "
rules:
- principals: {clientIds: [reader, me]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: Read, keys: [shared/*, 'of/{principal.clientId}']}]
- principals: {usernames: [ann]}
  brokerResources: [{method: Connect}]
  stateStoreResources: [{method: ReadWrite, keys: [shared/*, secret, 'of/{principal.username}']}]
";

fn as_user(user: &str) -> Connect {
    Connect {
        user_name: Some(user.into()),
        password: Some(PASSWORD.into()),
        ..Connect::default()
    }
}

fn payload(peer: &mut Peer, parts: &[&str]) -> Vec<u8> {
    let now = now();
    peer.request(parts, &[("__ts", &now)])
        .payload_bytes()
        .to_vec()
}

/// A store with these rules behind a broker with the plugin.
fn guarded(rules: &str) -> (BrokerWithPlugin, Store) {
    let guarded = BrokerWithPlugin::start();
    let policy = guarded.folder.path().join("policy.yaml");
    std::fs::write(&policy, rules).unwrap();
    let mut options = guarded.options();
    options.extend(["--policy-file".into(), policy.to_str().unwrap().into()]);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let store = Store::start(guarded.broker.address(), &options);
    (guarded, store)
}

#[test]
fn key_rules_apply_by_client_id_and_user_name() {
    let (guarded, _store) = guarded(RULES);
    let broker = guarded.broker.address();
    let mut reader = Peer::connect(broker, "reader");
    let mut ann = Peer::connect_with(broker, "anything", as_user("ann"));
    let mut bob = Peer::connect_with(broker, "something", as_user("bob"));
    for key in ["shared/a", "secret", "of/ann"] {
        assert_eq!(payload(&mut ann, &["SET", key, "1"]), b"+OK\r\n");
        assert_eq!(payload(&mut reader, &["SET", key, "2"]), NOT_AUTHORIZED);
        assert_eq!(payload(&mut bob, &["GET", key]), NOT_AUTHORIZED);
    }
    assert_eq!(
        payload(&mut ann, &["SET", "of/reader", "1"]),
        NOT_AUTHORIZED
    );
    assert_eq!(payload(&mut reader, &["GET", "shared/a"]), b"$1\r\n1\r\n");
    assert_eq!(payload(&mut reader, &["GET", "of/reader"]), b"$-1\r\n");
    assert_eq!(payload(&mut reader, &["GET", "secret"]), NOT_AUTHORIZED);
    assert_eq!(
        payload(&mut reader, &["KEYNOTIFY", "secret"]),
        NOT_AUTHORIZED
    );
    assert_eq!(payload(&mut reader, &["KEYNOTIFY", "shared/a"]), b"+OK\r\n");
    assert_eq!(payload(&mut bob, &["SCAN", "*"]), NOT_AUTHORIZED);
    let page = payload(&mut reader, &["SCAN", "*"]);
    let page = String::from_utf8(page).unwrap();
    assert!(
        page.contains("shared/a") && !page.contains("secret"),
        "{page}"
    );
    for key in ["secret", "shared/a"] {
        assert_eq!(payload(&mut ann, &["SET", key, "3"]), b"+OK\r\n");
    }
    let told = reader.message();
    assert_eq!(told.topic(), topic::notification("reader", b"shared/a"));
}

#[test]
fn changed_rules_end_forbidden_watches() {
    let (guarded, store) = guarded(RULES);
    let broker = guarded.broker.address();
    let mut reader = Peer::connect(broker, "reader");
    let mut ann = Peer::connect_with(broker, "anything", as_user("ann"));
    for peer in [&mut reader, &mut ann] {
        assert_eq!(payload(peer, &["KEYNOTIFY", "shared/a"]), b"+OK\r\n");
    }
    store.wait_for_metric("statestored_watches", 2);
    let policy = guarded.folder.path().join("policy.yaml");
    std::fs::write(
        policy,
        RULES.replace("shared/*, 'of/{principal.clientId}'", "other"),
    )
    .unwrap();
    store.send("-HUP");
    store.wait_for_metric("statestored_watches", 1);
    assert_eq!(payload(&mut reader, &["GET", "shared/a"]), NOT_AUTHORIZED);
    assert_eq!(payload(&mut reader, &["GET", "other"]), b"$-1\r\n");
    assert_eq!(payload(&mut ann, &["DEL", "shared/a"]), b":0\r\n");
}

#[test]
fn another_user_with_the_same_client_id_inherits_nothing() {
    let (guarded, store) = guarded(RULES);
    let broker = guarded.broker.address();
    let now = now();
    let same = PublishHeader {
        correlation_data: Some(b"same"),
        user_properties: &[("__ts", &now)],
        ..PublishHeader::default()
    };
    let mut ann = Peer::connect_with(broker, "client", as_user("ann"));
    assert_eq!(payload(&mut ann, &["SET", "secret", "1"]), b"+OK\r\n");
    assert_eq!(payload(&mut ann, &["KEYNOTIFY", "secret"]), b"+OK\r\n");
    ann.send_request(&command(&["GET", "secret"]), &same);
    assert_eq!(ann.message().payload_bytes(), b"$1\r\n1\r\n");
    store.wait_for_metric("statestored_watches", 1);
    let mut bob = Peer::connect_with(broker, "client", as_user("bob"));
    bob.send_request(&command(&["GET", "secret"]), &same);
    assert_eq!(bob.message().payload_bytes(), NOT_AUTHORIZED);
    store.wait_for_metric("statestored_watches", 0);
}

#[test]
fn a_client_cannot_forge_its_identity() {
    let (guarded, store) = guarded(RULES);
    let broker = guarded.broker.address();
    let now = now();
    let mut ann = Peer::connect_with(broker, "anything", as_user("ann"));
    let mut me = Peer::connect(broker, "me");
    let others = topic::response("anything");
    let header = PublishHeader {
        correlation_data: Some(b"1"),
        user_properties: &[("__ts", &now), ("__srcId", "anything")],
        ..PublishHeader::default()
    };
    for response_topic in [
        others.as_str(),
        "clients/me",
        "clients/me/",
        "clients/mean/a",
        "answers/me/a",
    ] {
        let response_topic = Some(response_topic);
        me.send_request(
            &command(&["SET", "secret", "forged"]),
            &PublishHeader {
                response_topic,
                ..header
            },
        );
        assert_eq!(me.puback(), ReasonCode::NOT_AUTHORIZED);
    }
    // The broker rejects a client's own assertions, at any position and in any number.
    let forged = format!("{} 8 anything ann", "0".repeat(64));
    let forged = (PROPERTY, forged.as_str());
    let time = ("__ts", now.as_str());
    let others_too = [("other", ""), ("", "")];
    for properties in [
        [forged, time, others_too[0], others_too[1]],
        [time, forged, forged, others_too[0]],
        [time, others_too[0], others_too[1], (PROPERTY, "")],
    ] {
        let user_properties = &properties;
        me.send_request(
            &command(&["GET", "shared/a"]),
            &PublishHeader {
                user_properties,
                ..header
            },
        );
        assert_eq!(me.puback(), ReasonCode::NOT_AUTHORIZED);
    }
    assert_eq!(
        me.request(&["GET", "shared/a"], &[others_too[0], time, others_too[1]])
            .payload_bytes(),
        b"$-1\r\n"
    );
    // A will goes past the plugin, but is not signed.
    let will = Will {
        topic: topic::REQUEST.into(),
        payload: command(&["SET", "secret", "forged"]).into(),
        qos: QoS::AtLeastOnce,
        retain: false,
        delay_s: 0,
        message_expiry: None,
        payload_is_utf8: None,
        content_type: None,
        response_topic: Some(others),
        correlation_data: Some("2".into()),
        user_properties: [forged, ("__ts", now.as_str())]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
    };
    let will = Some(will);
    drop(Peer::connect_with(
        broker,
        "forger",
        Connect {
            will,
            ..Connect::default()
        },
    ));
    store.wait_for_metric("statestored_attached_unproven_total", 1);
    store.wait_for_log("not signed with the key of this server");
    assert_eq!(payload(&mut ann, &["GET", "secret"]), b"$-1\r\n");
}

/// The response topic of the vendor's Go client, with these digits for its client id.
fn go_response_topic(digits: &str) -> String {
    format!(
        "clients/{digits}/statestore/v1/{}/command/invoke/response",
        topic::STORE_GUID
    )
}

#[test]
fn a_hexadecimal_client_id_identifies_the_client() {
    let (guarded, store) = guarded(RULES);
    let broker = guarded.broker.address();
    let now = now();
    let me_in_hex = go_response_topic("6D65");
    let ask = |peer: &mut Peer, response_topic: &str| {
        let header = PublishHeader {
            correlation_data: Some(b"1"),
            response_topic: Some(response_topic),
            user_properties: &[("__ts", &now)],
            ..PublishHeader::default()
        };
        peer.send_request(&command(&["GET", "of/me"]), &header);
    };
    let mut me = Peer::connect(broker, "me");
    me.subscribe(&me_in_hex);
    ask(&mut me, &me_in_hex);
    assert_eq!(me.message().payload_bytes(), b"$-1\r\n");
    // Lower case is another client's, and so are the digits of another id.
    for digits in ["6d65", "6D65ff", "6E65"] {
        ask(&mut me, &go_response_topic(digits));
        assert_eq!(me.puback(), ReasonCode::NOT_AUTHORIZED);
    }
    // A client may have the digits for an id; the broker says that it is not the one they stand for.
    let mut digits = Peer::connect(broker, "6D65");
    ask(&mut digits, &me_in_hex);
    store.wait_for_metric("statestored_attached_unproven_total", 1);
    store.wait_for_log("its response topic names another client than its sender");
}

#[test]
fn a_message_on_another_topic_arrives_unchanged_unless_it_carries_an_assertion() {
    let guarded = BrokerWithPlugin::start();
    let mut peer = Peer::connect(guarded.broker.address(), "me");
    let response = topic::response("me");
    let header = PublishHeader {
        topic: &response,
        content_type: Some("text/plain"),
        payload_is_utf8: Some(true),
        correlation_data: Some(b""),
        response_topic: Some("a/b"),
        user_properties: &[("a", "1"), ("", ""), ("a", "2")],
        ..PublishHeader::default()
    };
    let user_properties = &[("a", "1"), (PROPERTY, "x")];
    peer.send_message(
        b"forged",
        &PublishHeader {
            user_properties,
            ..header
        },
    );
    assert_eq!(peer.puback(), ReasonCode::NOT_AUTHORIZED);
    peer.send_message(b"text", &header);
    let message = peer.message();
    assert_eq!(message.payload_bytes(), b"text");
    assert_eq!(message.content_type(), header.content_type);
    assert_eq!(message.payload_is_utf8(), header.payload_is_utf8);
    assert_eq!(message.correlation_data(), header.correlation_data);
    assert_eq!(message.response_topic(), header.response_topic);
    let properties: Vec<_> = message.user_properties().collect();
    assert_eq!(properties, header.user_properties);
}

/// Returns the assertion about a request by a broker that knows the key.
fn signed(
    key: &str,
    (client, user): (&str, &str),
    response_topic: &str,
    payload: &[u8],
    now: &str,
) -> String {
    let mut bytes = Vec::new();
    for field in [
        client.as_bytes(),
        user.as_bytes(),
        topic::REQUEST.as_bytes(),
        response_topic.as_bytes(),
        b"1",
        payload,
        b"__ts",
        now.as_bytes(),
    ] {
        bytes.extend(u32::try_from(field.len()).unwrap().to_be_bytes());
        bytes.extend(field);
    }
    let mac = hmac::sign(&hmac::Key::new(HMAC_SHA256, key.as_bytes()), &bytes);
    let mut value = String::new();
    for byte in mac.as_ref() {
        write!(value, "{byte:02x}").unwrap();
    }
    let space = if user.is_empty() { "" } else { " " };
    format!("{value} {} {client}{space}{user}", client.len())
}

/// Behind a broker without the plugin, whose work the client does, or does not.
#[test]
fn requests_without_a_valid_assertion_are_not_executed() {
    let broker = Mosquitto::start();
    let folder = tempfile::tempdir().unwrap();
    let (key, policy) = (folder.path().join("key"), folder.path().join("policy"));
    std::fs::write(&key, KEY).unwrap();
    std::fs::write(&policy, RULES).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let options = [
        "--attach-identity",
        PROPERTY,
        "--attach-identity-key",
        &text(&key),
        "--policy-file",
        &text(&policy),
    ];
    let store = Store::start(broker.address(), &options);
    let mut peer = Peer::connect(broker.address(), "me");
    let now = now();
    let own = topic::response("me");
    let write = command(&["SET", "secret", "v"]);
    let good = signed(KEY, ("me", "ann"), &own, &write, &now);
    let other_key = "f".repeat(32);
    let wrong = [
        signed(&other_key, ("me", "ann"), &own, &write, &now),
        signed(KEY, ("other", "ann"), &own, &write, &now),
        signed(KEY, ("me", "ann"), "clients/me/other", &write, &now),
        signed(KEY, ("me", "ann"), &own, b"", &now),
        signed(KEY, ("me", "ann"), &own, &write, "1:0:x"),
        good.replace(" ann", " ana"),
        good.replace(" 2 me", " 1 me"),
        good[1..].into(),
        String::new(),
    ];
    let stamp = ("__ts", now.as_str());
    let mut sent = vec![
        vec![stamp],
        vec![stamp, (PROPERTY, &good), (PROPERTY, &good)],
    ];
    sent.extend(wrong.iter().map(|value| vec![stamp, (PROPERTY, value)]));
    let header = PublishHeader {
        correlation_data: Some(b"1"),
        ..PublishHeader::default()
    };
    for user_properties in &sent {
        peer.send_request(
            &write,
            &PublishHeader {
                user_properties,
                ..header
            },
        );
    }
    // Responses come in the order of the requests: none comes before that of the first good one.
    let get = command(&["GET", "secret"]);
    for (payload, answer) in [(&get, &b"$-1\r\n"[..]), (&write, b"+OK\r\n")] {
        let good = signed(KEY, ("me", "ann"), &own, payload, &now);
        let user_properties = &[(PROPERTY, good.as_str()), stamp];
        peer.send_request(
            payload,
            &PublishHeader {
                user_properties,
                ..header
            },
        );
        assert_eq!(peer.message().payload_bytes(), answer);
    }
    store.wait_for_metric("statestored_attached_unproven_total", sent.len() as u64);
}

#[test]
fn a_plugin_without_a_good_key_keeps_the_broker_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "short\n").unwrap();
    let short = refused(&format!("plugin_opt_key_file {}", key.display()));
    assert!(short.contains("32 to 1024 bytes"), "{short}");
    let absent = refused("plugin_opt_key_file /nowhere/key");
    assert!(absent.contains("cannot read /nowhere/key"), "{absent}");
    let none = refused("");
    assert!(none.contains("plugin_opt_key_file is missing"), "{none}");
    let strange = refused("plugin_opt_keyfile /nowhere/key");
    assert!(
        strange.contains("plugin_opt_keyfile is not an option"),
        "{strange}"
    );
}
