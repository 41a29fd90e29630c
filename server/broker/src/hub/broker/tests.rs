//! Tests of the state that is kept for clients that the broker, or a client that writes through it, names.
mod patterns;

use super::*;
use crate::hub::HubConfig;
use statestore_protocol::Reply;
use statestore_protocol::mqtt::{ConnAck, Packet, PubAck, Publish, PublishHeader, SubAck, decode};
use statestored_store::service::{Service, ServiceConfig};

const NOW: ClockReading = ClockReading {
    wall_ms: 1_700_000_000_000,
    mono_ms: 1_000,
};

fn hub() -> Hub {
    hub_with(HubLimits::default(), None)
}

fn hub_with(limits: HubLimits, share: Option<&str>) -> Hub {
    let terms = BrokerConfig {
        client_id: "store".into(),
        watch_lease_ms: Some(3_600_000),
        share_name: share.map(str::to_owned),
        ..BrokerConfig::default()
    };
    let config = HubConfig {
        limits,
        broker: Some(terms),
        ..HubConfig::default()
    };
    Hub::new(config, Service::embedded(ServiceConfig::default()))
}

/// Returns the PUBLISH with a request of a client.
fn request(id: u16, client: &str, words: &[&str]) -> BytesMut {
    let response_topic =
        format!("clients/{client}/services/statestore/_any_/command/invoke/response");
    let words = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let words: Vec<_> = words.collect();
    let payload = format!("*{}\r\n{}", words.len(), words.concat());
    let header = PublishHeader {
        response_topic: Some(&response_topic),
        correlation_data: Some(b"0123456789abcdef"),
        user_properties: &[("__ts", "1700000000000:0:peer")],
        ..PublishHeader::default()
    };
    message(id, topic::REQUEST, &header, payload.as_bytes())
}

fn message(id: u16, topic: &str, header: &PublishHeader<'_>, payload: &[u8]) -> BytesMut {
    let header = PublishHeader {
        topic,
        packet_id: Some(id.try_into().unwrap()),
        ..*header
    };
    let mut packet = BytesMut::new();
    header
        .encode(u32::MAX, &mut packet, payload.len(), |out| {
            out.extend_from_slice(payload);
        })
        .unwrap();
    packet
}

/// Delivers a request of a client.
fn send_request(hub: &mut Hub, client: &str, words: &[&str]) {
    let mut packet = request(1, client, words);
    let Some(Packet::Publish(publish)) = decode(&mut packet, u32::MAX).unwrap() else {
        panic!("it is a PUBLISH");
    };
    hub.handle_broker_publish(publish, NOW).unwrap();
    hub.poll_broker(NOW).unwrap();
}

/// Delivers a packet of the broker, and returns the packets that the store sends.
fn deliver_packet(hub: &mut Hub, packet: BytesMut) -> Result<Vec<Packet>, BrokerError> {
    deliver_packet_at(hub, packet, NOW)
}

fn deliver_packet_at(
    hub: &mut Hub,
    mut packet: BytesMut,
    now: ClockReading,
) -> Result<Vec<Packet>, BrokerError> {
    hub.broker_received(&mut packet, now)?;
    assert!(packet.is_empty());
    hub.poll_broker(now)?;
    let mut output = BytesMut::from(&hub.broker_output(now)[..]);
    hub.broker_written(output.len(), false, now);
    let next = || decode(&mut output, u32::MAX).unwrap();
    Ok(std::iter::from_fn(next).collect())
}

/// Attaches the store to the broker, so that requests can arrive.
fn attach(hub: &mut Hub) {
    attach_to(hub, &ConnAck::new(ReasonCode::SUCCESS));
}

/// Attaches the store to a broker that answers with this CONNACK.
fn attach_to(hub: &mut Hub, connack: &ConnAck) {
    attach_at(hub, connack, NOW);
}

fn attach_at(hub: &mut Hub, connack: &ConnAck, now: ClockReading) {
    hub.broker_connected(None, None, None, now).unwrap();
    let mut packet = BytesMut::new();
    connack.encode(u32::MAX, &mut packet).unwrap();
    let said = deliver_packet_at(hub, packet, now).unwrap();
    let Some(Packet::Subscribe(subscribe)) = said.last() else {
        panic!("{said:?}");
    };
    let mut packet = BytesMut::new();
    let suback = SubAck {
        packet_id: subscribe.packet_id,
        reasons: vec![ReasonCode::GRANTED_QOS_1; subscribe.subscriptions.len()],
        reason_string: None,
    };
    suback.encode(u32::MAX, &mut packet).unwrap();
    deliver_packet_at(hub, packet, now).unwrap();
    assert!(hub.is_attached());
}

/// Returns the responses among packets.
fn responses(said: &[Packet]) -> Vec<&Publish> {
    let responses = said.iter().filter_map(|packet| match packet {
        Packet::Publish(publish) => Some(publish),
        _ => None,
    });
    responses.collect()
}

/// Returns the identifiers of the PUBLISHes that are acknowledged.
fn acknowledged(said: &[Packet]) -> Vec<u16> {
    let pubacks = said.iter().filter_map(|packet| match packet {
        Packet::PubAck(puback) => Some(puback.packet_id.get()),
        _ => None,
    });
    pubacks.collect()
}

#[test]
fn several_entries_are_returned_in_parts_that_the_broker_accepts() {
    let mut hub = hub();
    let mut connack = ConnAck::new(ReasonCode::SUCCESS);
    connack.limits.max_packet_bytes = 2_000;
    attach_to(&mut hub, &connack);
    let value = "v".repeat(700);
    for (id, key) in [(1, "a"), (2, "b"), (3, "c")] {
        deliver_packet(&mut hub, request(id, "me", &["SET", key, &value])).unwrap();
    }
    let said = deliver_packet(&mut hub, request(4, "me", &["MGET", "a", "b", "c"])).unwrap();
    let [response] = responses(&said)[..] else {
        panic!("{said:?}");
    };
    assert!(response.packet_bytes() <= 2_000);
    let reply = Reply::decode(&response.payload()).unwrap();
    let Reply::Entries { entries, omitted } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!((entries.len(), omitted), (2, 1));
}

#[test]
fn queued_requests_are_counted_and_excess_is_refused() {
    const VALUE_BYTES: usize = 200 * 1024;
    let mut hub = hub_with(
        HubLimits {
            max_session_bytes: 1024 * 1024,
            ..HubLimits::default()
        },
        None,
    );
    attach(&mut hub);
    hub.set_storage_backlogged(true, NOW);
    let before = hub.metrics().held_bytes;
    let value = "v".repeat(VALUE_BYTES);
    let said = deliver_packet(&mut hub, request(1, "a", &["SET", "k", &value])).unwrap();
    assert_eq!(said, []);
    let held = hub.metrics().held_bytes - before;
    assert!(held >= VALUE_BYTES as u64, "{held}");
    for id in 2..100 {
        let said = deliver_packet(&mut hub, request(id, "b", &["SET", "k", &value])).unwrap();
        let [refusal] = responses(&said)[..] else {
            panic!("{said:?}");
        };
        assert!(
            refusal
                .user_properties()
                .any(|property| property == ("__stat", "503"))
        );
        // The request before it is not done.
        assert!(acknowledged(&said).is_empty());
        let mut puback = BytesMut::new();
        PubAck::success(refusal.packet_id().unwrap())
            .encode(u32::MAX, &mut puback)
            .unwrap();
        deliver_packet(&mut hub, puback).unwrap();
    }
    // A small request has room.
    assert_eq!(
        deliver_packet(&mut hub, request(100, "b", &["GET", "k"])).unwrap(),
        []
    );
    let held = hub.metrics().held_bytes - before;
    assert!(held <= 256 * 1024, "{held}");
    hub.set_storage_backlogged(false, NOW);
    let said = deliver_packet(&mut hub, BytesMut::new()).unwrap();
    let answers: Vec<_> = responses(&said).iter().map(|it| it.payload()).collect();
    assert_eq!(answers[0], "+OK\r\n");
    assert!(answers[1].ends_with(b"v\r\n"));
    assert_eq!(acknowledged(&said), (1..=100).collect::<Vec<_>>());
}

#[test]
fn in_flight_messages_count_as_queued() {
    let mut hub = hub_with(
        HubLimits {
            max_queued_bytes: 100 * 1024,
            ..HubLimits::default()
        },
        None,
    );
    attach(&mut hub);
    let value = "v".repeat(60 * 1024);
    deliver_packet(&mut hub, request(1, "a", &["SET", "k", &value])).unwrap();
    let mut requests = BytesMut::new();
    for id in 2..6 {
        requests.extend_from_slice(&request(id, "a", &["GET", "k"]));
    }
    let mut said = deliver_packet(&mut hub, requests).unwrap();
    let mut answered = acknowledged(&said);
    assert_eq!(answered, [2, 3]);
    let later = deliver_packet(&mut hub, BytesMut::new()).unwrap();
    assert!(responses(&later).is_empty(), "{later:?}");
    while let Some(response) = responses(&said).first() {
        let mut puback = BytesMut::new();
        PubAck::success(response.packet_id().unwrap())
            .encode(u32::MAX, &mut puback)
            .unwrap();
        said = deliver_packet(&mut hub, puback).unwrap();
        answered.extend(acknowledged(&said));
    }
    assert_eq!(answered, [2, 3, 4, 5]);
}

#[test]
fn a_server_that_falls_behind_its_group_reconnects() {
    let limits = HubLimits {
        max_session_bytes: 1024 * 1024,
        ..HubLimits::default()
    };
    let mut hub = hub_with(limits, Some("group"));
    attach(&mut hub);
    hub.set_storage_backlogged(true, NOW);
    let log = hub.broker.as_ref().unwrap().group.as_ref().unwrap();
    let topic = log.topic.clone();
    let payload = vec![0; 200 * 1024];
    let entry = |id| message(id, &topic, &PublishHeader::default(), &payload);
    deliver_packet(&mut hub, entry(1)).unwrap();
    let behind = deliver_packet(&mut hub, entry(2));
    assert!(
        matches!(behind, Err(BrokerError::LogOverflow)),
        "{behind:?}"
    );
    hub.broker_disconnected(Some(ReasonCode::SUCCESS), NOW);
    assert!(hub.metrics().held_bytes < 200 * 1024);
}

/// Returns an entry of the log of a group.
fn entry(id: u16, properties: &[(&str, &str)], payload: &[u8]) -> BytesMut {
    let topic = format!("statestore/v1/{}/servers/group", topic::STORE_GUID);
    let properties = [&[("__from", "0-other")], properties].concat();
    let header = PublishHeader {
        user_properties: &properties,
        ..PublishHeader::default()
    };
    message(id, &topic, &header, payload)
}

/// A leader that never sends its watches, while clients end watches of ever other keys.
#[test]
fn changes_since_a_join_are_bounded() {
    const MOST_BYTES: usize = 1024 * 1024;
    let limits = HubLimits {
        max_queued_bytes: MOST_BYTES,
        ..HubLimits::default()
    };
    let mut hub = hub_with(limits, Some("group"));
    attach(&mut hub);
    let leads = ("__is", "beat 1 1 1 1 1 0 1");
    deliver_packet(&mut hub, entry(1, &[leads], b"")).unwrap();
    let key = "k".repeat(50_000);
    let mut id = 1;
    let behind = loop {
        id += 1;
        assert!(usize::from(id) * key.len() < 2 * MOST_BYTES);
        let key = format!("{id}{key}");
        let stop = format!(
            "*3\r\n$9\r\nKEYNOTIFY\r\n${}\r\n{key}\r\n$4\r\nSTOP\r\n",
            key.len()
        );
        let about = [("__is", "request"), ("__client", "a")];
        match deliver_packet(&mut hub, entry(id, &about, stop.as_bytes())) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(behind, BrokerError::LogOverflow), "{behind:?}");
    hub.broker_disconnected(Some(ReasonCode::SUCCESS), NOW);
    assert!(hub.metrics().held_bytes < 100_000);
    attach(&mut hub);
    deliver_packet(&mut hub, entry(1, &[leads], b"")).unwrap();
}

/// A STOP that the broker delivers again after it was executed, when its client watches again.
#[test]
fn a_stop_that_is_older_than_the_watch_is_ignored() {
    let mut hub = hub_with(HubLimits::default(), Some("group"));
    attach(&mut hub);
    let leads = ("__is", "beat 1 1 1 1 1 0 1");
    deliver_packet(&mut hub, entry(1, &[leads], b"")).unwrap();
    let mut id = 1;
    let mut is_watching_after = |at_ms: u64, payload: &[u8]| {
        id += 1;
        let at = format!("{}:0:a", NOW.wall_ms + at_ms);
        let about = [("__is", "request"), ("__client", "a"), ("__ts", &at)];
        deliver_packet(&mut hub, entry(id, &about, payload)).unwrap();
        hub.service.is_watching("\0a", b"k")
    };
    let watch = b"*2\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n";
    let stop = b"*3\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n$4\r\nSTOP\r\n";
    assert!(is_watching_after(10, watch));
    assert!(!is_watching_after(20, stop));
    assert!(is_watching_after(30, watch));
    assert!(is_watching_after(20, stop));
    assert!(!is_watching_after(40, stop));
}

/// Returns the number of log entries by which a server reports that a watching client is active.
fn activity_reports(has_watch_leases: bool) -> usize {
    let mut hub = hub_with(HubLimits::default(), Some("group"));
    if !has_watch_leases {
        hub.broker.as_mut().unwrap().watch_leases = None;
    }
    attach(&mut hub);
    let about = [("__is", "request"), ("__client", "a")];
    let watch = b"*2\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n";
    deliver_packet(&mut hub, entry(1, &about, watch)).unwrap();
    deliver_packet(&mut hub, request(2, "a", &["GET", "k"])).unwrap();
    let later = ClockReading {
        mono_ms: NOW.mono_ms + 1_000,
        ..NOW
    };
    hub.poll_broker(later).unwrap();
    let mut output = BytesMut::from(&hub.broker_output(later)[..]);
    let packets = std::iter::from_fn(|| decode(&mut output, u32::MAX).unwrap());
    let entries = packets.filter(|packet| match packet {
        Packet::Publish(publish) => publish
            .user_properties()
            .any(|property| property == ("__is", "alive")),
        _ => false,
    });
    entries.count()
}

#[test]
fn a_group_reports_active_clients_only_if_watches_have_leases() {
    assert_eq!((activity_reports(true), activity_reports(false)), (1, 0));
}

fn leases(hub: &Hub) -> usize {
    let broker = hub.broker.as_ref().unwrap();
    broker.watch_leases.as_ref().unwrap().len()
}

#[test]
fn only_watching_clients_have_leases() {
    let mut hub = hub();
    for number in 0..100 {
        send_request(&mut hub, &format!("reads-{number}"), &["GET", "k"]);
    }
    assert_eq!(leases(&hub), 0);
    for client in ["a", "b"] {
        send_request(&mut hub, client, &["KEYNOTIFY", "k"]);
        send_request(&mut hub, client, &["KEYNOTIFY", "l"]);
        send_request(&mut hub, client, &["GET", "k"]);
    }
    assert_eq!(leases(&hub), 2);
    for key in ["k", "l"] {
        assert_eq!(leases(&hub), 2);
        send_request(&mut hub, "a", &["KEYNOTIFY", key, "STOP"]);
    }
    assert_eq!(leases(&hub), 1);
    hub.end_watches("\0b", None, 0, NOW);
    assert_eq!(leases(&hub), 0);
}
