//! Nodes over a shared engine: the real [`Remote`](statestored::keyspace::remote::Remote) keyspaces, and an engine with the
//! documented behaviour of etcd. Networks, clocks and restarts are simulated.
//!
//! The engine's own log is the truth: the order of all changes. Each answer is checked against it.
mod aging;
mod checks;
mod counts;
mod engine;
mod eventual;
mod group;
mod node;
mod order;
mod pages;
mod reverting;
mod skewed;
mod truth;
mod way;

pub use aging::run_aging;
pub use counts::Counts;
pub use engine::Fault;
pub use group::{Counts as GroupCounts, Report as GroupReport, run_group};
pub use reverting::run_reverting;
pub use skewed::run_skewed;

use crate::chance::Chance;
use bytes::Bytes;
use engine::Engine;
use node::Node;
use statestore_protocol::{Condition, Hlc, Version as Wanted};
use statestored::keyspace::remote::bucket_of;
use statestored::keyspace::rules::Version;
use statestored::keyspace::{End, RequestDigest};
use std::num::NonZeroU64;
use std::sync::{Arc, LazyLock, Mutex};
use way::Weather;

/// Duration of the faults.
const STORM_MS: u64 = 15_000;

/// Duration of the calm afterwards: longer than all timeouts and expiries.
const CALM_MS: u64 = 15_000;

/// Maximum duration of a node's pause.
const MOST_PAUSE_MS: u64 = 3_000;

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
pub(crate) enum Action {
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
pub(crate) struct Asked {
    pub(crate) node: usize,
    /// Number of the node's life.
    pub(crate) life: u64,
    pub(crate) what: What,
    pub(crate) timestamp: Hlc,
    pub(crate) at_ms: u64,
    pub(crate) end: Option<(u64, End)>,
    /// Whether the request ended as soon as it was made.
    pub(crate) at_once: bool,
    /// Names it if it may be delivered to several nodes.
    pub(crate) request: Option<RequestDigest>,
    /// The request that this one repeats.
    pub(crate) former: Option<usize>,
    /// Whether the request was delivered to another node as well.
    pub(crate) is_twice: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    One(Bytes, Action),
    All(Vec<(Bytes, Action)>),
    /// A page after this token, if there is one.
    Page(Option<Bytes>),
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// The violated invariant, if there is one.
    pub violation: Option<String>,
    /// Counters of the run.
    pub counts: Counts,
}

/// The state of a run.
pub(crate) struct World {
    pub(crate) now_ms: u64,
    pub(crate) engine: Arc<Mutex<Engine>>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) asked: Vec<Asked>,
    chance: Chance,
    /// Versions that clients have received, for conditions of later requests.
    versions: Vec<(Bytes, Version)>,
    /// Times at which nodes restarted.
    restarts_ms: Vec<u64>,
    /// Requests that were delivered a second time.
    again: usize,
    /// Number of times that the engine lost changes, if the run allows that.
    reversions: Option<usize>,
    /// The wrong clocks, if the run has any.
    skew: Option<skewed::Skew>,
    engine_has_clock: bool,
    /// Time since which there are no faults any more.
    calm_since_ms: u64,
}

impl World {
    fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut chance = Chance::new(seed);
        let engine = Arc::new(Mutex::new(Engine::new(fault)));
        let often = chance.spread(1, 20);
        let weather = Weather {
            delay_ms: chance.spread(1, 200),
            lost: chance.below(often),
            unanswered: chance.below(often),
            doubled: chance.below(often)
                + if fault == Some(Fault::SaysToSendOnce) {
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
        let tombstone_ms = chance.spread(10, TOMBSTONE_MS);
        let terms = (tombstone_ms, u64::MAX);
        let nodes = (0..count).map(|_| Node::new(&engine, &mut chance, weather, terms));
        let nodes = nodes.collect();
        Self {
            now_ms: 0,
            engine,
            nodes,
            asked: Vec::new(),
            chance,
            versions: Vec::new(),
            restarts_ms: Vec::new(),
            again: 0,
            reversions: None,
            skew: None,
            engine_has_clock: false,
            calm_since_ms: 0,
        }
    }

    fn storm(&mut self) {
        let pace_ms = self.chance.spread(2, 150);
        self.go_wrong(STORM_MS, pace_ms, (50, 5_000));
    }

    /// Runs until this time, with a request now and then, and a fault from time to time.
    fn go_wrong(&mut self, until_ms: u64, pace_ms: u64, rarely_ms: (u64, u64)) {
        let mut next_request_ms = self.now_ms;
        let mut next_trouble_ms = self.now_ms;
        while self.now_ms < until_ms {
            if self.now_ms >= next_request_ms {
                next_request_ms = self.now_ms + self.chance.below(2 * pace_ms) + 1;
                self.request();
            }
            if self.now_ms >= next_trouble_ms {
                next_trouble_ms = self.now_ms + self.chance.spread(rarely_ms.0, rarely_ms.1);
                self.trouble();
            }
            self.pass(next_request_ms.min(next_trouble_ms));
        }
    }

    fn calm(&mut self) {
        self.calm_since_ms = self.now_ms;
        for node in &mut self.nodes {
            node.calm_down();
        }
        let end_ms = self.now_ms + CALM_MS;
        while self.now_ms < end_ms {
            self.pass(end_ms);
        }
    }

    /// Lets time pass until the next event, at most until this moment.
    fn pass(&mut self, until_ms: u64) {
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
                self.learn(&end, ticket);
                self.asked[ticket].end = Some((self.now_ms, end));
            }
        }
    }

    fn learn(&mut self, end: &End, ticket: usize) {
        if let (What::One(key, _), End::Answered { version, .. }) = (&self.asked[ticket].what, end)
            && let Some(version) = version
        {
            self.versions.push((key.clone(), *version));
        }
    }

    fn key(&mut self) -> Bytes {
        self.chance.pick(&KEYS)
    }

    fn action(&mut self, key: &Bytes, number: usize) -> Action {
        let known = self.versions.iter().rev().filter(|(of, _)| of == key);
        let known: Vec<_> = known.take(3).map(|(_, version)| *version).collect();
        let token = (self.chance.percent(15)).then(|| {
            let wall_ms = node::BASE_MS + self.now_ms;
            Hlc::new(wall_ms, self.chance.below(3), "lock").unwrap()
        });
        let if_version = (!known.is_empty() && self.chance.percent(20)).then(|| {
            let (wall_ms, counter) = self.chance.pick(&known);
            Wanted::new(wall_ms, counter)
        });
        match self.chance.below(100) {
            0..25 => Action::Get {
                eventual: self.chance.percent(50),
            },
            25..45 => Action::Del { if_version, token },
            _ => {
                let condition = match (if_version, self.chance.below(4)) {
                    (Some(version), _) => Condition::IfVersion(version),
                    (None, 0) => Condition::IfAbsent,
                    _ => Condition::Always,
                };
                let ttl_ms = self
                    .chance
                    .percent(40)
                    .then(|| self.chance.spread(1, 2_000));
                let ttl_ms = self.skew_ttl(ttl_ms);
                Action::Set {
                    value: Bytes::from(format!("value{number}")),
                    condition,
                    ttl_ms: ttl_ms.and_then(NonZeroU64::new),
                    token,
                }
            }
        }
    }

    /// Lets a client make a request to a node.
    fn request(&mut self) {
        let node = self.chance.index(self.nodes.len());
        let ticket = self.asked.len();
        let what = match self.chance.below(100) {
            0..4 => What::Page(pages::last_token(&self.asked)),
            4..14 => {
                let mut actions: Vec<(Bytes, Action)> = Vec::new();
                for part in 0..self.chance.between(1, 3) {
                    let key = self.key();
                    let number = usize::try_from(part).unwrap() + 10 * ticket;
                    if actions.iter().any(|(other, _)| *other == key) {
                        continue;
                    }
                    match self.action(&key, number) {
                        Action::Get { .. } => {}
                        action => actions.push((key, action)),
                    }
                }
                if actions.is_empty() {
                    return;
                }
                What::All(actions)
            }
            _ => {
                let key = self.key();
                let action = self.action(&key, 10 * ticket);
                What::One(key, action)
            }
        };
        if self.chance.percent(10) {
            let key = self.key();
            self.nodes[node].follow(&key, self.now_ms);
        }
        let ahead_ms = self.chance.below(5_000);
        let wall_ms = node::BASE_MS + self.now_ms + ahead_ms;
        let timestamp = Hlc::new(wall_ms, 0, "client").unwrap();
        let is_shared = self.chance.percent(50);
        self.deliver(Asked {
            node,
            life: self.nodes[node].life,
            what,
            timestamp,
            at_ms: self.now_ms,
            end: None,
            request: is_shared.then(|| RequestDigest((ticket as u128).to_be_bytes())),
            at_once: false,
            former: None,
            is_twice: false,
        });
        if self.chance.percent(10) {
            let back = 1 + self.chance.index(30.min(ticket + 1));
            self.deliver_again(ticket + 1 - back);
        }
    }

    fn deliver(&mut self, mut asked: Asked) {
        let ticket = self.asked.len();
        let deadline_ms = self.chance.spread(20, 10_000);
        let end = self.nodes[asked.node].ask(ticket, &asked, self.now_ms, deadline_ms);
        asked.at_once = end.is_some();
        asked.end = end.map(|end| (self.now_ms, end));
        self.asked.push(asked);
    }

    /// Delivers a request to a second node, as a broker without an acknowledgement does. The first node may have died before or
    /// after its commit, may have answered the request, or may still be working on it.
    fn deliver_again(&mut self, ticket: usize) {
        let former = &self.asked[ticket];
        let is_open = matches!(former.end, None | Some((_, End::Answered { .. })));
        if former.request.is_none() || former.former.is_some() || former.is_twice || !is_open {
            return;
        }
        let node = self.chance.index(self.nodes.len());
        let again = Asked {
            node,
            life: self.nodes[node].life,
            end: None,
            former: Some(ticket),
            is_twice: true,
            ..self.asked[ticket].clone()
        };
        self.asked[ticket].is_twice = true;
        self.again += 1;
        self.deliver(again);
    }

    /// Causes a fault, or ends one.
    fn trouble(&mut self) {
        if let Some(count) = &mut self.reversions
            && self.chance.percent(20)
        {
            *count += 1;
            return self.revert();
        }
        match &self.skew {
            Some(skew) if skew.ages() => return self.trouble_of_age(),
            Some(_) => return self.trouble_with_clocks(),
            None => {}
        }
        let index = self.chance.index(self.nodes.len());
        let node = &mut self.nodes[index];
        match self.chance.below(6) {
            0 => node.cut(true),
            1 => node.cut(false),
            2 => node.pause_until(self.now_ms + self.chance.spread(10, MOST_PAUSE_MS)),
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
        let open = self.asked.iter().enumerate();
        let open = open.filter(|(_, it)| it.node == index && it.end.is_none());
        let open: Vec<_> = open.map(|(ticket, _)| ticket).collect();
        for ticket in open {
            self.deliver_again(ticket);
        }
    }

    fn counts(&self) -> Counts {
        let engine = self.engine.lock().unwrap();
        let ends = |wanted: End| {
            let ends = self.asked.iter().filter_map(|it| it.end.as_ref());
            ends.filter(|(_, end)| *end == wanted).count()
        };
        let ways = || self.nodes.iter().flat_map(Node::ways);
        Counts {
            asked: self.asked.len(),
            changes: engine.log.len(),
            unknown: ends(End::Unknown),
            expired: ends(End::Expired),
            lost: ways().map(|way| way.lock().lost).sum(),
            doubled: ways().map(|way| way.lock().late).sum(),
            full: ways().map(|way| way.lock().full).sum(),
            gaps: ways().map(|way| way.lock().gaps).sum(),
            interruptions: ways().map(|way| way.lock().interruptions).sum(),
            restarts: self.restarts_ms.len(),
            again: self.again,
            told: self.nodes.iter().map(Node::told_count).sum(),
            transactions: counts::transactions(&self.asked),
            purged: counts::purged(&engine),
            ended: checks::ended(&engine, &self.asked),
            remembered: eventual::count(&self.asked),
            confirmed: self.nodes.iter().map(Node::confirmed).sum(),
            clock_refused: skewed::refused(&self.asked),
        }
    }
}

/// Runs one seed to its end, with a rule that is left out if one is given.
pub fn run(seed: u64, fault: Option<Fault>) -> Report {
    let mut world = World::new(seed, fault);
    world.storm();
    world.calm();
    let violation = checks::check(&world).err();
    Report {
        seed,
        violation,
        counts: world.counts(),
    }
}
