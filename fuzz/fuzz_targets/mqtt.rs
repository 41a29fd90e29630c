//! A stream of any bytes: packets or an error, and what decodes encodes to the same packet. Of a PUBLISH, the independent codec of rumqttc
//! reads the same in every field.
#![no_main]
use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use rumqttc::v5::mqttbytes::v5 as oracle;
use statestore_protocol::mqtt::{Decoder, Limits, Packet, Publish, PublishHeader, decode};

const MAX: u32 = Limits::MAX_PACKET_BYTES;

fuzz_target!(|data: &[u8]| {
    let mut stream = BytesMut::from(data);
    // One that knows what the packets before began with finds the same.
    let mut decoder = Decoder::default();
    loop {
        let before = stream.clone();
        let alone = decode(&mut stream.clone(), MAX);
        assert_eq!(decoder.decode(&mut stream, MAX), alone);
        match alone {
            Ok(Some(packet)) => {
                check(&packet);
                if let Packet::Publish(publish) = &packet {
                    compare(publish, &before[..before.len() - stream.len()]);
                }
            }
            _ => return,
        }
    }
});

fn check(packet: &Packet) {
    let mut out = BytesMut::new();
    let encoded = match packet {
        Packet::Connect(packet) => packet.encode(MAX, &mut out),
        Packet::ConnAck(packet) => packet.encode(MAX, &mut out),
        Packet::PubAck(packet) => packet.encode(MAX, &mut out),
        Packet::Subscribe(packet) => packet.encode(MAX, &mut out),
        Packet::SubAck(packet) => packet.encode(MAX, &mut out),
        Packet::Unsubscribe(packet) => packet.encode(MAX, &mut out),
        Packet::UnsubAck(packet) => packet.encode(MAX, &mut out),
        Packet::Disconnect(packet) => packet.encode(MAX, &mut out),
        Packet::Auth(packet) => packet.encode(MAX, &mut out),
        Packet::Publish(publish) => {
            let users: Vec<_> = publish.user_properties().collect();
            let ids: Vec<_> = publish.subscription_identifiers().collect();
            let payload = publish.payload();
            let header = PublishHeader {
                topic: publish.topic(),
                packet_id: publish.packet_id(),
                dup: publish.dup(),
                retain: publish.retain(),
                topic_alias: publish.topic_alias(),
                message_expiry: publish.message_expiry(),
                payload_is_utf8: publish.payload_is_utf8(),
                content_type: publish.content_type(),
                response_topic: publish.response_topic(),
                correlation_data: publish.correlation_data(),
                subscription_identifiers: &ids,
                user_properties: &users,
                ..PublishHeader::default()
            };
            // QoS 2 decodes and is never encoded.
            if publish.qos() as u8 == 2 {
                return;
            }
            let encoded = header.encode(MAX, &mut out, payload.len(), |out| {
                out.extend_from_slice(&payload)
            });
            encoded.expect("what was decoded can be encoded");
            let Ok(Some(Packet::Publish(again))) = decode(&mut out, MAX) else {
                panic!("what was encoded can be decoded");
            };
            assert_eq!(fields(&again), fields(publish));
            return;
        }
        _ => return,
    };
    encoded.expect("what was decoded can be encoded");
    assert_eq!(decode(&mut out, MAX).as_ref(), Ok(&Some(packet.clone())));
    assert!(out.is_empty());
}

/// All that a PUBLISH says.
#[derive(Debug, PartialEq)]
struct PublishFields {
    topic: Vec<u8>,
    qos: u8,
    packet_id: u16,
    dup: bool,
    retain: bool,
    payload: Vec<u8>,
    topic_alias: Option<u16>,
    message_expiry: Option<u32>,
    payload_is_utf8: Option<bool>,
    content_type: Option<String>,
    response_topic: Option<String>,
    correlation_data: Option<Vec<u8>>,
    subscription_identifiers: Vec<u32>,
    user_properties: Vec<(String, String)>,
}

fn fields(publish: &Publish) -> PublishFields {
    PublishFields {
        topic: publish.topic().into(),
        qos: publish.qos() as u8,
        packet_id: publish.packet_id().map_or(0, |id| id.get()),
        dup: publish.dup(),
        retain: publish.retain(),
        payload: publish.payload().to_vec(),
        topic_alias: publish.topic_alias(),
        message_expiry: publish.message_expiry(),
        payload_is_utf8: publish.payload_is_utf8(),
        content_type: publish.content_type().map(Into::into),
        response_topic: publish.response_topic().map(Into::into),
        correlation_data: publish.correlation_data().map(Into::into),
        subscription_identifiers: publish.subscription_identifiers().collect(),
        user_properties: publish
            .user_properties()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    }
}

/// The independent codec finds the same in these bytes, whatever they are.
fn compare(publish: &Publish, bytes: &[u8]) {
    // It counts a byte too many for each of these, and takes properties behind several of them for payload.
    if publish.subscription_identifiers().count() > 1 {
        return;
    }
    let read = oracle::Packet::read(&mut BytesMut::from(bytes), None);
    let Ok(oracle::Packet::Publish(read)) = read else {
        panic!("{publish:?} is {read:?} for others");
    };
    let properties = read.properties.unwrap_or_default();
    let theirs = PublishFields {
        topic: read.topic.to_vec(),
        qos: read.qos as u8,
        packet_id: read.pkid,
        dup: read.dup,
        retain: read.retain,
        payload: read.payload.to_vec(),
        topic_alias: properties.topic_alias,
        message_expiry: properties.message_expiry_interval,
        payload_is_utf8: properties
            .payload_format_indicator
            .map(|format| format == 1),
        content_type: properties.content_type,
        response_topic: properties.response_topic,
        correlation_data: properties.correlation_data.map(Into::into),
        subscription_identifiers: properties
            .subscription_identifiers
            .iter()
            .map(|id| u32::try_from(*id).expect("at most 28 bits"))
            .collect(),
        user_properties: properties.user_properties,
    };
    assert_eq!(fields(publish), theirs);
}
