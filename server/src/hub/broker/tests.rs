//! What is kept of clients that the broker, or whoever writes through it, names.
use super::*;
use crate::hub::HubConfig;
use crate::service::{Service, ServiceConfig};
use statestore_protocol::mqtt::{Packet, PublishHeader, decode};

const NOW: Now = Now {
    wall_ms: 1_700_000_000_000,
    mono_ms: 1_000,
};

fn hub() -> Hub {
    let terms = BrokerTerms {
        client_id: "store".into(),
        watch_lease_ms: Some(3_600_000),
        ..BrokerTerms::default()
    };
    let config = HubConfig {
        broker: Some(terms),
        ..HubConfig::default()
    };
    Hub::new(config, Service::embedded(ServiceConfig::default()))
}

/// A request comes from a client.
fn ask(hub: &mut Hub, client: &str, words: &[&str]) {
    let response_topic =
        format!("clients/{client}/services/statestore/_any_/command/invoke/response");
    let header = PublishHeader {
        topic: topic::REQUEST,
        packet_id: Some(1.try_into().unwrap()),
        response_topic: Some(&response_topic),
        correlation_data: Some(b"0123456789abcdef"),
        ..PublishHeader::default()
    };
    let words = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let words: Vec<_> = words.collect();
    let payload = format!("*{}\r\n{}", words.len(), words.concat());
    let mut packet = BytesMut::new();
    header
        .encode(u32::MAX, &mut packet, payload.len(), |out| {
            out.extend_from_slice(payload.as_bytes());
        })
        .unwrap();
    let Some(Packet::Publish(publish)) = decode(&mut packet, u32::MAX).unwrap() else {
        panic!("it is a PUBLISH");
    };
    let broker = hub.broker.as_mut().unwrap();
    broker.came(publish, NOW.mono_ms);
    hub.broker_turn(NOW).unwrap();
}

fn leases(hub: &Hub) -> usize {
    let broker = hub.broker.as_ref().unwrap();
    broker.leases.as_ref().unwrap().len()
}

#[test]
fn there_are_no_more_leases_than_clients_that_watch() {
    let mut hub = hub();
    for number in 0..100 {
        ask(&mut hub, &format!("reads-{number}"), &["GET", "k"]);
    }
    assert_eq!(leases(&hub), 0);
    for client in ["a", "b"] {
        ask(&mut hub, client, &["KEYNOTIFY", "k"]);
        ask(&mut hub, client, &["KEYNOTIFY", "l"]);
        ask(&mut hub, client, &["GET", "k"]);
    }
    assert_eq!(leases(&hub), 2);
    for key in ["k", "l"] {
        assert_eq!(leases(&hub), 2);
        ask(&mut hub, "a", &["KEYNOTIFY", key, "STOP"]);
    }
    assert_eq!(leases(&hub), 1);
    hub.end_watches("\0b", None, 0, NOW);
    assert_eq!(leases(&hub), 0);
}
