//! Handling of a connection while the backlog of the disk is full: write requests wait for room, everything else
//! proceeds.
//!
//! A write request that waits stays in the input of its connection. All input behind it stays there too, because
//! requests are executed in order. Some input is read beyond it so that PINGREQs are answered: a client that gets no
//! PINGRESP considers the connection dead. Time in which nothing is read from a client does not count against its
//! keep-alive.
use super::Connection;
use super::input::PUBLISH;
use bytes::BytesMut;
use statestore_protocol::mqtt::{self, Packet, Publish};

/// Number of bytes that are read beyond a request that waits.
const READ_AHEAD_BYTES: usize = 256 * 1024;

/// The first bytes of packets.
const PINGREQ: u8 = 0xC0;
const DISCONNECT: u8 = 0xE0;

/// The state of the input of a connection behind a request that waits.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Number of input bytes at which reading stops; `None` if no request waits.
    read_limit: Option<usize>,
    /// Bytes of input that were examined.
    examined_bytes: usize,
    /// PINGREQs among these bytes, which were already answered.
    answered_pings: u32,
}

impl ReadAhead {
    /// Returns whether more is read while the input holds `unread` bytes.
    pub(super) fn accepts(&self, unread: usize) -> bool {
        self.read_limit.is_none_or(|limit| unread < limit)
    }

    /// Records that `bytes` bytes were taken out of the input.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.examined_bytes = self.examined_bytes.saturating_sub(bytes);
    }

    /// Examines the complete packets not examined yet. Returns the number of PINGREQs among them.
    fn examine(&mut self, input: &[u8], max_packet_bytes: u32) -> u32 {
        let before = self.answered_pings;
        while let Some(rest) = input.get(self.examined_bytes..)
            && let Some(packet) = first_packet(rest, max_packet_bytes)
        {
            match packet.first() {
                Some(&PINGREQ) => self.answered_pings += 1,
                // Only the end of the stream follows, and it must not be seen before the DISCONNECT is taken.
                Some(&DISCONNECT) => self.read_limit = Some(0),
                _ => {}
            }
            self.examined_bytes += packet.len();
        }
        self.answered_pings - before
    }
}

/// Returns the first packet of the input if it is complete.
fn first_packet(input: &[u8], max_packet_bytes: u32) -> Option<&[u8]> {
    input.get(..mqtt::announced_len(input, max_packet_bytes)?)
}

/// Decodes a packet as a PUBLISH. Returns `None` for any other packet.
fn decode_publish(packet: &[u8], max_packet_bytes: u32) -> Option<Publish> {
    packet.first().filter(|first| *first >> 4 == PUBLISH)?;
    match mqtt::decode(&mut BytesMut::from(packet), max_packet_bytes) {
        Ok(Some(Packet::Publish(publish))) => Some(publish),
        _ => None,
    }
}

/// Actions for a connection whose first packet waits for room.
#[derive(Debug, Clone, Copy)]
pub struct BlockedInput {
    /// Whether the packet did not wait before.
    pub is_new: bool,
    /// Whether reading stops now. Until it resumes, silence of the client does not count.
    pub is_paused: bool,
    /// Number of PINGREQs behind the packet that are to be answered.
    pub pings: u32,
}

impl Connection {
    /// Makes the connection wait if the first packet of its input is a PUBLISH that `may_write`. The caller has found
    /// the storage full. Returns `None` if the connection does not have to wait.
    pub fn block_on_storage(
        &mut self,
        input: &[u8],
        may_write: impl FnOnce(&Publish) -> bool,
        now_ms: u64,
    ) -> Option<BlockedInput> {
        let max_packet_bytes = self.server_limits.max_packet_bytes;
        self.session()?;
        // A client over its rate limit waits for the end of that pause first.
        if self.paused_until_ms.is_some() {
            return None;
        }
        let is_new = self.read_ahead.read_limit.is_none();
        if is_new {
            let packet = first_packet(input, max_packet_bytes)?;
            decode_publish(packet, max_packet_bytes).filter(may_write)?;
            self.read_ahead.read_limit = Some(packet.len() + READ_AHEAD_BYTES);
            self.blocked_since_ms.get_or_insert(now_ms);
        }
        let pings = self.read_ahead.examine(input, max_packet_bytes);
        let is_paused = !self.read_ahead.accepts(input.len());
        if is_paused {
            self.keep_alive.paused(now_ms);
        }
        Some(BlockedInput {
            is_new,
            is_paused,
            pings,
        })
    }

    /// Ends the wait because there is room again. Returns whether the connection is still open.
    pub fn resume_input(&mut self, now_ms: u64) -> bool {
        if self.session().is_none() {
            return false;
        }
        self.read_ahead.read_limit = None;
        self.keep_alive.resumed(now_ms);
        true
    }

    /// Counts a PINGREQ that was taken out of the input. Returns whether it still needs an answer.
    pub fn needs_pingresp(&mut self) -> bool {
        let is_unanswered = self.read_ahead.answered_pings == 0;
        self.read_ahead.answered_pings = self.read_ahead.answered_pings.saturating_sub(1);
        is_unanswered
    }
}
