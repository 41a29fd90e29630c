//! Properties that every packet may carry and that are ignored, and properties that some packets must not carry.
use crate::{bytes, decode_one, id};
use statestore_protocol::mqtt::{
    Auth, ConnAck, Connect, DecodeError, Disconnect, Packet, PubAck, QoS, ReasonCode, SubAck,
    Subscribe, Subscription, UnsubAck, Unsubscribe,
};

/// A user property of the name "a" and the value "b", with the length of the properties before it.
const USER: &[u8] = &[7, 0x26, 0, 1, b'a', 0, 1, b'b'];
/// A Topic Alias, which only a PUBLISH has.
const ALIAS: &[u8] = &[3, 0x23, 0, 1];

/// A packet with these properties between what comes before and after them.
fn packet(
    first: u8,
    before: &[u8],
    properties: &[u8],
    after: &[u8],
) -> Result<Packet, DecodeError> {
    let body = [before, properties, after].concat();
    decode_one(bytes(&[&[first, u8::try_from(body.len()).unwrap()], &body]))
}

#[test]
fn user_properties_are_accepted_in_every_packet_and_topic_aliases_are_not() {
    let connect = Connect {
        client_id: "c".into(),
        keep_alive_s: 9,
        ..Connect::default()
    };
    let answered = |packet_id, reasons| SubAck {
        packet_id,
        reasons,
        reason_string: None,
    };
    let reasons = vec![ReasonCode::GRANTED_QOS_1];
    let filter = [0, 1, b'f', 0x21];
    let begin = [0, 4, b'M', b'Q', b'T', b'T', 5, 0, 0, 9];
    let all: [(u8, &[u8], &[u8], Packet); 9] = [
        (0x10, &begin, &[0, 1, b'c'], Packet::Connect(connect.into())),
        (
            0x20,
            &[0, 0],
            &[],
            Packet::ConnAck(ConnAck::new(ReasonCode::SUCCESS).into()),
        ),
        (
            0x40,
            &[0, 7, 0x10],
            &[],
            Packet::PubAck(PubAck {
                reason: ReasonCode::NO_MATCHING_SUBSCRIBERS,
                ..PubAck::success(id(7))
            }),
        ),
        (
            0x82,
            &[0, 7],
            &filter,
            Packet::Subscribe(Subscribe {
                packet_id: id(7),
                subscription_id: None,
                subscriptions: vec![Subscription::at_least_once("f")],
            }),
        ),
        (
            0x90,
            &[0, 7],
            &[1],
            Packet::SubAck(answered(id(7), reasons.clone())),
        ),
        (
            0xA2,
            &[0, 7],
            &filter[..3],
            Packet::Unsubscribe(Unsubscribe {
                packet_id: id(7),
                filters: vec!["f".into()],
            }),
        ),
        (
            0xB0,
            &[0, 7],
            &[1],
            Packet::UnsubAck(UnsubAck {
                packet_id: id(7),
                reasons,
                reason_string: None,
            }),
        ),
        (
            0xE0,
            &[0x8B],
            &[],
            Packet::Disconnect(Disconnect::new(ReasonCode::SERVER_SHUTTING_DOWN)),
        ),
        (
            0xF0,
            &[0x18],
            &[],
            Packet::Auth(Auth {
                reason: ReasonCode::CONTINUE_AUTHENTICATION,
                method: None,
                data: None,
                reason_string: None,
            }),
        ),
    ];
    for (first, before, after, expected) in all {
        assert_eq!(packet(first, before, USER, after), Ok(expected));
        let refused = packet(first, before, ALIAS, after);
        assert!(
            matches!(refused, Err(DecodeError::Protocol(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn a_subscription_has_one_identifier() {
    let once = packet(0x82, &[0, 7], &[2, 0x0B, 9], &[0, 1, b'f', 1]);
    let Ok(Packet::Subscribe(subscribe)) = once else {
        panic!("{once:?}")
    };
    assert_eq!(subscribe.subscription_id, Some(9));
    let twice = packet(0x82, &[0, 7], &[4, 0x0B, 9, 0x0B, 9], &[0, 1, b'f', 1]);
    assert!(matches!(twice, Err(DecodeError::Protocol(_))), "{twice:?}");
}

#[test]
fn will_flags_without_a_will_are_rejected() {
    let with = |flags| {
        let begin = [0, 4, b'M', b'Q', b'T', b'T', 5, flags, 0, 9];
        packet(0x10, &begin, &[0], &[0, 1, b'c'])
    };
    assert!(with(0).is_ok());
    for flags in [0x08, 0x20, 0x28] {
        let refused = with(flags);
        assert!(
            matches!(refused, Err(DecodeError::Malformed(_))),
            "{flags}: {refused:?}"
        );
    }
}

#[test]
fn a_will_has_a_topic_without_wildcards() {
    let with = |topic: &[u8]| {
        let begin = [0, 4, b'M', b'Q', b'T', b'T', 5, 0x04, 0, 9];
        let length = [0, u8::try_from(topic.len()).unwrap()];
        let rest = [&[0, 1, b'c', 0], &length[..], topic, &[0, 1, b'x']].concat();
        packet(0x10, &begin, &[0], &rest)
    };
    assert!(with(b"gone").is_ok());
    for topic in [&b""[..], b"#", b"a/+/b"] {
        let refused = with(topic);
        assert!(
            matches!(refused, Err(DecodeError::Malformed(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn maximum_qos_is_decoded() {
    for (value, expected) in [(0, QoS::AtMostOnce), (1, QoS::AtLeastOnce)] {
        let connack = packet(0x20, &[0, 0], &[2, 0x24, value], &[]);
        let Ok(Packet::ConnAck(connack)) = connack else {
            panic!("{connack:?}")
        };
        assert_eq!(connack.maximum_qos, expected);
    }
}

#[test]
fn an_invalid_header_is_rejected_before_the_body_arrives() {
    let refused = statestore_protocol::mqtt::decode(&mut bytes(&[&[0x00]]), 100);
    assert!(
        matches!(refused, Err(DecodeError::Malformed(_))),
        "{refused:?}"
    );
}
