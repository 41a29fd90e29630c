//! Servers that share the requests of a broker, simulated as a whole. Each is a real hub over a real keyspace, all over one
//! engine, behind a broker that delivers each request to one of them. The engine, the broker, the clients, and the links between
//! them are simulated.
//!
//! The connections of a client never fail. A client sends handwritten requests, and repeats some of them. The log of the engine
//! is the truth. In some runs, another client watches patterns.
mod checks;
mod client;
mod client_requests;
mod faults;
mod member;
mod run_metrics;

use super::engine::Engine;
use super::simulated_link::LinkFaults;
use crate::broker::{Broker, Peer};
use crate::seeded_rng::SeededRng;
use bytes::{Bytes, BytesMut};
use client::{Client, ClientRequest, WatchState};
use member::Member;
pub use run_metrics::RunMetrics;
use statestore_protocol::Notification;
use statestore_protocol::mqtt::{Limits, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Number of clients that do not watch patterns.
const CLIENTS: usize = 3;
/// Duration of the faults.
const STORM_MS: u64 = 60_000;
/// Time without faults after which everything works.
const RECOVERED_MS: u64 = 30_000;
/// Time that a client waits for an answer before it sends its request again, or gives it up.
const RESPONSE_TIMEOUT_MS: u64 = 3_000;
/// Maximum number of times that a client sends a request.
const MAX_ATTEMPTS: u32 = 3;
/// How long before a watch begins a server has to be attached to learn of it.
const ATTACHED_MS: u64 = 1_000;
/// A server that has been attached for this time, without a pause, knows all that the group's leader knows.
const KNOWLEDGE_DELAY_MS: u64 = 20_000;

/// An event of a client, a server or the broker.
#[derive(Debug)]
enum Event {
    /// Bytes of a client reach the broker, in this life of the broker.
    ToBroker(usize, u64, Bytes),
    /// Bytes of the broker reach a client.
    ToClient(usize, u64, Bytes),
    /// Bytes of a server reach the broker, on this connection.
    Up(u64, Bytes),
    /// The broker notices the end of this connection.
    EndAtBroker(u64),
    /// A client checks whether its request was answered.
    CheckTimeout(usize),
    BrokerIsBack,
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// The violated invariant, if there is one.
    pub violation: Option<String>,
    /// The trace of the run, if it was requested.
    pub trace: Vec<String>,
    /// Counters of the run.
    pub metrics: RunMetrics,
}

/// A notification that a client got.
#[derive(Debug, Clone)]
struct ReceivedNotification {
    client: usize,
    notification: Notification,
    at_ms: u64,
}

/// A time span in which a client certainly watched a key or pattern.
#[derive(Debug)]
struct WatchSpan {
    client: usize,
    key: Bytes,
    since_ms: u64,
    until_ms: u64,
}

struct GroupSimulation {
    now_ms: u64,
    chance: SeededRng,
    engine: Arc<Mutex<Engine>>,
    broker: Broker,
    /// Number of the broker's life.
    life: u64,
    members: Vec<Member>,
    /// The server of each connection.
    connections: BTreeMap<u64, usize>,
    /// Connections from which no more bytes reach the broker.
    lost: BTreeSet<u64>,
    clients: Vec<Client>,
    events: BTreeMap<(u64, u64), Event>,
    entered: u64,
    requests: Vec<ClientRequest>,
    notified: Vec<ReceivedNotification>,
    watched: Vec<WatchSpan>,
    /// Times at which servers requested the leader's state, by connection.
    joins: BTreeMap<u64, Vec<u64>>,
    delay_ms: u64,
    /// Whether every request has to be answered from now on.
    requires_responses: bool,
    metrics: RunMetrics,
    trace: Option<Vec<String>>,
    violation: Option<String>,
}

impl GroupSimulation {
    fn new(seed: u64, has_patterns: bool, is_traced: bool) -> Self {
        let mut chance = SeededRng::new(seed);
        let engine = Arc::new(Mutex::new(Engine::new(None)));
        engine.lock().unwrap().counts_revisions = seed % 2 == 1;
        let often = chance.log_uniform(1, 10);
        let weather = LinkFaults {
            delay_ms: chance.log_uniform(1, 50),
            lost: chance.below(often),
            unanswered: chance.below(often),
            doubled: chance.below(often),
            full: chance.below(often),
            watch_lost: chance.below(often),
        };
        let count = usize::try_from(chance.between(2, 3)).unwrap();
        let members = (0..count).map(|index| Member::new(index, &engine, &mut chance, weather));
        let members = members.collect();
        let mut broker = Broker::new();
        broker.redelivers_shared = chance.percent(50);
        Self {
            now_ms: 0,
            delay_ms: chance.log_uniform(1, 50),
            chance,
            engine,
            broker,
            life: 0,
            members,
            connections: BTreeMap::new(),
            lost: BTreeSet::new(),
            clients: (0..CLIENTS + usize::from(has_patterns))
                .map(Client::new)
                .collect(),
            events: BTreeMap::new(),
            entered: 0,
            requests: Vec::new(),
            notified: Vec::new(),
            watched: Vec::new(),
            joins: BTreeMap::new(),
            requires_responses: false,
            metrics: RunMetrics::default(),
            trace: is_traced.then(Vec::new),
            violation: None,
        }
    }

    fn trace_event(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>6} {}", self.now_ms, text()));
        }
    }

    fn violated(&mut self, what: String) {
        self.trace_event(|| what.clone());
        self.violation.get_or_insert(what);
    }

    fn schedule(&mut self, at_ms: u64, event: Event) {
        self.entered += 1;
        self.events.insert((at_ms, self.entered), event);
    }

    /// Returns the delay of a message.
    fn latency_ms(&mut self) -> u64 {
        1 + self.chance.below(self.delay_ms)
    }

    /// Lets time pass until this moment.
    fn advance_to(&mut self, until_ms: u64) {
        while self.now_ms < until_ms && self.violation.is_none() {
            let event = self.events.first_key_value().map(|((at_ms, _), _)| *at_ms);
            let members = self.members.iter();
            let members = members.filter_map(|member| member.next_ms(self.now_ms));
            let next_ms = members.chain(event).min().unwrap_or(u64::MAX);
            self.now_ms = next_ms.clamp(self.now_ms + 1, until_ms);
            self.engine.lock().unwrap().now_ms = self.now_ms;
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 <= self.now_ms
            {
                let event = entry.remove();
                self.handle(event);
            }
            for index in 0..self.members.len() {
                self.run_server(index);
            }
            self.execute_redelivered();
            self.update_watch_knowledge();
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::ToBroker(client, life, bytes) => {
                if life == self.life {
                    self.broker_received(Peer::Client(client), &mut BytesMut::from(&bytes[..]));
                }
            }
            Event::ToClient(client, life, bytes) => {
                if life == self.life {
                    self.client_received(client, &bytes);
                }
            }
            Event::Up(number, bytes) => {
                if !self.lost.contains(&number) {
                    let mut bytes = BytesMut::from(&bytes[..]);
                    self.broker_received(Peer::Server(number), &mut bytes);
                }
            }
            Event::EndAtBroker(number) => {
                self.broker.closed(Peer::Server(number), self.now_ms);
                self.serve_broker();
            }
            Event::CheckTimeout(number) => self.check_request_timeout(number),
            Event::BrokerIsBack => {
                self.broker.is_up = true;
                self.trace_event(|| "broker: is back".into());
                for client in 0..self.clients.len() {
                    self.connect(client);
                }
            }
        }
    }

    fn connection(&mut self, number: u64) -> Option<&mut member::BrokerConnection> {
        let index = *self.connections.get(&number)?;
        let trunk = self.members[index].connection.as_mut();
        trunk.filter(|trunk| trunk.number == number)
    }

    /// Connects a client to the broker, which has no session of it.
    fn connect(&mut self, client: usize) {
        self.broker.opened(Peer::Client(client));
        let hello = self.clients[client].connect_packets();
        self.send_to_broker(client, hello);
    }

    /// Sends bytes to the broker. They are dropped while the broker is down.
    fn send_to_broker(&mut self, client: usize, bytes: Bytes) {
        if !self.broker.is_up {
            return;
        }
        let at_ms = self.now_ms + self.latency_ms();
        let its = &mut self.clients[client];
        its.up_ms = its.up_ms.max(at_ms);
        let at_ms = its.up_ms;
        self.schedule(at_ms, Event::ToBroker(client, self.life, bytes));
    }

    fn broker_received(&mut self, peer: Peer, bytes: &mut BytesMut) {
        while let Ok(Some(packet)) = decode(bytes, Limits::MAX_PACKET_BYTES) {
            if let Peer::Server(number) = peer {
                self.inspect_published(number, &packet);
            }
            if let Err(error) = self.broker.received(peer, packet, self.now_ms) {
                self.violated(format!("{peer:?}: {error}"));
            }
        }
        self.serve_broker();
    }

    /// Sends the pending output of the broker to all peers.
    fn serve_broker(&mut self) {
        for peer in self.broker.peers() {
            let mut bytes = BytesMut::new();
            let result = self.broker.take_output(peer, &mut bytes, self.now_ms);
            let at_ms = self.now_ms + self.latency_ms();
            match peer {
                Peer::Client(client) if !bytes.is_empty() => {
                    let its = &mut self.clients[client];
                    its.down_ms = its.down_ms.max(at_ms);
                    let at_ms = its.down_ms;
                    self.schedule(at_ms, Event::ToClient(client, self.life, bytes.freeze()));
                }
                Peer::Client(_) => {}
                Peer::Server(number) => {
                    if let Some(trunk) = self.connection(number)
                        && !trunk.is_silent
                        && !bytes.is_empty()
                    {
                        trunk.down_ms = trunk.down_ms.max(at_ms);
                        trunk.down.push_back((trunk.down_ms, bytes.freeze()));
                    }
                    if self.broker.is_closing(peer) {
                        self.broker_closes(number);
                        self.broker.closed(peer, self.now_ms);
                    }
                }
            }
            if let Err(error) = result {
                self.violated(error);
            }
        }
    }

    /// Ends a connection of a server from the broker's side.
    fn broker_closes(&mut self, number: u64) {
        let at_ms = self.now_ms + 1;
        if let Some(trunk) = self.connection(number)
            && !trunk.is_silent
        {
            trunk.ends_ms = Some(trunk.down_ms.max(at_ms));
        }
    }

    /// Lets a server do its work.
    fn run_server(&mut self, index: usize) {
        let now_ms = self.now_ms;
        self.members[index].proceed(now_ms);
        let engine = Arc::clone(&self.engine);
        if self.members[index].begin(&engine, &mut self.chance, now_ms) {
            self.trace_event(|| format!("store-{index}: begins anew"));
            self.mark_disturbed(index);
        }
        let member = &mut self.members[index];
        if !member.runs(now_ms) {
            return;
        }
        if member.connection.is_none() && member.dials_ms <= now_ms {
            if self.broker.is_up {
                let number = self.connections.len() as u64 + 1;
                self.connections.insert(number, index);
                self.broker.opened(Peer::Server(number));
                let connected = self.members[index].connected(number, now_ms);
                self.trace_event(|| format!("store-{index}: connects, {number}"));
                self.mark_disturbed(index);
                if let Err(error) = connected {
                    self.violated(error);
                }
            } else {
                member.dials_ms = now_ms + self.chance.between(100, 500);
            }
        }
        let turned = self.members[index].run(now_ms);
        let Some(trunk) = &self.members[index].connection else {
            return;
        };
        let number = trunk.number;
        let at_ms = now_ms + self.latency_ms();
        if let Some(trunk) = self.connection(number)
            && !trunk.is_silent
            && !turned.output.is_empty()
        {
            trunk.up_ms = trunk.up_ms.max(at_ms);
            let at_ms = trunk.up_ms;
            self.schedule(at_ms, Event::Up(number, turned.output.freeze()));
        }
        if turned.is_closed {
            self.disconnect(index);
        }
    }

    /// Handles a lost connection of a server, which connects again.
    fn disconnect(&mut self, index: usize) {
        let dials_ms = self.now_ms + self.chance.between(100, 1_000);
        let member = &mut self.members[index];
        member.dials_ms = dials_ms;
        if let Some(trunk) = member.connection.take() {
            // Bytes that the server has sent arrive before the end.
            let at_ms = trunk.up_ms.max(self.now_ms + 1);
            if !trunk.is_silent {
                self.schedule(at_ms, Event::EndAtBroker(trunk.number));
            }
            self.trace_event(|| format!("store-{index}: its connection {} is over", trunk.number));
        }
        self.mark_disturbed(index);
    }

    /// Records an event after which a server may not know all watches.
    fn mark_disturbed(&mut self, index: usize) {
        self.members[index].undisturbed_ms = self.now_ms;
    }

    /// Whether a server certainly knows what the group's leader knew at that time.
    fn is_informed(&self, index: usize, since_ms: u64) -> bool {
        let member = &self.members[index];
        let is_there = member.runs(self.now_ms)
            && !member.is_cut_off()
            && member.connection.as_ref().is_some_and(|it| !it.is_silent);
        let since_ms = since_ms.saturating_sub(ATTACHED_MS);
        is_there
            && member.undisturbed_ms <= since_ms.max(self.now_ms.saturating_sub(KNOWLEDGE_DELAY_MS))
    }

    /// Marks watches as unsure that possibly no server knows; clients have to request them again. A server that has only lost its
    /// connection does not learn of a STOP in the meantime.
    fn update_watch_knowledge(&mut self) {
        let members = 0..self.members.len();
        for client in 0..self.clients.len() {
            let watches = self.clients[client].watches.iter();
            let lost: Vec<_> = watches
                .filter_map(|(key, watching)| match watching {
                    WatchState::On { since_ms } | WatchState::Off { since_ms } => {
                        Some((key.clone(), *since_ms))
                    }
                    WatchState::Unknown => None,
                })
                .filter(|(_, since_ms)| {
                    !members
                        .clone()
                        .any(|index| self.is_informed(index, *since_ms))
                })
                .collect();
            for (key, _) in lost {
                self.trace_event(|| {
                    format!("client-{client}: nobody may know whether it watches {key:?}")
                });
                self.set_watch_state(client, key, WatchState::Unknown);
            }
        }
    }

    /// Sets the state of a watch as its client knows it.
    fn set_watch_state(&mut self, client: usize, key: Bytes, watching: WatchState) {
        let former = self.clients[client].watches.insert(key.clone(), watching);
        if let Some(WatchState::On { since_ms }) = former {
            self.watched.push(WatchSpan {
                client,
                key,
                since_ms,
                until_ms: self.now_ms,
            });
        }
    }
}

/// Runs one seed to its end, or to the first violation. `has_patterns` is whether a client watches patterns.
pub fn run_group(seed: u64, has_patterns: bool, is_traced: bool) -> Report {
    let mut world = GroupSimulation::new(seed, has_patterns, is_traced);
    world.run();
    Report {
        seed,
        violation: world.violation.take(),
        trace: world.trace.take().unwrap_or_default(),
        metrics: world.counts(),
    }
}
