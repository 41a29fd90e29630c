//! CONNECT and CONNACK.
use crate::world::{HubSimulation, MAX, PEER, connect, resume};
use statestore_protocol::mqtt::{Connect, Limits, Packet, QoS, ReasonCode, Will};
use statestored_access::{Authenticator, Users};
use statestored_broker::hub::{CloseAction, HubConfig, HubLimits};

#[test]
fn connack_reports_the_server_limits() {
    let mut world = HubSimulation::new();
    let (_, connack) = world.join(&connect("me"));
    let limits = HubLimits::default();
    assert_eq!(
        connack.limits,
        Limits {
            receive_maximum: limits.receive_maximum,
            max_packet_bytes: limits.max_packet_bytes,
            topic_alias_maximum: limits.topic_alias_maximum,
        }
    );
    assert_eq!(connack.maximum_qos, QoS::AtLeastOnce);
    assert!(!connack.retain_available && !connack.shared_available);
    assert!(connack.wildcard_available && connack.subscription_ids_available);
    assert!(!connack.session_present);
    assert_eq!(
        (
            connack.assigned_client_id,
            connack.session_expiry_s,
            connack.server_keep_alive_s
        ),
        (None, None, None)
    );
}

#[test]
fn a_pending_login_ends_when_the_server_stops() {
    let mut users = Users::default();
    users.add("ann", b"secret");
    let mut world = HubSimulation::with(HubConfig {
        authenticator: Authenticator::from(users),
        ..HubConfig::default()
    });
    let login = |password: &'static [u8]| Connect {
        user_name: Some("ann".into()),
        password: Some(password.into()),
        ..resume("me")
    };
    for _ in 0..5 {
        let (_, connack) = world.try_join(&login(b"wrong"));
        assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
    }
    let mut client = world.open();
    world.send(&mut client, |out| login(b"secret").encode(MAX, out));
    assert!(world.packets(&client).is_empty(), "it waits for its turn");
    world.hub.shut_down(world.now);
    world.advance(10_000);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::Immediately
    );
    assert!(world.packets(&client).is_empty(), "its turn never came");
    assert_eq!(world.hub.metrics().sessions, 0);
}

#[test]
fn long_intervals_are_capped_and_reported() {
    let limits = HubLimits {
        max_keep_alive_s: 30,
        max_session_expiry_s: 100,
        ..HubLimits::default()
    };
    let mut world = HubSimulation::limited(limits);
    let asked = Connect {
        session_expiry_s: u32::MAX,
        keep_alive_s: 0,
        ..connect("a")
    };
    let (_, connack) = world.join(&asked);
    assert_eq!(
        (connack.session_expiry_s, connack.server_keep_alive_s),
        (Some(100), Some(30))
    );
    let asked = Connect {
        session_expiry_s: 100,
        keep_alive_s: 30,
        ..connect("b")
    };
    let (_, connack) = world.join(&asked);
    assert_eq!(
        (connack.session_expiry_s, connack.server_keep_alive_s),
        (None, None)
    );
}

#[test]
fn an_empty_client_id_is_assigned_a_unique_one() {
    let mut world = HubSimulation::new();
    let (_, first) = world.join(&connect(""));
    let (_, second) = world.join(&connect(""));
    let (first, second) = (
        first.assigned_client_id.unwrap(),
        second.assigned_client_id.unwrap(),
    );
    assert_ne!(first, second);
    let (_, other) = HubSimulation::new().join(&connect(""));
    assert_ne!(other.assigned_client_id.unwrap(), first);
}

#[test]
fn clients_of_mqtt_3_are_refused_with_an_mqtt_3_connack() {
    for (name, level) in [("MQTT", 4), ("MQIsdp", 3)] {
        let mut world = HubSimulation::new();
        let mut client = world.open();
        let mut packet = vec![0x10, 0];
        packet.extend([0, u8::try_from(name.len()).unwrap()]);
        packet.extend(name.as_bytes());
        packet.extend([level, 2, 0, 60, 0, 1, b'a']);
        packet[1] = u8::try_from(packet.len() - 2).unwrap();
        world.bytes(&mut client, &packet);
        assert_eq!(world.output(&client)[..], [0x20, 2, 0, 1]);
        assert_eq!(
            world.hub.close_action(client.connection),
            CloseAction::AfterOutput
        );
    }
}

#[test]
fn an_unknown_version_is_refused_with_0x84() {
    let mut world = HubSimulation::new();
    let mut client = world.open();
    world.bytes(
        &mut client,
        b"\x10\x0d\x00\x04MQTT\x06\x02\x00\x3c\x00\x01a",
    );
    match world.packets(&client).as_slice() {
        [Packet::ConnAck(connack)] => {
            assert_eq!(connack.reason, ReasonCode::UNSUPPORTED_PROTOCOL_VERSION);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_first_packet_other_than_connect_closes_the_connection() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xC0, 0],
        &[0; 16],
        &[0xFF; 16],
    ] {
        let mut world = HubSimulation::new();
        let mut client = world.open();
        world.bytes(&mut client, bytes);
        assert_eq!(world.output(&client).len(), 0);
        assert_eq!(
            world.hub.close_action(client.connection),
            CloseAction::Immediately
        );
        assert!(client.unread.is_empty());
    }
}

#[test]
fn a_malformed_connect_is_answered() {
    let mut world = HubSimulation::new();
    let mut client = world.open();
    // The reserved flag is set.
    world.bytes(
        &mut client,
        b"\x10\x0e\x00\x04MQTT\x05\x01\x00\x3c\x00\x00\x01a",
    );
    match world.packets(&client).as_slice() {
        [Packet::ConnAck(connack)] => assert_eq!(connack.reason, ReasonCode::MALFORMED_PACKET),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::AfterOutput
    );
}

#[test]
fn a_connect_may_arrive_in_fragments() {
    let mut world = HubSimulation::new();
    let mut client = world.open();
    let mut packet = bytes::BytesMut::new();
    connect("me").encode(MAX, &mut packet).unwrap();
    for byte in &packet {
        assert_eq!(world.output(&client).len(), 0);
        world.bytes(&mut client, &[*byte]);
    }
    assert!(matches!(
        world.packets(&client).as_slice(),
        [Packet::ConnAck(_)]
    ));
}

#[test]
fn a_second_connect_is_a_protocol_error() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    world.send(&mut client, |out| connect("me").encode(MAX, out));
    assert_eq!(world.disconnected(&client), ReasonCode::PROTOCOL_ERROR);
}

#[test]
fn a_silent_connection_is_closed() {
    let mut world = HubSimulation::new();
    let client = world.open();
    world.advance(9_999);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::KeepOpen
    );
    world.advance(1);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::Immediately
    );
    world.drop_connection(&client);
    assert_eq!(world.hub.next_wakeup(), None);
}

#[test]
fn users_are_checked() {
    let mut users = Users::default();
    users.add("ann", b"secret");
    users.add("bob", b"other");
    let config = HubConfig {
        authenticator: Authenticator::from(users),
        ..HubConfig::default()
    };
    let mut world = HubSimulation::with(config);
    let login = |name: &str, password: &'static [u8]| Connect {
        user_name: Some(name.into()),
        password: Some(password.into()),
        ..resume("me")
    };
    let (client, connack) = world.try_join(&connect("me"));
    assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::AfterOutput
    );
    let (_, connack) = world.try_join(&login("ann", b"wrong"));
    assert_eq!(connack.reason, ReasonCode::BAD_USER_NAME_OR_PASSWORD);
    let (mut ann, _) = world.join(&login("ann", b"secret"));
    let (_, connack) = world.try_join(&login("bob", b"other"));
    assert_eq!(
        connack.reason,
        ReasonCode::NOT_AUTHORIZED,
        "the session is of another user"
    );
    world.assert_alive(&mut ann);
    assert_eq!(world.hub.metrics().connects_refused, 3);
}

#[test]
fn a_disconnected_session_does_not_reserve_its_client_id() {
    let mut users = Users::default();
    for user in ["ann", "bob"] {
        users.add(user, b"secret");
    }
    let mut world = HubSimulation::with(HubConfig {
        authenticator: Authenticator::from(users),
        ..HubConfig::default()
    });
    let login = |user: &str, client_id: &str| Connect {
        user_name: Some(user.into()),
        password: Some(b"secret"[..].into()),
        ..resume(client_id)
    };
    let (mut bob, _) = world.join(&login("bob", "device"));
    world.subscribe(&mut bob, "a");
    let (_, connack) = world.try_join(&login("ann", "device"));
    assert_eq!(
        connack.reason,
        ReasonCode::NOT_AUTHORIZED,
        "he is connected"
    );
    world.drop_connection(&bob);
    let (ann, connack) = world.join(&login("ann", "device"));
    assert!(!connack.session_present, "his subscriptions are not hers");
    world.drop_connection(&ann);
    assert!(world.join(&login("ann", "device")).1.session_present);

    // An id with her name is hers at any time.
    for client_id in ["ann", "ann-1"] {
        let (_, connack) = world.try_join(&login("bob", client_id));
        assert_eq!(connack.reason, ReasonCode::NOT_AUTHORIZED);
        world.join(&login("ann", client_id));
    }
}

#[test]
fn enhanced_authentication_is_refused_with_0x8c() {
    let mut world = HubSimulation::new();
    let asked = Connect {
        authentication: Some(("K8S-SAT".into(), b"token"[..].into())),
        ..connect("me")
    };
    let (_, connack) = world.try_join(&asked);
    assert_eq!(connack.reason, ReasonCode::BAD_AUTHENTICATION_METHOD);
}

#[test]
fn wills_that_cannot_be_published_are_refused() {
    let will = Will {
        topic: "w".into(),
        payload: "x".into(),
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
    let request = statestore_protocol::topic::REQUEST;
    for (will, reason) in [
        (
            Will {
                retain: true,
                ..will.clone()
            },
            ReasonCode::RETAIN_NOT_SUPPORTED,
        ),
        (
            Will {
                qos: QoS::ExactlyOnce,
                ..will.clone()
            },
            ReasonCode::QOS_NOT_SUPPORTED,
        ),
        (
            Will {
                topic: request.into(),
                ..will.clone()
            },
            ReasonCode::TOPIC_NAME_INVALID,
        ),
        (will, ReasonCode::SUCCESS),
    ] {
        let asked = Connect {
            will: Some(will),
            ..connect("me")
        };
        assert_eq!(HubSimulation::new().try_join(&asked).1.reason, reason);
    }
}

#[test]
fn connections_and_sessions_are_limited() {
    let limits = HubLimits {
        max_connections: 3,
        max_sessions: 2,
        ..HubLimits::default()
    };
    let mut world = HubSimulation::limited(limits);
    let first = world.client("a");
    let _second = world.client("b");
    let (third, connack) = world.try_join(&connect("c"));
    assert_eq!(connack.reason, ReasonCode::QUOTA_EXCEEDED);
    assert_eq!(world.hub.opened(PEER, world.now), None);
    world.drop_connection(&third);
    world.drop_connection(&first);
    world.client("c");
}

#[test]
fn a_too_long_client_id_is_refused() {
    let mut world = HubSimulation::new();
    let (_, connack) = world.try_join(&connect(&"x".repeat(1025)));
    assert_eq!(connack.reason, ReasonCode::CLIENT_IDENTIFIER_NOT_VALID);
    world.join(&connect(&"x".repeat(1024)));
}

/// Connects with this password.
fn log_in(password: &'static [u8]) -> Connect {
    Connect {
        user_name: Some("ann".into()),
        password: Some(password.into()),
        ..connect("me")
    }
}

fn with_users() -> HubSimulation {
    let mut users = Users::default();
    users.add("ann", b"secret");
    HubSimulation::with(HubConfig {
        authenticator: Authenticator::from(users),
        ..HubConfig::default()
    })
}

#[test]
fn login_delays_grow_regardless_of_the_guess() {
    let mut world = with_users();
    let mut waited_ms = 0;
    for _ in 0..8 {
        let mut client = world.open();
        world.send(&mut client, |out| log_in(b"guess").encode(u32::MAX, out));
        while world.packets(&client).is_empty() {
            world.advance(50);
            waited_ms += 50;
        }
        assert_eq!(
            world.hub.close_action(client.connection),
            CloseAction::AfterOutput
        );
        world.drop_connection(&client);
    }
    assert!((1_500..10_000).contains(&waited_ms), "{waited_ms} ms");

    let mut client = world.open();
    world.send(&mut client, |out| log_in(b"secret").encode(u32::MAX, out));
    world.bytes(&mut client, &[0xC0, 0]);
    assert!(world.packets(&client).is_empty());
    assert!(!world.hub.accepts_input(client.connection));
    world.advance(5_000);
    // Input after the CONNECT was not read before it.
    assert!(world.hub.accepts_input(client.connection));
    world.bytes(&mut client, &[]);
    let packets = world.packets(&client);
    assert!(
        matches!(
            packets.as_slice(),
            [Packet::ConnAck(connack), Packet::PingResp] if connack.reason == ReasonCode::SUCCESS
        ),
        "{packets:?}"
    );
    let (_, connack) = world.try_join(&log_in(b"secret"));
    assert_eq!(connack.reason, ReasonCode::SUCCESS, "it is forgotten");
}

#[test]
fn excess_concurrent_guesses_are_refused_without_verification() {
    let mut world = with_users();
    for _ in 0..6 {
        let mut client = world.open();
        world.send(&mut client, |out| log_in(b"guess").encode(u32::MAX, out));
        world.advance(5_000);
    }
    let mut refused = 0;
    for _ in 0..20 {
        let mut client = world.open();
        world.send(&mut client, |out| log_in(b"guess").encode(u32::MAX, out));
        if let [Packet::ConnAck(connack)] = world.packets(&client).as_slice() {
            let reason = connack.reason;
            refused += usize::from(reason == ReasonCode::CONNECTION_RATE_EXCEEDED);
        }
    }
    assert!(refused >= 10, "{refused}");
}

#[test]
fn a_refusal_respects_the_maximum_packet_size() {
    for max_packet_bytes in [3, 4, 5, 6, 20, 100] {
        let mut world = with_users();
        let mut client = world.open();
        let mut asked = log_in(b"wrong");
        asked.limits.max_packet_bytes = max_packet_bytes;
        world.send(&mut client, |out| asked.encode(u32::MAX, out));
        let output = world.output(&client);
        assert!(output.len() <= max_packet_bytes as usize, "{output:?}");
        assert_eq!(output.is_empty(), max_packet_bytes < 5);
        assert_eq!(
            world.hub.close_action(client.connection),
            CloseAction::AfterOutput
        );
    }
}

#[test]
fn without_a_connack_nothing_is_sent() {
    let mut world = HubSimulation::new();
    let mut client = world.open();
    let mut asked = connect("me");
    asked.limits.max_packet_bytes = 6;
    world.send(&mut client, |out| asked.encode(u32::MAX, out));
    assert!(world.output(&client).is_empty());
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::Immediately
    );
}
