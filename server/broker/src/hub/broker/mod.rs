//! A store behind an existing broker: requests arrive, and responses and notifications leave, as messages of one MQTT client of that
//! broker.
//!
//! ```text
//!   broker ──PUBLISH──▶ session ──▶ incoming ──▶ service ──▶ outgoing ──▶ session ──▶ broker
//!                          ▲        as long as               until it is     within the
//!                          │        there is room            durable         Receive Maximum
//!                          └───────────── PUBACK, once the response has gone before it; a refusal by one of several
//!                                         servers goes behind it
//! ```
//!
//! - **The requesting client** is named by the response topic ([`topic::requester`]). Its name in the service has a [prefix](BROKER_CLIENT_PREFIX) that
//!   no client of a listener can have, so both kinds of clients can be served together. If the broker signs the sender ([`identity`]), no
//!   client can use another name, and rules about keys apply ([`broker_client`]).
//! - **A connection** begins a session of the broker that ends with it. Messages that the broker has not acknowledged are published again
//!   on the next connection. The [watches](client_activity) of clients are kept meanwhile.
//! - **Queues** are bounded: [requests](request_queue) by a part of all that sessions may hold, output by the limits of a session's queue.
mod broker_client;
mod client_activity;
mod error;
mod group;
mod identity;
mod local_refusals;
mod lost_notifications;
mod metrics;
mod outgoing_message;
mod pending_request;
mod probe;
mod request_queue;
mod requests;
#[cfg(test)]
mod tests;
mod unacknowledged_requests;
mod watch_target;

use super::{Hub, HubLimits};
use broker_client::BrokerClient;
use bytes::{Bytes, BytesMut};
use client_activity::ClientActivity;
pub use error::BrokerError;
use group::Group;
use identity::IdentityError;
pub use identity::IdentityKey;
use lost_notifications::LostNotifications;
pub use metrics::BrokerMetrics;
use outgoing_message::OutgoingMessage;
use pending_request::PendingRequest;
use probe::Probe;
use request_queue::RequestQueue;
use statestore_protocol::mqtt::session::{Event, Session, SessionConfig, Subscriptions};
use statestore_protocol::mqtt::{Connect, Limits, QoS, ReasonCode, Subscription};
use statestore_protocol::topic;
use statestored_common::ClockReading;
use statestored_store::keyspace::Ticket;
use statestored_store::service::{CommitIndex, WaiterId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use unacknowledged_requests::UnacknowledgedRequests;

/// Prefix of the name under which the service knows a client behind the broker. No client id has this character.
pub(super) const BROKER_CLIENT_PREFIX: char = '\0';

/// Name under which the service's responses to the broker wait for a commit. No connection has it.
pub(super) const BROKER_WAITER: WaiterId = WaiterId(0);

/// Maximum number of requests that the broker may have in flight to this server.
const RECEIVE_MAXIMUM: u16 = 1024;
/// Seconds of silence before a ping is sent to the broker.
const KEEP_ALIVE_S: u16 = 30;
/// Milliseconds that the broker has to answer a ping.
const PING_TIMEOUT_MS: u64 = 10_000;
/// Packets of the broker that are processed before other connections have their turn.
const QUANTUM_PACKETS: usize = 64;
/// Milliseconds after a client's last request for which its answers are remembered.
const REPLAY_RETENTION_MS: u64 = 600_000;

/// Milliseconds after its arrival in which a request may be executed that other servers may be given as well. The engine remembers the
/// answer a minute longer.
const SHARED_REQUEST_MS: u64 = 600_000;

/// Configuration of the connection to a broker.
#[derive(Debug, Clone, Default)]
pub struct BrokerConfig {
    /// Client id of the server at the broker.
    pub client_id: String,
    /// Group of servers that share the requests, if they do.
    pub share_name: Option<String>,
    /// Milliseconds without a request of a client after which its watches end; `None` if they do not expire.
    pub watch_lease_ms: Option<u64>,
    /// User property in which the broker names and signs the sender of a request; `None` if requests name it themselves.
    pub identity: Option<String>,
}

impl BrokerConfig {
    /// Returns the topic filter to subscribe to.
    fn filter(&self) -> String {
        match &self.share_name {
            Some(group) => format!("$share/{group}/{}", topic::REQUEST),
            None => topic::REQUEST.to_owned(),
        }
    }

    /// Returns until when a request may be executed that arrived at `since_ms` and expires after `expiry` seconds. If other servers may be
    /// given it too, the limit is earlier than the end of its remembered answer, whatever its expiry.
    fn deadline_ms(&self, since_ms: u64, expiry: Option<u32>) -> Option<u64> {
        let expiry_ms = expiry.map(|seconds| u64::from(seconds) * 1000);
        let most_ms = self.share_name.as_ref().map(|_| SHARED_REQUEST_MS);
        let left_ms = expiry_ms.into_iter().chain(most_ms).min();
        left_ms.map(|left_ms| since_ms.saturating_add(left_ms))
    }
}

/// The server as a client of the broker.
#[derive(Debug)]
pub(super) struct Broker {
    config: BrokerConfig,
    max_packet_bytes: u32,
    /// The session, while there is a connection.
    session: Option<Session<u64>>,
    /// Requests that are not executed yet.
    request_queue: RequestQueue,
    unacknowledged: UnacknowledgedRequests,
    /// Requests whose outcome comes later.
    pending_requests: HashMap<Ticket, PendingRequest>,
    /// Number of requests that arrived.
    request_count: u64,
    queue: VecDeque<OutgoingMessage>,
    /// Bytes of the messages in the queue and in flight.
    outgoing_bytes: usize,
    /// Refusals that wait until their request is acknowledged, by the number of the request.
    refusals: BTreeMap<u64, OutgoingMessage>,
    lost_notifications: LostNotifications,
    /// Messages that the broker has not acknowledged, in the order of publishing.
    in_flight: BTreeMap<u64, OutgoingMessage>,
    next_tag: u64,
    /// The commit that the queue waits for.
    awaited_commit: CommitIndex,
    /// Clients whose answers are remembered.
    replay_clients: ClientActivity,
    /// Clients that may watch.
    watch_leases: Option<ClientActivity>,
    /// The servers that share the requests.
    group: Option<Group>,
    /// Number of messages that were to be published.
    message_count: u64,
    /// Clients that the broker has named.
    named_clients: HashMap<Arc<str>, BrokerClient>,
    /// Key with which the broker signs the sender of a request, on this connection.
    identity_key: Option<IdentityKey>,
    /// Kinds of unproven senders that were logged on this connection.
    logged_identity_errors: Vec<IdentityError>,
    probe: Probe,
    /// Whether there is something to do.
    is_dirty: bool,
    metrics: BrokerMetrics,
}

impl Broker {
    pub(super) fn new(terms: BrokerConfig, limits: &HubLimits) -> Self {
        let (most, most_bytes) = (limits.max_queued_messages, limits.max_queued_bytes);
        let group = terms.share_name.as_deref();
        Self {
            group: group.map(|name| Group::new(name, most, most_bytes)),
            message_count: 0,
            max_packet_bytes: limits.max_packet_bytes,
            watch_leases: terms.watch_lease_ms.map(ClientActivity::with_timeout),
            probe: Probe::new(&terms.client_id),
            config: terms,
            session: None,
            request_queue: RequestQueue::default(),
            unacknowledged: UnacknowledgedRequests::default(),
            pending_requests: HashMap::new(),
            request_count: 0,
            queue: VecDeque::new(),
            outgoing_bytes: 0,
            refusals: BTreeMap::new(),
            lost_notifications: LostNotifications::default(),
            in_flight: BTreeMap::new(),
            next_tag: 0,
            awaited_commit: 0,
            replay_clients: ClientActivity::with_timeout(REPLAY_RETENTION_MS),
            named_clients: HashMap::new(),
            identity_key: None,
            logged_identity_errors: Vec::new(),
            is_dirty: false,
            metrics: BrokerMetrics::default(),
        }
    }

    pub(super) fn metrics(&self) -> BrokerMetrics {
        BrokerMetrics {
            is_attached: self.session.as_ref().is_some_and(Session::is_ready),
            queued_messages: (self.queue.len() + self.refusals.len() + self.in_flight.len()) as u64,
            lost_probes: self.probe.failures,
            is_failing: self.probe.is_failing,
            ..self.metrics
        }
    }

    /// Changes the largest packet that is accepted, from the next connection on.
    pub(super) fn set_max_packet_bytes(&mut self, bytes: u32) {
        self.max_packet_bytes = bytes;
    }

    /// Returns the largest packet that the broker accepts on the current connection.
    fn peer_packet_bytes(&self) -> u32 {
        let limits = self.session.as_ref().map(Session::peer_limits);
        limits.unwrap_or_default().max_packet_bytes
    }

    /// Returns how many outcomes are still to come.
    pub(super) fn pending_count(&self) -> usize {
        self.pending_requests.len()
    }

    fn new_session(
        &mut self,
        user: Option<String>,
        password: Option<Bytes>,
        now: ClockReading,
    ) -> Session<u64> {
        let filter = self.config.filter();
        let log = self.group.as_ref().map(|group| group.topic.clone());
        let filters = std::iter::once(filter).chain(log);
        let subscriptions = filters
            .map(Subscription::at_least_once)
            .chain([self.probe.subscription()]);
        let subscriptions: Vec<_> = subscriptions.collect();
        let key = self.identity_key.as_ref();
        let will = self
            .group
            .as_mut()
            .map(|group| group.will(&self.config.client_id, key, now));
        let config = SessionConfig {
            connect: Connect {
                client_id: self.config.client_id.clone(),
                clean_start: true,
                keep_alive_s: KEEP_ALIVE_S,
                limits: Limits {
                    receive_maximum: RECEIVE_MAXIMUM,
                    max_packet_bytes: self.max_packet_bytes,
                    topic_alias_maximum: 0,
                },
                user_name: user,
                password,
                will,
                ..Connect::default()
            },
            subscriptions: Subscriptions::new(move |_| subscriptions.clone()),
            ping_timeout_ms: PING_TIMEOUT_MS,
        };
        Session::new(config).with_manual_acks()
    }

    fn is_idle(&self) -> bool {
        self.request_queue.is_empty()
            && self.unacknowledged.is_empty()
            && self.pending_requests.is_empty()
            && self.queue.is_empty()
            && self.refusals.is_empty()
            && self.in_flight.is_empty()
    }
}

impl Hub {
    /// Begins a session, as this user, on a new connection to the broker. The broker signs the sender of a request with `identity_key`.
    pub fn broker_connected(
        &mut self,
        user: Option<String>,
        password: Option<Bytes>,
        identity_key: Option<IdentityKey>,
        now: ClockReading,
    ) -> Result<(), BrokerError> {
        let Some(broker) = &mut self.broker else {
            return Ok(());
        };
        broker.identity_key = identity_key;
        broker.logged_identity_errors.clear();
        let session = broker.new_session(user, password, now);
        let session = broker.session.insert(session);
        Ok(session.connect(now.mono_ms)?)
    }

    /// Ends the session with the broker, with `reason` if the broker is to know it. Returns the last bytes to send, if there are any.
    pub fn broker_disconnected(
        &mut self,
        reason: Option<ReasonCode>,
        now: ClockReading,
    ) -> BytesMut {
        let Some(broker) = &mut self.broker else {
            return BytesMut::new();
        };
        let Some(session) = broker.session.take() else {
            return BytesMut::new();
        };
        broker.probe.detach();
        broker.requeue_in_flight();
        broker.leave_group(now);
        broker.unacknowledged.clear();
        if broker.config.share_name.is_some() {
            // The broker gives them to the other servers, if it follows the specification.
            broker.request_queue.clear();
        }
        // The will notifies the other servers.
        let reason = reason.map(|reason| match &broker.group {
            Some(_) if reason == ReasonCode::SUCCESS => ReasonCode::DISCONNECT_WITH_WILL,
            _ => reason,
        });
        reason.map_or_else(BytesMut::new, |reason| session.disconnect(reason, None))
    }

    /// Processes bytes from the broker: takes whole packets out of `input`. Returns whether there may be more of them.
    ///
    /// # Errors
    /// The connection is to be ended.
    pub fn broker_received(
        &mut self,
        input: &mut BytesMut,
        now: ClockReading,
    ) -> Result<bool, BrokerError> {
        let Some(broker) = &mut self.broker else {
            return Ok(false);
        };
        let Some(session) = &mut broker.session else {
            return Ok(false);
        };
        let mut events = Vec::new();
        let more = session.receive(input, now.mono_ms, QUANTUM_PACKETS, |event| {
            events.push(event);
        });
        if !input.is_empty() {
            broker.probe.record_delivery(now);
        }
        for event in events {
            self.broker_event(event, now)?;
        }
        Ok(more?)
    }

    fn broker_event(&mut self, event: Event<u64>, now: ClockReading) -> Result<(), BrokerError> {
        let Some(broker) = &mut self.broker else {
            return Ok(());
        };
        match event {
            Event::Ready { .. } => {
                let granted = broker.session.as_ref().map_or(&[][..], Session::granted);
                if let Some(group) = &mut broker.group {
                    let granted = granted.get(1);
                    group.join(granted.is_some_and(|granted| granted.is_failure()), now);
                }
                broker.probe.attach(granted.last().copied(), now);
                broker.metrics.attach_count += 1;
                tracing::info!("attached to the broker");
            }
            Event::Message { publish, .. } if broker.probe.handle_publish(&publish, now) => {
                broker.acknowledge_probe(&publish);
            }
            Event::Message { publish, .. } if publish.qos() == QoS::AtMostOnce => {
                self.metrics.requests_refused += 1;
            }
            Event::Message { publish, .. } => {
                broker.probe.record_delivery(now);
                self.handle_broker_publish(publish, now)?;
            }
            Event::Acknowledged { tag, reason, .. } => {
                if !broker.probe.handle_acknowledgement(tag, reason) {
                    self.broker_acknowledged(tag, reason, now);
                }
            }
            Event::TooLarge { tag, .. } => {
                if let Some(outgoing) = broker.remove_in_flight(tag) {
                    broker.record_too_large(&outgoing.kind);
                }
                self.metrics.dropped_too_large += 1;
            }
            // A session that ends with its connection neither loses nor drops anything.
            Event::SessionLost
            | Event::Lost { .. }
            | Event::Dropped { .. }
            | Event::Reauthenticated => {}
        }
        Ok(())
    }

    /// Executes requests, publishes waiting messages and processes timeouts. Returns whether there is more to do after other connections
    /// have had their turn.
    ///
    /// # Errors
    /// The connection is to be ended.
    pub fn poll_broker(&mut self, now: ClockReading) -> Result<bool, BrokerError> {
        self.end_idle_clients(now);
        self.service.begin_quantum();
        let more = self.execute_incoming(now);
        let group = self.broker.as_ref().and_then(|it| it.group.as_ref());
        if group.is_some_and(Group::is_behind) {
            return Err(BrokerError::LogOverflow);
        }
        self.poll_group(now);
        self.report_lost_notifications(now);
        self.publish_outgoing(now)?;
        self.settle(now);
        self.probe_broker(now)?;
        if let Some(session) = self.broker.as_mut().and_then(|it| it.session.as_mut()) {
            session.poll(false, now.mono_ms)?;
        }
        Ok(more)
    }

    /// Returns when [`poll_broker`](Self::poll_broker) is to be called at the latest, in milliseconds of the monotonic clock.
    pub fn broker_wakeup(&self) -> Option<u64> {
        let broker = self.broker.as_ref()?;
        let session = broker.session.as_ref();
        [
            session.and_then(|session| session.wake_at_ms(false)),
            session.and_then(|_| broker.probe.next_ms()),
            broker.replay_clients.next_ms(),
            broker
                .watch_leases
                .as_ref()
                .and_then(ClientActivity::next_ms)
                .filter(|_| {
                    let group = broker.group.as_ref();
                    group.is_none_or(Group::is_leader)
                }),
            broker.group.as_ref().and_then(Group::next_ms),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns all bytes to be sent to the broker now. Bytes that were taken before have to be sent first.
    pub fn broker_output(&mut self, now: ClockReading) -> Bytes {
        let session = self.broker.as_mut().and_then(|it| it.session.as_mut());
        session.map_or_else(Bytes::new, |session| session.take_output(now.mono_ms))
    }

    /// Returns the bytes that may still be sent when no more requests are executed.
    pub fn broker_last_output(&mut self, now: ClockReading) -> Bytes {
        if let Err(error) = self.publish_outgoing(now) {
            tracing::debug!(%error, "the last responses cannot be sent");
        }
        self.broker_output(now)
    }

    /// Notes that `bytes` of the output were sent; `waited` is whether they could not leave at once.
    pub fn broker_written(&mut self, bytes: usize, waited: bool, now: ClockReading) {
        if let Some(session) = self.broker.as_mut().and_then(|it| it.session.as_mut()) {
            session.written(bytes, waited, now.mono_ms);
        }
    }

    /// Returns whether requests can come from a broker.
    pub fn is_attached(&self) -> bool {
        self.broker
            .as_ref()
            .is_some_and(|it| it.metrics().is_attached)
    }

    /// Returns whether there is something to do for the broker. A new event is reported once.
    pub fn take_broker_dirty(&mut self) -> bool {
        let may_execute = self.may_execute_incoming();
        let broker = self.broker.as_mut();
        broker.is_some_and(|broker| {
            let has_requests = may_execute && !broker.request_queue.is_empty();
            std::mem::take(&mut broker.is_dirty) || has_requests
        })
    }

    /// Marks that there is something to do for the broker.
    pub(super) fn mark_broker_dirty(&mut self) {
        if let Some(broker) = &mut self.broker {
            broker.is_dirty = true;
        }
    }

    /// Unsubscribes from the broker's requests, since the server is about to stop.
    pub fn leave_broker(&mut self, now: ClockReading) {
        if let Some(broker) = &mut self.broker
            && let Some(session) = &mut broker.session
        {
            if let Err(error) = session.drain() {
                tracing::debug!(%error, "cannot unsubscribe");
            }
            broker.is_dirty = true;
        }
        self.leave_group(now);
    }

    /// Returns whether the broker sends nothing more and all its requests are done, or there is no connection to it.
    pub fn has_left_broker(&self) -> bool {
        self.broker.as_ref().is_none_or(|broker| {
            broker.session.as_ref().is_none_or(|session| {
                !session.is_ready() || session.is_drained() && broker.is_idle()
            })
        })
    }
}
