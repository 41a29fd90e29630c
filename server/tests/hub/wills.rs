//! Wills (MQTT 5, section 3.1.2.5).
use crate::world::{Client, HubSimulation, connect, resume};
use statestore_protocol::mqtt::{Connect, Disconnect, Packet, QoS, ReasonCode, Will};

pub(crate) fn will(delay_s: u32) -> Will {
    Will {
        topic: "w".into(),
        payload: "gone".into(),
        qos: QoS::AtLeastOnce,
        retain: false,
        delay_s,
        message_expiry: Some(9),
        payload_is_utf8: Some(true),
        content_type: Some("text/plain".into()),
        response_topic: None,
        correlation_data: None,
        user_properties: vec![("k".into(), "v".into())],
    }
}

fn with_will_subscriber() -> (HubSimulation, Client) {
    let mut world = HubSimulation::new();
    let mut heir = world.client("heir");
    world.subscribe(&mut heir, "w");
    (world, heir)
}

#[test]
fn a_lost_connection_publishes_the_will_with_its_properties() {
    let (mut world, heir) = with_will_subscriber();
    let (client, _) = world.join(&Connect {
        will: Some(will(0)),
        ..connect("me")
    });
    world.drop_connection(&client);
    let got = world.published(&heir);
    assert_eq!(got.len(), 1);
    assert_eq!(
        (got[0].topic(), got[0].payload_bytes()),
        ("w", &b"gone"[..])
    );
    assert_eq!(
        (got[0].qos(), got[0].message_expiry()),
        (QoS::AtLeastOnce, Some(9))
    );
    assert_eq!(got[0].content_type(), Some("text/plain"));
    assert_eq!(got[0].user_properties().collect::<Vec<_>>(), [("k", "v")]);
}

#[test]
fn a_good_disconnect_drops_the_will_and_0x04_does_not() {
    let (mut world, heir) = with_will_subscriber();
    let (client, _) = world.join(&Connect {
        will: Some(will(0)),
        ..connect("me")
    });
    world.disconnect(client, ReasonCode::SUCCESS);
    assert!(world.packets(&heir).is_empty());
    let (client, _) = world.join(&Connect {
        will: Some(will(0)),
        ..connect("me")
    });
    world.disconnect(client, ReasonCode::DISCONNECT_WITH_WILL);
    assert_eq!(world.published(&heir).len(), 1);
}

#[test]
fn a_will_waits_for_its_delay() {
    let (mut world, heir) = with_will_subscriber();
    let (client, _) = world.join(&Connect {
        will: Some(will(5)),
        ..resume("me")
    });
    world.drop_connection(&client);
    world.advance(4_999);
    assert!(world.packets(&heir).is_empty());
    world.advance(1);
    assert_eq!(world.published(&heir).len(), 1);
    world.advance(100_000);
    assert!(world.packets(&heir).is_empty(), "only once");
}

#[test]
fn a_will_is_published_at_session_end_if_earlier() {
    let (mut world, heir) = with_will_subscriber();
    let (client, _) = world.join(&Connect {
        will: Some(will(500)),
        ..resume("me")
    });
    world.drop_connection(&client);
    world.advance(59_999);
    assert!(world.packets(&heir).is_empty());
    world.advance(1);
    assert_eq!(world.published(&heir).len(), 1);
    let (client, _) = world.join(&Connect {
        will: Some(will(500)),
        ..connect("me")
    });
    world.drop_connection(&client);
    assert_eq!(
        world.published(&heir).len(),
        1,
        "a session without expiry ends at once"
    );
}

#[test]
fn a_reconnect_within_the_delay_cancels_the_will() {
    let (mut world, heir) = with_will_subscriber();
    let (client, _) = world.join(&Connect {
        will: Some(will(5)),
        ..resume("me")
    });
    world.drop_connection(&client);
    world.advance(4_000);
    let (client, _) = world.join(&resume("me"));
    world.advance(10_000);
    assert!(world.packets(&heir).is_empty());
    world.drop_connection(&client);
    world.advance(10_000);
    assert!(
        world.packets(&heir).is_empty(),
        "the new connection has none"
    );
}

#[test]
fn a_clean_start_ends_the_session_and_publishes_its_will() {
    let (mut world, heir) = with_will_subscriber();
    let (client, _) = world.join(&Connect {
        will: Some(will(5)),
        ..resume("me")
    });
    world.drop_connection(&client);
    world.join(&connect("me"));
    assert_eq!(world.published(&heir).len(), 1);
}

#[test]
fn a_taken_over_connection_publishes_its_will_unless_it_is_delayed() {
    for (delay_s, expected) in [(0, 1), (5, 0)] {
        let (mut world, heir) = with_will_subscriber();
        world.join(&Connect {
            will: Some(will(delay_s)),
            ..resume("me")
        });
        world.join(&resume("me"));
        world.advance(10_000);
        assert_eq!(world.published(&heir).len(), expected);
    }
}

#[test]
fn disconnect_may_shorten_the_session() {
    let (mut world, heir) = with_will_subscriber();
    let (mut client, _) = world.join(&Connect {
        will: Some(will(50)),
        ..resume("me")
    });
    let packet = Disconnect {
        session_expiry_s: Some(3),
        ..Disconnect::new(ReasonCode::DISCONNECT_WITH_WILL)
    };
    world.send(&mut client, |out| packet.encode(u32::MAX, out));
    world.drop_connection(&client);
    world.advance(3_000);
    assert_eq!(world.published(&heir).len(), 1);
    assert!(!world.join(&resume("me")).1.session_present);
}

#[test]
fn wills_are_not_published_when_the_server_stops() {
    let (mut world, heir) = with_will_subscriber();
    let (client, _) = world.join(&Connect {
        will: Some(will(0)),
        ..connect("me")
    });
    world.hub.shut_down(world.now);
    assert_eq!(
        world.disconnected(&client),
        ReasonCode::SERVER_SHUTTING_DOWN
    );
    assert_eq!(world.disconnected(&heir), ReasonCode::SERVER_SHUTTING_DOWN);
}

#[test]
fn a_will_without_payload_properties_has_none() {
    for payload_is_utf8 in [None, Some(false), Some(true)] {
        let (mut world, heir) = with_will_subscriber();
        let will = Will {
            payload_is_utf8,
            ..will(0)
        };
        let (client, _) = world.join(&Connect {
            will: Some(will),
            ..connect("me")
        });
        world.drop_connection(&client);
        let got = world.published(&heir);
        assert_eq!(got[0].payload_is_utf8(), payload_is_utf8);
    }
}

#[test]
fn when_the_server_ends_all_sessions_end_and_all_wills_are_published() {
    let (mut world, heir) = with_will_subscriber();
    let asked = |client_id| Connect {
        will: Some(will(60)),
        ..resume(client_id)
    };
    let (_connected, _) = world.join(&asked("connected"));
    let (lost, _) = world.join(&asked("lost"));
    world.drop_connection(&lost);
    let (left, _) = world.join(&asked("left"));
    world.disconnect(left, ReasonCode::SUCCESS);
    assert!(world.packets(&heir).is_empty());
    world.hub.shut_down(world.now);
    let packets = world.packets(&heir);
    assert!(
        matches!(
            packets.as_slice(),
            [Packet::Publish(_), Packet::Publish(_), Packet::Disconnect(disconnect)]
                if disconnect.reason == ReasonCode::SERVER_SHUTTING_DOWN
        ),
        "{packets:?}"
    );
}
