//! A keyspace that reads, applies the rules, and commits by compare-and-swap, each step later, and again on a conflict.
//!
//! Events of an operation, as a seed chooses:
//!
//! - each step takes up to some milliseconds, so that operations on different keys overtake each other;
//! - a commit is refused, because another commit was faster or without any reason;
//! - the outcome of a commit stays unknown, whether or not it was executed.
use crate::shared::{Change, Map, Put, Seen, Shared};
use bytes::Bytes;
use statestore_protocol::glob::Glob;
use statestore_protocol::{Reply, ServiceError};
use statestored::keyspace::rules::{self, Context, Operation, Token, Version};
use statestored::keyspace::{
    Asked, Changed, End, Keyspace, OwnedOperation, PageRequest, Size, Ticket, Told, What,
};
use statestored::service::Now;
use statestored::storage::Expiry;
use std::collections::{BTreeMap, VecDeque};

/// Most keys of a page.
const PAGE_KEYS: usize = 100;

/// The random conditions of a run, and their odds.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    pub(crate) seed: u64,
    /// Longest time of a step.
    pub(crate) delay_ms: u64,
    /// How many commits of a hundred are refused without a reason.
    pub(crate) refused: u8,
    /// Percentage of commits whose outcome stays unknown.
    pub(crate) lost: u8,
}

/// A node's view of the shared map.
#[derive(Debug)]
pub(crate) struct Optimistic {
    map: Shared,
    max_keys: u64,
    weather: Weather,
    random: fastrand::Rng,
    /// Operations on each key, in order. Only the first is in progress.
    queues: BTreeMap<Bytes, VecDeque<Waiting>>,
    /// Pages, and keys to follow, which nothing waits for.
    others: Vec<(u64, Ticket, Other)>,
    /// When it last went on.
    last_ms: u64,
    /// Number of changes that were reported.
    told: usize,
    /// Operations that have ended. Each is reported after all changes before it.
    ended: VecDeque<(usize, Ticket, End)>,
}

#[derive(Debug)]
enum Other {
    Page(PageRequest),
    Follow,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    deadline_ms: Option<u64>,
    operation: OwnedOperation,
    /// When the next step is done; the first is not begun before the operation is the first of its key.
    due_ms: Option<u64>,
    /// State that was read, if a commit is pending.
    seen: Option<Seen>,
}

/// Result of a step of an operation.
enum Step {
    Ended(End),
    /// Commit this next.
    Commit(Seen),
    Again,
}

fn apply<'o>(
    operation: &'o OwnedOperation,
    seen: &Seen,
    has_room: bool,
    now: Now,
) -> rules::Outcome<'o> {
    let entry = seen.entry.as_ref().map(|entry| rules::Entry {
        value: &entry.value,
        version: entry.version,
        token: entry.token.as_ref().map(Token::from),
        expires_in_ms: entry
            .deadline_ms
            .map(|at_ms| at_ms.saturating_sub(now.mono_ms)),
    });
    let context = Context {
        wall_ms: now.wall_ms,
        floor: seen.floor,
        has_room: seen.entry.is_some() || has_room,
    };
    operation.borrowed().apply(entry.as_ref(), &context)
}

/// Removes an entry that has expired. Returns whether `seen` shows this state.
fn expire(map: &mut Map, key: &Bytes, seen: &Seen, now: Now) -> bool {
    let Some(entry) = &seen.entry else {
        return false;
    };
    if entry.deadline_ms.is_none_or(|at_ms| at_ms > now.mono_ms) {
        return false;
    }
    let version = rules::deletion_version(entry.version, now.wall_ms);
    map.commit(key, seen, version, Put::Removed);
    true
}

impl Optimistic {
    pub(crate) fn new(map: Shared, max_keys: u64, weather: Weather) -> Self {
        let told = map.lock().changes.len();
        Self {
            map,
            max_keys,
            random: fastrand::Rng::with_seed(weather.seed),
            weather,
            queues: BTreeMap::new(),
            others: Vec::new(),
            last_ms: 0,
            told,
            ended: VecDeque::new(),
        }
    }

    fn due_ms(&mut self, now: Now) -> u64 {
        now.mono_ms + self.random.u64(..=self.weather.delay_ms)
    }

    fn happens(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    /// Executes a step of each operation that is due, at most one for each key.
    fn step(&mut self, now: Now) {
        let keys: Vec<_> = self.queues.keys().cloned().collect();
        for key in keys {
            let Some(mut queue) = self.queues.remove(&key) else {
                continue;
            };
            if let Some(first) = queue.front_mut()
                && self.step_operation(&key, first, now)
            {
                queue.pop_front();
            }
            if let Some(first) = queue.front_mut() {
                if first.due_ms.is_none() {
                    first.due_ms = Some(self.due_ms(now));
                }
                self.queues.insert(key, queue);
            }
        }
        for (due_ms, ticket, other) in std::mem::take(&mut self.others) {
            if due_ms > now.mono_ms {
                self.others.push((due_ms, ticket, other));
                continue;
            }
            let reply = match other {
                Other::Page(request) => self.page_now(&request, now),
                Other::Follow => Reply::Ok,
            };
            self.end(ticket, End::reply(reply));
        }
    }

    /// Whether the operation has ended.
    fn step_operation(&mut self, key: &Bytes, waiting: &mut Waiting, now: Now) -> bool {
        if waiting.due_ms.is_none_or(|at_ms| at_ms > now.mono_ms) {
            return false;
        }
        let step = match waiting.seen.take() {
            None if waiting.deadline_ms.is_some_and(|at_ms| at_ms < now.mono_ms) => {
                Step::Ended(End::Expired)
            }
            None => self.read(key, &waiting.operation, now),
            Some(seen) => self.commit(key, &waiting.operation, &seen, now),
        };
        waiting.due_ms = Some(self.due_ms(now));
        match step {
            Step::Ended(end) => {
                self.end(waiting.ticket, end);
                return true;
            }
            Step::Commit(seen) => waiting.seen = Some(seen),
            Step::Again => {}
        }
        false
    }

    fn read(&mut self, key: &Bytes, operation: &OwnedOperation, now: Now) -> Step {
        let mut map = self.map.lock();
        let seen = map.read(key);
        if expire(&mut map, key, &seen, now) {
            return Step::Again;
        }
        let has_room = (map.entries.len() as u64) < self.max_keys;
        drop(map);
        let outcome = apply(operation, &seen, has_room, now);
        match outcome.change {
            rules::Change::Keep => Step::Ended(End::Answered {
                reply: outcome.reply,
                version: outcome.version,
            }),
            _ => Step::Commit(seen),
        }
    }

    fn commit(&mut self, key: &Bytes, operation: &OwnedOperation, seen: &Seen, now: Now) -> Step {
        if self.happens(self.weather.refused) {
            self.map.lock().conflicts += 1;
            return Step::Again;
        }
        let is_lost = self.happens(self.weather.lost);
        if is_lost && self.random.bool() {
            return Step::Ended(End::Unknown);
        }
        let mut map = self.map.lock();
        if expire(&mut map, key, seen, now) {
            return Step::Again;
        }
        let has_room = (map.entries.len() as u64) < self.max_keys;
        let outcome = apply(operation, seen, has_room, now);
        let (version, put) = match outcome.change {
            rules::Change::Keep => return Step::Again,
            rules::Change::Put {
                value,
                version,
                token,
                ttl_ms,
            } => {
                let put = Put::Set {
                    value: value.clone(),
                    token: token.cloned(),
                    expiry: ttl_ms.map(|ttl| Expiry {
                        at_wall_ms: now.wall_ms.saturating_add(ttl.get()),
                        ttl_ms: ttl.get(),
                    }),
                    deadline_ms: ttl_ms.map(|ttl| now.mono_ms.saturating_add(ttl.get())),
                };
                (version, put)
            }
            rules::Change::Remove { version } => (version, Put::Removed),
        };
        if !map.commit(key, seen, version, put) {
            return Step::Again;
        }
        Step::Ended(if is_lost {
            End::Unknown
        } else {
            End::Answered {
                reply: outcome.reply,
                version: outcome.version,
            }
        })
    }

    fn end(&mut self, ticket: Ticket, end: End) {
        let changes = self.map.lock().changes.len();
        self.ended.push_back((changes, ticket, end));
    }

    fn page_now(&self, request: &PageRequest, now: Now) -> Reply {
        // The token is the last key of the page before, behind a letter.
        let from = match request.token.as_ref().map(|token| token.strip_prefix(b"+")) {
            None => Bytes::new(),
            Some(Some(last)) => Bytes::copy_from_slice(last),
            Some(None) => return Reply::Error(ServiceError::Syntax),
        };
        let glob = Glob::new(&request.pattern);
        let map = self.map.lock();
        let is_live = |deadline_ms: Option<u64>| deadline_ms.is_none_or(|at| at > now.mono_ms);
        let mut keys: Vec<_> = map
            .entries
            .range(from.clone()..)
            .filter(|(key, entry)| **key > from && is_live(entry.deadline_ms))
            .map(|(key, _)| key.clone())
            .filter(|key| request.allows(key) && glob.matches(key))
            .take(PAGE_KEYS + 1)
            .collect();
        let token = (keys.len() > PAGE_KEYS).then(|| {
            keys.truncate(PAGE_KEYS);
            [b"+", &keys[PAGE_KEYS - 1][..]].concat().into()
        });
        Reply::Page { keys, token }
    }

    fn tell(change: &Change, told: &mut dyn Told) {
        told.changed(&Changed {
            key: &change.key,
            version: change.version,
            what: match &change.put {
                Put::Set {
                    value,
                    token,
                    expiry,
                    ..
                } => What::Set {
                    value,
                    token: token.as_ref(),
                    expiry: *expiry,
                    is_new: false,
                },
                Put::Removed => What::Removed {
                    floor: change.floor,
                },
            },
        });
    }
}

impl Keyspace for Optimistic {
    fn operate(
        &mut self,
        asked: &Asked,
        key: &Bytes,
        operation: &Operation<'_>,
        _told: &mut dyn Told,
    ) -> Option<End> {
        let due_ms = self.due_ms(asked.now);
        let queue = self.queues.entry(key.clone()).or_default();
        queue.push_back(Waiting {
            ticket: asked.ticket,
            deadline_ms: asked.deadline_ms,
            operation: OwnedOperation::of(operation),
            due_ms: queue.is_empty().then_some(due_ms),
            seen: None,
        });
        None
    }

    fn page(&mut self, asked: &Asked, request: &PageRequest, _told: &mut dyn Told) -> Option<End> {
        let due_ms = self.due_ms(asked.now);
        let page = Other::Page(request.clone());
        self.others.push((due_ms, asked.ticket, page));
        None
    }

    fn follow(&mut self, asked: &Asked, _key: &Bytes) -> Option<End> {
        let due_ms = self.due_ms(asked.now);
        self.others.push((due_ms, asked.ticket, Other::Follow));
        None
    }

    fn advance(&mut self, most: usize, now: Now, told: &mut dyn Told) {
        for _ in 0..most {
            let mut map = self.map.lock();
            match map.first_deadline() {
                Some((at_ms, key)) if at_ms <= now.mono_ms => {
                    let seen = map.read(&key);
                    expire(&mut map, &key, &seen, now);
                }
                _ => break,
            }
        }
        self.last_ms = now.mono_ms;
        self.step(now);
        let map = self.map.lock();
        for change in map.changes.iter().skip(self.told).take(most) {
            self.told += 1;
            Self::tell(change, told);
        }
        drop(map);
        while let Some((changes, ..)) = self.ended.front()
            && *changes <= self.told
            && let Some((_, ticket, end)) = self.ended.pop_front()
        {
            told.ended(ticket, end);
        }
    }

    fn next_ms(&self) -> Option<u64> {
        let map = self.map.lock();
        let has_news = map.changes.len() > self.told || !self.ended.is_empty();
        let firsts = self.queues.values().filter_map(VecDeque::front);
        let steps = firsts.filter_map(|first| first.due_ms);
        let others = self.others.iter().map(|(due_ms, ..)| *due_ms);
        let expiry = map.first_deadline().map(|(at_ms, _)| at_ms);
        steps
            .chain(others)
            .chain(expiry)
            .chain(has_news.then_some(self.last_ms))
            .min()
    }

    fn highest(&self) -> Version {
        self.map.lock().highest
    }

    fn size(&self) -> Size {
        let map = self.map.lock();
        let bytes = map.entries.iter();
        Size {
            keys: map.entries.len() as u64,
            bytes: bytes
                .map(|(key, entry)| (key.len() + entry.value.len()) as u64)
                .sum(),
        }
    }
}
