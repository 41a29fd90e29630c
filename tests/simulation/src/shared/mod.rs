//! Nodes over a shared engine: the real [`SharedKeyspace`](statestored_shared::SharedKeyspace) keyspaces, and an engine with the
//! documented behaviour of etcd. Networks, clocks and restarts are simulated.
//!
//! The engine's own log is the truth: the order of all changes. Each answer is checked against it.
mod aging;
mod checks;
mod clock_skew;
mod engine;
mod entries;
mod eventual_reads;
mod ground_truth;
mod group;
mod node;
mod operation;
mod pages;
mod read_order;
mod reversion;
mod run_metrics;
mod runs;
mod simulated_link;

pub use engine::Mutation;
pub use group::{Report as GroupReport, RunMetrics as GroupCounts, run_group};
pub use reversion::run_reverting;
pub use run_metrics::RunMetrics;
pub use runs::{run, run_aging, run_skewed};

use crate::seeded_rng::SeededRng;
use bytes::Bytes;
use engine::{BASE_MS, Engine};
use node::Node;
use simulated_link::LinkFaults;
use statestore_protocol::{Condition, Hlc, Version as Wanted};
use statestored_shared::bucket_of;
use statestored_store::keyspace::rules::Version;
use statestored_store::keyspace::{Completion, RequestDigest};
use std::num::NonZeroU64;
use std::sync::{Arc, LazyLock, Mutex};

/// Duration of the faults.
const STORM_MS: u64 = 15_000;

/// Duration of the calm afterwards: longer than all timeouts and expiries.
const CALM_MS: u64 = 15_000;

/// Maximum duration of a node's pause.
const MAX_PAUSE_MS: u64 = 3_000;

/// The keys. Some of them share a bucket, and with it a floor.
static KEYS: LazyLock<Vec<Bytes>> = LazyLock::new(|| {
    let all = (0..).map(|number| Bytes::from(format!("key{number}")));
    let neighbours = all
        .clone()
        .filter(|key| bucket_of(key) == bucket_of(b"key0"));
    all.take(2).chain(neighbours.skip(1).take(3)).collect()
});

/// Maximum time for which a tombstone is kept.
const TOMBSTONE_MS: u64 = 2_500;

/// A request of a client.
#[derive(Debug, Clone)]
pub(crate) enum Invocation {
    Get {
        eventual: bool,
    },
    Set {
        value: Bytes,
        condition: Condition,
        ttl_ms: Option<NonZeroU64>,
        token: Option<Hlc>,
    },
    Del {
        if_version: Option<Wanted>,
        token: Option<Hlc>,
    },
}

/// A request to a node.
#[derive(Debug, Clone)]
pub(crate) struct NodeRequest {
    pub(crate) node: usize,
    /// Number of the node's life.
    pub(crate) life: u64,
    pub(crate) kind: RequestKind,
    pub(crate) timestamp: Hlc,
    pub(crate) started_ms: u64,
    pub(crate) completion: Option<(u64, Completion)>,
    /// Whether the request ended as soon as it was made.
    pub(crate) completed_at_once: bool,
    /// Names it if it may be delivered to several nodes.
    pub(crate) digest: Option<RequestDigest>,
    /// The request that this one repeats.
    pub(crate) original: Option<usize>,
    /// Whether the request was delivered to another node as well.
    pub(crate) is_redelivered: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum RequestKind {
    Operation(Bytes, Invocation),
    Transaction(Vec<(Bytes, Invocation)>),
    /// A read of these keys at one moment.
    GetMany(Vec<Bytes>),
    /// A page after this token, if there is one.
    Page {
        after: Option<Bytes>,
        with_values: bool,
    },
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// The violated invariant, if there is one.
    pub violation: Option<String>,
    /// Counters of the run.
    pub metrics: RunMetrics,
}

/// The state of a run.
pub(crate) struct NodeSimulation {
    pub(crate) now_ms: u64,
    pub(crate) engine: Arc<Mutex<Engine>>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) requests: Vec<NodeRequest>,
    chance: SeededRng,
    /// Versions that clients have received, for conditions of later requests.
    versions: Vec<(Bytes, Version)>,
    /// Times at which nodes restarted.
    restarts_ms: Vec<u64>,
    /// Requests that were delivered a second time.
    redelivered: usize,
    /// Number of times that the engine lost changes, if the run allows that.
    reversions: Option<usize>,
    /// The wrong clocks, if the run has any.
    clock_skew: Option<clock_skew::ClockSkew>,
    engine_has_clock: bool,
    /// Time since which there are no faults any more.
    calm_since_ms: u64,
}

impl NodeSimulation {
    fn new(seed: u64, fault: Option<Mutation>) -> Self {
        let mut chance = SeededRng::new(seed);
        let engine = Arc::new(Mutex::new(Engine::new(fault)));
        let often = chance.log_uniform(1, 20);
        let weather = LinkFaults {
            delay_ms: chance.log_uniform(1, 200),
            lost: chance.below(often),
            unanswered: chance.below(often),
            doubled: chance.below(often)
                + if fault == Some(Mutation::ClaimsToSendOnce) {
                    20
                } else {
                    0
                },
            full: chance.below(often) / 4,
            watch_lost: chance.below(4 * often),
        };
        // Redis counts revisions, etcd does not.
        engine.lock().unwrap().counts_revisions = seed % 2 == 1;
        let count = chance.between(1, 4);
        let tombstone_ms = chance.log_uniform(10, TOMBSTONE_MS);
        let terms = (tombstone_ms, u64::MAX);
        let nodes = (0..count).map(|_| Node::new(&engine, &mut chance, weather, terms));
        let nodes = nodes.collect();
        Self {
            now_ms: 0,
            engine,
            nodes,
            requests: Vec::new(),
            chance,
            versions: Vec::new(),
            restarts_ms: Vec::new(),
            redelivered: 0,
            reversions: None,
            clock_skew: None,
            engine_has_clock: false,
            calm_since_ms: 0,
        }
    }

    fn run_storm(&mut self) {
        let pace_ms = self.chance.log_uniform(2, 150);
        self.run_with_faults(STORM_MS, pace_ms, (50, 5_000));
    }

    /// Runs until this time, with a request now and then, and a fault from time to time.
    fn run_with_faults(&mut self, until_ms: u64, pace_ms: u64, rarely_ms: (u64, u64)) {
        let mut next_request_ms = self.now_ms;
        let mut next_trouble_ms = self.now_ms;
        while self.now_ms < until_ms {
            if self.now_ms >= next_request_ms {
                next_request_ms = self.now_ms + self.chance.below(2 * pace_ms) + 1;
                self.make_request();
            }
            if self.now_ms >= next_trouble_ms {
                next_trouble_ms = self.now_ms + self.chance.log_uniform(rarely_ms.0, rarely_ms.1);
                self.inject_fault();
            }
            self.advance_to(next_request_ms.min(next_trouble_ms));
        }
    }

    fn run_calm(&mut self) {
        self.calm_since_ms = self.now_ms;
        for node in &mut self.nodes {
            node.end_faults();
        }
        let end_ms = self.now_ms + CALM_MS;
        while self.now_ms < end_ms {
            self.advance_to(end_ms);
        }
    }

    /// Lets time pass until the next event, at most until this moment.
    fn advance_to(&mut self, until_ms: u64) {
        let next = self
            .nodes
            .iter()
            .filter_map(|node| node.next_ms(self.now_ms));
        let next_ms = next.min().unwrap_or(u64::MAX);
        // All work that is due now is done as far as possible. A node that requests the same moment again gets the next one.
        self.now_ms = next_ms.clamp(self.now_ms + 1, until_ms.max(self.now_ms + 1));
        self.engine.lock().unwrap().now_ms = self.now_ms;
        for index in 0..self.nodes.len() {
            for (ticket, end) in self.nodes[index].proceed(self.now_ms) {
                self.learn_versions(&end, ticket);
                self.requests[ticket].completion = Some((self.now_ms, end));
            }
        }
    }

    fn learn_versions(&mut self, end: &Completion, ticket: usize) {
        if let (RequestKind::Operation(key, _), Completion::Answered { version, .. }) =
            (&self.requests[ticket].kind, end)
            && let Some(version) = version
        {
            self.versions.push((key.clone(), *version));
        }
    }

    fn key(&mut self) -> Bytes {
        self.chance.pick(&KEYS)
    }

    fn action(&mut self, key: &Bytes, number: usize) -> Invocation {
        let known = self.versions.iter().rev().filter(|(of, _)| of == key);
        let known: Vec<_> = known.take(3).map(|(_, version)| *version).collect();
        let token = (self.chance.percent(15)).then(|| {
            let wall_ms = BASE_MS + self.now_ms;
            Hlc::new(wall_ms, self.chance.below(3), "lock").unwrap()
        });
        let if_version = (!known.is_empty() && self.chance.percent(20)).then(|| {
            let (wall_ms, counter) = self.chance.pick(&known);
            Wanted::new(wall_ms, counter)
        });
        match self.chance.below(100) {
            0..25 => Invocation::Get {
                eventual: self.chance.percent(50),
            },
            25..45 => Invocation::Del { if_version, token },
            _ => {
                let condition = match (if_version, self.chance.below(4)) {
                    (Some(version), _) => Condition::IfVersion(version),
                    (None, 0) => Condition::IfAbsent,
                    _ => Condition::Always,
                };
                let ttl_ms = self
                    .chance
                    .percent(40)
                    .then(|| self.chance.log_uniform(1, 2_000));
                let ttl_ms = self.skew_ttl(ttl_ms);
                Invocation::Set {
                    value: Bytes::from(format!("value{number}")),
                    condition,
                    ttl_ms: ttl_ms.and_then(NonZeroU64::new),
                    token,
                }
            }
        }
    }

    /// Lets a client make a request to a node.
    fn make_request(&mut self) {
        let node = self.chance.index(self.nodes.len());
        let ticket = self.requests.len();
        let what = match self.chance.below(100) {
            0..4 => RequestKind::Page {
                after: pages::last_token(&self.requests),
                with_values: self.chance.percent(50),
            },
            4..14 => {
                let mut actions: Vec<(Bytes, Invocation)> = Vec::new();
                for part in 0..self.chance.between(1, 3) {
                    let key = self.key();
                    let number = usize::try_from(part).unwrap() + 10 * ticket;
                    if actions.iter().any(|(other, _)| *other == key) {
                        continue;
                    }
                    match self.action(&key, number) {
                        Invocation::Get { .. } => {}
                        action => actions.push((key, action)),
                    }
                }
                if actions.is_empty() {
                    return;
                }
                RequestKind::Transaction(actions)
            }
            14..20 => {
                let count = self.chance.between(1, 4);
                RequestKind::GetMany((0..count).map(|_| self.key()).collect())
            }
            _ => {
                let key = self.key();
                let action = self.action(&key, 10 * ticket);
                RequestKind::Operation(key, action)
            }
        };
        if self.chance.percent(10) {
            let key = self.key();
            self.nodes[node].follow(&key, self.now_ms);
        }
        let ahead_ms = self.chance.below(5_000);
        let wall_ms = BASE_MS + self.now_ms + ahead_ms;
        let timestamp = Hlc::new(wall_ms, 0, "client").unwrap();
        let is_shared = self.chance.percent(50);
        self.deliver(NodeRequest {
            node,
            life: self.nodes[node].life,
            kind: what,
            timestamp,
            started_ms: self.now_ms,
            completion: None,
            digest: is_shared.then(|| RequestDigest((ticket as u128).to_be_bytes())),
            completed_at_once: false,
            original: None,
            is_redelivered: false,
        });
        if self.chance.percent(10) {
            let back = 1 + self.chance.index(30.min(ticket + 1));
            self.redeliver(ticket + 1 - back);
        }
    }

    fn deliver(&mut self, mut asked: NodeRequest) {
        let ticket = self.requests.len();
        let deadline_ms = self.chance.log_uniform(20, 10_000);
        let end = self.nodes[asked.node].request(ticket, &asked, self.now_ms, deadline_ms);
        asked.completed_at_once = end.is_some();
        asked.completion = end.map(|end| (self.now_ms, end));
        self.requests.push(asked);
    }

    /// Delivers a request to a second node, as a broker without an acknowledgement does. The first node may have died before or
    /// after its commit, may have answered the request, or may still be working on it.
    fn redeliver(&mut self, ticket: usize) {
        let former = &self.requests[ticket];
        let is_open = matches!(
            former.completion,
            None | Some((_, Completion::Answered { .. }))
        );
        if former.digest.is_none() || former.original.is_some() || former.is_redelivered || !is_open
        {
            return;
        }
        let node = self.chance.index(self.nodes.len());
        let again = NodeRequest {
            node,
            life: self.nodes[node].life,
            completion: None,
            original: Some(ticket),
            is_redelivered: true,
            ..self.requests[ticket].clone()
        };
        self.requests[ticket].is_redelivered = true;
        self.redelivered += 1;
        self.deliver(again);
    }

    /// Causes a fault, or ends one.
    fn inject_fault(&mut self) {
        if let Some(count) = &mut self.reversions
            && self.chance.percent(20)
        {
            *count += 1;
            return self.revert();
        }
        match &self.clock_skew {
            Some(skew) if skew.has_aging_entries() => return self.inject_aging_fault(),
            Some(_) => return self.inject_clock_fault(),
            None => {}
        }
        let index = self.chance.index(self.nodes.len());
        let node = &mut self.nodes[index];
        match self.chance.below(6) {
            0 => node.cut(true),
            1 => node.cut(false),
            2 => node.pause_until(self.now_ms + self.chance.log_uniform(10, MAX_PAUSE_MS)),
            3 => {
                let ahead_ms = self.chance.between(0, 60_000).cast_signed();
                node.step_clock(ahead_ms, self.now_ms);
            }
            4 => self.restart(index),
            _ => {}
        }
    }

    fn restart(&mut self, index: usize) {
        self.restarts_ms.push(self.now_ms);
        self.nodes[index].restart(&self.engine, &mut self.chance);
        let open = self.requests.iter().enumerate();
        let open = open.filter(|(_, it)| it.node == index && it.completion.is_none());
        let open: Vec<_> = open.map(|(ticket, _)| ticket).collect();
        for ticket in open {
            self.redeliver(ticket);
        }
    }

    fn metrics(&self) -> RunMetrics {
        let engine = self.engine.lock().unwrap();
        let ends = |wanted: Completion| {
            let ends = self.requests.iter().filter_map(|it| it.completion.as_ref());
            ends.filter(|(_, end)| *end == wanted).count()
        };
        let ways = || self.nodes.iter().flat_map(Node::links);
        RunMetrics {
            requests: self.requests.len(),
            changes: engine.log.len(),
            unknown: ends(Completion::Unknown),
            expired: ends(Completion::Expired),
            lost: ways().map(|way| way.lock().lost).sum(),
            doubled: ways().map(|way| way.lock().late).sum(),
            full: ways().map(|way| way.lock().full).sum(),
            gaps: ways().map(|way| way.lock().gaps).sum(),
            interruptions: ways().map(|way| way.lock().interruptions).sum(),
            restarts: self.restarts_ms.len(),
            redelivered: self.redelivered,
            reported: self.nodes.iter().map(Node::reported_count).sum(),
            transactions: run_metrics::transactions(&self.requests),
            purged: run_metrics::purged(&engine),
            expired_entries: checks::expired_count(&engine, &self.requests),
            eventual_cache_hits: eventual_reads::count(&self.requests),
            confirmed_cache_hits: self.nodes.iter().map(Node::confirmed).sum(),
            clock_rejections: clock_skew::clock_rejections(&self.requests),
        }
    }
}
