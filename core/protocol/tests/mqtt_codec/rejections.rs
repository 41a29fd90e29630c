//! Malformed packets and protocol errors.
use crate::{MAX, bytes};
use bytes::BytesMut;
use statestore_protocol::mqtt::{DecodeError, ReasonCode, decode};

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
fn malformed_packets_are_rejected() {
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
fn protocol_errors_are_rejected() {
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
