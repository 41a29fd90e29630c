//! PUBLISHes that are sent again on a new connection (MQTT 5, section 4.4).
//!
//! The same session must send unacknowledged PUBLISHes again, [MQTT-4.4.0-1], even long after their senders gave up. If
//! the first delivery never happened, the second one takes effect late: a SET of an hour ago would overwrite newer
//! values. MQTT has no way to take a PUBLISH back:
//! - A Message Expiry of 0 does not mean "already expired" in the specification. Mosquitto, for example, treats it as
//!   "never".
//! - Another message under the same packet identifier is not the PUBLISH that must be sent again. A broker that
//!   compares them may end the session; a broker that has the first message queues both.
//! - If it is not sent, its packet identifier and its slot in the broker's Receive Maximum are never released.
//!
//! A new session has nothing to send again. Therefore:
//! - An unwanted PUBLISH that no transport took completely is dropped and never sent.
//! - If another unwanted PUBLISH would have to be sent again and may do harm, the next connection begins a new session
//!   ([`would_resend_stale`](Session::would_resend_stale), [`force_clean_start`](Session::force_clean_start)). The exception is a session in which other
//!   PUBLISHes in flight would lose their answers.
//! - In that exception, it is sent again with the shortest Message Expiry, one second.
use super::super::alias::OutboundAliases;
use super::super::{EncodeError, Limits, Packet, Publish, PublishHeader, decode};
use super::{Event, Session, UnacknowledgedPublish};
use bytes::{Bytes, BytesMut};

impl<T: Copy> Session<T> {
    /// Sends unacknowledged PUBLISHes of the last connection again, as far as the window has room.
    pub(super) fn resend(&mut self, now_ms: u64, handle: &mut impl FnMut(Event<T>)) {
        while let Some((id, entry)) = self.window.next_resend() {
            if !entry.maybe_delivered && entry.is_stale(now_ms) {
                if let Some(entry) = self.window.acknowledge(id) {
                    self.outbox.release(entry.location);
                    let tag = entry.options.tag;
                    handle(Event::Dropped { tag });
                }
                self.ids.release(id);
                continue;
            }
            let packet = self.outbox.packet(entry.location);
            let out = self.outbox.pending();
            let start = out.len();
            let encoded = encode_resend(
                &packet,
                entry,
                &self.outbound,
                self.peer_limits,
                now_ms,
                out,
            );
            if encoded.is_ok() {
                let place = std::mem::replace(&mut entry.location, self.outbox.keep(start));
                self.outbox.release(place);
                entry.defined_alias = None;
                let due_ms = entry.options.deadline_ms.max(now_ms);
                entry.overdue_ms = due_ms.saturating_add(self.config.ping_timeout_ms);
                self.overdue_ms = self.overdue_ms.min(entry.overdue_ms);
                self.resent += 1;
                continue;
            }
            // The broker takes only smaller packets than before.
            if let Some(entry) = self.window.acknowledge(id) {
                self.outbox.release(entry.location);
                handle(Event::TooLarge {
                    tag: entry.options.tag,
                    maybe_delivered: entry.maybe_delivered,
                });
            }
            self.ids.release(id);
        }
    }
}

/// Decodes a PUBLISH that this session encoded.
pub(super) fn decode_publish(packet: &[u8]) -> Option<Publish> {
    match decode(&mut BytesMut::from(packet), Limits::MAX_PACKET_BYTES) {
        Ok(Some(Packet::Publish(publish))) => Some(publish),
        _ => None,
    }
}

/// Encodes a PUBLISH again, with its topic in full and with DUP if it may have arrived. Its Message Expiry is the time
/// that is left, because its sender does not wait longer.
fn encode_resend<T>(
    packet: &Bytes,
    entry: &UnacknowledgedPublish<T>,
    aliases: &OutboundAliases,
    peer: Limits,
    now_ms: u64,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let publish = decode_publish(packet).ok_or(EncodeError::WindowFull)?;
    let wanted_until_ms = if entry.is_withdrawn {
        now_ms
    } else {
        entry.options.deadline_ms
    };
    let alias_topic = publish.topic_alias().and_then(|alias| aliases.topic(alias));
    let users: Vec<_> = publish.user_properties().collect();
    let header = PublishHeader {
        topic: match &alias_topic {
            Some(topic) => topic,
            None => publish.topic(),
        },
        packet_id: publish.packet_id(),
        dup: entry.maybe_delivered,
        retain: publish.retain(),
        message_expiry: publish
            .message_expiry()
            .map(|_| seconds_left(wanted_until_ms, now_ms)),
        payload_is_utf8: publish.payload_is_utf8(),
        content_type: publish.content_type(),
        response_topic: publish.response_topic(),
        correlation_data: publish.correlation_data(),
        user_properties: &users,
        ..PublishHeader::default()
    };
    let payload = publish.payload_bytes();
    header.encode(peer.max_packet_bytes, out, payload.len(), |out| {
        out.extend_from_slice(payload);
    })
}

/// Returns the Message Expiry for a deadline: whole seconds, rounded up, at least 1.
pub fn seconds_left(deadline_ms: u64, now_ms: u64) -> u32 {
    let seconds = deadline_ms.saturating_sub(now_ms).div_ceil(1000);
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}
