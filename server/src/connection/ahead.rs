//! What happens while too much waits for the disk: requests that write wait for room, everything else goes on.
//!
//! A request that writes stays in the input of its connection, and what follows it stays there too, since requests are
//! executed in their order. Some input is read beyond it, so that a PINGREQ is answered: a client takes a connection for
//! dead on which none is. Time in which nothing is read from a client does not count against its keep-alive.
use super::Connection;
use super::input::PUBLISH;
use bytes::BytesMut;
use statestore_protocol::mqtt::{self, Packet, Publish};

/// How many bytes are read beyond a request that waits.
const READ_AHEAD_BYTES: usize = 256 * 1024;

/// The first bytes of packets.
const PINGREQ: u8 = 0xC0;
const DISCONNECT: u8 = 0xE0;

/// What was found in the input of a connection behind a request that waits.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Nothing is read once the input has so many bytes; `None` if no request waits.
    read_limit: Option<usize>,
    /// Bytes of input that were looked at.
    seen: usize,
    /// PINGREQs in them, which were answered.
    pings: u32,
}

impl Ahead {
    /// Whether more is read when there are so many bytes of input.
    pub(super) fn accepts(&self, unread: usize) -> bool {
        self.read_limit.is_none_or(|limit| unread < limit)
    }

    /// So many bytes were taken out of the input.
    pub(super) fn taken(&mut self, bytes: usize) {
        self.seen = self.seen.saturating_sub(bytes);
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

/// A packet as a PUBLISH, if it is one.
fn publish(packet: &[u8], max_packet_bytes: u32) -> Option<Publish> {
    packet.first().filter(|first| *first >> 4 == PUBLISH)?;
    match mqtt::decode(&mut BytesMut::from(packet), max_packet_bytes) {
        Ok(Some(Packet::Publish(publish))) => Some(publish),
        _ => None,
    }
}

/// What is to be done for a connection whose first packet waits for room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    /// It has not waited before.
    pub(crate) is_new: bool,
    /// Nothing is read from now on, so that its silence means nothing.
    pub(crate) is_paused: bool,
    /// PINGREQs behind it that are to be answered.
    pub(crate) pings: u32,
}

impl Connection {
    /// Says whether the first packet of the input has to wait for room in the storage, which has none now: a PUBLISH that
    /// `may_write`.
    pub(crate) fn wait_for_room(
        &mut self,
        input: &[u8],
        may_write: impl FnOnce(&Publish) -> bool,
        now_ms: u64,
    ) -> Option<Waiting> {
        let max_packet_bytes = self.bounds.max_packet_bytes;
        self.session()?;
        // Who has sent more than it may waits for that first.
        if self.paused_until_ms.is_some() {
            return None;
        }
        let is_new = self.ahead.read_limit.is_none();
        if is_new {
            let packet = first_packet(input, max_packet_bytes)?;
            publish(packet, max_packet_bytes).filter(may_write)?;
            self.ahead.read_limit = Some(packet.len() + READ_AHEAD_BYTES);
            self.blocked_since_ms.get_or_insert(now_ms);
        }
        let pings = self.ahead.look(input, max_packet_bytes);
        let is_paused = !self.ahead.accepts(input.len());
        if is_paused {
            self.keep_alive.paused(now_ms);
        }
        Some(Waiting {
            is_new,
            is_paused,
            pings,
        })
    }

    /// There is room again; whether it is still open.
    pub(crate) fn resume(&mut self, now_ms: u64) -> bool {
        if self.session().is_none() {
            return false;
        }
        self.ahead.read_limit = None;
        self.keep_alive.resumed(now_ms);
        true
    }

    /// A PINGREQ was taken out of the input; whether it is still to be answered.
    pub(crate) fn is_unanswered_ping(&mut self) -> bool {
        let is_unanswered = self.ahead.pings == 0;
        self.ahead.pings = self.ahead.pings.saturating_sub(1);
        is_unanswered
    }
}
