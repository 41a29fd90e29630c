//! A monitor of the bytes that the two ends of a connection send, which checks them against MQTT.
use crate::history::{Version, version};
use bytes::BytesMut;
use statestore::Hlc;
use statestore_protocol::mqtt::{Limits, Packet, Publish, QoS, decode};
use statestore_protocol::property::TIMESTAMP;
use std::collections::{HashMap, HashSet};

/// An end of a connection: the bytes that it has sent and received so far.
#[derive(Debug, Default)]
pub(crate) struct WireMonitor {
    sent: BytesMut,
    received: BytesMut,
    /// Limits that the other end has announced.
    limits: Option<Limits>,
    /// Last timestamp of each sequence that the end has sent.
    newest: HashMap<String, Version>,
    /// Packet identifiers that the end has sent and that are not acknowledged.
    unacknowledged: HashSet<u16>,
    /// Whether the end belongs to a broker, which gets some changes twice and delivers both.
    pub(crate) is_of_broker: bool,
}

impl WireMonitor {
    /// Handles bytes that the end sends. Returns the packets that are complete now.
    pub(crate) fn record_sent(&mut self, bytes: &[u8]) -> Result<Vec<Packet>, String> {
        self.sent.extend_from_slice(bytes);
        let mut packets = Vec::new();
        loop {
            let before = self.sent.len();
            let Some(packet) = next(&mut self.sent)? else {
                return Ok(packets);
            };
            self.check(&packet, before - self.sent.len())?;
            packets.push(packet);
        }
    }

    fn check(&mut self, packet: &Packet, len: usize) -> Result<(), String> {
        let limits = self.limits.unwrap_or_default();
        if len > limits.max_packet_bytes as usize {
            let max = limits.max_packet_bytes;
            return Err(format!("a packet of {len} bytes where {max} are allowed"));
        }
        let Packet::Publish(publish) = packet else {
            return Ok(());
        };
        if publish.qos() == QoS::AtMostOnce {
            return Ok(());
        }
        let id = publish.packet_id().map_or(0, std::num::NonZeroU16::get);
        if !self.unacknowledged.insert(id) {
            return Err(format!("packet identifier {id} is in use already"));
        }
        let (unacknowledged, max) = (self.unacknowledged.len(), limits.receive_maximum);
        if unacknowledged > usize::from(max) {
            return Err(format!(
                "{unacknowledged} unacknowledged PUBLISHes where the Receive Maximum is {max}"
            ));
        }
        self.check_order(publish)
    }

    /// Checks that the notifications of a key leave in the order of their versions, also repeated ones.
    fn check_order(&mut self, publish: &Publish) -> Result<(), String> {
        let is_notification =
            publish.response_topic().is_none() && publish.correlation_data().is_none();
        if self.is_of_broker || !is_notification {
            return Ok(());
        }
        let sequence = publish.topic().to_owned();
        let Some(at) = timestamp(publish) else {
            return Err(format!("no timestamp: {publish:?}"));
        };
        match self.newest.insert(sequence, at) {
            Some(before) if at <= before => {
                Err(format!("a PUBLISH of {at:?} after one of {before:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of unacknowledged PUBLISHes.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.unacknowledged.len()
    }

    /// Handles bytes that reached the end. Returns the packets that are complete now.
    pub(crate) fn record_received(&mut self, bytes: &[u8]) -> Result<Vec<Packet>, String> {
        self.received.extend_from_slice(bytes);
        let mut packets = Vec::new();
        while let Some(packet) = next(&mut self.received)? {
            match &packet {
                Packet::Connect(connect) => self.limits = Some(connect.limits),
                Packet::ConnAck(connack) => self.limits = Some(connack.limits),
                Packet::PubAck(puback) => {
                    let id = puback.packet_id.get();
                    if !self.unacknowledged.remove(&id) {
                        return Err(format!("PUBACK of {id}, which is not in flight"));
                    }
                }
                _ => {}
            }
            packets.push(packet);
        }
        Ok(packets)
    }
}

fn next(stream: &mut BytesMut) -> Result<Option<Packet>, String> {
    decode(stream, Limits::MAX_PACKET_BYTES).map_err(|error| format!("not a packet: {error}"))
}

/// Returns the property `__ts`.
pub(crate) fn timestamp(publish: &Publish) -> Option<Version> {
    let mut properties = publish.user_properties();
    let (_, text) = properties.find(|(name, _)| *name == TIMESTAMP)?;
    Some(version(&text.parse::<Hlc>().ok()?))
}

/// Returns a short description of a packet.
pub(crate) fn summary(packet: &Packet) -> String {
    match packet {
        Packet::Connect(connect) => format!(
            "CONNECT clean_start={} expiry={}s receive_maximum={} max_packet={}",
            connect.clean_start,
            connect.session_expiry_s,
            connect.limits.receive_maximum,
            connect.limits.max_packet_bytes
        ),
        Packet::ConnAck(connack) => format!(
            "CONNACK {} session_present={} receive_maximum={} max_packet={}",
            connack.reason,
            connack.session_present,
            connack.limits.receive_maximum,
            connack.limits.max_packet_bytes
        ),
        Packet::Publish(publish) => {
            let payload = publish.payload();
            let payload = payload.get(..120).unwrap_or(&payload).escape_ascii();
            // The first eight bytes are those of the client.
            let correlation = publish.correlation_data().and_then(|data| data.get(8..));
            let correlation = correlation.unwrap_or_default();
            let version = publish.user_properties().find(|(name, _)| *name == "__ts");
            format!(
                "PUBLISH {:?}{} expiry={:?} correlation={correlation:02x?} ts={} {payload}",
                publish.packet_id().map(std::num::NonZeroU16::get),
                if publish.dup() { " DUP" } else { "" },
                publish.message_expiry(),
                version.map_or("-", |(_, text)| text),
            )
        }
        Packet::PubAck(puback) => format!("PUBACK {} {}", puback.packet_id, puback.reason),
        Packet::Disconnect(disconnect) => {
            format!(
                "DISCONNECT {} {:?}",
                disconnect.reason, disconnect.reason_string
            )
        }
        other => format!("{other:?}"),
    }
}
