//! CONNECT, CONNACK, AUTH, DISCONNECT, PINGREQ and PINGRESP.
use crate::{MAX, by_oracle, bytes, decode_one, encoded};
use bytes::{Bytes, BytesMut};
use rumqttc::v5::mqttbytes::v5 as oracle;
use statestore_protocol::mqtt::{
    Auth, ConnAck, Connect, DecodeError, Disconnect, Limits, Packet, QoS, ReasonCode, Will, decode,
    encode_pingreq, encode_pingresp,
};

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
            payload_is_utf8: Some(true),
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
fn a_connect_of_another_version_is_distinguished_from_garbage() {
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

#[test]
fn an_auth_without_properties_still_has_its_reason() {
    let mut auth = Auth {
        reason: ReasonCode::CONTINUE_AUTHENTICATION,
        method: None,
        data: None,
        reason_string: None,
    };
    let packet = encoded(|out| auth.encode(MAX, out));
    assert_eq!(decode_one(packet).unwrap(), Packet::Auth(auth.clone()));
    auth.reason = ReasonCode::SUCCESS;
    auth.reason_string = Some("done".into());
    let packet = encoded(|out| auth.encode(MAX, out));
    assert_eq!(decode_one(packet).unwrap(), Packet::Auth(auth));
}

#[test]
fn debug_output_of_packets_omits_secrets() {
    let auth = Auth {
        reason: ReasonCode::SUCCESS,
        method: Some("K8S-SAT".into()),
        data: Some(Bytes::from_static(b"token")),
        reason_string: None,
    };
    let text = format!("{auth:?}");
    assert!(
        text.contains("success (0x00)") && text.contains("K8S-SAT"),
        "{text}"
    );
    assert!(!text.contains("token") && !text.contains("116"), "{text}");
    let text = format!("{:?}", full_connect());
    assert!(
        text.contains("gateway-1") && text.contains("K8S-SAT"),
        "{text}"
    );
}

#[test]
fn reason_codes_have_names() {
    let failed = ReasonCode::NOT_AUTHORIZED;
    assert_eq!(
        format!("{failed} {failed:?}"),
        "not authorized (0x87) not authorized (0x87)"
    );
    assert!(failed.is_failure() && ReasonCode::UNSPECIFIED_ERROR.is_failure());
    assert!(!ReasonCode::SUCCESS.is_failure() && !ReasonCode::REAUTHENTICATE.is_failure());
}
