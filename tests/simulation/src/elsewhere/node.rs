//! A node: a keyspace with its clocks, its link to the engine, and its results.
use super::engine::Engine;
use super::way::{Shared, Way, Weather};
use super::{Action, Asked, What, pages};
use crate::chance::Chance;
use bytes::Bytes;
use statestore_protocol::{Reply, SetOptions};
use statestored::keyspace::remote::{Remote, RemoteConfig};
use statestored::keyspace::rules::{Operation, Version};
use statestored::keyspace::{self, Changed, End, Keyspace, PageRequest, Ticket, Told};
use statestored::service::Now;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Time of the wall clocks at the start.
pub(crate) const BASE_MS: u64 = 1_700_000_000_000;

/// Time after the last report of the watch for which a node answers reads from its own state.
pub(crate) const TRUST_MS: u64 = 1_000;

/// Interval at which a node compares its clock with others.
const COMPARE_MS: u64 = 500;

/// Limit by which a clock may be ahead, if the run has clocks that are far off.
pub(crate) const CLOCK_LIMIT_MS: u64 = 60_000;

/// Tickets of the followers of a key are above this number.
const FOLLOWS: u64 = 1 << 32;

/// A change as the node reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) at_ms: u64,
    pub(crate) version: Version,
    /// The value; `None` if the key was removed.
    pub(crate) value: Option<Bytes>,
}

/// A key that is followed at a node, in one life of that node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Following {
    /// Time since which the follower knows that the key is followed.
    pub(crate) since_ms: Option<u64>,
    pub(crate) heard: Vec<Heard>,
}

#[derive(Debug)]
pub(crate) struct Node {
    remote: Remote<Shared>,
    way: Shared,
    /// The links of former lives; messages on them still arrive.
    former: Vec<Shared>,
    weather: Weather,
    tombstone_ms: u64,
    pub(crate) life: u64,
    /// Offset of the wall clock.
    ahead_ms: i64,
    /// Spans in which the clock was far off.
    far: Vec<(u64, u64)>,
    clock_limit_ms: u64,
    /// Start of the monotonic clock in this life.
    start_ms: u64,
    paused_until_ms: u64,
    pub(crate) following: BTreeMap<Bytes, Following>,
    /// Followed keys by the number of the follower.
    follows: BTreeMap<u64, Bytes>,
    follows_so_far: u64,
    told: usize,
    process: u128,
}

#[derive(Default)]
struct Ear {
    changes: Vec<(Bytes, Version, Option<Bytes>)>,
    ended: Vec<(Ticket, End)>,
}

impl Told for Ear {
    fn changed(&mut self, change: &Changed<'_>) {
        let value = match change.what {
            keyspace::What::Set { value, .. } => Some(value.clone()),
            keyspace::What::Removed { .. } => None,
        };
        self.changes
            .push((change.key.clone(), change.version, value));
    }

    fn ended(&mut self, ticket: Ticket, end: End) {
        self.ended.push((ticket, end));
    }

    fn worked(&mut self, _steps: usize) {}
}

pub(super) fn config(
    process: u128,
    chance: &mut Chance,
    tombstone_ms: u64,
    clock_limit_ms: u64,
) -> RemoteConfig {
    RemoteConfig {
        process,
        patience_ms: chance.below(300),
        tombstone_ms,
        page_keys: pages::LOOKED_AT,
        max_operations: 60,
        trust_ms: TRUST_MS,
        clock_limit_ms,
        compare_ms: COMPARE_MS,
        // Size of the record cache: enough for a few of the keys, or for all.
        guess_bytes: if chance.below(2) == 0 { 1_500 } else { 100_000 },
    }
}

impl Node {
    pub(crate) fn new(
        engine: &Arc<Mutex<Engine>>,
        chance: &mut Chance,
        weather: Weather,
        (tombstone_ms, clock_limit_ms): (u64, u64),
    ) -> Self {
        let way = Way::new(Arc::clone(engine), chance.fork(), weather);
        let way = Shared(Arc::new(Mutex::new(way)));
        let process = u128::from(chance.u64());
        Self {
            remote: Remote::new(
                config(process, chance, tombstone_ms, clock_limit_ms),
                way.clone(),
            ),
            way,
            former: Vec::new(),
            weather,
            tombstone_ms,
            life: 0,
            ahead_ms: i64::try_from(chance.below(30_000)).unwrap(),
            far: Vec::new(),
            clock_limit_ms,
            start_ms: 0,
            paused_until_ms: 0,
            following: BTreeMap::new(),
            follows: BTreeMap::new(),
            follows_so_far: 0,
            told: 0,
            process,
        }
    }

    pub(crate) fn weather(&self) -> Weather {
        self.weather
    }

    pub(crate) fn ways(&self) -> impl Iterator<Item = &Shared> {
        self.former.iter().chain([&self.way])
    }

    /// Returns the link of this life or of a former one.
    pub(crate) fn way_of(&self, life: u64) -> Option<&Shared> {
        self.ways().nth(usize::try_from(life).ok()?)
    }

    pub(crate) fn told_count(&self) -> usize {
        self.told
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.remote.is_watched()
    }

    fn now(&self, now_ms: u64) -> Now {
        Now {
            wall_ms: (BASE_MS + now_ms)
                .checked_add_signed(self.ahead_ms)
                .unwrap(),
            mono_ms: now_ms - self.start_ms,
        }
    }

    pub(crate) fn cut(&mut self, is_cut: bool) {
        self.way.lock().is_cut = is_cut;
    }

    pub(crate) fn pause_until(&mut self, until_ms: u64) {
        self.paused_until_ms = until_ms;
    }

    pub(crate) fn step_clock(&mut self, ahead_ms: i64, now_ms: u64) {
        let is_far = |ahead_ms: i64| ahead_ms.unsigned_abs() > CLOCK_LIMIT_MS;
        if is_far(self.ahead_ms)
            && let Some((_, until_ms)) = self.far.last_mut()
        {
            *until_ms = now_ms;
        }
        if is_far(ahead_ms) {
            self.far.push((now_ms, u64::MAX));
        }
        self.ahead_ms = ahead_ms;
    }

    /// Returns the number of reads that the node has answered without the engine in this life, once the engine had reported its
    /// revision.
    pub(crate) fn confirmed(&self) -> u64 {
        self.remote.engine().map_or(0, |engine| engine.confirmed)
    }

    /// Whether the clock was far off at some moment between two times.
    pub(crate) fn was_far_off(&self, from_ms: u64, to_ms: u64) -> bool {
        let mut times = self.far.iter();
        times.any(|(from, until)| *from <= to_ms && from_ms <= *until)
    }

    /// Kills the process, and starts another one.
    pub(crate) fn restart(&mut self, engine: &Arc<Mutex<Engine>>, chance: &mut Chance) {
        let way = Way::new(Arc::clone(engine), chance.fork(), self.weather);
        let way = Shared(Arc::new(Mutex::new(way)));
        let former = std::mem::replace(&mut self.way, way.clone());
        former.lock().abandon();
        self.former.push(former);
        self.process = u128::from(chance.u64());
        let config = config(self.process, chance, self.tombstone_ms, self.clock_limit_ms);
        self.remote = Remote::new(config, way);
        self.life += 1;
        self.start_ms = engine.lock().unwrap().now_ms;
        self.paused_until_ms = 0;
        self.following.clear();
        self.follows.clear();
    }

    pub(crate) fn calm_down(&mut self) {
        self.paused_until_ms = 0;
        for way in self.ways() {
            let mut way = way.lock();
            way.is_cut = false;
            way.weather = Weather::CALM;
        }
    }

    pub(crate) fn follow(&mut self, key: &Bytes, now_ms: u64) {
        if self.following.contains_key(key) {
            return;
        }
        let number = self.follows_so_far;
        self.follows_so_far += 1;
        let mut following = Following::default();
        let asked = keyspace::Asked {
            ticket: Ticket(FOLLOWS + number),
            now: self.now(now_ms),
            deadline_ms: None,
            request: None,
        };
        if self.remote.follow(&asked, key).is_some() {
            following.since_ms = Some(now_ms);
        }
        self.following.insert(key.clone(), following);
        self.follows.insert(number, key.clone());
    }

    pub(crate) fn ask(
        &mut self,
        ticket: usize,
        asked: &Asked,
        now_ms: u64,
        deadline_ms: u64,
    ) -> Option<End> {
        let now = self.now(now_ms);
        let of = keyspace::Asked {
            ticket: Ticket(ticket as u64),
            now,
            deadline_ms: Some(now.mono_ms + deadline_ms),
            request: asked.request,
        };
        let mut ear = Ear::default();
        match &asked.what {
            What::One(key, action) => {
                let operation = operation(action, asked);
                self.remote.operate(&of, key, &operation, &mut ear)
            }
            What::All(actions) => {
                let operations: Vec<_> = actions
                    .iter()
                    .map(|(key, action)| (key, operation(action, asked)))
                    .collect();
                self.remote.transact(&of, &operations, &mut ear)
            }
            What::Page(after) => {
                let request = PageRequest {
                    token: after.clone(),
                    ..PageRequest::all(Bytes::from_static(b"*"))
                };
                self.remote.page(&of, &request, &mut ear)
            }
        }
    }

    /// Returns the time of the next event of the node or its links.
    pub(crate) fn next_ms(&self, now_ms: u64) -> Option<u64> {
        let ways = self.ways().filter_map(|way| way.lock().next_ms());
        let own = self
            .remote
            .next_ms()
            .map(|mono_ms| mono_ms + self.start_ms)
            .map(|at_ms| at_ms.max(self.paused_until_ms));
        let news = self.way.lock().has_news();
        let news = news.then(|| self.paused_until_ms.max(now_ms));
        ways.chain(own).chain(news).min()
    }

    /// Handles all due events, and returns the requests that have ended.
    pub(crate) fn proceed(&mut self, now_ms: u64) -> Vec<(usize, End)> {
        for way in self.ways() {
            way.lock().proceed(now_ms);
        }
        if self.paused_until_ms > now_ms {
            return Vec::new();
        }
        let mut ear = Ear::default();
        self.remote.advance(8, self.now(now_ms), &mut ear);
        self.told += ear.changes.len();
        for (key, version, value) in ear.changes {
            let following = self.following.get_mut(&key).expect("it is followed");
            following.heard.push(Heard {
                at_ms: now_ms,
                version,
                value,
            });
        }
        let mut ended = Vec::new();
        for (ticket, end) in ear.ended {
            if ticket.0 < FOLLOWS {
                ended.push((usize::try_from(ticket.0).unwrap(), end));
                continue;
            }
            let key = self.follows.remove(&(ticket.0 - FOLLOWS));
            let key = key.expect("a key that is followed");
            let following = self.following.get_mut(&key).expect("it is followed");
            assert_eq!(following.since_ms, None);
            if matches!(
                end,
                End::Answered {
                    reply: Reply::Ok,
                    ..
                }
            ) {
                following.since_ms = Some(now_ms);
            } else {
                assert_eq!(end, End::Away);
                self.following.remove(&key);
                self.remote.unfollow(&key);
            }
        }
        ended
    }
}

/// Returns an action in the form of the keyspace.
pub(crate) fn operation<'a>(action: &'a Action, asked: &'a Asked) -> Operation<'a> {
    match action {
        Action::Get { eventual } => Operation::Get {
            remaining: false,
            eventual: *eventual,
        },
        Action::Set {
            value,
            condition,
            ttl_ms,
            token,
        } => Operation::Set {
            value,
            options: SetOptions {
                condition: *condition,
                expires_in_ms: *ttl_ms,
            },
            timestamp: &asked.timestamp,
            token: token.as_ref(),
        },
        Action::Del { if_version, token } => Operation::Del {
            if_version: *if_version,
            token: token.as_ref(),
        },
    }
}
