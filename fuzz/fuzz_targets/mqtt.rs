//! A stream of any bytes: packets or an error, and what decodes encodes to the same packet.
#![no_main]
use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use statestore_protocol::mqtt::{Decoder, Limits, Packet, PublishHeader, decode};

const MAX: u32 = Limits::MAX_PACKET_BYTES;

fuzz_target!(|data: &[u8]| {
    let mut stream = BytesMut::from(data);
    // One that knows what the packets before began with finds the same.
    let mut decoder = Decoder::default();
    loop {
        let alone = decode(&mut stream.clone(), MAX);
        assert_eq!(decoder.decode(&mut stream, MAX), alone);
        match alone {
            Ok(Some(packet)) => check(&packet),
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
            assert_eq!(again.topic(), publish.topic());
            assert_eq!(again.payload(), payload);
            assert_eq!(again.user_properties().collect::<Vec<_>>(), users);
            return;
        }
        _ => return,
    };
    encoded.expect("what was decoded can be encoded");
    assert_eq!(decode(&mut out, MAX).as_ref(), Ok(&Some(packet.clone())));
    assert!(out.is_empty());
}
