//! The store's own MQTT 5 listener: a state machine over bytes, without sockets, threads and clocks.
//!
//! [`Front`] holds the connections, the sessions, the subscriptions and the [`Engine`]. A driver tells it
//! what happened ([`opened`](Front::opened), [`received`](Front::received), [`closed`](Front::closed),
//! [`tick`](Front::tick), [`durable`](Front::durable)) and then serves what it wants:
//!
//! - [`next_dirty`](Front::next_dirty) names connections that have output ([`take_output`](Front::take_output))
//!   or are to be closed ([`closing`](Front::closing));
//! - [`take_batch`](Front::take_batch) is what the storage has to keep next;
//! - [`next_wakeup`](Front::next_wakeup) is when to call [`tick`](Front::tick).
//!
//! The same calls always give the same bytes.
//!
//! A driver that has too much for the storage to take says so ([`set_storage_full`](Front::set_storage_full)).
//!
//! # What it is
//! A state store with enough of a broker for its clients: QoS 0 and 1, exact and wildcard subscriptions,
//! persistent sessions with offline queues, wills. CONNACK says what is missing: QoS 2, retained messages,
//! shared subscriptions. Sessions live in memory; they end with the process.
//!
//! # Requests
//! A PUBLISH to the [request topic](statestore_protocol::topic::REQUEST) never reaches a subscriber. It is
//! executed as its publisher; the response goes to its publisher, and a notification to the watching client,
//! whether or not they subscribed, and to nobody else. A client may not publish below the store's
//! notification topics.
//!
//! | request | answer |
//! |---|---|
//! | response topic is the request topic or one of the store's own | DISCONNECT 0x90, topic name invalid |
//! | without response topic, without or with empty correlation data | PUBACK 0x83 with a reason string; not executed |
//! | QoS 0 | dropped and counted; not executed |
//! | from a client that leaves so much unacknowledged that its session is full | PUBACK 0x97, quota exceeded; not executed |
//! | waited here for longer than its message expiry | PUBACK 0x83 with a reason string; not executed |
//! | response larger than the client's Maximum Packet Size | PUBACK 0x83 with a reason string; executed |
//!
//! # Durability
//! With a durable storage, nobody sees a state that a crash could undo, and nothing else waits for the disk:
//!
//! | packet | leaves once this is durable |
//! |---|---|
//! | response to a GET, SET, DEL, VDEL or KEYNOTIFY | the last write of its key; nothing if the request is refused for what it says itself |
//! | response to a SCAN, "the quota has been exceeded" | all writes before it |
//! | notification | its change |
//! | PUBACK of a request | what the response waits for, and not before the PUBACKs of PUBLISHes that came before [MQTT-4.6.0-2] |
//! | everything else, PINGRESP too | nothing; but PUBACKs keep their order |
//!
//! So a response overtakes those that wait for the disk, and can leave before its PUBACK. Requests are matched by
//! correlation data. What waits counts against the client's Receive Maximum.
mod authenticator;
mod budget;
mod connect;
mod connection;
mod delivery;
pub(crate) mod driver;
mod durability;
mod ending;
mod eviction;
mod fanout;
mod limits;
mod logins;
mod message;
mod output;
mod publish;
mod request;
mod room;
mod session;
mod statistics;
mod subscribe;
mod subscriptions;
mod timers;
mod topic_filter;

pub use authenticator::{Authenticator, Credentials, Users, UsersError};
pub use limits::FrontLimits;
pub use statistics::Statistics;

use crate::engine::{Effects, Engine, Now};
use crate::storage::Batch;
use budget::Gauge;
use bytes::BytesMut;
use connection::{Connection, Detached, Phase};
use durability::Durability;
use fanout::Fanout;
use logins::Logins;
use session::Sessions;
use slotmap::{SlotMap, new_key_type};
use statestore_protocol::mqtt::{self, DecodeError, EncodedProperties, Packet, ReasonCode};
use std::collections::VecDeque;
use std::net::IpAddr;
use subscriptions::SubscriptionTree;
use timers::{Timed, Timers};

new_key_type! {
    /// Names a connection; never used again for another one.
    pub struct ConnectionId;
    pub(crate) struct SessionId;
}

/// The largest packet accepted that is no PUBLISH, in bytes: enough for each field of a CONNECT, and for as many
/// filters as a session may have.
const MAX_CONTROL_BYTES: u32 = 512 * 1024;

/// Input of this size, once it is worked off, does not share its memory with what follows.
const LARGE_PACKET: usize = 64 * 1024;

/// The packet type of PUBLISH.
const PUBLISH: u8 = 3;

/// How much [work](Effects::work) the packets of one connection may make before others get their turn; the last
/// packet may exceed it.
const TURN_WORK: usize = 400_000;

/// What a [`Front`] is made with.
#[derive(Debug, Clone, Default)]
pub struct FrontConfig {
    /// Limits of connections and sessions.
    pub limits: FrontLimits,
    /// Who may connect.
    pub authenticator: Authenticator,
    /// Whether output waits for [`Front::durable`]. Without it there are no batches.
    pub is_durable: bool,
    /// Makes client ids given by the server differ from those of other runs.
    pub client_id_seed: u64,
}

/// Whether a driver has to close a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// Keep it open.
    No,
    /// Send what [`Front::take_output`] still gives, then close.
    AfterOutput,
    /// Close at once.
    Now,
}

/// All connections and sessions, with the engine behind them.
#[derive(Debug)]
pub struct Front {
    limits: FrontLimits,
    authenticator: Authenticator,
    logins: Logins,
    engine: Engine,
    effects: Effects,
    durability: Durability,
    connections: SlotMap<ConnectionId, Connection>,
    sessions: Sessions,
    subscriptions: SubscriptionTree<SessionId>,
    timers: Timers,
    dirty: VecDeque<ConnectionId>,
    /// Too much waits for the storage.
    is_storage_full: bool,
    /// Connections with a request that waits until there is room.
    waiting_for_room: Vec<ConnectionId>,
    /// Sessions whose connection ended in the current call.
    detached: VecDeque<Detached>,
    /// What goes to many clients and has not reached all of them.
    fanouts: VecDeque<Fanout>,
    /// What sessions and connections hold.
    gauge: Gauge,
    /// When more than this is held, somebody gives way.
    tight_at_bytes: usize,
    assigned_client_ids: u64,
    /// What all responses say alike.
    response_properties: EncodedProperties,
    /// The text of a timestamp.
    scratch: BytesMut,
    statistics: Statistics,
}

impl Front {
    /// Without connections, in front of `engine`.
    pub fn new(config: FrontConfig, engine: Engine) -> Self {
        Self {
            tight_at_bytes: config.limits.max_session_bytes,
            limits: config.limits,
            authenticator: config.authenticator,
            logins: Logins::default(),
            engine,
            effects: Effects::default(),
            durability: Durability::new(config.is_durable),
            connections: SlotMap::with_key(),
            sessions: Sessions::default(),
            subscriptions: SubscriptionTree::default(),
            timers: Timers::default(),
            dirty: VecDeque::new(),
            is_storage_full: false,
            waiting_for_room: Vec::new(),
            detached: VecDeque::new(),
            fanouts: VecDeque::new(),
            gauge: Gauge::default(),
            assigned_client_ids: config.client_id_seed,
            response_properties: request::response_properties(),
            scratch: BytesMut::new(),
            statistics: Statistics::default(),
        }
    }

    /// A connection from this address was opened; `None` if there are too many, so that it has to be closed.
    pub fn opened(&mut self, peer: IpAddr, now: Now) -> Option<ConnectionId> {
        if self.connections.len() >= self.limits.max_connections
            || self.held_bytes() > self.limits.max_session_bytes
        {
            self.statistics.connects_refused += 1;
            return None;
        }
        self.statistics.connections_opened += 1;
        let id = self
            .connections
            .insert(Connection::new(peer, now.mono_ms, &self.gauge));
        let due_ms = now.mono_ms.saturating_add(self.limits.connect_timeout_ms);
        self.set_connection_timer(id, Some(due_ms));
        Some(id)
    }

    /// Bytes came. Whole packets are taken out of `input`; what stays in it is the begin of a packet, or
    /// waits for output to leave, or for room in the storage: then the call is to be made again once
    /// [`accepts_input`](Self::accepts_input) says so.
    ///
    /// True if packets stay in `input` since others are to have their turn first: then the call is to be made
    /// again after theirs.
    pub fn received(&mut self, id: ConnectionId, input: &mut BytesMut, now: Now) -> bool {
        self.effects.work = 0;
        let mut is_over = false;
        let offered = input.len();
        if let Some(connection) = self.connections.get_mut(id)
            && input.len() > connection.unread
        {
            connection.keep_alive.received(now.mono_ms);
        }
        let mut took_packets = false;
        loop {
            if self.is_storage_full && self.waits_for_room(id, input, now) {
                break;
            }
            let Some(connection) = self.connections.get_mut(id) else {
                input.clear();
                break;
            };
            if matches!(connection.phase, Phase::Closing | Phase::Closed) {
                input.clear();
                break;
            }
            if connection.login.is_some() {
                break;
            }
            if connection.outstanding() >= self.limits.max_output_bytes || connection.fanouts > 0 {
                if !input.is_empty() {
                    connection.blocked_since_ms.get_or_insert(now.mono_ms);
                }
                break;
            }
            if self.effects.work >= TURN_WORK && !input.is_empty() {
                connection.blocked_since_ms.get_or_insert(now.mono_ms);
                is_over = true;
                break;
            }
            let was_seen = connection.ahead.was_seen();
            let before = input.len();
            let first = input.first().copied();
            let is_publish = first.is_some_and(|first| first >> 4 == PUBLISH);
            let max_packet_bytes = if is_publish && connection.session().is_some() {
                self.limits.max_packet_bytes
            } else {
                self.limits.max_packet_bytes.min(MAX_CONTROL_BYTES)
            };
            match mqtt::decode(input, max_packet_bytes) {
                Ok(Some(packet)) => {
                    took_packets = true;
                    if was_seen {
                        self.taken(id, before - input.len());
                    }
                    self.packet(id, packet, now);
                }
                Ok(None) => {
                    connection.blocked_since_ms = None;
                    connection
                        .keep_alive
                        .partial(input.len(), took_packets, now.mono_ms);
                    break;
                }
                Err(error) => self.undecodable(id, first, &error, now),
            }
        }
        if let Some(connection) = self.connections.get_mut(id) {
            if offered - input.len() > LARGE_PACKET && !input.is_empty() {
                // Otherwise a few bytes would keep all the memory of what came before them.
                *input = BytesMut::from(&input[..]);
            }
            connection.unread = input.len();
            connection.recharge();
        }
        self.settle(now);
        is_over
    }

    /// Whether [`received`](Self::received) would take packets. If not, a driver should not read either.
    pub fn accepts_input(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_none_or(|connection| {
            connection.login.is_none()
                && connection.ahead.accepts(connection.unread)
                && connection.outstanding() < self.limits.max_output_bytes
                && connection.fanouts == 0
        })
    }

    /// Bytes of output have left on a connection that does not [accept input](Self::accepts_input): its client is alive,
    /// although nothing can come from it.
    pub fn progressed(&mut self, id: ConnectionId, now: Now) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.keep_alive.received(now.mono_ms);
        }
    }

    /// The connection is gone, whoever closed it. Its id is not to be used any more.
    pub fn closed(&mut self, id: ConnectionId, now: Now) {
        self.detach(id, connection::WillOutcome::Published);
        self.settle(now);
        self.set_connection_timer(id, None);
        self.connections.remove(id);
    }

    /// Time has passed: keep-alive, wills, ends of sessions, expiry of keys.
    pub fn tick(&mut self, now: Now) {
        while let Some(timed) = self.timers.pop(now.mono_ms) {
            match timed {
                Timed::Connection(id) => self.connection_due(id, now),
                Timed::Session(id) => self.session_due(id, now),
            }
        }
        if self
            .engine
            .next_expiry_ms()
            .is_some_and(|at_ms| at_ms <= now.mono_ms)
        {
            self.engine.expire(now, &mut self.effects);
            self.serve_effects(None, now);
        }
        self.work(now);
        self.settle(now);
    }

    /// When [`tick`](Self::tick) has something to do next, in milliseconds of the monotonic clock.
    pub fn next_wakeup(&self) -> Option<u64> {
        let work_ms = self.has_work().then_some(0);
        [self.timers.next_ms(), self.engine.next_expiry_ms(), work_ms]
            .into_iter()
            .flatten()
            .min()
    }

    /// A connection that has output to take or is to be closed; each is named once, until something new comes up.
    pub fn next_dirty(&mut self) -> Option<ConnectionId> {
        loop {
            let id = self.dirty.pop_front()?;
            if let Some(connection) = self.connections.get_mut(id) {
                connection.is_dirty = false;
                return Some(id);
            }
        }
    }

    /// Moves the output of a connection that may leave now to the end of `to`, which holds what was taken before and
    /// has not left yet.
    pub fn take_output(&mut self, id: ConnectionId, to: &mut BytesMut, now: Now) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.take_output(to);
        if let Some(session) = connection.session() {
            self.send_waiting(session, now);
        }
        // What waited for the last output to leave.
        if to.is_empty()
            && let Some(connection) = self.connections.get_mut(id)
        {
            connection.take_output(to);
        }
    }

    /// Whether the connection is to be closed.
    pub fn closing(&self, id: ConnectionId) -> Closing {
        match self.connections.get(id).map(|connection| connection.phase) {
            Some(Phase::Opening | Phase::Open(_)) => Closing::No,
            Some(Phase::Closing) => Closing::AfterOutput,
            Some(Phase::Closed) | None => Closing::Now,
        }
    }

    /// Writes to be made durable, with their sequence number; numbers rise by one.
    pub fn take_batch(&mut self) -> Option<(u64, Batch)> {
        self.durability.take(&mut self.effects.writes)
    }

    /// Whether [`take_batch`](Self::take_batch) has one.
    pub fn has_batch(&self) -> bool {
        self.durability.has_batch(&self.effects.writes)
    }

    /// The writes of all batches up to `sequence` are durable: what waited for them may leave.
    pub fn durable(&mut self, sequence: u64) {
        for id in self.durability.release(sequence) {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.output.release(sequence);
                self.mark_dirty(id);
            }
        }
    }

    /// Whether the storage has no room for more. Then SET, DEL and VDEL are refused with an error that says so; everything
    /// else goes on, and what was executed before is answered once it is durable.
    pub fn storage_full(&mut self, is_full: bool) {
        self.engine.set_read_only(is_full);
    }

    /// The storage cannot keep writes any more. Nothing that waits for it leaves; wills are published and all clients
    /// disconnected with "implementation specific error".
    pub fn storage_failed(&mut self, now: Now) {
        self.end_all(
            ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
            "the storage failed",
            now,
        );
    }

    /// The server stops: all clients are disconnected with "server shutting down".
    ///
    /// All sessions end with the process, therefore all wills are published first [MQTT-3.1.2-8], without their delay; to
    /// those who are connected, since nothing is kept for others.
    pub fn shut_down(&mut self, now: Now) {
        self.end_all(
            ReasonCode::SERVER_SHUTTING_DOWN,
            "the server is shutting down",
            now,
        );
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            connections: self.connections.len() as u64,
            sessions: self.sessions.len() as u64,
            held_bytes: self.held_bytes() as u64,
            ..self.statistics
        }
    }

    /// The store behind it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn packet(&mut self, id: ConnectionId, packet: Packet, now: Now) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let Some(session) = connection.session() else {
            return match packet {
                Packet::Connect(connect) => self.connect(id, connect, now),
                _ => self.drop_connection(id),
            };
        };
        match packet {
            Packet::Publish(publish) => self.publish(id, session, &publish, now),
            Packet::PubAck(puback) => {
                if let Some(session) = self.sessions.get_mut(session)
                    && let Some(answer) = session.finish(puback.packet_id)
                    // On a later connection, the client may not have seen the request acknowledged.
                    && answer.connection == id
                {
                    self.engine.answer_received(&session.client, answer.number);
                }
                self.send_waiting(session, now);
            }
            Packet::Subscribe(subscribe) => self.subscribe(id, session, subscribe, now),
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(id, session, &unsubscribe, now),
            Packet::PingReq => self.ping(id, now),
            Packet::Disconnect(disconnect) => self.disconnect(id, session, &disconnect, now),
            Packet::Auth(_) => {
                self.fail(
                    id,
                    ReasonCode::PROTOCOL_ERROR,
                    "no enhanced authentication is going on",
                    now,
                );
            }
            _ => self.fail(
                id,
                ReasonCode::PROTOCOL_ERROR,
                "a client does not send this packet",
                now,
            ),
        }
    }

    fn undecodable(&mut self, id: ConnectionId, first: Option<u8>, error: &DecodeError, now: Now) {
        const CONNECT: u8 = 0x10;
        let is_open = self
            .connections
            .get(id)
            .is_some_and(|c| c.session().is_some());
        if is_open {
            self.fail(id, error.reason(), &error.to_string(), now);
        } else if first == Some(CONNECT) {
            self.refuse_undecodable_connect(id, error, now);
        } else {
            self.drop_connection(id);
        }
    }

    fn mark_dirty(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push_back(id);
        }
    }

    fn set_connection_timer(&mut self, id: ConnectionId, at_ms: Option<u64>) {
        if let Some(connection) = self.connections.get_mut(id) {
            self.timers
                .set(&mut connection.timer, Timed::Connection(id), at_ms);
        }
    }
}
