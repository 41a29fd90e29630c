//! Sessions, subscriptions and the routing of messages: the front end through which MQTT 5 clients reach the service. The hub is a state
//! machine over bytes, without sockets, threads and clocks.
//!
//! ```text
//!   driver ──bytes──▶ connection ──packet──▶ hub ──request in an envelope──▶ service
//!                                             │  ◀──outcome, recipients───────┘
//!                                             ├─ login      authentication of clients (the rules are in access)
//!                                             ├─ connect    the session of each client
//!                                             ├─ publish    a request, or a message to subscribers
//!                                             ├─ rates      connections that wait, since they sent too much
//!                                             ├─ later      pending requests
//!                                             ├─ delivery   to one client: at once, or through its queue
//!                                             ├─ fanout     to many, a part at a time
//!                                             ├─ ending     how connections and sessions end
//!                                             ├─ eviction   sessions that end when too much is held
//!                                             ├─ policy     rights of sessions
//!                                             ├─ broker     requests and answers through another broker
//!                                             └─ reload     changes of users and rules while it runs
//! ```
//!
//! [`Hub`] holds the connections, the sessions and the subscriptions, in front of the service. A driver tells it
//! what happened ([`opened`](Hub::opened), [`received`](Hub::received), [`closed`](Hub::closed),
//! [`tick`](Hub::tick), [`durable`](Hub::durable)) and then serves what it wants:
//!
//! - [`next_dirty`](Hub::next_dirty) names connections that have output ([`take_output`](Hub::take_output))
//!   or are to be closed ([`closing`](Hub::closing));
//! - [`take_batch`](Hub::take_batch) is what the storage has to keep next;
//! - [`next_verification`](Hub::next_verification) is a login to be verified on another thread, since that takes long;
//! - [`next_wakeup`](Hub::next_wakeup) is when to call [`tick`](Hub::tick).
//!
//! A driver reports that too much waits for the storage with [`set_storage_full`](Hub::set_storage_full). The same calls always give the
//! same bytes.
//!
//! # Scope
//! A state store with enough of a broker for its clients: QoS 0 and 1, exact and wildcard subscriptions,
//! persistent sessions with offline queues, wills. CONNACK says what is missing: QoS 2, retained messages,
//! shared subscriptions. Sessions live in memory; they end with the process.
//!
//! # Requests
//! A PUBLISH to the [request topic](statestore_protocol::topic::REQUEST) never reaches a subscriber. It is executed in the name of its
//! publisher. Only the publisher receives the response, and only the watching client its notification, whether or not they subscribed. A
//! client may not publish below the store's notification topics.
//!
//! | request | answer |
//! |---|---|
//! | response topic is the request topic or one of the store's own | DISCONNECT 0x90, topic name invalid |
//! | without response topic, without or with empty correlation data | PUBACK 0x83 with a reason string; not executed |
//! | QoS 0 | dropped and counted; not executed |
//! | from a client that leaves so much unacknowledged that its session is full | PUBACK 0x97, quota exceeded; not executed |
//! | waited here for longer than its message expiry | PUBACK 0x83 with a reason string; not executed |
//! | response larger than the client's Maximum Packet Size | PUBACK 0x83 with a reason string; executed |
//! | unknown outcome | PUBACK without an error, no response |
//!
//! The outcome of a request may come later, and out of order. Room for its answer is kept meanwhile; PUBACKs wait for those
//! of PUBLISHes that came before. If the connection ends, the request goes on, and the session gets the response.
//!
//! # Durability
//! With a durable storage, no client sees a state that a crash could undo. Nothing else waits for the disk:
//!
//! | packet | leaves once this is durable |
//! |---|---|
//! | response to a GET, SET, DEL, VDEL or KEYNOTIFY | the last write of its key; nothing if the request is refused for what it says itself |
//! | response to a SCAN, "the quota has been exceeded" | all writes before it |
//! | notification | its change |
//! | PUBACK of a request | what the response waits for, and not before the PUBACKs of PUBLISHes that came before [MQTT-4.6.0-2] |
//! | everything else, PINGRESP too | nothing; but PUBACKs keep their order |
//!
//! So a response overtakes those that wait for the disk, and can leave before its PUBACK. Waiting responses count against the client's
//! Receive Maximum.
mod audit;
mod backlog;
mod broker;
mod clock;
mod config;
mod connect;
mod delivery;
mod ending;
mod eviction;
mod fanout;
mod few;
mod figures;
pub(crate) mod inspect;
mod later;
mod limits;
mod login;
mod message;
mod operators;
mod packet;
mod policy;
mod publish;
mod rates;
mod refusals;
mod reload;
mod request;
mod room;
mod session;
mod spares;
mod statistics;
mod subscribe;
mod subscriptions;
mod user_limits;
mod verification;

pub use crate::connection::ConnectionId;
pub(crate) use broker::BrokerFigures;
pub use broker::{BrokerError, BrokerTerms, IdentityKey};
pub(crate) use clock::ClockFigures;
pub use config::HubConfig;
pub(crate) use figures::Figures;
pub use limits::HubLimits;
pub(crate) use refusals::Cause;
pub use statistics::Statistics;
pub use verification::{Verification, Verified};

use crate::access::{Authenticator, Logins, Peer, Policy};
use crate::audit::{EndCounts, EndReason, LineLimiter};
use crate::budget::Gauge;
use crate::clock::Now;
use crate::connection::{Bounds, Connection, Memory, Next, Parting, Phase, SessionId, Turn};
use crate::keyspace::ByTicket;
use crate::large_allocations::LargeAllocations;
use crate::service::{Notify, Service};
use crate::storage::Batch;
use crate::timers::Timers;
use backlog::Backlog;
use broker::Broker;
use bytes::BytesMut;
use ending::{Detached, WillOutcome};
use fanout::MOST_FANOUTS;
use later::Asker;
use operators::OperatorRequests;
use rates::{Senders, Sent};
use refusals::Refusals;
use session::Sessions;
use slotmap::{KeyData, SlotMap};
use spares::Spares;
use statestore_protocol::mqtt::{EncodedProperties, Packet};
use statestore_protocol::property::EncodedTimestamp;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use subscriptions::SubscriptionTree;
use verification::Verifications;

/// Amount of [work](Service::work) that the packets of one connection may cause before other connections have their turn. The last packet
/// may exceed it.
const TURN_WORK: usize = 400_000;

/// Whether a driver has to close a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// Keep it open.
    No,
    /// Send what [`Hub::take_output`] still returns, then close.
    AfterOutput,
    /// Close at once.
    Now,
}

/// Owner of a timer. Each has one timer at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timed {
    /// Connect time-out, keep-alive, or the end of lingering.
    Connection(ConnectionId),
    /// Will or end of a session without a connection.
    Session(SessionId),
}

/// All connections and sessions, with the service behind them.
#[derive(Debug)]
pub struct Hub {
    limits: HubLimits,
    authenticator: Authenticator,
    policy: Option<Arc<Policy>>,
    anonymous_local_users: bool,
    /// The last change of users or policy, until its result is taken.
    change: Option<Box<reload::Change>>,
    persist_property: Option<(String, String)>,
    logins: Logins,
    verifications: Verifications,
    senders: Senders,
    service: Service,
    /// Buffer for notifications from the service.
    notifications: Vec<Notify>,
    /// Pending requests.
    askers: ByTicket<Asker>,
    operator_requests: OperatorRequests,
    connections: SlotMap<ConnectionId, Connection>,
    sessions: Sessions,
    subscriptions: SubscriptionTree<SessionId>,
    timers: Timers<Timed>,
    dirty: VecDeque<ConnectionId>,
    /// The connection whose packets are being taken, and whether something was appended to its output since.
    at_work: Option<(ConnectionId, bool)>,
    /// Whether too much waits for the storage.
    is_storage_full: bool,
    /// Connections with a request that waits until there is room.
    waiting_for_room: Vec<ConnectionId>,
    /// Sessions whose connection ended in the current call.
    detached: VecDeque<Detached>,
    /// Notifications and messages that have not reached all recipients.
    fanouts: Backlog,
    /// Memory that sessions and connections hold.
    gauge: Gauge,
    /// Limits of that memory.
    session_memory: eviction::SessionMemory,
    large_allocations: LargeAllocations,
    client_id_seed: Option<u64>,
    /// Properties that all responses share, and the version of the present one.
    response_properties: EncodedProperties,
    response_version: EncodedTimestamp,
    spares: Spares,
    /// Memory for the output of the connection whose packets are being processed.
    output_memory: Memory,
    statistics: Statistics,
    refusals: Refusals,
    /// Ended connections by reason.
    ends: EndCounts,
    /// Limits of the audit trail.
    lines: LineLimiter,
    clock: clock::ClockLook,
    /// The broker in front of the store, if there is one.
    broker: Option<Broker>,
}

impl Hub {
    /// Creates a hub without connections, in front of this service.
    pub fn new(config: HubConfig, service: Service) -> Self {
        let broker = config.broker;
        Self {
            broker: broker.map(|terms| Broker::new(terms, &config.limits)),
            session_memory: eviction::SessionMemory::new(config.limits.max_session_bytes),
            limits: config.limits,
            authenticator: config.authenticator,
            policy: config.policy,
            anonymous_local_users: config.anonymous_local_users,
            change: None,
            persist_property: config.persist_property,
            logins: Logins::default(),
            verifications: Verifications::default(),
            senders: Senders::default(),
            service,
            notifications: Vec::new(),
            askers: ByTicket::default(),
            operator_requests: OperatorRequests::default(),
            connections: SlotMap::with_key(),
            sessions: Sessions::default(),
            subscriptions: SubscriptionTree::default(),
            timers: Timers::default(),
            dirty: VecDeque::new(),
            at_work: None,
            is_storage_full: false,
            waiting_for_room: Vec::new(),
            detached: VecDeque::new(),
            fanouts: Backlog::default(),
            gauge: Gauge::default(),
            large_allocations: LargeAllocations::default(),
            client_id_seed: config.client_id_seed,
            response_properties: request::response_properties(),
            response_version: EncodedTimestamp::default(),
            spares: Spares::default(),
            output_memory: Memory::default(),
            statistics: Statistics::default(),
            refusals: Refusals::default(),
            ends: config.ends,
            lines: LineLimiter::default(),
            clock: clock::ClockLook::default(),
        }
    }

    /// Opens a connection of this peer or address. Returns `None` if too many are open or too much is held: then the connection has to be
    /// closed.
    pub fn opened(&mut self, peer: impl Into<Peer>, now: Now) -> Option<ConnectionId> {
        let peer = peer.into();
        if self.connections.len() >= self.limits.max_connections
            || self.held_bytes() > self.max_session_bytes()
        {
            self.turned_away(&peer, now);
            return None;
        }
        self.statistics.connections_opened += 1;
        let bounds = Bounds {
            max_packet_bytes: self.limits.max_packet_bytes,
            max_output_bytes: self.limits.max_output_bytes,
            receive_maximum: self.limits.receive_maximum,
            topic_alias_maximum: self.limits.topic_alias_maximum,
        };
        let id = self
            .connections
            .insert(Connection::new(peer, bounds, now.mono_ms, &self.gauge));
        let due_ms = now.mono_ms.saturating_add(self.limits.connect_timeout_ms);
        self.set_connection_timer(id, Some(due_ms));
        Some(id)
    }

    /// Processes received bytes. Whole packets are taken out of `input`. The rest is the begin of a packet, or it waits for output to leave
    /// or for room in the storage. In that case, repeat the call once [`accepts_input`](Self::accepts_input) returns true.
    ///
    /// Returns true if packets stay in `input` since other connections have their turn first: call it again after them.
    pub fn received(&mut self, id: ConnectionId, input: &mut BytesMut, now: Now) -> bool {
        self.service.begin_turn();
        let mut turn = Turn::default();
        let mut is_over = false;
        let offered = input.len();
        if let Some(connection) = self.connections.get_mut(id) {
            connection.offered(offered, now.mono_ms);
            connection.output.borrow_memory(&mut self.output_memory);
        }
        self.at_work = Some((id, false));
        loop {
            if self.lacks_room() && self.waits_for_room(id, input, now) {
                break;
            }
            let Some(connection) = self.connections.get_mut(id) else {
                input.clear();
                break;
            };
            turn.is_over = self.service.work() >= TURN_WORK;
            let before = input.len();
            match connection.next(input, turn, now.mono_ms) {
                Next::Packet(packet) => {
                    turn.has_packets = true;
                    let sent = Sent {
                        is_publish: matches!(packet, Packet::Publish(_)),
                        bytes: before - input.len(),
                    };
                    self.packet(id, packet, now);
                    if self.limits.has_rates() {
                        self.count_rates(id, sent, now);
                    }
                }
                Next::Undecodable(first, error) => self.undecodable(id, first, &error, now),
                Next::ProxyHeader => self.untrusted_proxy(id, now),
                Next::Later => {
                    is_over = true;
                    break;
                }
                Next::Nothing => break,
            }
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.turn_ended(offered, input);
            connection.output.return_memory(&mut self.output_memory);
        }
        match self.at_work.take() {
            Some((_, true)) => self.take_stock(id),
            _ => self
                .connections
                .get_mut(id)
                .map_or((), Connection::recharge),
        }
        self.settle(now);
        is_over
    }

    /// Returns whether [`received`](Self::received) would take packets. If not, a driver does not read either.
    pub fn accepts_input(&self, id: ConnectionId) -> bool {
        self.connections
            .get(id)
            .is_none_or(Connection::accepts_input)
    }

    /// Notes that output has left on a connection that does not [accept input](Self::accepts_input). Its client is alive, although nothing
    /// can arrive from it.
    pub fn progressed(&mut self, id: ConnectionId, now: Now) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.progressed(now.mono_ms);
        }
    }

    /// Removes a connection that was closed by either side. Its id must not be used any more.
    pub fn closed(&mut self, id: ConnectionId, now: Now) {
        self.log_end(id, EndReason::ClientClosed, "", None, now);
        self.end(id, Parting::Silent, WillOutcome::Published, now);
        self.settle(now);
        self.set_connection_timer(id, None);
        self.connections.remove(id);
    }

    /// Processes the passage of time: keep-alive, wills, ends of sessions, expiry of keys. Also processes [news](Self::poll_news) of the
    /// keyspace.
    pub fn tick(&mut self, now: Now) {
        while let Some(timed) = self.timers.pop(now.mono_ms) {
            match timed {
                Timed::Connection(id) => self.connection_due(id, now),
                Timed::Session(id) => self.session_due(id, now),
            }
        }
        self.report_lines_left_out(now);
        self.watch_clock(now);
        // Waiting fan-outs go first, so that their number does not keep growing.
        if self.fanouts.len() < MOST_FANOUTS {
            self.service.advance(now);
            self.tell_watchers(None, now);
            self.tell_outcomes(now);
        }
        self.work(now);
        self.settle(now);
    }

    /// Returns when [`tick`](Self::tick) has something to do next, in milliseconds of the monotonic clock.
    pub fn next_wakeup(&self) -> Option<u64> {
        let work_ms = self.has_work().then_some(0);
        let all = [
            self.timers.next_ms(),
            self.service.next_ms(),
            self.service.next_skew_ms(),
            self.lines.next_ms(),
            work_ms,
        ];
        all.into_iter().flatten().min()
    }

    /// Returns ready if the keyspace has news, so that [`tick`](Self::tick) is to be called. If not, wakes the context when it has.
    pub fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.service.poll_news(context)
    }

    /// Returns a connection that has output to take or is to be closed. Each is returned once, until it changes again.
    pub fn next_dirty(&mut self) -> Option<ConnectionId> {
        loop {
            let id = self.dirty.pop_front()?;
            if let Some(connection) = self.connections.get_mut(id) {
                connection.is_dirty = false;
                return Some(id);
            }
        }
    }

    /// Returns whether the connection is to be closed.
    pub fn closing(&self, id: ConnectionId) -> Closing {
        match self.connections.get(id).map(Connection::phase) {
            Some(Phase::Opening | Phase::Open(_)) => Closing::No,
            Some(Phase::Closing) => Closing::AfterOutput,
            Some(Phase::Closed) | None => Closing::Now,
        }
    }

    /// Returns writes to be made durable, with their sequence number. Numbers rise by one.
    pub fn take_batch(&mut self) -> Option<(u64, Batch)> {
        self.service.take_batch()
    }

    /// Returns whether [`take_batch`](Self::take_batch) has a batch.
    pub fn has_batch(&self) -> bool {
        self.service.has_batch()
    }

    /// Releases the output that waited for the writes of all batches up to `sequence`, which are durable now.
    pub fn durable(&mut self, sequence: u64) {
        for waiter in self.service.durable(sequence) {
            if waiter == broker::WAITER {
                self.mark_broker_dirty();
                continue;
            }
            let id = ConnectionId::from(KeyData::from_ffi(waiter.0));
            if let Some(connection) = self.connections.get_mut(id) {
                connection.output.release(sequence);
                self.mark_dirty(id);
            }
        }
    }

    /// Sets whether the storage has no room. If so, SET, DEL and VDEL are refused with an error that says so. Everything else is served,
    /// and responses to earlier requests leave once these are durable.
    pub fn storage_full(&mut self, is_full: bool, now: Now) {
        self.service.set_read_only(is_full);
        if is_full {
            // Requests that wait for room are refused as well: there may be none for long.
            self.end_waiting(now);
        }
    }

    fn set_connection_timer(&mut self, id: ConnectionId, at_ms: Option<u64>) {
        if let Some(connection) = self.connections.get_mut(id) {
            self.timers
                .set(&mut connection.timer, Timed::Connection(id), at_ms);
        }
    }
}
