//! The request that the peers send: the bytes of our client's SET.
use crate::broker::VALUE;
use bytes::BytesMut;
use statestore_protocol::mqtt::{Connect, PacketId, PublishHeader};
use statestore_protocol::{CommandRef, SetOptions, property, topic};

pub(crate) const CLIENT_ID: &str = "statestore-0123456789abcdef";
pub(crate) const EXPIRY_S: u32 = 10;
pub(crate) const USERS: [(&str, &str); 4] = [
    (
        property::TIMESTAMP,
        "001696374425000:00000:0123456789abcdef",
    ),
    (property::SOURCE_ID, CLIENT_ID),
    (property::PROTOCOL_VERSION, property::PROTOCOL_VERSION_VALUE),
    (property::PARTITION, CLIENT_ID),
];

const ANY_SIZE: u32 = u32::MAX;

/// Returns the payload of the request.
pub(crate) fn payload() -> BytesMut {
    let mut payload = BytesMut::new();
    let command = CommandRef::Set {
        key: b"key",
        value: &VALUE,
        options: SetOptions::default(),
    };
    command.encode(&mut payload);
    payload
}

/// A CONNECT.
pub(crate) fn connect() -> BytesMut {
    let mut out = BytesMut::new();
    let connect = Connect {
        client_id: CLIENT_ID.into(),
        ..Connect::default()
    };
    connect.encode(ANY_SIZE, &mut out).unwrap();
    out
}

/// The whole PUBLISH.
pub(crate) fn publish() -> BytesMut {
    let (mut out, payload) = (BytesMut::new(), payload());
    let header = PublishHeader {
        topic: topic::REQUEST,
        packet_id: PacketId::new(1),
        message_expiry: Some(EXPIRY_S),
        content_type: Some(property::CONTENT_TYPE),
        response_topic: Some(&topic::response(CLIENT_ID)),
        correlation_data: Some(&[7; 16]),
        user_properties: &USERS,
        ..PublishHeader::default()
    };
    header
        .encode(ANY_SIZE, &mut out, payload.len(), |out| {
            out.extend_from_slice(&payload);
        })
        .unwrap();
    out
}
