//! A client inside the server's machine that watches every key, and so sees every change immediately.
use super::CLIENT_ADDRESS;
use crate::history::{Version, version};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Connect, Limits, Packet, PacketId, PubAck, PublishHeader, decode};
use statestore_protocol::{Command, Event, Notification, Reply, topic};
use statestored_broker::hub::{ConnectionId, Hub};
use statestored_common::ClockReading;

const CLIENT_ID: &str = "witness";

/// A change as the witness saw it.
#[derive(Debug)]
pub(crate) struct RecordedChange {
    pub(crate) key: Bytes,
    pub(crate) value: Option<Bytes>,
    pub(crate) version: Version,
}

#[derive(Debug)]
pub(crate) struct ChangeRecorder {
    connection: ConnectionId,
    input: BytesMut,
    output: BytesMut,
}

impl ChangeRecorder {
    pub(crate) fn new<'a>(
        hub: &mut Hub,
        keys: impl Iterator<Item = &'a Bytes>,
        now: ClockReading,
    ) -> Self {
        let mut witness = Self {
            connection: hub
                .opened(CLIENT_ADDRESS, now)
                .expect("the first connection"),
            input: BytesMut::new(),
            output: BytesMut::new(),
        };
        let connect = Connect {
            client_id: CLIENT_ID.into(),
            clean_start: true,
            ..Connect::default()
        };
        let max = Limits::MAX_PACKET_BYTES;
        connect.encode(max, &mut witness.input).expect("a CONNECT");
        for (number, key) in (1..).zip(keys) {
            let response_topic = topic::response(CLIENT_ID);
            let correlation = [number; 16];
            let header = PublishHeader {
                topic: topic::REQUEST,
                packet_id: PacketId::new(u16::from(number)),
                response_topic: Some(&response_topic),
                correlation_data: Some(&correlation),
                ..PublishHeader::default()
            };
            let command = Command::Watch { key: key.clone() };
            let write = |out: &mut BytesMut| command.encode(out);
            header
                .encode(max, &mut witness.input, command.encoded_len(), write)
                .expect("a request");
            let seen = witness.take(hub, now);
            assert!(
                seen.is_ok_and(|seen| seen.is_empty()),
                "the witness is ready"
            );
        }
        witness
    }

    /// Returns the changes since the last call, in their order.
    pub(crate) fn take(
        &mut self,
        hub: &mut Hub,
        now: ClockReading,
    ) -> Result<Vec<RecordedChange>, String> {
        let mut seen = Vec::new();
        loop {
            if !self.input.is_empty() {
                while hub.received(self.connection, &mut self.input, now) {}
            }
            hub.take_output(self.connection, &mut self.output, now);
            let max = Limits::MAX_PACKET_BYTES;
            let Some(packet) = decode(&mut self.output, max).map_err(|error| error.to_string())?
            else {
                return Ok(seen);
            };
            let publish = match packet {
                Packet::Publish(publish) => publish,
                Packet::Disconnect(_) => return Err("it was disconnected".into()),
                _ => continue,
            };
            if let Some(id) = publish.packet_id() {
                let puback = PubAck::success(id);
                puback
                    .encode(max, &mut self.input)
                    .map_err(|error| error.to_string())?;
            }
            if publish.correlation_data().is_some() {
                let reply = Reply::decode(&publish.payload());
                if !matches!(reply, Ok(Reply::Ok)) {
                    return Err(format!("a watch was answered with {reply:?}"));
                }
                continue;
            }
            let timestamp = publish.user_properties().find(|(name, _)| *name == "__ts");
            let notification = Notification::decode(
                CLIENT_ID,
                publish.topic(),
                timestamp.map(|(_, text)| text),
                &publish.payload(),
            )
            .map_err(|error| error.to_string())?;
            seen.push(RecordedChange {
                key: notification.key,
                value: match notification.event {
                    Event::Set(value) => Some(value),
                    Event::Deleted => None,
                    Event::Resync => return Err("a gap was notified without a pattern".to_owned()),
                },
                version: version(&notification.version),
            });
        }
    }
}
