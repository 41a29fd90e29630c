//! What happens while too much waits for the disk: requests that write wait for room, everything else goes on.
//!
//! A request that writes stays in the input of its connection, and what follows it stays there too, since requests are
//! executed in their order. Some input is read beyond it, so that a PINGREQ is answered: a client takes a connection for
//! dead on which none is. Time in which nothing is read from a client does not count against its keep-alive.
use super::{ConnectionId, Front};
use crate::engine::Now;
use bytes::BytesMut;
use statestore_protocol::mqtt::{self, Packet};
use statestore_protocol::{Command, topic};

/// How many bytes are read beyond a request that waits.
const READ_AHEAD_BYTES: usize = 256 * 1024;

/// The first bytes of packets.
const PINGREQ: u8 = 0xC0;
const DISCONNECT: u8 = 0xE0;

/// What was found in the input of a connection behind a request that waits.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Nothing is read once the input has so many bytes; `None` if no request waits.
    read_limit: Option<usize>,
    /// Bytes of input that were looked at.
    seen: usize,
    /// PINGREQs in them, which were answered.
    pings: u32,
}

impl Ahead {
    /// Whether more is read when there are so many bytes of input.
    pub(crate) fn accepts(&self, unread: usize) -> bool {
        self.read_limit.is_none_or(|limit| unread < limit)
    }

    /// Whether it knows anything of the input.
    pub(crate) fn was_seen(&self) -> bool {
        self.seen > 0
    }

    /// Looks at whole packets that have not been looked at; says how many PINGREQs are among them.
    fn look(&mut self, input: &[u8], max_packet_bytes: u32) -> u32 {
        let before = self.pings;
        while let Some(rest) = input.get(self.seen..)
            && let Some(packet) = first_packet(rest, max_packet_bytes)
        {
            match packet.first() {
                Some(&PINGREQ) => self.pings += 1,
                // Nothing comes after it but the end, and that is not to be seen before it.
                Some(&DISCONNECT) => self.read_limit = Some(0),
                _ => {}
            }
            self.seen += packet.len();
        }
        self.pings - before
    }
}

/// The first packet of the input, if all of it is there.
fn first_packet(input: &[u8], max_packet_bytes: u32) -> Option<&[u8]> {
    input.get(..mqtt::announced_len(input, max_packet_bytes)?)
}

/// Whether a packet is a request that may write.
fn may_write(packet: &[u8], max_packet_bytes: u32) -> bool {
    const PUBLISH: u8 = 3;
    if packet.first().is_none_or(|first| first >> 4 != PUBLISH) {
        return false;
    }
    let Ok(Some(Packet::Publish(publish))) =
        mqtt::decode(&mut BytesMut::from(packet), max_packet_bytes)
    else {
        return false;
    };
    // An empty one has an alias, which may stand for that topic.
    let is_request = publish.topic() == topic::REQUEST || publish.topic().is_empty();
    is_request
        && matches!(
            Command::decode(&publish.payload()),
            Ok(Command::Set { .. } | Command::Del { .. } | Command::Vdel { .. })
        )
}

impl Front {
    /// Says whether too much waits for the storage. While it does, requests that may write wait in the input of their
    /// connections; everything else is served.
    pub fn set_storage_full(&mut self, is_full: bool, now: Now) {
        self.is_storage_full = is_full;
        if is_full {
            return;
        }
        for id in std::mem::take(&mut self.waiting_for_room) {
            if let Some(connection) = self.connections.get_mut(id)
                && connection.session().is_some()
            {
                connection.ahead.read_limit = None;
                connection.keep_alive.resumed(now.mono_ms);
                let next_ms = connection.keep_alive.wake_at_ms();
                self.set_connection_timer(id, next_ms);
                self.mark_dirty(id);
            }
        }
    }

    /// Whether the first packet of the input of a connection has to wait. PINGREQs behind it are answered.
    pub(super) fn waits_for_room(&mut self, id: ConnectionId, input: &[u8], now: Now) -> bool {
        let max_packet_bytes = self.limits.max_packet_bytes;
        let connection = self.connections.get_mut(id);
        let Some(connection) = connection.filter(|it| it.session().is_some()) else {
            return false;
        };
        if connection.ahead.read_limit.is_none() {
            let packet = first_packet(input, max_packet_bytes);
            let Some(packet) = packet.filter(|packet| may_write(packet, max_packet_bytes)) else {
                return false;
            };
            connection.ahead.read_limit = Some(packet.len() + READ_AHEAD_BYTES);
            connection.blocked_since_ms.get_or_insert(now.mono_ms);
            self.waiting_for_room.push(id);
        }
        let pings = connection.ahead.look(input, max_packet_bytes);
        if !connection.ahead.accepts(input.len()) {
            connection.keep_alive.paused(now.mono_ms);
            self.set_connection_timer(id, None);
        }
        for _ in 0..pings {
            self.answer_ping(id, now);
        }
        true
    }

    /// So many bytes were taken out of the input of a connection.
    pub(super) fn taken(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.ahead.seen = connection.ahead.seen.saturating_sub(bytes);
        }
    }

    /// A PINGREQ was taken out of the input of a connection.
    pub(super) fn ping(&mut self, id: ConnectionId, now: Now) {
        match self.connections.get_mut(id) {
            Some(connection) if connection.ahead.pings > 0 => connection.ahead.pings -= 1,
            _ => self.answer_ping(id, now),
        }
    }

    fn answer_ping(&mut self, id: ConnectionId, now: Now) {
        self.append(id, now, |out, _| {
            mqtt::encode_pingresp(out);
            Ok(())
        });
    }
}
