//! Sessions, subscriptions and the routing of messages: the front end through which MQTT 5 clients reach the service. The hub is a state
//! machine over bytes, without sockets, threads and clocks.
//!
//! ```text
//!   driver ──bytes──▶ connection ──packet──▶ hub ──request in an envelope──▶ service
//!                                             │  ◀──outcome, recipients───────┘
//!                                             ├─ login            authentication of clients (the rules are in access)
//!                                             ├─ connect          the session of each client
//!                                             ├─ publish          a request, or a message to subscribers
//!                                             ├─ rate_limiter     connections that wait, since they sent too much
//!                                             ├─ pending          pending requests
//!                                             ├─ delivery         to one client: at once, or through its queue
//!                                             ├─ fanout_delivery  to many, a part at a time
//!                                             ├─ termination      how connections and sessions end
//!                                             ├─ eviction         sessions that end when too much is held
//!                                             ├─ policy           rights of sessions
//!                                             ├─ broker           requests and answers through another broker
//!                                             └─ reload           changes of users and rules while it runs
//! ```
//!
//! [`Hub`] holds the connections, the sessions and the subscriptions, in front of the service. A driver tells it
//! what happened ([`opened`](Hub::opened), [`received`](Hub::received), [`closed`](Hub::closed),
//! [`tick`](Hub::tick), [`mark_durable`](Hub::mark_durable)) and then serves what it wants:
//!
//! - [`next_dirty`](Hub::next_dirty) names connections that have output ([`take_output`](Hub::take_output))
//!   or are to be closed ([`close_action`](Hub::close_action));
//! - [`take_batch`](Hub::take_batch) is what the storage has to keep next;
//! - [`next_verification`](Hub::next_verification) is a login to be verified on another thread, since that takes long;
//! - [`next_wakeup`](Hub::next_wakeup) is when to call [`tick`](Hub::tick).
//!
//! A driver reports that too much waits for the storage with [`set_storage_backlogged`](Hub::set_storage_backlogged). The same calls always give the
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
//! | response to a SCAN or to a KEYNOTIFY of a pattern, "the quota has been exceeded" | all writes before it |
//! | notification | its change |
//! | PUBACK of a request | what the response waits for, and not before the PUBACKs of PUBLISHes that came before [MQTT-4.6.0-2] |
//! | everything else, PINGRESP too | nothing; but PUBACKs keep their order |
//!
//! So a response overtakes those that wait for the disk, and can leave before its PUBACK. Waiting responses count against the client's
//! Receive Maximum.
mod audit;
mod backpressure;
mod broker;
mod clock;
mod config;
mod connect;
mod delivery;
mod drain;
mod eviction;
mod fanout;
mod fanout_delivery;
mod fanout_quantum;
mod fanout_queue;
pub mod inspect;
pub mod inspect_clients;
mod limit_usage;
mod limits;
mod login;
mod message;
mod metrics;
mod metrics_snapshot;
mod operator_requests;
mod packet;
mod packet_buffer_pool;
mod pending;
mod policy;
mod publish;
mod rate_limiter;
mod reauthentication;
mod refusal_log;
mod reload;
mod request;
pub mod request_trace;
mod session;
mod small_map;
mod subscribe;
mod subscriptions;
mod termination;
mod user_limits;
mod verification;

pub use broker::{BrokerConfig, BrokerError, BrokerMetrics, IdentityKey};
pub use clock::ClockMetrics;
pub use config::HubConfig;
pub use limit_usage::LimitUsage;
pub use limits::HubLimits;
pub use metrics::HubMetrics;
pub use metrics_snapshot::MetricsSnapshot;
pub use refusal_log::{RefusalCause, RefusalDetails, RefusalEntry};
pub use statestored_connection::ConnectionId;
pub use verification::{CompletedVerification, Verification};

use crate::audit::{EndCounts, EndReason, LineLimiter};
use crate::large_allocations::LargeAllocations;
use broker::Broker;
use bytes::BytesMut;
use fanout_queue::{FanoutQueue, MAX_FANOUTS};
use operator_requests::OperatorRequests;
use packet_buffer_pool::PacketBufferPool;
use pending::PendingRequest;
use rate_limiter::{PacketCost, RateLimiter};
use refusal_log::RefusalLog;
use session::Sessions;
use slotmap::{KeyData, SlotMap};
use statestore_protocol::mqtt::{EncodedProperties, Packet};
use statestore_protocol::property::EncodedTimestamp;
use statestored_access::{Authenticator, LoginThrottle, Peer, Policy};
use statestored_common::ClockReading;
use statestored_connection::memory_budget::MemoryBudget;
use statestored_connection::timer_queue::TimerQueue;
use statestored_connection::{
    BufferPool, CloseMode, Connection, ConnectionLimits, ConnectionState, InputQuantum, NextInput,
    SessionId,
};
use statestored_storage::Batch;
use statestored_store::keyspace::ByTicket;
use statestored_store::service::{ChangeNotification, Service};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use subscriptions::SubscriptionTree;
use termination::{DetachedSession, WillOutcome};
use verification::VerificationQueue;

/// Amount of [work](Service::work) that the packets of one connection may cause before other connections have their turn. The last packet
/// may exceed it.
const QUANTUM_WORK: usize = 400_000;

/// Whether a driver has to close a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseAction {
    /// Keep it open.
    KeepOpen,
    /// Send what [`Hub::take_output`] still returns, then close.
    AfterOutput,
    /// Close at once.
    Immediately,
}

/// Owner of a timer. Each has one timer at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TimerOwner {
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
    access_change: Option<Box<reload::AccessChange>>,
    persist_property: Option<(String, String)>,
    logins: LoginThrottle,
    verifications: VerificationQueue,
    rate_limiter: RateLimiter,
    service: Service,
    /// Buffer for notifications from the service.
    notifications: Vec<ChangeNotification>,
    /// Pending requests.
    pending_requests: ByTicket<PendingRequest>,
    operator_requests: OperatorRequests,
    connections: SlotMap<ConnectionId, Connection>,
    sessions: Sessions,
    subscriptions: SubscriptionTree<SessionId>,
    timers: TimerQueue<TimerOwner>,
    dirty: VecDeque<ConnectionId>,
    /// The connection whose packets are being taken, and whether something was appended to its output since.
    active_connection: Option<(ConnectionId, bool)>,
    /// Whether too much waits for the storage.
    is_storage_backlogged: bool,
    /// Connections with a request that waits until there is room.
    blocked_connections: Vec<ConnectionId>,
    /// Sessions whose connection ended in the current call.
    detached: VecDeque<DetachedSession>,
    /// Notifications and messages that have not reached all recipients.
    fanout_queue: FanoutQueue,
    /// Memory that sessions and connections hold.
    memory_budget: MemoryBudget,
    /// Limits of that memory.
    session_memory_limits: eviction::SessionMemoryLimits,
    large_allocations: LargeAllocations,
    client_id_seed: Option<u64>,
    /// Properties that all responses share, and the version of the present one.
    response_properties: EncodedProperties,
    response_version: EncodedTimestamp,
    packet_buffers: PacketBufferPool,
    /// Memory for the output of the connection whose packets are being processed.
    buffer_pool: BufferPool,
    metrics: HubMetrics,
    refusal_log: RefusalLog,
    /// Ended connections by reason.
    end_counts: EndCounts,
    /// Limits of the audit trail.
    line_limiter: LineLimiter,
    clock_observation: clock::ClockObservation,
    /// The broker in front of the store, if there is one.
    broker: Option<Broker>,
    drain: Option<drain::Drain>,
    tracer: request_trace::RequestTracer,
}

impl Hub {
    /// Creates a hub without connections, in front of this service.
    pub fn new(config: HubConfig, service: Service) -> Self {
        let broker = config.broker;
        Self {
            broker: broker.map(|terms| Broker::new(terms, &config.limits)),
            session_memory_limits: eviction::SessionMemoryLimits::new(
                config.limits.max_session_bytes,
            ),
            limits: config.limits,
            authenticator: config.authenticator,
            policy: config.policy,
            anonymous_local_users: config.anonymous_local_users,
            access_change: None,
            persist_property: config.persist_property,
            logins: LoginThrottle::default(),
            verifications: VerificationQueue::default(),
            rate_limiter: RateLimiter::default(),
            service,
            notifications: Vec::new(),
            pending_requests: ByTicket::default(),
            operator_requests: OperatorRequests::default(),
            connections: SlotMap::with_key(),
            sessions: Sessions::default(),
            subscriptions: SubscriptionTree::default(),
            timers: TimerQueue::default(),
            dirty: VecDeque::new(),
            active_connection: None,
            is_storage_backlogged: false,
            blocked_connections: Vec::new(),
            detached: VecDeque::new(),
            fanout_queue: FanoutQueue::default(),
            memory_budget: MemoryBudget::default(),
            large_allocations: LargeAllocations::default(),
            client_id_seed: config.client_id_seed,
            response_properties: request::response_properties(),
            response_version: EncodedTimestamp::default(),
            packet_buffers: PacketBufferPool::default(),
            buffer_pool: BufferPool::default(),
            metrics: HubMetrics::default(),
            refusal_log: RefusalLog::default(),
            end_counts: config.end_counts,
            line_limiter: LineLimiter::default(),
            clock_observation: clock::ClockObservation::default(),
            drain: None,
            tracer: request_trace::RequestTracer::default(),
        }
    }

    /// Opens a connection of this peer or address. Returns `None` if too many are open or too much is held: then the connection has to be
    /// closed.
    pub fn opened(&mut self, peer: impl Into<Peer>, now: ClockReading) -> Option<ConnectionId> {
        let peer = peer.into();
        if self.connections.len() >= self.limits.max_connections
            || self.held_bytes() > self.max_session_bytes()
        {
            self.record_connection_over_limit(&peer, now);
            return None;
        }
        self.metrics.connections_opened += 1;
        let bounds = ConnectionLimits {
            max_packet_bytes: self.limits.max_packet_bytes,
            max_output_bytes: self.limits.max_output_bytes,
            receive_maximum: self.limits.receive_maximum,
            topic_alias_maximum: self.limits.topic_alias_maximum,
        };
        let id = self.connections.insert(Connection::new(
            peer,
            bounds,
            now.mono_ms,
            &self.memory_budget,
        ));
        let due_ms = now.mono_ms.saturating_add(self.limits.connect_timeout_ms);
        self.set_connection_timer(id, Some(due_ms));
        Some(id)
    }

    /// Processes received bytes. Whole packets are taken out of `input`. The rest is the begin of a packet, or it waits for output to leave
    /// or for room in the storage. In that case, repeat the call once [`accepts_input`](Self::accepts_input) returns true.
    ///
    /// Returns true if packets stay in `input` since other connections have their turn first: call it again after them.
    pub fn received(&mut self, id: ConnectionId, input: &mut BytesMut, now: ClockReading) -> bool {
        self.service.begin_quantum();
        let mut turn = InputQuantum::default();
        let mut is_over = false;
        let offered = input.len();
        if let Some(connection) = self.connections.get_mut(id) {
            connection.record_input(offered, now.mono_ms);
            connection.output.acquire_buffer(&mut self.buffer_pool);
        }
        self.active_connection = Some((id, false));
        loop {
            if self.has_backpressure() && self.blocks_first_packet(id, input, now) {
                break;
            }
            let Some(connection) = self.connections.get_mut(id) else {
                input.clear();
                break;
            };
            turn.is_exhausted = self.service.work() >= QUANTUM_WORK;
            let before = input.len();
            match connection.next_input(input, turn, now.mono_ms) {
                NextInput::Packet(packet) => {
                    turn.has_packets = true;
                    let sent = PacketCost {
                        is_publish: matches!(packet, Packet::Publish(_)),
                        bytes: before - input.len(),
                    };
                    self.handle_packet(id, packet, now);
                    if self.limits.has_rates() {
                        self.limit_rate(id, sent, now);
                    }
                }
                NextInput::Undecodable(first, error) => {
                    self.handle_undecodable(id, first, &error, now);
                }
                NextInput::ProxyHeader => self.drop_untrusted_proxy(id, now),
                NextInput::Deferred => {
                    is_over = true;
                    break;
                }
                NextInput::Nothing => break,
            }
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.end_quantum(offered, input);
            connection.output.release_buffer(&mut self.buffer_pool);
        }
        match self.active_connection.take() {
            Some((_, true)) => self.update_output_state(id),
            _ => self
                .connections
                .get_mut(id)
                .map_or((), Connection::update_reservation),
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
    pub fn record_output_progress(&mut self, id: ConnectionId, now: ClockReading) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.record_output_progress(now.mono_ms);
        }
    }

    /// Removes a connection that was closed by either side. Its id must not be used any more.
    pub fn closed(&mut self, id: ConnectionId, now: ClockReading) {
        self.log_end(id, EndReason::ClientClosed, "", None, now);
        self.end_connection(id, CloseMode::Immediate, WillOutcome::Published, now);
        self.settle(now);
        self.set_connection_timer(id, None);
        self.connections.remove(id);
    }

    /// Processes the passage of time: keep-alive, wills, ends of sessions, expiry of keys. Also processes [news](Self::poll_events) of the
    /// keyspace.
    pub fn tick(&mut self, now: ClockReading) {
        while let Some(timed) = self.timers.pop(now.mono_ms) {
            match timed {
                TimerOwner::Connection(id) => self.handle_connection_timer(id, now),
                TimerOwner::Session(id) => self.handle_session_timer(id, now),
            }
        }
        self.report_omitted_lines(now);
        self.continue_drain(now);
        self.observe_clock(now);
        // Waiting fan-outs go first, so that their number does not keep growing.
        if self.fanout_queue.len() < MAX_FANOUTS && !self.service.has_many_waiting_changes() {
            self.service.advance(now);
            self.notify_watchers(None, now);
            self.process_outcomes(now);
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
            self.line_limiter.next_ms(),
            self.drain.as_ref().and_then(drain::Drain::next_ms),
            work_ms,
        ];
        all.into_iter().flatten().min()
    }

    /// Returns ready if the keyspace has news, so that [`tick`](Self::tick) is to be called. If not, wakes the context when it has.
    pub fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.service.poll_events(context)
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
    pub fn close_action(&self, id: ConnectionId) -> CloseAction {
        match self.connections.get(id).map(Connection::state) {
            Some(ConnectionState::Opening | ConnectionState::Open(_)) => CloseAction::KeepOpen,
            Some(ConnectionState::Closing) => CloseAction::AfterOutput,
            Some(ConnectionState::Closed) | None => CloseAction::Immediately,
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
    pub fn mark_durable(&mut self, sequence: u64) {
        self.end_commit_traces(sequence);
        for waiter in self.service.mark_durable(sequence) {
            if waiter == broker::BROKER_WAITER {
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

    fn set_connection_timer(&mut self, id: ConnectionId, at_ms: Option<u64>) {
        if let Some(connection) = self.connections.get_mut(id) {
            self.timers
                .set(&mut connection.timer, TimerOwner::Connection(id), at_ms);
        }
    }
}
