//! A node: a keyspace with its clocks, its link to the engine, and its results.
use super::engine::{BASE_MS, Engine};
use super::operation::operation;
use super::simulated_link::{LinkFaults, SharedLink, SimulatedLink};
use super::{NodeRequest, RequestKind, pages};
use crate::seeded_rng::SeededRng;
use bytes::Bytes;
use statestore_protocol::Reply;
use statestored_common::ClockReading;
use statestored_shared::{SharedKeyspace, SharedKeyspaceConfig};
use statestored_store::keyspace::rules::Version;
use statestored_store::keyspace::{
    self, ChangeEvent, Completion, EventSink, Keyspace, PageRequest, Ticket,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Time after the last report of the watch for which a node answers reads from its own state.
pub(crate) const MAX_STALENESS_MS: u64 = 1_000;

/// Interval at which a node compares its clock with others.
const COMPARE_MS: u64 = 500;

/// Limit by which a clock may be ahead, if the run has clocks that are far off.
pub(crate) const CLOCK_LIMIT_MS: u64 = 60_000;

/// Tickets of the followers of a key are above this number.
const FIRST_FOLLOW_ID: u64 = 1 << 32;

/// A change as the node reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedChange {
    pub(crate) at_ms: u64,
    pub(crate) version: Version,
    /// The value; `None` if the key was removed.
    pub(crate) value: Option<Bytes>,
}

/// A key that is followed at a node, in one life of that node.
#[derive(Debug, Clone, Default)]
pub(crate) struct FollowedKey {
    /// Time since which the follower knows that the key is followed.
    pub(crate) since_ms: Option<u64>,
    pub(crate) reported: Vec<ReportedChange>,
}

#[derive(Debug)]
pub(crate) struct Node {
    remote: SharedKeyspace<SharedLink>,
    link: SharedLink,
    /// The links of former lives; messages on them still arrive.
    former_links: Vec<SharedLink>,
    link_faults: LinkFaults,
    tombstone_ms: u64,
    pub(crate) life: u64,
    /// Offset of the wall clock.
    ahead_ms: i64,
    /// Spans in which the clock was far off.
    far_off_spans: Vec<(u64, u64)>,
    clock_limit_ms: u64,
    /// Start of the monotonic clock in this life.
    start_ms: u64,
    paused_until_ms: u64,
    pub(crate) following: BTreeMap<Bytes, FollowedKey>,
    /// Followed keys by the number of the follower.
    followers: BTreeMap<u64, Bytes>,
    follow_count: u64,
    reported_count: usize,
    process: u128,
}

#[derive(Default)]
struct RecordingSink {
    changes: Vec<(Bytes, Version, Option<Bytes>)>,
    completed: Vec<(Ticket, Completion)>,
}

impl EventSink for RecordingSink {
    fn changed(&mut self, change: &ChangeEvent<'_>) {
        let value = match change.state {
            keyspace::EntryState::Set { value, .. } => Some(value.clone()),
            keyspace::EntryState::Removed { .. } => None,
        };
        self.changes
            .push((change.key.clone(), change.version, value));
    }

    fn completed(&mut self, ticket: Ticket, end: Completion) {
        self.completed.push((ticket, end));
    }

    fn add_work(&mut self, _steps: usize) {}
}

pub(super) fn config(
    process: u128,
    chance: &mut SeededRng,
    tombstone_ms: u64,
    clock_limit_ms: u64,
) -> SharedKeyspaceConfig {
    SharedKeyspaceConfig {
        process,
        removal_delay_ms: chance.below(300),
        tombstone_lifetime_ms: tombstone_ms,
        max_page_keys: pages::MAX_PAGE_RECORDS,
        max_operations: 60,
        max_read_keys: 60,
        max_staleness_ms: MAX_STALENESS_MS,
        max_clock_lead_ms: clock_limit_ms,
        clock_interval_ms: COMPARE_MS,
        // Size of the record cache: enough for a few of the keys, or for all.
        cache_bytes: if chance.below(2) == 0 { 1_500 } else { 100_000 },
    }
}

impl Node {
    pub(crate) fn new(
        engine: &Arc<Mutex<Engine>>,
        chance: &mut SeededRng,
        weather: LinkFaults,
        (tombstone_ms, clock_limit_ms): (u64, u64),
    ) -> Self {
        let way = SimulatedLink::new(Arc::clone(engine), chance.fork(), weather);
        let way = SharedLink(Arc::new(Mutex::new(way)));
        let process = u128::from(chance.u64());
        Self {
            remote: SharedKeyspace::new(
                config(process, chance, tombstone_ms, clock_limit_ms),
                way.clone(),
            ),
            link: way,
            former_links: Vec::new(),
            link_faults: weather,
            tombstone_ms,
            life: 0,
            ahead_ms: i64::try_from(chance.below(30_000)).unwrap(),
            far_off_spans: Vec::new(),
            clock_limit_ms,
            start_ms: 0,
            paused_until_ms: 0,
            following: BTreeMap::new(),
            followers: BTreeMap::new(),
            follow_count: 0,
            reported_count: 0,
            process,
        }
    }

    pub(crate) fn link_faults(&self) -> LinkFaults {
        self.link_faults
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = &SharedLink> {
        self.former_links.iter().chain([&self.link])
    }

    /// Returns the link of this life or of a former one.
    pub(crate) fn link_of(&self, life: u64) -> Option<&SharedLink> {
        self.links().nth(usize::try_from(life).ok()?)
    }

    pub(crate) fn reported_count(&self) -> usize {
        self.reported_count
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.remote.is_watched()
    }

    fn now(&self, now_ms: u64) -> ClockReading {
        ClockReading {
            wall_ms: (BASE_MS + now_ms)
                .checked_add_signed(self.ahead_ms)
                .unwrap(),
            mono_ms: now_ms - self.start_ms,
        }
    }

    pub(crate) fn cut(&mut self, is_cut: bool) {
        self.link.lock().is_cut = is_cut;
    }

    pub(crate) fn pause_until(&mut self, until_ms: u64) {
        self.paused_until_ms = until_ms;
    }

    pub(crate) fn step_clock(&mut self, ahead_ms: i64, now_ms: u64) {
        let is_far = |ahead_ms: i64| ahead_ms.unsigned_abs() > CLOCK_LIMIT_MS;
        if is_far(self.ahead_ms)
            && let Some((_, until_ms)) = self.far_off_spans.last_mut()
        {
            *until_ms = now_ms;
        }
        if is_far(ahead_ms) {
            self.far_off_spans.push((now_ms, u64::MAX));
        }
        self.ahead_ms = ahead_ms;
    }

    /// Returns the number of reads that the node has answered without the engine in this life, once the engine had reported its
    /// revision.
    pub(crate) fn confirmed(&self) -> u64 {
        self.remote
            .engine_metrics()
            .map_or(0, |engine| engine.confirmed_cache_hits)
    }

    /// Whether the clock was far off at some moment between two times.
    pub(crate) fn was_far_off(&self, from_ms: u64, to_ms: u64) -> bool {
        let mut times = self.far_off_spans.iter();
        times.any(|(from, until)| *from <= to_ms && from_ms <= *until)
    }

    /// Kills the process, and starts another one.
    pub(crate) fn restart(&mut self, engine: &Arc<Mutex<Engine>>, chance: &mut SeededRng) {
        let way = SimulatedLink::new(Arc::clone(engine), chance.fork(), self.link_faults);
        let way = SharedLink(Arc::new(Mutex::new(way)));
        let former = std::mem::replace(&mut self.link, way.clone());
        former.lock().abandon();
        self.former_links.push(former);
        self.process = u128::from(chance.u64());
        let config = config(self.process, chance, self.tombstone_ms, self.clock_limit_ms);
        self.remote = SharedKeyspace::new(config, way);
        self.life += 1;
        self.start_ms = engine.lock().unwrap().now_ms;
        self.paused_until_ms = 0;
        self.following.clear();
        self.followers.clear();
    }

    pub(crate) fn end_faults(&mut self) {
        self.paused_until_ms = 0;
        for way in self.links() {
            let mut way = way.lock();
            way.is_cut = false;
            way.faults = LinkFaults::NONE;
        }
    }

    pub(crate) fn follow(&mut self, key: &Bytes, now_ms: u64) {
        if self.following.contains_key(key) {
            return;
        }
        let number = self.follow_count;
        self.follow_count += 1;
        let mut following = FollowedKey::default();
        let asked = keyspace::RequestContext {
            ticket: Ticket(FIRST_FOLLOW_ID + number),
            now: self.now(now_ms),
            deadline_ms: None,
            digest: None,
        };
        if self.remote.follow(&asked, key).is_some() {
            following.since_ms = Some(now_ms);
        }
        self.following.insert(key.clone(), following);
        self.followers.insert(number, key.clone());
    }

    pub(crate) fn request(
        &mut self,
        ticket: usize,
        asked: &NodeRequest,
        now_ms: u64,
        deadline_ms: u64,
    ) -> Option<Completion> {
        let now = self.now(now_ms);
        let of = keyspace::RequestContext {
            ticket: Ticket(ticket as u64),
            now,
            deadline_ms: Some(now.mono_ms + deadline_ms),
            digest: asked.digest,
        };
        let mut ear = RecordingSink::default();
        match &asked.kind {
            RequestKind::Operation(key, action) => {
                let operation = operation(action, asked);
                self.remote.operate(&of, key, &operation, &mut ear)
            }
            RequestKind::Transaction(actions) => {
                let operations: Vec<_> = actions
                    .iter()
                    .map(|(key, action)| (key, operation(action, asked)))
                    .collect();
                self.remote.transact(&of, &operations, &mut ear)
            }
            RequestKind::GetMany(keys) => self.remote.get_many(&of, keys, usize::MAX, &mut ear),
            RequestKind::Page { after, with_values } => {
                let request = PageRequest {
                    token: after.clone(),
                    with_values: *with_values,
                    ..PageRequest::all(Bytes::from_static(b"*"))
                };
                self.remote.page(&of, &request, &mut ear)
            }
        }
    }

    /// Returns the time of the next event of the node or its links.
    pub(crate) fn next_ms(&self, now_ms: u64) -> Option<u64> {
        let ways = self.links().filter_map(|way| way.lock().next_ms());
        let own = self
            .remote
            .next_ms()
            .map(|mono_ms| mono_ms + self.start_ms)
            .map(|at_ms| at_ms.max(self.paused_until_ms));
        let news = self.link.lock().has_events();
        let news = news.then(|| self.paused_until_ms.max(now_ms));
        ways.chain(own).chain(news).min()
    }

    /// Handles all due events, and returns the requests that have ended.
    pub(crate) fn proceed(&mut self, now_ms: u64) -> Vec<(usize, Completion)> {
        for way in self.links() {
            way.lock().proceed(now_ms);
        }
        if self.paused_until_ms > now_ms {
            return Vec::new();
        }
        let mut ear = RecordingSink::default();
        self.remote.advance(8, self.now(now_ms), &mut ear);
        self.reported_count += ear.changes.len();
        for (key, version, value) in ear.changes {
            let following = self.following.get_mut(&key).expect("it is followed");
            following.reported.push(ReportedChange {
                at_ms: now_ms,
                version,
                value,
            });
        }
        let mut ended = Vec::new();
        for (ticket, end) in ear.completed {
            if ticket.0 < FIRST_FOLLOW_ID {
                ended.push((usize::try_from(ticket.0).unwrap(), end));
                continue;
            }
            let key = self.followers.remove(&(ticket.0 - FIRST_FOLLOW_ID));
            let key = key.expect("a key that is followed");
            let following = self.following.get_mut(&key).expect("it is followed");
            assert_eq!(following.since_ms, None);
            if matches!(
                end,
                Completion::Answered {
                    reply: Reply::Ok,
                    ..
                }
            ) {
                following.since_ms = Some(now_ms);
            } else {
                assert_eq!(end, Completion::Unavailable);
                self.following.remove(&key);
                self.remote.unfollow(&key);
            }
        }
        ended
    }
}
