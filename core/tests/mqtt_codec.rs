//! The MQTT 5 codec: against an independent one (rumqttc's), against the specification's rules, against any bytes.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use rumqttc::v5::mqttbytes::v5 as oracle;
use statestore::mqtt::{
    Auth, ConnAck, Connect, DecodeError, Disconnect, EncodeError, EncodedProperties, Limits,
    Packet, PacketId, PubAck, PublishHeader, QoS, ReasonCode, SubAck, Subscribe, Subscription,
    UnsubAck, Unsubscribe, Will, decode, encode_pingreq, encode_pingresp, publish::set_dup,
};

const MAX: u32 = Limits::MAX_PACKET_BYTES;

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

fn bytes(parts: &[&[u8]]) -> BytesMut {
    BytesMut::from(parts.concat().as_slice())
}

fn encoded(encode: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>) -> BytesMut {
    let mut out = BytesMut::new();
    encode(&mut out).unwrap();
    out
}

/// Decodes one packet that is the whole input.
fn decode_one(mut stream: BytesMut) -> Result<Packet, DecodeError> {
    let packet = decode(&mut stream, MAX)?.expect("a complete packet");
    assert!(stream.is_empty());
    Ok(packet)
}

fn by_oracle(packet: &BytesMut) -> oracle::Packet {
    oracle::Packet::read(&mut packet.clone(), None).unwrap()
}

/// What the independent codec writes for `packet`.
fn from_oracle(packet: &oracle::Packet) -> BytesMut {
    let mut out = BytesMut::new();
    packet.write(&mut out, None).unwrap();
    out
}

fn full_connect() -> Connect {
    Connect {
        client_id: "gateway-1".into(),
        clean_start: true,
        keep_alive_s: 30,
        session_expiry_s: 3600,
        limits: Limits {
            receive_maximum: 20,
            max_packet_bytes: 100_000,
            topic_alias_maximum: 5,
        },
        request_response_information: true,
        request_problem_information: false,
        authentication: Some(("K8S-SAT".into(), Bytes::from_static(b"\xFFtoken"))),
        will: Some(Will {
            topic: "wills/gateway-1".into(),
            payload: Bytes::from_static(b"gone"),
            qos: QoS::AtLeastOnce,
            retain: true,
            delay_s: 7,
            message_expiry: Some(8),
            payload_is_utf8: true,
            content_type: Some("text/plain".into()),
            response_topic: Some("wills/answer".into()),
            correlation_data: Some(Bytes::from_static(b"\x00\x01")),
            user_properties: vec![("a".into(), "b".into()), ("a".into(), "c".into())],
        }),
        user_name: Some("user".into()),
        password: Some(Bytes::from_static(b"pass")),
    }
}

#[test]
fn connect_round_trips_and_the_oracle_reads_the_same() {
    let connect = full_connect();
    let packet = encoded(|out| connect.encode(MAX, out));
    let oracle::Packet::Connect(read, Some(will), Some(login)) = by_oracle(&packet) else {
        panic!()
    };
    assert_eq!(
        (read.client_id.as_str(), read.keep_alive, read.clean_start),
        ("gateway-1", 30, true)
    );
    let properties = read.properties.unwrap();
    assert_eq!(properties.session_expiry_interval, Some(3600));
    assert_eq!(properties.receive_maximum, Some(20));
    assert_eq!(properties.max_packet_size, Some(100_000));
    assert_eq!(properties.topic_alias_max, Some(5));
    assert_eq!(properties.request_response_info, Some(1));
    assert_eq!(properties.request_problem_info, Some(0));
    assert_eq!(properties.authentication_method.as_deref(), Some("K8S-SAT"));
    assert_eq!(
        properties.authentication_data.as_deref(),
        Some(&b"\xFFtoken"[..])
    );
    assert_eq!(
        (&will.topic[..], &will.message[..], will.retain),
        (&b"wills/gateway-1"[..], &b"gone"[..], true)
    );
    assert_eq!(will.properties.as_ref().unwrap().delay_interval, Some(7));
    assert_eq!(will.properties.unwrap().user_properties.len(), 2);
    assert_eq!(
        (login.username.as_str(), login.password.as_str()),
        ("user", "pass")
    );

    assert_eq!(
        decode_one(packet).unwrap(),
        Packet::Connect(Box::new(connect))
    );
}

#[test]
fn connect_keeps_a_binary_password_and_does_not_print_credentials() {
    let connect = Connect {
        password: Some(Bytes::from_static(b"\xFF\x00secret")),
        ..full_connect()
    };
    let text = format!("{connect:?}");
    assert!(
        !text.contains("secret") && !text.contains("token"),
        "{text}"
    );
    let packet = encoded(|out| connect.encode(MAX, out));
    assert_eq!(
        decode_one(packet).unwrap(),
        Packet::Connect(Box::new(connect))
    );
}

#[test]
fn connect_of_another_version_is_told_apart_from_garbage() {
    let of = |name: &[u8], version: u8| {
        let body = [&[0, name.len() as u8], name, &[version, 2, 0, 0, 0, 0, 0]].concat();
        decode_one(bytes(&[&[0x10, body.len() as u8], &body]))
    };
    assert_eq!(of(b"MQTT", 4), Err(DecodeError::Version(4)));
    assert_eq!(of(b"MQIsdp", 3), Err(DecodeError::Version(3)));
    assert!(matches!(of(b"HTTP", 5), Err(DecodeError::Malformed(_))));
    assert!(of(b"MQTT", 5).is_ok());
}

#[test]
fn connack_round_trips_and_the_oracle_reads_the_same() {
    let connack = ConnAck {
        session_present: true,
        reason: ReasonCode::SUCCESS,
        limits: Limits {
            receive_maximum: 20,
            max_packet_bytes: 1000,
            topic_alias_maximum: 10,
        },
        session_expiry_s: Some(60),
        maximum_qos: QoS::AtLeastOnce,
        retain_available: false,
        wildcard_available: false,
        subscription_ids_available: false,
        shared_available: false,
        assigned_client_id: Some("auto-1".into()),
        server_keep_alive_s: Some(15),
        reason_string: Some("fine".into()),
        response_information: Some("r".into()),
        server_reference: Some("other:1883".into()),
        authentication: Some(("M".into(), Bytes::from_static(b"d"))),
    };
    let packet = encoded(|out| connack.encode(MAX, out));
    let oracle::Packet::ConnAck(read) = by_oracle(&packet) else {
        panic!()
    };
    let properties = read.properties.unwrap();
    assert!(read.session_present);
    assert_eq!(properties.receive_max, Some(20));
    assert_eq!(properties.max_qos, Some(1));
    assert_eq!(properties.retain_available, Some(0));
    assert_eq!(properties.shared_subscription_available, Some(0));
    assert_eq!(
        properties.assigned_client_identifier.as_deref(),
        Some("auto-1")
    );
    assert_eq!(properties.server_keep_alive, Some(15));
    assert_eq!(
        decode_one(packet).unwrap(),
        Packet::ConnAck(Box::new(connack))
    );

    let plain = ConnAck::new(ReasonCode(0xEE));
    let packet = encoded(|out| plain.encode(MAX, out));
    assert_eq!(&packet[..], [0x20, 3, 0, 0xEE, 0]);
    assert_eq!(
        decode_one(packet).unwrap(),
        Packet::ConnAck(Box::new(plain))
    );
}

#[test]
fn a_failing_connack_has_no_session() {
    assert!(matches!(
        decode_one(bytes(&[&[0x20, 3, 1, 0x87, 0]])),
        Err(DecodeError::Protocol(_))
    ));
}

#[test]
fn subscriptions_round_trip_and_the_oracle_reads_the_same() {
    let subscribe = Subscribe {
        packet_id: id(700),
        subscription_id: Some(300),
        subscriptions: vec![
            Subscription::at_least_once("a/+/b"),
            Subscription {
                filter: "#".into(),
                qos: QoS::AtMostOnce,
                no_local: true,
                retain_as_published: true,
                retain_handling: 1,
            },
        ],
    };
    let packet = encoded(|out| subscribe.encode(MAX, out));
    let oracle::Packet::Subscribe(read) = by_oracle(&packet) else {
        panic!()
    };
    assert_eq!((read.pkid, read.properties.unwrap().id), (700, Some(300)));
    assert_eq!(
        (read.filters[0].path.as_str(), read.filters[0].nolocal),
        ("a/+/b", false)
    );
    assert_eq!(
        (read.filters[1].path.as_str(), read.filters[1].nolocal),
        ("#", true)
    );
    assert_eq!(decode_one(packet).unwrap(), Packet::Subscribe(subscribe));

    let unsubscribe = Unsubscribe {
        packet_id: id(2),
        filters: vec!["a".into(), "b/#".into()],
    };
    let packet = encoded(|out| unsubscribe.encode(MAX, out));
    let oracle::Packet::Unsubscribe(read) = by_oracle(&packet) else {
        panic!()
    };
    assert_eq!(read.filters, ["a", "b/#"]);
    assert_eq!(
        decode_one(packet).unwrap(),
        Packet::Unsubscribe(unsubscribe)
    );

    let suback = SubAck {
        packet_id: id(9),
        reasons: vec![ReasonCode::GRANTED_QOS_1, ReasonCode::NOT_AUTHORIZED],
        reason_string: Some("no".into()),
    };
    let packet = encoded(|out| suback.encode(MAX, out));
    let oracle::Packet::SubAck(read) = by_oracle(&packet) else {
        panic!()
    };
    assert_eq!((read.pkid, read.return_codes.len()), (9, 2));
    assert_eq!(decode_one(packet).unwrap(), Packet::SubAck(suback));

    let unsuback = UnsubAck {
        packet_id: id(9),
        reasons: vec![ReasonCode::NO_SUBSCRIPTION_EXISTED],
        reason_string: None,
    };
    let packet = encoded(|out| unsuback.encode(MAX, out));
    let oracle::Packet::UnsubAck(read) = by_oracle(&packet) else {
        panic!()
    };
    assert_eq!(read.pkid, 9);
    assert_eq!(decode_one(packet).unwrap(), Packet::UnsubAck(unsuback));
}

#[test]
fn puback_in_all_its_lengths() {
    let of = |puback: &PubAck, max| encoded(|out| puback.encode(max, out));
    let success = PubAck::success(id(0x1234));
    assert_eq!(&of(&success, MAX)[..], [0x40, 2, 0x12, 0x34]);
    let refused = PubAck {
        reason: ReasonCode(0xF7),
        ..success.clone()
    };
    assert_eq!(&of(&refused, MAX)[..], [0x40, 3, 0x12, 0x34, 0xF7]);
    let explained = PubAck {
        reason: ReasonCode::QUOTA_EXCEEDED,
        reason_string: Some("full".into()),
        ..success.clone()
    };
    let oracle::Packet::PubAck(read) = by_oracle(&of(&explained, MAX)) else {
        panic!()
    };
    assert_eq!(
        read.properties.unwrap().reason_string.as_deref(),
        Some("full")
    );
    for puback in [success, refused, explained.clone()] {
        assert_eq!(
            decode_one(of(&puback, MAX)).unwrap(),
            Packet::PubAck(puback)
        );
    }
    // A receiver with little room gets the code without the text.
    assert_eq!(&of(&explained, 6)[..], [0x40, 3, 0x12, 0x34, 0x97]);
    assert_eq!(
        decode_one(bytes(&[&[0x40, 4, 0, 1, 0x10, 0]])).unwrap(),
        Packet::PubAck(PubAck {
            packet_id: id(1),
            reason: ReasonCode::NO_MATCHING_SUBSCRIBERS,
            reason_string: None
        })
    );
}

#[test]
fn disconnect_and_auth_in_all_their_lengths() {
    let normal = Disconnect::new(ReasonCode::SUCCESS);
    assert_eq!(&encoded(|out| normal.encode(MAX, out))[..], [0xE0, 0]);
    assert_eq!(
        decode_one(bytes(&[&[0xE0, 0]])).unwrap(),
        Packet::Disconnect(normal.clone())
    );
    assert_eq!(
        decode_one(bytes(&[&[0xE0, 1, 0]])).unwrap(),
        Packet::Disconnect(normal.clone())
    );
    let full = Disconnect {
        reason: ReasonCode::SERVER_MOVED,
        session_expiry_s: Some(5),
        reason_string: Some("moved".into()),
        server_reference: Some("there".into()),
    };
    let packet = encoded(|out| full.encode(MAX, out));
    let oracle::Packet::Disconnect(read) = by_oracle(&packet) else {
        panic!()
    };
    assert_eq!(
        read.properties.unwrap().server_reference.as_deref(),
        Some("there")
    );
    assert_eq!(decode_one(packet).unwrap(), Packet::Disconnect(full));

    let done = Auth {
        reason: ReasonCode::SUCCESS,
        method: None,
        data: None,
        reason_string: None,
    };
    assert_eq!(&encoded(|out| done.encode(MAX, out))[..], [0xF0, 0]);
    assert_eq!(
        decode_one(bytes(&[&[0xF0, 0]])).unwrap(),
        Packet::Auth(done)
    );
    let again = Auth {
        reason: ReasonCode::REAUTHENTICATE,
        method: Some("K8S-SAT".into()),
        data: Some(Bytes::from_static(b"secret")),
        reason_string: None,
    };
    assert!(!format!("{again:?}").contains("secret"));
    let packet = encoded(|out| again.encode(MAX, out));
    assert_eq!(&packet[..4], [0xF0, 21, 0x19, 19]);
    assert_eq!(decode_one(packet).unwrap(), Packet::Auth(again));
}

#[test]
fn pings() {
    let mut stream = BytesMut::new();
    encode_pingreq(&mut stream);
    encode_pingresp(&mut stream);
    assert_eq!(decode(&mut stream, 2), Ok(Some(Packet::PingReq)));
    assert_eq!(decode(&mut stream, 2), Ok(Some(Packet::PingResp)));
    assert_eq!(decode(&mut stream, 2), Ok(None));
}

fn full_header() -> PublishHeader<'static> {
    PublishHeader {
        topic: "clients/x/response",
        packet_id: PacketId::new(77),
        dup: true,
        retain: true,
        topic_alias: Some(3),
        message_expiry: Some(11),
        payload_is_utf8: true,
        content_type: Some("application/octet-stream"),
        response_topic: Some("answers"),
        correlation_data: Some(b"0123456789abcdef"),
        subscription_identifiers: &[1, 300],
        user_properties: &[("__stat", "200"), ("__ts", "1:2:n"), ("__ts", "again")],
        encoded: None,
    }
}

#[test]
fn publish_round_trips_and_the_oracle_reads_the_same() {
    let packet =
        encoded(|out| full_header().encode(MAX, out, 5, |out| out.extend_from_slice(b"+OK\r\n")));
    let oracle::Packet::Publish(read) = by_oracle(&packet) else {
        panic!()
    };
    assert_eq!(
        (&read.topic[..], read.pkid, read.dup, read.retain),
        (&b"clients/x/response"[..], 77, true, true)
    );
    assert_eq!(&read.payload[..], b"+OK\r\n");
    let properties = read.properties.unwrap();
    assert_eq!(properties.topic_alias, Some(3));
    assert_eq!(properties.message_expiry_interval, Some(11));
    assert_eq!(properties.payload_format_indicator, Some(1));
    assert_eq!(properties.subscription_identifiers, [1, 300]);
    assert_eq!(properties.user_properties.len(), 3);

    let Packet::Publish(publish) = decode_one(packet.clone()).unwrap() else {
        panic!()
    };
    assert_eq!(publish.topic(), "clients/x/response");
    assert_eq!(publish.qos(), QoS::AtLeastOnce);
    assert_eq!(publish.packet_id(), PacketId::new(77));
    assert!(publish.dup() && publish.retain() && publish.payload_is_utf8());
    assert_eq!(publish.topic_alias(), Some(3));
    assert_eq!(publish.message_expiry(), Some(11));
    assert_eq!(publish.content_type(), Some("application/octet-stream"));
    assert_eq!(publish.response_topic(), Some("answers"));
    assert_eq!(publish.correlation_data(), Some(&b"0123456789abcdef"[..]));
    assert_eq!(
        publish.subscription_identifiers().collect::<Vec<_>>(),
        [1, 300]
    );
    assert_eq!(
        publish.user_properties().collect::<Vec<_>>(),
        [("__stat", "200"), ("__ts", "1:2:n"), ("__ts", "again")]
    );
    assert_eq!(publish.payload(), "+OK\r\n");
    assert_eq!(publish.payload_bytes(), b"+OK\r\n");
    assert_eq!(publish.packet_bytes(), packet.len());
}

#[test]
fn publish_of_the_oracle_is_read() {
    let mut sent = oracle::Publish::new(
        "t",
        rumqttc::v5::mqttbytes::QoS::AtMostOnce,
        "payload",
        None,
    );
    sent.retain = true;
    let Packet::Publish(publish) = decode_one(from_oracle(&oracle::Packet::Publish(sent))).unwrap()
    else {
        panic!()
    };
    assert_eq!(
        (publish.topic(), publish.qos(), publish.packet_id()),
        ("t", QoS::AtMostOnce, None)
    );
    assert_eq!(publish.payload(), "payload");
    assert_eq!(publish.user_properties().count(), 0);
    assert_eq!(publish.correlation_data(), None);
}

#[test]
fn properties_encoded_once_are_the_same_properties() {
    let once = EncodedProperties::new(&PublishHeader {
        content_type: Some("text/plain"),
        user_properties: &[("a", "b")],
        ..PublishHeader::default()
    })
    .unwrap();
    let header = PublishHeader {
        topic: "t",
        user_properties: &[("c", "d")],
        encoded: Some(&once),
        ..PublishHeader::default()
    };
    let packet = encoded(|out| header.encode(MAX, out, 0, |_| {}));
    let Packet::Publish(publish) = decode_one(packet).unwrap() else {
        panic!()
    };
    assert_eq!(publish.content_type(), Some("text/plain"));
    assert_eq!(
        publish.user_properties().collect::<Vec<_>>(),
        [("a", "b"), ("c", "d")]
    );
}

#[test]
fn dup_is_set_in_place() {
    let header = PublishHeader {
        topic: "t",
        packet_id: PacketId::new(1),
        ..PublishHeader::default()
    };
    let mut packet = encoded(|out| header.encode(MAX, out, 0, |_| {}));
    set_dup(&mut packet);
    let Packet::Publish(publish) = decode_one(packet).unwrap() else {
        panic!()
    };
    assert!(publish.dup());
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_written() {
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
fn packets_come_out_whatever_the_reads_were() {
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

/// A PUBLISH with QoS 1, topic "t", id 1 and these properties.
fn with(properties: &[u8]) -> BytesMut {
    let body = [
        b"\0\x01t\0\x01".as_slice(),
        &[properties.len() as u8],
        properties,
    ]
    .concat();
    bytes(&[&[0x32, body.len() as u8], &body])
}

#[test]
fn malformed_packets_are_refused() {
    let malformed: &[(&str, BytesMut)] = &[
        ("packet type 0", bytes(&[&[0x00, 0]])),
        ("flags of PINGREQ", bytes(&[&[0xC1, 0]])),
        (
            "flags of SUBSCRIBE",
            bytes(&[b"\x80\x07\0\x01\0\0\x01a\x01"]),
        ),
        ("flags of UNSUBSCRIBE", bytes(&[b"\xA0\x06\0\x01\0\0\x01a"])),
        (
            "five length bytes",
            bytes(&[&[0x30, 0x80, 0x80, 0x80, 0x80, 0x01]]),
        ),
        ("length with a useless byte", bytes(&[&[0xC0, 0x80, 0x00]])),
        ("PINGREQ with a body", bytes(&[&[0xC0, 1, 0]])),
        ("CONNECT that is empty", bytes(&[&[0x10, 0]])),
        (
            "CONNECT with the reserved flag",
            bytes(&[b"\x10\x0D\0\x04MQTT\x05\x01\0\0\0\0\0"]),
        ),
        (
            "CONNECT with will QoS and no will",
            bytes(&[b"\x10\x0D\0\x04MQTT\x05\x08\0\0\0\0\0"]),
        ),
        (
            "CONNECT with a byte too many",
            bytes(&[b"\x10\x0E\0\x04MQTT\x05\x02\0\0\0\0\0\0"]),
        ),
        ("PUBLISH with QoS 3", bytes(&[b"\x36\x06\0\x01t\0\x01\0"])),
        ("PUBLISH with a wildcard", bytes(&[b"\x30\x04\0\x01+\0"])),
        ("PUBLISH with U+0000", bytes(&[b"\x30\x04\0\x01\0\0"])),
        (
            "PUBLISH with a topic that is not UTF-8",
            bytes(&[b"\x30\x04\0\x01\xFF\0"]),
        ),
        (
            "PUBLISH whose topic overruns",
            bytes(&[b"\x30\x04\0\x09t\0"]),
        ),
        (
            "PUBLISH without a property length",
            bytes(&[b"\x30\x03\0\x01t"]),
        ),
        (
            "properties overrun the packet",
            bytes(&[b"\x30\x04\0\x01t\x05"]),
        ),
        (
            "a property overruns the section",
            with(b"\x26\0\x01a\0\x09b"),
        ),
        ("an unknown property", with(b"\x7E\0")),
        ("property number above 63", with(b"\xFF\0")),
        ("CONNACK with reserved flags", bytes(&[&[0x20, 3, 2, 0, 0]])),
        (
            "SUBSCRIBE with reserved options",
            bytes(&[b"\x82\x07\0\x01\0\0\x01a\xC1"]),
        ),
    ];
    for (name, input) in malformed {
        let result = decode(&mut input.clone(), MAX);
        assert!(
            matches!(result, Err(DecodeError::Malformed(_))),
            "{name}: {result:?}"
        );
    }
}

#[test]
fn protocol_errors_are_refused() {
    let protocol: &[(&str, BytesMut)] = &[
        ("PUBREC", bytes(&[&[0x50, 2, 0, 1]])),
        ("PUBREL", bytes(&[&[0x62, 2, 0, 1]])),
        ("PUBCOMP", bytes(&[&[0x70, 2, 0, 1]])),
        ("PUBLISH with id 0", bytes(&[b"\x32\x06\0\x01t\0\0\0"])),
        ("PUBLISH with DUP and QoS 0", bytes(&[b"\x38\x04\0\x01t\0"])),
        (
            "PUBLISH without topic and alias",
            bytes(&[b"\x30\x03\0\0\0"]),
        ),
        ("a property twice", with(b"\x02\0\0\0\x01\x02\0\0\0\x01")),
        ("a property of another packet", with(b"\x13\0\x01")),
        ("payload format 2", with(b"\x01\x02")),
        ("subscription identifier 0", with(b"\x0B\0")),
        ("response topic with a wildcard", with(b"\x08\0\x01#")),
        ("response topic that is empty", with(b"\x08\0\0")),
        ("PUBACK with id 0", bytes(&[&[0x40, 2, 0, 0]])),
        ("SUBSCRIBE without filters", bytes(&[b"\x82\x03\0\x01\0"])),
        (
            "SUBSCRIBE with QoS 3",
            bytes(&[b"\x82\x07\0\x01\0\0\x01a\x03"]),
        ),
        (
            "SUBSCRIBE with retain handling 3",
            bytes(&[b"\x82\x07\0\x01\0\0\x01a\x31"]),
        ),
        ("UNSUBSCRIBE without filters", bytes(&[b"\xA2\x03\0\x01\0"])),
        ("SUBACK without reasons", bytes(&[b"\x90\x03\0\x01\0"])),
        (
            "CONNACK with Receive Maximum 0",
            bytes(&[b"\x20\x06\0\0\x03\x21\0\0"]),
        ),
        (
            "CONNACK with Maximum Packet Size 0",
            bytes(&[b"\x20\x08\0\0\x05\x27\0\0\0\0"]),
        ),
        (
            "CONNACK with Maximum QoS 2",
            bytes(&[b"\x20\x05\0\0\x02\x24\x02"]),
        ),
        (
            "authentication data without method",
            bytes(&[b"\x10\x11\0\x04MQTT\x05\x02\0\0\x04\x16\0\x01x\0\0"]),
        ),
    ];
    for (name, input) in protocol {
        let result = decode(&mut input.clone(), MAX);
        assert!(
            matches!(result, Err(DecodeError::Protocol(_))),
            "{name}: {result:?}"
        );
    }
    assert_eq!(
        decode(&mut with(b"\x23\0\0"), MAX),
        Err(DecodeError::TopicAlias)
    );
    assert_eq!(
        DecodeError::TopicAlias.reason(),
        ReasonCode::TOPIC_ALIAS_INVALID
    );
}

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
    fn what_decodes_encodes_to_the_same_packet(input in near_packets()) {
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
                        encoded: None,
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
