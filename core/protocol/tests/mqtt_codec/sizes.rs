//! Packets of any size: what fits, what does not, and packets that come in pieces.
use crate::{MAX, bytes, decode_one, encoded, full_header, id};
use bytes::BytesMut;
use statestore_protocol::mqtt::{
    DecodeError, EncodeError, Packet, PubAck, PublishHeader, Subscribe, Subscription,
    announced_len, decode, encode_pingreq,
};

#[test]
fn a_packet_that_does_not_fit_is_rejected_and_writes_nothing() {
    let long = "x".repeat(65_536);
    let mut out = BytesMut::from(&b"before"[..]);
    let topic = PublishHeader {
        topic: &long,
        ..PublishHeader::default()
    };
    assert!(matches!(
        topic.encode(MAX, &mut out, 0, |_| {}),
        Err(EncodeError::FieldTooLong { len: 65_536, .. })
    ));
    let user = [("name", long.as_str())];
    let property = PublishHeader {
        topic: "t",
        user_properties: &user,
        ..PublishHeader::default()
    };
    assert!(matches!(
        property.encode(MAX, &mut out, 0, |_| {}),
        Err(EncodeError::FieldTooLong { .. })
    ));
    for topic in ["a/+", "#", "nul\0"] {
        let header = PublishHeader {
            topic,
            ..PublishHeader::default()
        };
        assert!(matches!(
            header.encode(MAX, &mut out, 0, |_| {}),
            Err(EncodeError::ForbiddenCharacter { .. })
        ));
    }
    for wrong in [0, 268_435_456, u32::MAX] {
        let header = PublishHeader {
            topic: "t",
            subscription_identifiers: &[7, wrong],
            ..PublishHeader::default()
        };
        assert_eq!(
            header.encode(MAX, &mut out, 0, |_| {}),
            Err(EncodeError::SubscriptionIdentifier(wrong))
        );
    }
    let plain = PublishHeader {
        topic: "t",
        ..PublishHeader::default()
    };
    assert_eq!(
        plain.encode(MAX, &mut out, 2, |out| out.extend_from_slice(b"three")),
        Err(EncodeError::PayloadLength {
            announced: 2,
            written: 5
        })
    );
    // 2 bytes of fixed header, 3 of topic, 1 of property length, 4 of payload.
    assert_eq!(
        plain.encode(9, &mut out, 4, |out| out.extend_from_slice(b"four")),
        Err(EncodeError::TooLarge { size: 10, max: 9 })
    );
    let subscribe = Subscribe {
        packet_id: id(1),
        subscription_id: None,
        subscriptions: vec![Subscription::at_least_once(long)],
    };
    assert!(matches!(
        subscribe.encode(MAX, &mut out),
        Err(EncodeError::FieldTooLong { .. })
    ));
    assert_eq!(&out[..], b"before");
    plain
        .encode(10, &mut out, 4, |out| out.extend_from_slice(b"four"))
        .unwrap();
    assert_eq!(out.len(), 16);
}

#[test]
fn the_packet_limit_counts_the_whole_packet_and_is_known_from_the_header() {
    let header = PublishHeader {
        topic: "t",
        ..PublishHeader::default()
    };
    let packet = encoded(|out| header.encode(MAX, out, 4, |out| out.extend_from_slice(b"four")));
    assert!(decode(&mut packet.clone(), 10).unwrap().is_some());
    assert_eq!(
        decode(&mut packet.clone(), 9),
        Err(DecodeError::TooLarge { size: 10, max: 9 })
    );
    // The header of 256 MiB, and nothing behind it.
    let mut huge = bytes(&[&[0x30, 0xFF, 0xFF, 0xFF, 0x7F]]);
    assert_eq!(
        decode(&mut huge, 1 << 20),
        Err(DecodeError::TooLarge {
            size: 268_435_460,
            max: 1 << 20
        })
    );
    assert_eq!(decode(&mut huge, MAX), Ok(None));
}

#[test]
fn packets_are_decoded_for_any_read_boundaries() {
    let mut wire =
        encoded(|out| full_header().encode(MAX, out, 3, |out| out.extend_from_slice(b"abc")));
    encode_pingreq(&mut wire);
    PubAck::success(id(5)).encode(MAX, &mut wire).unwrap();
    let mut stream = BytesMut::new();
    let mut packets = Vec::new();
    for byte in wire {
        stream.extend_from_slice(&[byte]);
        while let Some(packet) = decode(&mut stream, MAX).unwrap() {
            packets.push(packet);
        }
    }
    assert!(stream.is_empty());
    assert!(matches!(
        packets[..],
        [Packet::Publish(_), Packet::PingReq, Packet::PubAck(_)]
    ));
}

#[test]
fn a_maximum_packet_size_above_the_mqtt_limit_is_clamped() {
    for (stated, read) in [
        (MAX - 1, MAX - 1),
        (MAX, MAX),
        (MAX + 1, MAX),
        (u32::MAX, MAX),
    ] {
        let size = stated.to_be_bytes();
        let connack = bytes(&[&[0x20, 8, 0, 0, 5, 0x27], &size]);
        let Ok(Packet::ConnAck(connack)) = decode_one(connack) else {
            panic!("a good CONNACK");
        };
        assert_eq!(connack.limits.max_packet_bytes, read);
        let connect = bytes(&[
            b"\x10\x12\x00\x04MQTT\x05\x02\x00\x00\x05\x27",
            &size,
            &[0, 0],
        ]);
        let Ok(Packet::Connect(connect)) = decode_one(connect) else {
            panic!("a good CONNECT");
        };
        assert_eq!(connect.limits.max_packet_bytes, read);
    }
}

#[test]
fn announced_len_returns_the_length_from_the_header() {
    let mut huge = bytes(&[&[0x30, 0xFF, 0xFF, 0xFF, 0x7F]]);
    assert_eq!(announced_len(&huge, MAX), Some(268_435_460));
    assert_eq!(announced_len(&huge, MAX - 1), None);
    huge.truncate(4);
    assert_eq!(announced_len(&huge, MAX), None, "it is not complete");
    assert_eq!(announced_len(&[0x30, 7, 0], 9), Some(9));
    assert_eq!(announced_len(&[0x30, 7, 0], 8), None);
    assert_eq!(
        announced_len(&[0x00, 7], 9),
        None,
        "there is no such packet"
    );
}

#[test]
fn the_shortest_puback_respects_the_packet_limit() {
    let mut packet = encoded(|out| PubAck::success(id(5)).encode(MAX, out));
    let refused = DecodeError::TooLarge { size: 4, max: 3 };
    assert_eq!(decode(&mut packet.clone(), 3), Err(refused));
    assert_eq!(
        decode(&mut packet, 4),
        Ok(Some(Packet::PubAck(PubAck::success(id(5)))))
    );
}
