//! A single connection: everything that it does independently of the others.
//!
//! ```text
//!   bytes in ──▶ input ──▶ packets, when they may be taken ──────────────▶ hub
//!                 │ codec, topic aliases, keep-alive, the rules of PUBLISH
//!                 └ read_ahead: PINGREQs behind a request that waits for room
//!
//!   bytes out ◀── output: what may be sent, and stages that wait ◀── packets, each with the commit it depends on
//! ```
//!
//! A connection has no socket and no clock. Of its session it holds only the identifier. The hub decides which messages
//! are sent and what packets do. `termination.rs` of the hub shows a diagram of a connection's life.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod auth_exchange;
mod buffer_pool;
mod input;
pub mod memory_budget;
mod output;
pub mod proxy_header;
mod read_ahead;
mod request_rate;
pub mod timer_queue;

pub use auth_exchange::{AuthExchange, AuthState, ChallengeResponse, PresentedCredentials};
pub use buffer_pool::BufferPool;
pub use input::{InputQuantum, NextInput, PublishKind};
pub use output::{AckSlot, Output};
pub use read_ahead::BlockedInput;

use crate::memory_budget::{MemoryBudget, Reservation};
use crate::timer_queue::Timer;
use bytes::BytesMut;
use read_ahead::ReadAhead;
use request_rate::RequestRate;
use slotmap::new_key_type;
use statestore_protocol::RequestReader;
use statestore_protocol::mqtt::alias::InboundAliases;
use statestore_protocol::mqtt::keep_alive::ServerKeepAlive;
use statestore_protocol::mqtt::{
    Connect, Decoder, Disconnect, EncodeError, Limits, PubAck, ReasonCode, Will,
};
use statestored_access::{ClientCertificate, LoginSource, Peer};
use std::net::IpAddr;
use std::sync::Arc;

new_key_type! {
    /// Identifies a connection; never reused for another connection.
    pub struct ConnectionId;
    /// Identifies a session.
    pub struct SessionId;
}

/// The phase of a connection's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// CONNECT has not arrived, or has no answer yet.
    Opening,
    /// CONNECT was accepted; the connection has this session.
    Open(SessionId),
    /// The last output is being sent; nothing is read any more.
    Closing,
    /// The connection is to be dropped at once.
    Closed,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// The last packet, which gives the reason, is sent first.
    Graceful,
    /// The connection is dropped at once.
    Immediate,
}

/// The limits that the server sets for a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Maximum size of an incoming packet.
    pub max_packet_bytes: u32,
    /// Amount of outstanding output at which reading stops.
    pub max_output_bytes: usize,
    /// Maximum number of unacknowledged QoS 1 messages of the client.
    pub receive_maximum: u16,
    /// Maximum number of topic aliases of the client.
    pub topic_alias_maximum: u16,
}

/// Memory of a connection without its buffers: the connection, its task and socket, and parts that change too often to
/// be counted at every step.
const CONNECTION_BYTES: usize = 8 * 1024;
/// Maximum difference between the counted and the actual memory of a connection.
const SLACK_BYTES: usize = 4 * 1024;

/// Returns the memory of a will, in bytes.
pub fn will_bytes(will: &Will) -> usize {
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

/// Returns the memory of a waiting CONNECT, in bytes.
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

/// A network connection.
#[derive(Debug)]
pub struct Connection {
    peer: Peer,
    server_limits: ConnectionLimits,
    state: ConnectionState,
    opened_ms: u64,
    /// The client's credentials while they have no answer.
    auth_exchange: Option<Box<AuthExchange>>,
    /// The method of the client's enhanced authentication.
    auth_method: Option<Box<str>>,
    /// Time at which the client's authentication expires.
    auth_expires_ms: Option<u64>,
    /// End of the pause of a client over its rate limit: nothing is taken from it until then.
    paused_until_ms: Option<u64>,
    /// The client's name; empty before CONNECT is accepted.
    client: Arc<str>,
    /// Output that waits to be sent.
    pub output: Output,
    decoder: Decoder,
    /// Parser of requests' user properties; created once a request repeats properties of former ones.
    property_reader: Option<Box<RequestReader>>,
    aliases: InboundAliases,
    keep_alive: ServerKeepAlive,
    /// The limits that the client sets.
    client_limits: Limits,
    /// Whether the client wants reason strings in acknowledgements.
    wants_reason_strings: bool,
    will: Option<Box<Will>>,
    /// Bytes of input that were left at the last count.
    unread_bytes: usize,
    /// Bytes of output that were taken and are not sent yet.
    unsent_bytes: usize,
    /// Number of messages of this connection whose delivery to other clients is in progress; nothing is read until all
    /// are complete.
    pending_fanouts: usize,
    /// Bytes of requests that have no outcome yet.
    pending_bytes: usize,
    request_rate: RequestRate,
    reservation: Reservation,
    /// State of the input behind a request that waits for room in the storage.
    read_ahead: ReadAhead,
    /// Time since when input waits for output to be sent, or for room in the storage.
    blocked_since_ms: Option<u64>,
    /// Whether the connection is in the hub's list of those that need the driver.
    pub is_dirty: bool,
    /// The connection's entry among the hub's timers.
    pub timer: Timer,
}

impl Connection {
    /// Creates a connection that has received nothing, with its memory counted in `budget`.
    pub fn new(peer: Peer, limits: ConnectionLimits, now_ms: u64, budget: &MemoryBudget) -> Self {
        Self {
            peer,
            server_limits: limits,
            state: ConnectionState::Opening,
            opened_ms: now_ms,
            auth_exchange: None,
            auth_method: None,
            auth_expires_ms: None,
            paused_until_ms: None,
            client: Arc::default(),
            output: Output::default(),
            decoder: Decoder::default(),
            property_reader: None,
            aliases: InboundAliases::default(),
            keep_alive: ServerKeepAlive::new(0, now_ms),
            client_limits: Limits::default(),
            wants_reason_strings: true,
            will: None,
            unread_bytes: 0,
            unsent_bytes: 0,
            pending_fanouts: 0,
            pending_bytes: 0,
            request_rate: RequestRate::default(),
            reservation: Reservation::new(budget, CONNECTION_BYTES),
            read_ahead: ReadAhead::default(),
            blocked_since_ms: None,
            is_dirty: false,
            timer: Timer::default(),
        }
    }

    /// Returns the client's IP address.
    pub fn ip_address(&self) -> IpAddr {
        self.peer.address
    }

    /// Returns the address, port and listener of the client.
    pub fn endpoint(&self) -> &Peer {
        &self.peer
    }

    /// Returns when the connection was opened, in milliseconds.
    pub fn opened_ms(&self) -> u64 {
        self.opened_ms
    }

    /// Returns the source to which the connection's logins count.
    pub fn login_source(&self) -> LoginSource {
        self.peer.login_source()
    }

    /// Returns the certificate that the client has presented.
    pub fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        self.peer.certificate.as_ref()
    }

    /// Returns the client's name; empty before CONNECT is accepted.
    pub fn client(&self) -> &Arc<str> {
        &self.client
    }

    /// Returns the phase of the connection.
    pub fn state(&self) -> ConnectionState {
        self.state
    }

    /// Returns the session of an open connection.
    pub fn session(&self) -> Option<SessionId> {
        match self.state {
            ConnectionState::Open(session) => Some(session),
            _ => None,
        }
    }

    /// Sets the client's limits from its CONNECT. They apply to the answer too, even to a refusal.
    pub fn set_client_limits(&mut self, limits: Limits) {
        self.client_limits = limits;
    }

    /// Opens the connection after CONNECT was accepted. Returns when the connection is [due](Self::due_ms).
    pub fn open(
        &mut self,
        session: SessionId,
        client: Arc<str>,
        connect: Connect,
        keep_alive_s: u16,
        now_ms: u64,
    ) -> Option<u64> {
        self.state = ConnectionState::Open(session);
        self.client = client;
        self.aliases = InboundAliases::new(self.server_limits.topic_alias_maximum);
        self.keep_alive = ServerKeepAlive::new(keep_alive_s, now_ms);
        self.wants_reason_strings = connect.request_problem_information;
        self.will = connect.will.map(Box::new);
        self.auth_method = connect
            .authentication
            .map(|(method, _)| method.into_boxed_str());
        self.due_ms()
    }

    /// Ends the connection: nothing is read any more, and no packet of the session is sent. The first call returns the
    /// session and the will.
    pub fn end(&mut self, close_mode: CloseMode) -> Option<(SessionId, Option<Box<Will>>)> {
        let session = self.session();
        self.auth_exchange = None;
        self.state = match close_mode {
            CloseMode::Graceful => ConnectionState::Closing,
            CloseMode::Immediate => ConnectionState::Closed,
        };
        session.map(|session| (session, self.will.take()))
    }

    /// Returns the will, which is published when the connection ends.
    pub fn will(&self) -> Option<&Will> {
        self.will.as_deref()
    }

    /// Takes the will, which is published before the connection ends.
    pub fn take_will(&mut self) -> Option<Box<Will>> {
        self.will.take()
    }

    /// Appends a DISCONNECT that gives the reason. Drops output that waits for writes that are not durable.
    pub fn append_disconnect(&mut self, reason: ReasonCode, why: &str) {
        let packet = Disconnect {
            reason_string: Some(why.into()),
            ..Disconnect::new(reason)
        };
        self.output.drop_held();
        let max_packet_bytes = self.max_packet_bytes();
        let _ = self.output.append(0, |out| {
            // Without the text it has four bytes. A client that does not even accept these sees the end of the stream.
            packet
                .encode(max_packet_bytes, out)
                .or_else(|_| Disconnect::new(reason).encode(max_packet_bytes, out))
        });
    }

    /// Returns the maximum size of a packet that the client accepts.
    pub fn max_packet_bytes(&self) -> u32 {
        self.client_limits.max_packet_bytes
    }

    /// Appends a packet that depends on no write; `encode` gets the client's Maximum Packet Size.
    pub fn append(
        &mut self,
        encode: impl FnOnce(&mut BytesMut, u32) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let max_packet_bytes = self.max_packet_bytes();
        self.output.append(0, |out| encode(out, max_packet_bytes))
    }

    /// Appends a PUBACK. It is sent after the PUBACKs before it, and not before the commit `commit_index` is durable.
    /// `slot` is its position if it was [reserved](Output::reserve_ack).
    pub fn acknowledge(
        &mut self,
        commit_index: u64,
        slot: Option<AckSlot>,
        puback: &PubAck,
    ) -> Result<(), EncodeError> {
        let max_packet_bytes = self.max_packet_bytes();
        self.output.acknowledge(commit_index, slot, |out| {
            puback.encode(max_packet_bytes, out)
        })
    }

    /// Counts a request.
    #[inline]
    pub fn count_request(&mut self, now_ms: u64) {
        self.request_rate.record(now_ms);
    }

    /// Returns the number of requests since the connection was opened.
    pub fn request_count(&self) -> u64 {
        self.request_rate.total()
    }

    /// Returns the recent requests per 1,000 seconds.
    pub fn requests_per_1000_s(&self, now_ms: u64) -> u64 {
        self.request_rate.per_1000_s(now_ms)
    }

    /// Records a request of `bytes` bytes whose outcome is pending. Reserves the position of its PUBACK and the room of
    /// its answer.
    pub fn reserve_response(&mut self, bytes: usize) -> AckSlot {
        self.pending_bytes += bytes;
        self.output.reserve_ack()
    }

    /// Records the outcome of a request of `bytes` bytes. Returns whether requests are accepted again that were not
    /// before.
    pub fn release_response(&mut self, bytes: usize) -> bool {
        let was_much = self.has_too_many_pending();
        self.pending_bytes -= bytes;
        was_much && !self.has_too_many_pending()
    }

    /// Returns whether so many outcomes are pending that no more requests are accepted.
    fn has_too_many_pending(&self) -> bool {
        self.pending_bytes >= self.server_limits.max_output_bytes
    }

    /// Returns whether the client wants reason strings in acknowledgements.
    pub fn wants_reason_strings(&self) -> bool {
        self.wants_reason_strings
    }

    /// Returns the number of output bytes that are not sent yet.
    pub fn outstanding_bytes(&self) -> usize {
        self.output.bytes() + self.unsent_bytes
    }

    /// Returns whether so much output is outstanding that no more may be produced.
    pub fn is_full(&self) -> bool {
        self.outstanding_bytes() >= self.server_limits.max_output_bytes
    }

    /// Returns whether no output may be sent now, and all output that was taken is sent.
    pub fn is_drained(&self) -> bool {
        self.unsent_bytes == 0 && self.output.ready_bytes() == 0
    }

    /// Moves the output that may be sent now to the end of `to`. `to` holds output that was taken before and is not
    /// sent.
    pub fn take_output(&mut self, to: &mut BytesMut) {
        self.output.take(to);
        self.unsent_bytes = to.len();
        self.update_reservation();
    }

    /// Records that delivery of a message of this connection to others has begun. Nothing is read until it is complete.
    pub fn begin_fanout(&mut self) {
        self.pending_fanouts += 1;
    }

    /// Records that such a delivery is complete.
    pub fn end_fanout(&mut self) {
        self.pending_fanouts -= 1;
    }

    /// Returns the memory of the connection as of the last count.
    pub fn reserved_bytes(&self) -> usize {
        self.reservation.bytes()
    }

    /// Counts the connection's memory.
    pub fn update_reservation(&mut self) {
        let bytes = CONNECTION_BYTES
            + self.unread_bytes
            + self.outstanding_bytes()
            + self.aliases.bytes()
            + self.decoder.bytes()
            + self
                .property_reader
                .as_ref()
                .map_or(0, |_| size_of::<RequestReader>())
            + self.will.as_deref().map_or(0, will_bytes)
            + self.auth_exchange().map_or(0, AuthExchange::bytes);
        self.reservation.resize_with_slack(bytes, SLACK_BYTES);
    }

    /// Drops the input and the output of a connection that is to be closed. Returns whether some output was partly
    /// sent, so that nothing more can reach the client.
    pub fn drop_buffers(&mut self) -> bool {
        let is_stuck = self.unsent_bytes > 0;
        self.output.clear();
        self.aliases = InboundAliases::default();
        self.decoder = Decoder::default();
        self.property_reader = None;
        self.unread_bytes = 0;
        self.unsent_bytes = 0;
        self.update_reservation();
        is_stuck
    }
}
