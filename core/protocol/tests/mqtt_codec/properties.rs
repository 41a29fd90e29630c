//! Any bytes, and what is nearly a packet.
use crate::{MAX, decode_one};
use bytes::BytesMut;
use proptest::prelude::*;
use statestore_protocol::mqtt::{Packet, PublishHeader, decode};

/// Bytes that are often a packet or nearly one.
fn near_packets() -> impl Strategy<Value = Vec<u8>> {
    let body = proptest::collection::vec(
        prop_oneof![
            any::<u8>(),
            0u8..4,
            Just(0x26),
            Just(0x23),
            Just(0x08),
            Just(b'M')
        ],
        0..60,
    );
    let first = prop_oneof![
        any::<u8>(),
        prop::sample::select(
            &[
                0x10, 0x20, 0x30, 0x32, 0x40, 0x82, 0x90, 0xA2, 0xB0, 0xE0, 0xF0
            ][..]
        )
    ];
    let connect = proptest::collection::vec(any::<u8>(), 0..40)
        .prop_map(|tail| [b"\0\x04MQTT\x05".as_slice(), &tail].concat());
    (first, prop_oneof![3 => body, 1 => connect]).prop_map(|(first, body)| {
        [&[first, u8::try_from(body.len()).unwrap()], body.as_slice()].concat()
    })
}

proptest! {
    #[test]
    fn any_bytes_neither_panic_nor_loop(input in proptest::collection::vec(any::<u8>(), 0..200), max in 0u32..300) {
        let mut stream = BytesMut::from(&input[..]);
        while let Ok(Some(_)) = decode(&mut stream, max) {}
    }

    #[test]
    fn a_decoded_packet_encodes_to_the_same_bytes(input in near_packets()) {
        if let Ok(Some(packet)) = decode(&mut BytesMut::from(&input[..]), MAX) {
            let mut out = BytesMut::new();
            match &packet {
                Packet::Connect(packet) => packet.encode(MAX, &mut out).unwrap(),
                Packet::ConnAck(packet) => packet.encode(MAX, &mut out).unwrap(),
                Packet::PubAck(packet) => packet.encode(MAX, &mut out).unwrap(),
                Packet::Subscribe(packet) => packet.encode(MAX, &mut out).unwrap(),
                Packet::SubAck(packet) => packet.encode(MAX, &mut out).unwrap(),
                Packet::Unsubscribe(packet) => packet.encode(MAX, &mut out).unwrap(),
                Packet::UnsubAck(packet) => packet.encode(MAX, &mut out).unwrap(),
                Packet::Disconnect(packet) => packet.encode(MAX, &mut out).unwrap(),
                Packet::Auth(packet) => packet.encode(MAX, &mut out).unwrap(),
                Packet::Publish(publish) => {
                    // Every accessor is sound, and what they say makes an equal packet.
                    let users: Vec<_> = publish.user_properties().collect();
                    let ids: Vec<_> = publish.subscription_identifiers().collect();
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
                    let payload = publish.payload();
                    header.encode(MAX, &mut out, payload.len(), |out| out.extend_from_slice(&payload)).unwrap();
                    let Packet::Publish(again) = decode_one(out).unwrap() else { panic!() };
                    prop_assert_eq!(again.topic(), publish.topic());
                    prop_assert_eq!(again.payload(), payload);
                    prop_assert_eq!(again.user_properties().collect::<Vec<_>>(), users);
                    return Ok(());
                }
                _ => return Ok(()),
            }
            prop_assert_eq!(decode_one(out).unwrap(), packet);
        }
    }
}
