//! One connection alone: everything that it can do without knowing of others.
//!
//! ```text
//!   bytes in ──▶ input ──▶ packets, when they may be taken ──────────────▶ hub
//!                 │ codec, topic aliases, keep-alive, the rules of PUBLISH
//!                 └ ahead: PINGREQs behind a request that waits for room
//!
//!   bytes out ◀── output: what may leave, and stages that wait ◀── packets, each with the commit it tells of
//! ```
//!
//! It has no socket and no clock. What it has of a session is a name, which means nothing here; whose messages go out, and
//! what packets bring about, is decided by the hub. How it comes and goes is drawn in `hub/ending.rs`.
mod ahead;
mod input;
mod memory;
mod output;
mod proving;

pub(crate) use input::{Next, Subject, Turn};
pub(crate) use memory::Memory;
pub(crate) use output::Place;
pub(crate) use proving::{Answer, Proving, Shown, Stage};

use crate::access::{ClientCertificate, LoginSource, Peer};
use crate::budget::{Charge, Gauge};
use crate::timers::Timer;
use ahead::Ahead;
use bytes::BytesMut;
use output::Output;
use slotmap::new_key_type;
use statestore_protocol::RequestReader;
use statestore_protocol::mqtt::alias::InboundAliases;
use statestore_protocol::mqtt::keep_alive::ServerKeepAlive;
use statestore_protocol::mqtt::{
    Connect, Decoder, Disconnect, EncodeError, Limits, PubAck, ReasonCode, Will,
};
use std::net::IpAddr;
use std::sync::Arc;

new_key_type! {
    /// Names a connection; never used again for another one.
    pub struct ConnectionId;
    pub(crate) struct SessionId;
}

/// Where a connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// CONNECT has not come yet, or is not answered.
    Opening,
    /// CONNECT was accepted; it has this session.
    Open(SessionId),
    /// Its last output is on its way; nothing is read any more.
    Closing,
    /// To be dropped at once.
    Closed,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// The last packet says why: it is sent before.
    WithLastWord,
    /// At once.
    Silent,
}

/// What the server allows a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Largest packet that comes in.
    pub(crate) max_packet_bytes: u32,
    /// With so much output outstanding, nothing more is read.
    pub(crate) max_output_bytes: usize,
    /// Most QoS 1 messages of the client that are not acknowledged.
    pub(crate) receive_maximum: u16,
    /// Most topic aliases of the client.
    pub(crate) topic_alias_maximum: u16,
}

/// Memory of a connection without its buffers: itself, its task and socket, and what changes too often to be counted
/// at every step.
const CONNECTION_BYTES: usize = 8 * 1024;
/// How much a connection may hold more or less than is counted.
const SLACK_BYTES: usize = 4 * 1024;

/// Bytes of a will.
pub(crate) fn will_bytes(will: &Will) -> usize {
    let properties = will.user_properties.iter();
    size_of::<Will>()
        + will.topic.len()
        + will.payload.len()
        + will.content_type.as_ref().map_or(0, String::len)
        + will.response_topic.as_ref().map_or(0, String::len)
        + will.correlation_data.as_ref().map_or(0, bytes::Bytes::len)
        + properties
            .map(|(name, value)| 2 * size_of::<String>() + name.len() + value.len())
            .sum::<usize>()
}

/// Bytes of a CONNECT that waits.
fn connect_bytes(connect: &Connect) -> usize {
    size_of::<Connect>()
        + connect.client_id.len()
        + connect.user_name.as_ref().map_or(0, String::len)
        + connect.password.as_ref().map_or(0, bytes::Bytes::len)
        + connect
            .authentication
            .as_ref()
            .map_or(0, |(method, data)| method.len() + data.len())
        + connect.will.as_ref().map_or(0, will_bytes)
}

/// One network connection.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer,
    bounds: Bounds,
    phase: Phase,
    opened_ms: u64,
    /// What the client has shown to prove who it is, while that has no answer.
    proving: Option<Box<Proving>>,
    /// The method of its enhanced authentication.
    method: Option<Box<str>>,
    /// Until when it holds who it is.
    until_ms: Option<u64>,
    /// It has sent more than it may in a second: nothing is taken from it until then.
    paused_until_ms: Option<u64>,
    /// Empty before CONNECT.
    client: Arc<str>,
    /// What waits to be sent.
    pub(crate) output: Output,
    decoder: Decoder,
    /// Reads what requests say; made once they come in numbers.
    reader: Option<Box<RequestReader>>,
    aliases: InboundAliases,
    keep_alive: ServerKeepAlive,
    /// What the client allows.
    limits: Limits,
    /// Whether the client wants reason strings in acknowledgements.
    wants_reasons: bool,
    will: Option<Box<Will>>,
    /// Bytes of input that were left at the last look.
    unread: usize,
    /// Bytes of output that were taken and have not left yet.
    leaving: usize,
    /// How much that this connection caused is still to be handed out to others; it waits for the end of it.
    fanouts: usize,
    /// Bytes of requests that have no outcome yet.
    awaited_bytes: usize,
    charge: Charge,
    /// What is known of input behind a request that waits for room in the storage.
    ahead: Ahead,
    /// Since when input waits until output has left, or there is room in the storage.
    blocked_since_ms: Option<u64>,
    /// Whether it is in the hub's list of those that have something for the driver.
    pub(crate) is_dirty: bool,
    /// Its place among the hub's timers.
    pub(crate) timer: Timer,
}

impl Connection {
    pub(crate) fn new(peer: Peer, bounds: Bounds, now_ms: u64, gauge: &Gauge) -> Self {
        Self {
            peer,
            bounds,
            phase: Phase::Opening,
            opened_ms: now_ms,
            proving: None,
            method: None,
            until_ms: None,
            paused_until_ms: None,
            client: Arc::default(),
            output: Output::default(),
            decoder: Decoder::default(),
            reader: None,
            aliases: InboundAliases::default(),
            keep_alive: ServerKeepAlive::new(0, now_ms),
            limits: Limits::default(),
            wants_reasons: true,
            will: None,
            unread: 0,
            leaving: 0,
            fanouts: 0,
            awaited_bytes: 0,
            charge: Charge::new(gauge, CONNECTION_BYTES),
            ahead: Ahead::default(),
            blocked_since_ms: None,
            is_dirty: false,
            timer: Timer::default(),
        }
    }

    /// Where it comes from.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer.address
    }

    /// Returns the address, port and listener of its client.
    pub(crate) fn endpoint(&self) -> &Peer {
        &self.peer
    }

    /// Returns when it was opened, in milliseconds.
    pub(crate) fn opened_ms(&self) -> u64 {
        self.opened_ms
    }

    /// Where its logins come from.
    pub(crate) fn login_source(&self) -> LoginSource {
        self.peer.login_source()
    }

    /// The certificate that its client has shown.
    pub(crate) fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        self.peer.certificate.as_ref()
    }

    /// Who is at the other end; empty before CONNECT was accepted.
    pub(crate) fn client(&self) -> &Arc<str> {
        &self.client
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// The session that it has while it is open.
    pub(crate) fn session(&self) -> Option<SessionId> {
        match self.phase {
            Phase::Open(session) => Some(session),
            _ => None,
        }
    }

    /// A CONNECT says what the client allows. That counts for the answer, also if it is a refusal.
    pub(crate) fn introduced(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// CONNECT was accepted. Says when the connection is to be [looked at](Self::due_ms).
    pub(crate) fn open(
        &mut self,
        session: SessionId,
        client: Arc<str>,
        connect: Connect,
        keep_alive_s: u16,
        now_ms: u64,
    ) -> Option<u64> {
        self.phase = Phase::Open(session);
        self.client = client;
        self.aliases = InboundAliases::new(self.bounds.topic_alias_maximum);
        self.keep_alive = ServerKeepAlive::new(keep_alive_s, now_ms);
        self.wants_reasons = connect.request_problem_information;
        self.will = connect.will.map(Box::new);
        self.method = connect
            .authentication
            .map(|(method, _)| method.into_boxed_str());
        self.due_ms()
    }

    /// Nothing is read any more, and no packet of the session goes out. Gives back what it had of it, the first time.
    pub(crate) fn end(&mut self, parting: Parting) -> Option<(SessionId, Option<Box<Will>>)> {
        let session = self.session();
        self.proving = None;
        self.phase = match parting {
            Parting::WithLastWord => Phase::Closing,
            Parting::Silent => Phase::Closed,
        };
        session.map(|session| (session, self.will.take()))
    }

    /// What is published when it ends.
    pub(crate) fn will(&self) -> Option<&Will> {
        self.will.as_deref()
    }

    /// Its will, which is published before the connection ends, as all do.
    pub(crate) fn take_will(&mut self) -> Option<Box<Will>> {
        self.will.take()
    }

    /// Says why it ends. What would still have been told about writes that are not durable is forgotten.
    pub(crate) fn say_goodbye(&mut self, reason: ReasonCode, why: &str) {
        let packet = Disconnect {
            reason_string: Some(why.into()),
            ..Disconnect::new(reason)
        };
        self.output.drop_held();
        let max_packet_bytes = self.max_packet_bytes();
        let _ = self.output.append(0, |out| {
            // Without the text it has four bytes. A client that does not even take these sees the end.
            packet
                .encode(max_packet_bytes, out)
                .or_else(|_| Disconnect::new(reason).encode(max_packet_bytes, out))
        });
    }

    /// Largest packet that the client takes.
    pub(crate) fn max_packet_bytes(&self) -> u32 {
        self.limits.max_packet_bytes
    }

    /// Appends a packet that tells of no write; `encode` gets the client's Maximum Packet Size.
    pub(crate) fn append(
        &mut self,
        encode: impl FnOnce(&mut BytesMut, u32) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let max_packet_bytes = self.max_packet_bytes();
        self.output.append(0, |out| encode(out, max_packet_bytes))
    }

    /// Appends a PUBACK, which leaves after those before it and not before the commit `hold` is durable; at its place, if it
    /// was [promised](Output::promise).
    pub(crate) fn acknowledge(
        &mut self,
        hold: u64,
        place: Option<Place>,
        puback: &PubAck,
    ) -> Result<(), EncodeError> {
        let max_packet_bytes = self.max_packet_bytes();
        self.output
            .acknowledge(hold, place, |out| puback.encode(max_packet_bytes, out))
    }

    /// A request of this size has no outcome yet. Its PUBACK has a place, and the room that its answer takes is kept.
    pub(crate) fn outcome_awaited(&mut self, bytes: usize) -> Place {
        self.awaited_bytes += bytes;
        self.output.promise()
    }

    /// It has one. Says whether requests are taken again, which were not before.
    pub(crate) fn outcome_came(&mut self, bytes: usize) -> bool {
        let was_much = self.awaits_much();
        self.awaited_bytes -= bytes;
        was_much && !self.awaits_much()
    }

    /// Whether so many outcomes are awaited that no more requests are taken.
    fn awaits_much(&self) -> bool {
        self.awaited_bytes >= self.bounds.max_output_bytes
    }

    /// Whether the client wants texts in acknowledgements.
    pub(crate) fn wants_reasons(&self) -> bool {
        self.wants_reasons
    }

    /// Bytes of output that have not left yet.
    pub(crate) fn outstanding(&self) -> usize {
        self.output.len() + self.leaving
    }

    /// Whether so much output is outstanding that nothing more is to be made.
    pub(crate) fn is_full(&self) -> bool {
        self.outstanding() >= self.bounds.max_output_bytes
    }

    /// Whether nothing may leave, and everything has left that was taken.
    pub(crate) fn is_quiet(&self) -> bool {
        self.leaving == 0 && self.output.releasable() == 0
    }

    /// Moves what may leave to the end of `to`, which holds what was taken before and has not left.
    pub(crate) fn take_output(&mut self, to: &mut BytesMut) {
        self.output.take(to);
        self.leaving = to.len();
        self.recharge();
    }

    /// Something that came over it is handed out to others: until the end of it, nothing is read.
    pub(crate) fn hand_out_began(&mut self) {
        self.fanouts += 1;
    }

    /// That has come to its end.
    pub(crate) fn hand_out_ended(&mut self) {
        self.fanouts -= 1;
    }

    /// Memory that it takes, as it was counted last.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Counts what it takes now.
    pub(crate) fn recharge(&mut self) {
        let bytes = CONNECTION_BYTES
            + self.unread
            + self.outstanding()
            + self.aliases.bytes()
            + self.decoder.bytes()
            + self
                .reader
                .as_ref()
                .map_or(0, |_| size_of::<RequestReader>())
            + self.will.as_deref().map_or(0, will_bytes)
            + self.proving().map_or(0, Proving::bytes);
        self.charge.set_roughly(bytes, SLACK_BYTES);
    }

    /// Its input is not read any more, and its output not sent: it is to be closed. Says whether some output was on
    /// its way, so that nothing more gets through to the client.
    pub(crate) fn forget_buffers(&mut self) -> bool {
        let is_stuck = self.leaving > 0;
        self.output.clear();
        self.aliases = InboundAliases::default();
        self.decoder = Decoder::default();
        self.reader = None;
        self.unread = 0;
        self.leaving = 0;
        self.recharge();
        is_stuck
    }
}
