//! SUBSCRIBE, UNSUBSCRIBE and their answers.
use crate::{MAX, by_oracle, decode_one, encoded, id};
use rumqttc::v5::mqttbytes::v5 as oracle;
use statestore_protocol::mqtt::{
    Packet, QoS, ReasonCode, SubAck, Subscribe, Subscription, UnsubAck, Unsubscribe,
};

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
