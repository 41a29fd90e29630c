//! Fairness: other clients do not pay for the memory or the work of a client.
use crate::world::{Client, HubSimulation, command, connect, id, message, request, resume, set};
use bytes::BytesMut;
use statestore_protocol::mqtt::{
    Connect, Packet, PublishHeader, QoS, ReasonCode, Subscription, Will, decode,
};
use statestored_access::{Authenticator, Users};
use statestored_broker::hub::{CloseAction, Hub, HubConfig, HubLimits};
use statestored_store::service::{Service, ServiceConfig};

const MAX_BYTES: usize = 1_000_000;

fn limits() -> HubLimits {
    HubLimits {
        max_session_bytes: MAX_BYTES,
        max_output_bytes: 50_000,
        ..HubLimits::default()
    }
}

fn held(world: &HubSimulation) -> usize {
    usize::try_from(world.hub.metrics().held_bytes).unwrap()
}

/// A session without a connection that subscribes to `filter`.
fn offline(world: &mut HubSimulation, client_id: &str, filter: &str) {
    let (mut client, _) = world.join(&resume(client_id));
    world.subscribe(&mut client, filter);
    world.drop_connection(&client);
}

/// Publishes and returns the reason code of the PUBACK.
fn publish(
    world: &mut HubSimulation,
    publisher: &mut Client,
    topic: &str,
    payload: &[u8],
) -> ReasonCode {
    world.publish(publisher, &message(topic, 1), payload);
    world.advance(0);
    world.puback(publisher, id(1))
}

/// The payloads that wait for a session, each acknowledged.
fn queued_payloads(world: &mut HubSimulation, client_id: &str) -> Vec<Vec<u8>> {
    let mut client = world.open();
    world.send(&mut client, |out| resume(client_id).encode(u32::MAX, out));
    let mut payloads = Vec::new();
    loop {
        let mut taken = BytesMut::new();
        world
            .hub
            .take_output(client.connection, &mut taken, world.now);
        if taken.is_empty() {
            // Now that all output has left, its acknowledgements are taken.
            world.bytes(&mut client, b"");
            world.drop_connection(&client);
            return payloads;
        }
        while let Some(packet) = decode(&mut taken, u32::MAX).unwrap() {
            match packet {
                Packet::Publish(publish) => {
                    payloads.push(publish.payload_bytes().to_vec());
                    world.acknowledge(&mut client, publish.packet_id().unwrap());
                }
                Packet::ConnAck(connack) => assert!(connack.session_present, "{client_id}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_shared_message_is_counted_once() {
    let mut world = HubSimulation::limited(limits());
    for number in 0..65 {
        offline(&mut world, &format!("offline-{number}"), "a");
    }
    let (mut healthy, _) = world.join(&resume("healthy"));
    let mut publisher = world.client("publisher");
    let before = held(&world);
    let payload = vec![7; MAX_BYTES / 4];
    assert_eq!(
        publish(&mut world, &mut publisher, "a", &payload),
        ReasonCode::SUCCESS
    );
    assert!(
        held(&world) - before < MAX_BYTES / 4 + 65 * 1_000,
        "{}",
        held(&world)
    );
    let (puback, _) = world.request(&mut healthy, &set("k", "v"));
    assert_eq!(puback.reason, ReasonCode::SUCCESS);
    assert_eq!(world.hub.metrics().dropped_full, 0);
    for number in 0..65 {
        let got = queued_payloads(&mut world, &format!("offline-{number}"));
        assert!(got == [payload.as_slice()], "{number}");
    }
    assert!(held(&world) < before + 10_000, "{}", held(&world));
}

#[test]
fn the_largest_queue_is_evicted_first_without_affecting_others() {
    let mut world = HubSimulation::limited(limits());
    offline(&mut world, "greedy", "greedy");
    offline(&mut world, "modest", "modest");
    let (mut healthy, _) = world.join(&resume("healthy"));
    world.subscribe(&mut healthy, "clients/me/#");
    let mut publisher = world.client("publisher");
    assert_eq!(
        publish(&mut world, &mut publisher, "modest", b"kept"),
        ReasonCode::SUCCESS
    );
    for number in 0..100u8 {
        let payload = vec![number; 50_000];
        assert_eq!(
            publish(&mut world, &mut publisher, "greedy", &payload),
            ReasonCode::SUCCESS
        );
        assert!(held(&world) <= MAX_BYTES, "{}", held(&world));
        let (puback, _) = world.request(&mut healthy, &set("k", "v"));
        assert_eq!(puback.reason, ReasonCode::SUCCESS);
    }
    assert!(world.hub.metrics().dropped_full > 50);
    assert_eq!(queued_payloads(&mut world, "modest"), [b"kept"]);
    let left = queued_payloads(&mut world, "greedy");
    assert!(left.len() > 5, "{}", left.len());
    assert_eq!(left.last().unwrap()[0], 99, "the oldest go first");
    world.assert_alive(&mut healthy);
    world.assert_alive(&mut publisher);
}

#[test]
fn a_partial_packet_is_charged_to_its_sender() {
    let mut world = HubSimulation::limited(limits());
    let (mut healthy, _) = world.join(&resume("healthy"));
    let mut unknown: Vec<_> = (0..3).map(|_| world.open()).collect();
    let mut known = world.client("known");
    let before = held(&world);
    for client in &mut unknown {
        // A CONNECT of 400 kB that never arrives completely.
        world.bytes(client, &[0x10, 0x80, 0xB5, 0x18]);
        world.bytes(client, &vec![0; 100_000]);
    }
    assert!(held(&world) >= before + 300_000, "{}", held(&world));
    // PUBLISH of 2 MB, so far.
    world.bytes(&mut known, &[0x32, 0x80, 0x89, 0x7A]);
    for _ in 0..9 {
        world.bytes(&mut known, &vec![0; 100_000]);
        assert!(held(&world) <= MAX_BYTES, "{}", held(&world));
    }
    assert_eq!(world.disconnected(&known), ReasonCode::QUOTA_EXCEEDED);
    for client in &unknown {
        assert_eq!(
            world.hub.close_action(client.connection),
            CloseAction::KeepOpen,
            "they hold less"
        );
    }
    world.drop_connection(&known);
    let (puback, _) = world.request(&mut healthy, &set("k", "v"));
    assert_eq!(puback.reason, ReasonCode::SUCCESS);
}

#[test]
fn unsent_output_is_charged_to_its_reader() {
    let mut world = HubSimulation::limited(limits());
    let (mut healthy, _) = world.join(&resume("healthy"));
    world.request(&mut healthy, &set("k", &"v".repeat(300_000)));
    let mut slow: Vec<_> = (0..4)
        .map(|number| world.client(&format!("slow-{number}")))
        .collect();
    for client in &mut slow {
        world.publish(client, &request(id(1)), &command(&["GET", "k"]));
        // The driver has it, and its socket takes nothing.
        let mut taken = BytesMut::new();
        world
            .hub
            .take_output(client.connection, &mut taken, world.now);
        let is_closing = world.hub.close_action(client.connection) != CloseAction::KeepOpen;
        assert!(taken.len() > 300_000 || is_closing);
    }
    world.assert_alive(&mut healthy);
    let closing = slow
        .iter()
        .filter(|client| world.hub.close_action(client.connection) != CloseAction::KeepOpen);
    assert_eq!(closing.count(), 1, "one of them had to go");
}

#[test]
fn watches_filters_aliases_and_wills_are_charged() {
    let mut world = HubSimulation::new();
    let before = held(&world);
    let (mut client, _) = world.join(&Connect {
        will: Some(Will {
            topic: "will".into(),
            payload: vec![0; 50_000].into(),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay_s: 0,
            message_expiry: Some(9),
            payload_is_utf8: Some(true),
            content_type: Some("text/plain".into()),
            response_topic: None,
            correlation_data: None,
            user_properties: vec![("k".into(), "v".into())],
        }),
        ..resume("me")
    });
    let mut last = held(&world);
    assert!(last - before > 50_000);
    let mut grew_by = |world: &HubSimulation, least: usize, what: &str| {
        let now = held(world);
        assert!(
            now - last > least - 5_000 && now - last < 3 * least + 5_000,
            "{what}: {}",
            now - last
        );
        last = now;
    };
    let key = "k".repeat(16_000);
    world.request(&mut client, &command(&["KEYNOTIFY", &key]));
    grew_by(&world, 16_000, "a watch");
    let filter = "f".repeat(60_000);
    world.subscribe(&mut client, &filter);
    grew_by(&world, 60_000, "a filter");
    let aliased = PublishHeader {
        topic: &"t".repeat(60_000),
        topic_alias: Some(1),
        ..message("", 3)
    };
    world.publish(&mut client, &aliased, b"");
    grew_by(&world, 60_000, "an alias");
    world.output(&client);
    world.drop_connection(&client);
    world.advance(100_000);
    assert_eq!(held(&world), before);
}

#[test]
fn new_sessions_evict_the_least_valuable_sessions() {
    let mut world = HubSimulation::limited(HubLimits {
        max_sessions: 20,
        ..HubLimits::default()
    });
    offline(&mut world, "subscriber", "a");
    offline(&mut world, "holder", "b");
    let mut publisher = world.client("publisher");
    assert_eq!(
        publish(&mut world, &mut publisher, "b", b"kept"),
        ReasonCode::SUCCESS
    );
    let (mut healthy, _) = world.join(&resume("healthy"));
    for number in 0..1_000 {
        let (client, connack) = world.try_join(&resume(&format!("new-{number}")));
        assert_eq!(connack.reason, ReasonCode::SUCCESS, "{number}");
        world.drop_connection(&client);
    }
    assert_eq!(world.hub.metrics().sessions, 20);
    assert_eq!(world.hub.metrics().sessions_evicted, 1_000 - 16);
    world.assert_alive(&mut healthy);
    world.assert_alive(&mut publisher);
    assert!(queued_payloads(&mut world, "subscriber").is_empty());
    assert_eq!(queued_payloads(&mut world, "holder"), [b"kept"]);
    assert!(
        world.join(&resume("new-999")).1.session_present,
        "the newest stay"
    );
}

#[test]
fn the_longest_disconnected_session_without_messages_is_evicted() {
    let mut world = HubSimulation::limited(HubLimits {
        max_sessions: 10,
        ..HubLimits::default()
    });
    offline(&mut world, "holder", "b");
    let mut publisher = world.client("publisher");
    assert_eq!(
        publish(&mut world, &mut publisher, "b", b"kept"),
        ReasonCode::SUCCESS
    );
    for number in 0..100 {
        world.advance(1);
        offline(&mut world, &format!("new-{number}"), "c");
    }
    assert_eq!(queued_payloads(&mut world, "holder"), [b"kept"]);
    assert!(queued_payloads(&mut world, "new-99").is_empty());
    let (_, connack) = world.join(&resume("new-5"));
    assert!(!connack.session_present);
}

#[test]
fn sessions_of_the_user_with_the_most_are_evicted() {
    let mut users = Users::default();
    for user in ["ann", "bob"] {
        users.add(user, b"secret");
    }
    let mut world = HubSimulation::with(HubConfig {
        limits: HubLimits {
            max_sessions: 20,
            ..HubLimits::default()
        },
        authenticator: Authenticator::from(users),
        ..HubConfig::default()
    });
    let by = |user: &str, client_id: String| Connect {
        user_name: Some(user.into()),
        password: Some(b"secret".to_vec().into()),
        ..resume(&client_id)
    };
    for number in 0..5 {
        let (client, _) = world.join(&by("ann", format!("of-ann-{number}")));
        world.drop_connection(&client);
    }
    for number in 0..100 {
        world.advance(1);
        let (mut client, _) = world.join(&by("bob", format!("of-bob-{number}")));
        world.subscribe(&mut client, "a");
        world.drop_connection(&client);
    }
    for number in 0..5 {
        let (client, connack) = world.join(&by("ann", format!("of-ann-{number}")));
        assert!(
            connack.session_present,
            "nothing is lost with it, but she has few"
        );
        world.drop_connection(&client);
    }
}

#[test]
fn the_filters_of_a_session_are_bounded_in_bytes() {
    let mut world = HubSimulation::limited(HubLimits {
        max_filter_bytes: 100,
        ..HubLimits::default()
    });
    let mut client = world.client("me");
    let mut ask = |filter: &str| {
        let wanted = vec![Subscription::at_least_once(filter)];
        world.subscribe_all(&mut client, None, wanted)[0]
    };
    let (long, longer) = ("a".repeat(60), "b".repeat(60));
    assert_eq!(ask(&long), ReasonCode::GRANTED_QOS_1);
    assert_eq!(ask(&longer), ReasonCode::QUOTA_EXCEEDED);
    assert_eq!(ask(&long), ReasonCode::GRANTED_QOS_1, "it is there already");
    assert_eq!(ask("c"), ReasonCode::GRANTED_QOS_1);
}

#[test]
fn only_publish_packets_may_be_large() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    // SUBSCRIBE of 1 MB.
    world.bytes(&mut client, &[0x82, 0xC0, 0x84, 0x3D]);
    assert_eq!(world.disconnected(&client), ReasonCode::PACKET_TOO_LARGE);
}

#[test]
fn an_acknowledged_response_is_forgotten_only_on_its_own_connection() {
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&resume("me"));
    let nx = command(&["SET", "k", "v", "NX"]);
    let asked = |world: &mut HubSimulation, client: &mut Client| {
        world.publish(client, &request(id(1)), &nx);
        let packets = world.packets(client);
        let Some(Packet::Publish(response)) = packets
            .into_iter()
            .rev()
            .find(|packet| matches!(packet, Packet::Publish(_)))
        else {
            panic!("no response")
        };
        (
            response.packet_id().unwrap(),
            response.payload_bytes().to_vec(),
        )
    };
    let (unacknowledged, reply) = asked(&mut world, &mut client);
    assert_eq!(reply, b"+OK\r\n");
    world.drop_connection(&client);

    // The response comes again. The client has not seen its request acknowledged, so that it may come again too.
    let mut client = world.open();
    world.send(&mut client, |out| resume("me").encode(u32::MAX, out));
    assert_eq!(world.packets(&client).len(), 2);
    world.acknowledge(&mut client, unacknowledged);
    let (acknowledged, reply) = asked(&mut world, &mut client);
    assert_eq!(reply, b"+OK\r\n", "it was not executed again");
    world.acknowledge(&mut client, acknowledged);
    let (_, reply) = asked(&mut world, &mut client);
    assert_eq!(
        reply, b":-1\r\n",
        "a new request, since that one was answered"
    );
}

#[test]
fn a_redelivered_deletion_does_not_undo_what_another_client_wrote() {
    let mut world = HubSimulation::new();
    let (mut first, _) = world.join(&resume("first"));
    world.request(&mut first, &set("k", "mine"));
    world.publish(&mut first, &request(id(5)), &command(&["DEL", "k"]));
    world.drop_connection(&first);
    for number in 0..1_500u32 {
        let (mut other, _) = world.join(&resume(&format!("other-{number}")));
        world.publish(&mut other, &request(id(1)), &set("k", "theirs"));
        world.drop_connection(&other);
    }
    let mut first = world.open();
    world.send(&mut first, |out| resume("first").encode(u32::MAX, out));
    world.output(&first);
    let again = PublishHeader {
        dup: true,
        ..request(id(5))
    };
    world.publish(&mut first, &again, &command(&["DEL", "k"]));
    world.output(&first);
    let (_, value) = world.request(&mut first, &command(&["GET", "k"]));
    assert_eq!(value.payload_bytes(), b"$6\r\ntheirs\r\n");
}

#[test]
fn all_reservations_are_released() {
    let service = Service::embedded(ServiceConfig::default());
    let hub = Hub::new(HubConfig::default(), service);
    assert_eq!(hub.metrics().held_bytes, 0);
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&resume("me"));
    world.subscribe(&mut client, "a");
    world.request(&mut client, &set("k", "v"));
    world.request(&mut client, &command(&["KEYNOTIFY", "k"]));
    let mut publisher = world.client("publisher");
    publish(&mut world, &mut publisher, "a", &[0; 10_000]);
    world.drop_connection(&client);
    publish(&mut world, &mut publisher, "a", &[0; 10_000]);
    assert!(held(&world) > 20_000);
    world.drop_connection(&publisher);
    let (client, _) = world.join(&connect("me"));
    world.drop_connection(&client);
    assert_eq!(held(&world), 0);
}
