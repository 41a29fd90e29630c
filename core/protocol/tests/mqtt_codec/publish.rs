//! PUBLISH and PUBACK.
use crate::{MAX, by_oracle, bytes, decode_one, encoded, from_oracle, full_header, id};
use rumqttc::v5::mqttbytes::v5 as oracle;
use statestore_protocol::mqtt::{
    EncodedProperties, Packet, PacketId, PubAck, Publish, PublishHeader, QoS, ReasonCode,
    publish::set_dup,
};

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
    assert!(publish.dup() && publish.retain() && publish.payload_is_utf8() == Some(true));
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
fn a_response_topic_round_trips_borrowed_and_owned() {
    let request = encoded(|out| full_header().encode(MAX, out, 0, |_| {}));
    let Packet::Publish(request) = decode_one(request).unwrap() else {
        panic!()
    };
    let topic = request.checked_response_topic().unwrap();
    let kept = topic.into_owned();
    for topic in [topic, kept.get()] {
        assert_eq!(topic.as_ref(), b"answers");
        let header = PublishHeader {
            checked_topic: Some(topic),
            ..full_header()
        };
        let response = encoded(|out| header.encode(MAX, out, 0, |_| {}));
        let oracle::Packet::Publish(read) = by_oracle(&response) else {
            panic!()
        };
        assert_eq!(read.topic, "answers");
    }
}

#[test]
fn a_publish_of_the_oracle_is_decoded() {
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
fn pre_encoded_properties_encode_identically() {
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

/// Encodes this header and decodes it again.
fn read(header: &PublishHeader<'_>) -> Publish {
    let packet = encoded(|out| header.encode(MAX, out, 2, |out| out.extend_from_slice(b"ab")));
    let Packet::Publish(publish) = decode_one(packet).unwrap() else {
        panic!()
    };
    publish
}

#[test]
fn each_field_is_encoded_independently() {
    let plain = PublishHeader {
        topic: "t",
        ..PublishHeader::default()
    };
    let publish = read(&plain);
    assert_eq!(
        (publish.retain(), publish.dup(), publish.qos()),
        (false, false, QoS::AtMostOnce)
    );
    assert_eq!(publish.payload_is_utf8(), None);
    assert!(!publish.has_subscription_identifiers());
    let retained = read(&PublishHeader {
        retain: true,
        ..plain
    });
    assert_eq!(
        (retained.retain(), retained.dup(), retained.packet_id()),
        (true, false, None)
    );
    let binary = read(&PublishHeader {
        payload_is_utf8: Some(false),
        ..plain
    });
    assert_eq!(binary.payload_is_utf8(), Some(false));
    let largest = read(&PublishHeader {
        subscription_identifiers: &[268_435_455],
        ..plain
    });
    assert!(largest.has_subscription_identifiers());
    assert_eq!(
        largest.subscription_identifiers().collect::<Vec<_>>(),
        [268_435_455]
    );
}

#[test]
fn qos_2_is_decoded() {
    let packet = bytes(&[&[0x34, 6, 0, 1, b't', 0, 9, 0]]);
    let Packet::Publish(publish) = decode_one(packet).unwrap() else {
        panic!()
    };
    assert_eq!(
        (publish.qos(), publish.packet_id()),
        (QoS::ExactlyOnce, Some(id(9)))
    );
}

#[test]
fn a_publish_that_is_detached_has_memory_of_its_own() {
    let mut publish = read(&PublishHeader {
        topic: "t",
        ..PublishHeader::default()
    });
    let (before, same) = (publish.payload(), publish.payload());
    assert_eq!(before.as_ptr(), same.as_ptr());
    publish.detach();
    assert_eq!(publish.payload(), before);
    assert_ne!(publish.payload().as_ptr(), before.as_ptr());
}

#[test]
fn encoded_properties_report_whether_they_are_empty() {
    assert!(EncodedProperties::default().is_empty());
    let header = PublishHeader {
        user_properties: &[("a", "b")],
        ..PublishHeader::default()
    };
    let encoded = EncodedProperties::new(&header).unwrap();
    assert_eq!((encoded.is_empty(), encoded.len()), (false, 7));
}
