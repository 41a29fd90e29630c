//! When the broker is probed, and what a lost probe means.
use bytes::BytesMut;
use statestore_protocol::mqtt::{
    ConnAck, Packet, PubAck, Publish, PublishHeader, ReasonCode, SubAck, decode,
};
use statestore_protocol::topic;
use statestored_broker::hub::{BrokerConfig, BrokerError, Hub, HubConfig};
use statestored_store::service::{ClockReading, Service, ServiceConfig};

const NOW: ClockReading = ClockReading {
    wall_ms: 1_700_000_000_000,
    mono_ms: 1_000,
};

fn at(seconds: u64) -> ClockReading {
    ClockReading {
        mono_ms: NOW.mono_ms + seconds * 1000,
        ..NOW
    }
}

/// Returns the packets that the store sends after this input.
fn hear_at(hub: &mut Hub, input: &[u8], seconds: u64) -> Result<Vec<Packet>, BrokerError> {
    let mut packet = BytesMut::from(input);
    hub.broker_received(&mut packet, at(seconds))?;
    hub.poll_broker(at(seconds))?;
    let mut output = BytesMut::from(&hub.broker_output(at(seconds))[..]);
    hub.broker_written(output.len(), false, at(seconds));
    let next = || decode(&mut output, u32::MAX).unwrap();
    Ok(std::iter::from_fn(next).collect())
}

/// A message that the broker delivers.
fn message(id: u16, header: &PublishHeader<'_>, payload: &[u8]) -> BytesMut {
    let header = PublishHeader {
        packet_id: Some(id.try_into().unwrap()),
        ..*header
    };
    let mut packet = BytesMut::new();
    let write = |out: &mut BytesMut| out.extend_from_slice(payload);
    header
        .encode(u32::MAX, &mut packet, payload.len(), write)
        .unwrap();
    packet
}

/// A request of a client behind the broker.
fn request(id: u16, words: &[&str]) -> BytesMut {
    let response_topic = topic::response("a");
    let parts = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let parts: String = parts.collect();
    let payload = format!("*{}\r\n{parts}", words.len());
    let header = PublishHeader {
        topic: topic::REQUEST,
        response_topic: Some(&response_topic),
        correlation_data: Some(b"0123456789abcdef"),
        user_properties: &[("__ts", "1700000000000:0:peer")],
        ..PublishHeader::default()
    };
    message(id, &header, payload.as_bytes())
}

/// Begins a session with the broker, and returns its first probe.
fn attach(hub: &mut Hub, seconds: u64) -> Publish {
    hub.broker_connected(None, None, None, at(seconds)).unwrap();
    let mut packet = BytesMut::new();
    let connack = ConnAck::new(ReasonCode::SUCCESS);
    connack.encode(u32::MAX, &mut packet).unwrap();
    let said = hear_at(hub, &packet, seconds).unwrap();
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
    let said = hear_at(hub, &packet, seconds).unwrap();
    let probe = probe_among(&said).expect("a probe is sent at once");
    let subscribed = &subscribe.subscriptions.last().unwrap().filter;
    assert_eq!(probe.topic(), subscribed);
    assert!(!probe.retain());
    probe
}

fn attached() -> (Hub, Publish) {
    let terms = BrokerConfig {
        client_id: "store".into(),
        ..BrokerConfig::default()
    };
    let config = HubConfig {
        broker: Some(terms),
        ..HubConfig::default()
    };
    let mut hub = Hub::new(config, Service::embedded(ServiceConfig::default()));
    let probe = attach(&mut hub, 0);
    (hub, probe)
}

fn probe_among(said: &[Packet]) -> Option<Publish> {
    said.iter().find_map(|packet| match packet {
        Packet::Publish(publish) if publish.topic().contains("/servers/probe/") => {
            Some(publish.clone())
        }
        _ => None,
    })
}

fn puback(probe: &Publish, reason: ReasonCode) -> BytesMut {
    let mut packet = BytesMut::new();
    let puback = PubAck {
        reason,
        ..PubAck::success(probe.packet_id().unwrap())
    };
    puback.encode(u32::MAX, &mut packet).unwrap();
    packet
}

fn delivery(probe: &Publish) -> BytesMut {
    let header = PublishHeader {
        topic: probe.topic(),
        ..PublishHeader::default()
    };
    message(9, &header, probe.payload_bytes())
}

/// Both of the broker's answers to a probe.
fn answers(probe: &Publish) -> BytesMut {
    let mut packets = puback(probe, ReasonCode::SUCCESS);
    packets.extend_from_slice(&delivery(probe));
    packets
}

/// Lets time pass with a broker that acknowledges probes and delivers none.
fn pass(hub: &mut Hub, input: &[u8], seconds: u64) {
    let said = hear_at(hub, input, seconds).unwrap();
    if let Some(probe) = probe_among(&said) {
        hear_at(hub, &puback(&probe, ReasonCode::SUCCESS), seconds).unwrap();
    }
}

fn is_lost(result: &Result<Vec<Packet>, BrokerError>) -> bool {
    matches!(result, Err(BrokerError::ProbeLost { .. }))
}

#[test]
fn a_probe_follows_ten_seconds_after_the_last_message() {
    let (mut hub, probe) = attached();
    // The probe was delivered with QoS 1, although that exceeds the requested QoS.
    let said = hear_at(&mut hub, &answers(&probe), 1).unwrap();
    assert!(matches!(&said[..], [Packet::PubAck(_)]), "{said:?}");
    // A request is as good as a probe.
    let said = hear_at(&mut hub, &request(1, &["GET", "k"]), 8).unwrap();
    assert!(probe_among(&said).is_none());
    let said = hear_at(&mut hub, b"", 17).unwrap();
    assert!(probe_among(&said).is_none());
    let said = hear_at(&mut hub, b"", 18).unwrap();
    assert!(probe_among(&said).is_some());
}

#[test]
fn a_lost_probe_ends_the_connection_and_the_next_one_is_probed_at_once() {
    let (mut hub, probe) = attached();
    hear_at(&mut hub, &answers(&probe), 0).unwrap();
    let said = hear_at(&mut hub, b"", 10).unwrap();
    let probe = probe_among(&said).unwrap();
    hear_at(&mut hub, &puback(&probe, ReasonCode::SUCCESS), 10).unwrap();
    hear_at(&mut hub, b"", 20).unwrap();
    let lost = hear_at(&mut hub, b"", 21);
    assert!(is_lost(&lost), "{lost:?}");
    hub.broker_disconnected(Some(ReasonCode::SUCCESS), at(21));
    let next = attach(&mut hub, 22);
    // A response to the previous connection does not count.
    let late = answers(&probe);
    hear_at(&mut hub, &late[4..], 22).unwrap();
    hear_at(&mut hub, &puback(&next, ReasonCode::SUCCESS), 22).unwrap();
    hear_at(&mut hub, b"", 32).unwrap();
    assert!(is_lost(&hear_at(&mut hub, b"", 33)));
}

#[test]
fn a_probe_that_is_not_even_acknowledged_counts_from_the_start() {
    let (mut hub, _) = attached();
    hear_at(&mut hub, b"", 10).unwrap();
    let lost = hear_at(&mut hub, b"", 11);
    assert!(is_lost(&lost), "{lost:?}");
}

#[test]
fn a_broker_that_never_delivered_a_probe_stays_connected() {
    let (mut hub, probe) = attached();
    hear_at(&mut hub, &puback(&probe, ReasonCode::SUCCESS), 0).unwrap();
    for seconds in 1..120 {
        pass(&mut hub, b"\xd0\x00", seconds);
    }
}

#[test]
fn probes_stop_after_a_refusal() {
    let (mut hub, probe) = attached();
    hear_at(&mut hub, &puback(&probe, ReasonCode::NOT_AUTHORIZED), 0).unwrap();
    for seconds in (10..120).step_by(10) {
        let said = hear_at(&mut hub, b"\xd0\x00", seconds).unwrap();
        assert!(probe_among(&said).is_none(), "{said:?}");
    }
}

#[test]
fn partial_messages_and_a_full_window_count_as_activity() {
    let (mut hub, probe) = attached();
    hear_at(&mut hub, &answers(&probe), 0).unwrap();
    let said = hear_at(&mut hub, b"", 10).unwrap();
    let probe = probe_among(&said).unwrap();
    hear_at(&mut hub, &puback(&probe, ReasonCode::SUCCESS), 10).unwrap();
    let large = request(1, &["SET", "k", &"v".repeat(1000)]);
    let mut input = BytesMut::from(&large[..500]);
    hub.broker_received(&mut input, at(15)).unwrap();
    hear_at(&mut hub, b"", 20).unwrap();
    hear_at(&mut hub, b"", 21).unwrap();
    input.extend_from_slice(&large[500..]);
    hub.broker_received(&mut input, at(22)).unwrap();
    assert!(input.is_empty());
    // The requests wait for the disk, so that the broker may not send more.
    hub.set_storage_backlogged(true, at(22));
    for id in 2..1000 {
        hear_at(&mut hub, &request(id, &["SET", "k", "v"]), 22).unwrap();
    }
    for seconds in 23..60 {
        pass(&mut hub, b"", seconds);
    }
}
