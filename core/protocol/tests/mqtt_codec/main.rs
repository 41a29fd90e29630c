//! The MQTT 5 codec: against an independent one (rumqttc's), against the specification's rules, against any bytes.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod connection;
mod ignored_properties;
mod properties;
mod publish;
mod publish_cache;
mod rejections;
mod sizes;
mod subscription;

use bytes::BytesMut;
use rumqttc::v5::mqttbytes::v5 as oracle;
use statestore_protocol::mqtt::{
    DecodeError, EncodeError, Limits, Packet, PacketId, PublishHeader, decode,
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

/// Encodes `packet` with the independent codec.
fn from_oracle(packet: &oracle::Packet) -> BytesMut {
    let mut out = BytesMut::new();
    packet.write(&mut out, None).unwrap();
    out
}

fn full_header() -> PublishHeader<'static> {
    PublishHeader {
        topic: "clients/x/response",
        packet_id: PacketId::new(77),
        dup: true,
        retain: true,
        topic_alias: Some(3),
        message_expiry: Some(11),
        payload_is_utf8: Some(true),
        content_type: Some("application/octet-stream"),
        response_topic: Some("answers"),
        correlation_data: Some(b"0123456789abcdef"),
        subscription_identifiers: &[1, 300],
        user_properties: &[("__stat", "200"), ("__ts", "1:2:n"), ("__ts", "again")],
        ..PublishHeader::default()
    }
}
