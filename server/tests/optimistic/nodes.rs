//! Two nodes over one map: clients of both count together, under delays, conflicts and cuts that a seed chooses.
//!
//! Invariants of every run:
//!
//! - a counter that is taken (VDEL) and put back greater by one (SET NX) has counted each success that a client received;
//! - each SET is executed once, although its request is delivered again after a cut;
//! - a read returns no version lower than any that a client received before the read was sent;
//! - PUBACKs come in the order of the PUBLISHes [MQTT-4.6.0-2];
//! - a watcher receives rising versions of a key, and its last value;
//! - every request is answered within seconds.
use crate::keyspace::{FaultRates, OptimisticKeyspace};
use crate::shared::{Mutation, SharedMap};
use crate::world::{MAX, PEER, START_WALL_MS, command, connect, id, request, resume};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{
    Connect, Packet, PubAck, Publish, PublishHeader, ReasonCode, decode,
};
use statestore_protocol::{Event, Hlc, Reply, topic};
use statestored_broker::hub::{ConnectionId, Hub, HubConfig};
use statestored_store::service::{ClockReading, Service, ServiceConfig};
use std::collections::{BTreeMap, VecDeque};

const COUNTER: &str = "counter";
const KEYS: [&str; 3] = ["a", "b", "c"];
/// How often each client adds one.
const ROUNDS: usize = 4;
/// Maximum time that a client waits for a response.
const RESPONSE_TIMEOUT_MS: u64 = 20_000;

type Version = (u64, u64);

/// The highest version of each key that any client has received.
type KnownVersions = BTreeMap<&'static str, Version>;

/// A request that was not answered yet.
#[derive(Debug, Clone)]
struct PendingRequest {
    kind: RequestKind,
    since_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    /// The setup before the counting.
    Begin,
    Count,
    Take(u64),
    PutBack,
    /// A SET or GET of a key, and what was known of it.
    Set(&'static str, Version),
    Get(&'static str, Version),
}

struct Client {
    name: String,
    node: usize,
    connection: Option<ConnectionId>,
    input: BytesMut,
    sent: u16,
    /// PUBLISHes without PUBACK, in their order.
    unacknowledged: VecDeque<(u16, Vec<u8>, Bytes)>,
    pending: BTreeMap<Vec<u8>, PendingRequest>,
    counted: usize,
    /// Versions that a watcher was notified of.
    notified: BTreeMap<Bytes, (Hlc, Event)>,
    is_watcher: bool,
}

struct NodeCluster {
    map: SharedMap,
    hubs: Vec<Hub>,
    clients: Vec<Client>,
    now: ClockReading,
    random: fastrand::Rng,
    known_versions: KnownVersions,
    sets: usize,
}

impl NodeCluster {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let map = SharedMap::default();
        let delay_ms = [0, 3, 12][random.usize(..3)];
        let refused = [0, 20, 60][random.usize(..3)];
        let hub = |node: u64| {
            let weather = FaultRates {
                seed: seed * 2 + node,
                delay_ms,
                refused,
                lost: 0,
            };
            let keyspace = OptimisticKeyspace::new(map.clone(), u64::MAX, weather);
            let service = Service::new(ServiceConfig::default(), keyspace);
            Hub::new(HubConfig::default(), service)
        };
        let hubs: Vec<_> = (0..2).map(hub).collect();
        let clients = (0..8)
            .map(|number| Client {
                name: format!("client-{number}"),
                node: number % 2,
                connection: None,
                input: BytesMut::new(),
                sent: 0,
                unacknowledged: VecDeque::new(),
                pending: BTreeMap::new(),
                counted: 0,
                notified: BTreeMap::new(),
                is_watcher: number < 2,
            })
            .collect();
        Self {
            map,
            hubs,
            clients,
            now: ClockReading {
                wall_ms: START_WALL_MS,
                mono_ms: 0,
            },
            random,
            known_versions: KnownVersions::new(),
            sets: 0,
        }
    }

    fn run(&mut self) {
        for client in 0..self.clients.len() {
            self.connect(client);
            if self.clients[client].is_watcher {
                for key in KEYS.into_iter().chain([COUNTER]) {
                    self.send_request(client, RequestKind::Begin, &["KEYNOTIFY", key]);
                }
            }
        }
        self.until(|client| client.pending.is_empty());
        self.send_request(2, RequestKind::Begin, &["SET", COUNTER, "0"]);
        self.until(|client| client.pending.is_empty());
        for client in 2..self.clients.len() {
            self.send_request(client, RequestKind::Count, &["GET", COUNTER]);
        }
        self.until(|client| {
            client.is_watcher || (client.counted == ROUNDS && client.pending.is_empty())
        });
    }

    /// Lets time pass until the condition holds for all clients, and the nodes have no further events.
    fn until(&mut self, is_so: impl Fn(&Client) -> bool) {
        while !self.clients.iter().all(&is_so) {
            self.pass();
        }
        for _ in 0..100 {
            self.pass();
        }
    }

    fn pass(&mut self) {
        self.now.mono_ms += 1;
        self.now.wall_ms += 1;
        for hub in &mut self.hubs {
            hub.tick(self.now);
        }
        for client in 0..self.clients.len() {
            let is_cut = !self.clients[client].is_watcher && self.random.u32(..400) == 0;
            match self.clients[client].connection {
                Some(connection) if is_cut => {
                    self.hubs[self.clients[client].node].closed(connection, self.now);
                    self.clients[client].connection = None;
                }
                Some(connection) => self.serve(client, connection),
                None if self.random.u32(..10) == 0 => self.connect(client),
                None => {}
            }
            for asked in self.clients[client].pending.values() {
                let waited_ms = self.now.mono_ms - asked.since_ms;
                assert!(waited_ms < RESPONSE_TIMEOUT_MS, "{asked:?} starves");
            }
        }
    }

    fn connect(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let connection = self.hubs[client.node].opened(PEER, self.now).unwrap();
        client.connection = Some(connection);
        client.input.clear();
        let packet = if client.is_watcher {
            connect(&client.name)
        } else {
            Connect {
                session_expiry_s: 3_600,
                ..resume(&client.name)
            }
        };
        packet.encode(MAX, &mut client.input).unwrap();
        for (number, correlation, payload) in client.unacknowledged.clone() {
            client.put(number, &correlation, &payload, true);
        }
        self.serve(number, connection);
    }

    /// Sends a request; most clients send others before they have an answer.
    fn send_request(&mut self, number: usize, what: RequestKind, words: &[&str]) {
        let client = &mut self.clients[number];
        client.sent += 1;
        let correlation = client.sent.to_be_bytes().to_vec();
        let payload = command(words);
        let asked = PendingRequest {
            kind: what,
            since_ms: self.now.mono_ms,
        };
        client.pending.insert(correlation.clone(), asked);
        let sent = client.sent;
        client
            .unacknowledged
            .push_back((sent, correlation.clone(), payload.clone()));
        client.put(sent, &correlation, &payload, false);
    }

    /// A few requests that nothing waits for.
    fn chatter(&mut self, number: usize) {
        for _ in 0..self.random.usize(..4) {
            let key = KEYS[self.random.usize(..KEYS.len())];
            let known = self.known_versions.get(key).copied().unwrap_or_default();
            if self.random.bool() {
                self.send_request(number, RequestKind::Get(key, known), &["GET", key]);
            } else {
                self.sets += 1;
                let value = self.sets.to_string();
                self.send_request(number, RequestKind::Set(key, known), &["SET", key, &value]);
            }
        }
    }

    fn serve(&mut self, number: usize, connection: ConnectionId) {
        let client = &mut self.clients[number];
        let hub = &mut self.hubs[client.node];
        while hub.received(connection, &mut client.input, self.now) {}
        let mut output = BytesMut::new();
        hub.take_output(connection, &mut output, self.now);
        while let Some(packet) = decode(&mut output, MAX).unwrap() {
            match packet {
                Packet::ConnAck(connack) => assert_eq!(connack.reason, ReasonCode::SUCCESS),
                Packet::PubAck(puback) => {
                    assert_eq!(puback.reason, ReasonCode::SUCCESS);
                    let (first, ..) = self.clients[number].unacknowledged.pop_front().unwrap();
                    assert_eq!(puback.packet_id, id(first), "in the order of the PUBLISHes");
                }
                Packet::Publish(publish) => self.published(number, &publish),
                other => panic!("{other:?}"),
            }
        }
    }

    fn published(&mut self, number: usize, publish: &Publish) {
        let client = &mut self.clients[number];
        if let Some(packet_id) = publish.packet_id() {
            let ack = PubAck::success(packet_id);
            ack.encode(MAX, &mut client.input).unwrap();
        }
        let version = publish
            .user_properties()
            .find(|(name, _)| *name == "__ts")
            .map(|(_, text)| Hlc::parse(text.as_bytes()).unwrap());
        if let Some(key) = topic::notification_key(&client.name, publish.topic()) {
            let event = Event::decode(&publish.payload()).unwrap();
            let version = version.unwrap();
            let last = client.notified.insert(key, (version.clone(), event));
            assert!(last.is_none_or(|(last, _)| last < version), "versions rise");
            return;
        }
        // After a cut, an answer may come twice.
        let Some(asked) = client.pending.remove(publish.correlation_data().unwrap()) else {
            return;
        };
        let reply = Reply::decode(&publish.payload()).unwrap();
        let version = version.map(|version| (version.wall_ms(), version.counter()));
        self.answered(number, asked.kind, &reply, version);
    }

    fn answered(
        &mut self,
        number: usize,
        what: RequestKind,
        reply: &Reply,
        version: Option<Version>,
    ) {
        match (what, reply) {
            (RequestKind::Begin, Reply::Ok) => {}
            (RequestKind::Count, Reply::Value(value)) => {
                let text = std::str::from_utf8(value).unwrap();
                let count = text.parse().unwrap();
                self.send_request(number, RequestKind::Take(count), &["VDEL", COUNTER, text]);
                self.chatter(number);
            }
            (RequestKind::Take(count), Reply::Count(1)) => {
                let more = (count + 1).to_string();
                self.send_request(number, RequestKind::PutBack, &["SET", COUNTER, &more, "NX"]);
            }
            // Another client has taken it.
            (RequestKind::Count, Reply::Nil)
            | (RequestKind::Take(_), Reply::Count(0) | Reply::NotApplied) => {
                self.send_request(number, RequestKind::Count, &["GET", COUNTER]);
            }
            (RequestKind::PutBack, Reply::Ok) => {
                self.clients[number].counted += 1;
                if self.clients[number].counted < ROUNDS {
                    self.send_request(number, RequestKind::Count, &["GET", COUNTER]);
                    self.chatter(number);
                }
            }
            (RequestKind::Get(_, known), Reply::Nil) => assert_eq!(known, (0, 0)),
            (RequestKind::Get(key, known), Reply::Value(_)) => {
                let version = version.unwrap();
                assert!(version >= known, "{key}: nothing older than what was known");
                self.record_version(key, version);
            }
            (RequestKind::Set(key, known), Reply::Ok) => {
                let version = version.unwrap();
                assert!(version > known, "{key}: newer than what was known");
                self.record_version(key, version);
            }
            other => panic!("{other:?}"),
        }
    }

    fn record_version(&mut self, key: &'static str, version: Version) {
        let known = self.known_versions.entry(key).or_default();
        *known = version.max(*known);
    }

    fn check(&self) -> usize {
        for hub in &self.hubs {
            let statistics = hub.metrics();
            assert_eq!(statistics.requests_pending, 0);
            assert_eq!(statistics.connections_failed, 0);
        }
        let map = self.map.lock();
        let clients = self.clients.iter().filter(|client| !client.is_watcher);
        let count = clients.clone().count() * ROUNDS;
        let counter = &map.entries[COUNTER.as_bytes()];
        assert_eq!(counter.value, count.to_string(), "no update is lost");
        let mut values: Vec<_> = map
            .changes
            .iter()
            .filter(|change| change.key != COUNTER)
            .map(|change| match &change.put {
                Mutation::Set { value, .. } => value.clone(),
                Mutation::Removed => panic!("nobody deletes {:?}", change.key),
            })
            .collect();
        values.sort();
        values.dedup();
        let made = map.changes.iter().filter(|change| change.key != COUNTER);
        assert_eq!(
            (values.len(), made.count()),
            (self.sets, self.sets),
            "once each"
        );
        for watcher in self.clients.iter().filter(|client| client.is_watcher) {
            for (key, entry) in &map.entries {
                let (version, event) = &watcher.notified[key];
                assert_eq!((version.wall_ms(), version.counter()), entry.version);
                assert_eq!(*event, Event::Set(entry.value.clone()));
            }
        }
        map.conflicts
    }
}

impl Client {
    fn put(&mut self, number: u16, correlation: &[u8], payload: &Bytes, dup: bool) {
        let header = PublishHeader {
            correlation_data: Some(correlation),
            dup,
            ..request(id(number))
        };
        let write = |out: &mut BytesMut| out.extend_from_slice(payload);
        header
            .encode(MAX, &mut self.input, payload.len(), write)
            .unwrap();
    }
}

#[test]
fn two_nodes_over_one_map_execute_each_request_once() {
    let mut conflicts = 0;
    for seed in 0..40 {
        let mut nodes = NodeCluster::new(seed);
        nodes.run();
        conflicts += nodes.check();
    }
    assert!(conflicts > 1_000, "only {conflicts} commits were refused");
}
