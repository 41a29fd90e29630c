//! A keyspace that reads, applies the rules, and commits by compare-and-swap, each step later, and again on a conflict.
//!
//! Events of an operation, as a seed chooses:
//!
//! - each step takes up to some milliseconds, so that operations on different keys overtake each other;
//! - a commit is refused, because another commit was faster or without any reason;
//! - the outcome of a commit stays unknown, whether or not it was executed.
use crate::shared::{Map, MapChange, Mutation, ReadSnapshot, SharedMap};
use bytes::Bytes;
use statestore_protocol::glob::Glob;
use statestore_protocol::{Capabilities, PageEntry, Reply, ServiceError};
use statestored_common::ClockReading;
use statestored_storage::Expiry;
use statestored_store::keyspace::rules::{self, Context, Operation, Token, Version};
use statestored_store::keyspace::{
    ChangeEvent, Completion, EntryList, EntryState, EventSink, Keyspace, OwnedOperation,
    PageRequest, RequestContext, Size, Ticket,
};
use std::collections::{BTreeMap, VecDeque};

/// Most keys of a page.
const PAGE_KEYS: usize = 100;

/// The random conditions of a run, and their odds.
#[derive(Debug, Clone)]
pub(crate) struct FaultRates {
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
pub(crate) struct OptimisticKeyspace {
    map: SharedMap,
    max_keys: u64,
    weather: FaultRates,
    random: fastrand::Rng,
    /// Operations on each key, in order. Only the first is in progress.
    queues: BTreeMap<Bytes, VecDeque<PendingOperation>>,
    /// Pages, reads of several keys, and keys to follow, which nothing waits for.
    others: Vec<(u64, Ticket, UnorderedOperation)>,
    /// When it last went on.
    last_ms: u64,
    /// Number of changes that were reported.
    reported: usize,
    /// Operations that have ended. Each is reported after all changes before it.
    ended: VecDeque<(usize, Ticket, Completion)>,
}

#[derive(Debug)]
enum UnorderedOperation {
    Page(PageRequest),
    GetMany {
        keys: Vec<Bytes>,
        max_reply_bytes: usize,
    },
    Follow,
}

#[derive(Debug)]
struct PendingOperation {
    ticket: Ticket,
    deadline_ms: Option<u64>,
    operation: OwnedOperation,
    /// When the next step is done; the first is not begun before the operation is the first of its key.
    due_ms: Option<u64>,
    /// State that was read, if a commit is pending.
    seen: Option<ReadSnapshot>,
}

/// Result of a step of an operation.
enum StepResult {
    Done(Completion),
    /// Commit this next.
    Commit(ReadSnapshot),
    Retry,
}

fn apply<'o>(
    operation: &'o OwnedOperation,
    seen: &ReadSnapshot,
    has_room: bool,
    now: ClockReading,
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
        has_capacity: seen.entry.is_some() || has_room,
    };
    operation.borrowed().apply(entry.as_ref(), &context)
}

/// Removes an entry that has expired. Returns whether `seen` shows this state.
fn expire(map: &mut Map, key: &Bytes, seen: &ReadSnapshot, now: ClockReading) -> bool {
    let Some(entry) = &seen.entry else {
        return false;
    };
    if entry.deadline_ms.is_none_or(|at_ms| at_ms > now.mono_ms) {
        return false;
    }
    let version = rules::deletion_version(entry.version, now.wall_ms);
    map.commit(key, seen, version, Mutation::Removed);
    true
}

impl OptimisticKeyspace {
    pub(crate) fn new(map: SharedMap, max_keys: u64, weather: FaultRates) -> Self {
        let told = map.lock().changes.len();
        Self {
            map,
            max_keys,
            random: fastrand::Rng::with_seed(weather.seed),
            weather,
            queues: BTreeMap::new(),
            others: Vec::new(),
            last_ms: 0,
            reported: told,
            ended: VecDeque::new(),
        }
    }

    fn due_ms(&mut self, now: ClockReading) -> u64 {
        now.mono_ms + self.random.u64(..=self.weather.delay_ms)
    }

    fn roll(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    /// Executes a step of each operation that is due, at most one for each key.
    fn step(&mut self, now: ClockReading) {
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
                UnorderedOperation::Page(request) => self.page_now(&request, now),
                UnorderedOperation::GetMany {
                    keys,
                    max_reply_bytes,
                } => self.get_many_now(&keys, max_reply_bytes, now),
                UnorderedOperation::Follow => Reply::Ok,
            };
            self.end(ticket, Completion::reply(reply));
        }
    }

    /// Whether the operation has ended.
    fn step_operation(
        &mut self,
        key: &Bytes,
        waiting: &mut PendingOperation,
        now: ClockReading,
    ) -> bool {
        if waiting.due_ms.is_none_or(|at_ms| at_ms > now.mono_ms) {
            return false;
        }
        let step = match waiting.seen.take() {
            None if waiting.deadline_ms.is_some_and(|at_ms| at_ms < now.mono_ms) => {
                StepResult::Done(Completion::Expired)
            }
            None => self.read(key, &waiting.operation, now),
            Some(seen) => self.commit(key, &waiting.operation, &seen, now),
        };
        waiting.due_ms = Some(self.due_ms(now));
        match step {
            StepResult::Done(end) => {
                self.end(waiting.ticket, end);
                return true;
            }
            StepResult::Commit(seen) => waiting.seen = Some(seen),
            StepResult::Retry => {}
        }
        false
    }

    fn read(&mut self, key: &Bytes, operation: &OwnedOperation, now: ClockReading) -> StepResult {
        let mut map = self.map.lock();
        let seen = map.read(key);
        if expire(&mut map, key, &seen, now) {
            return StepResult::Retry;
        }
        let has_room = (map.entries.len() as u64) < self.max_keys;
        drop(map);
        let outcome = apply(operation, &seen, has_room, now);
        match outcome.change {
            rules::EntryChange::Keep => StepResult::Done(Completion::Answered {
                reply: outcome.reply,
                version: outcome.version,
            }),
            _ => StepResult::Commit(seen),
        }
    }

    fn commit(
        &mut self,
        key: &Bytes,
        operation: &OwnedOperation,
        seen: &ReadSnapshot,
        now: ClockReading,
    ) -> StepResult {
        if self.roll(self.weather.refused) {
            self.map.lock().conflicts += 1;
            return StepResult::Retry;
        }
        let is_lost = self.roll(self.weather.lost);
        if is_lost && self.random.bool() {
            return StepResult::Done(Completion::Unknown);
        }
        let mut map = self.map.lock();
        if expire(&mut map, key, seen, now) {
            return StepResult::Retry;
        }
        let has_room = (map.entries.len() as u64) < self.max_keys;
        let outcome = apply(operation, seen, has_room, now);
        let (version, put) = match outcome.change {
            rules::EntryChange::Keep => return StepResult::Retry,
            rules::EntryChange::Put {
                value,
                version,
                token,
                ttl_ms,
            } => {
                let put = Mutation::Set {
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
            rules::EntryChange::Remove { version } => (version, Mutation::Removed),
        };
        if !map.commit(key, seen, version, put) {
            return StepResult::Retry;
        }
        StepResult::Done(if is_lost {
            Completion::Unknown
        } else {
            Completion::Answered {
                reply: outcome.reply,
                version: outcome.version,
            }
        })
    }

    fn end(&mut self, ticket: Ticket, end: Completion) {
        let changes = self.map.lock().changes.len();
        self.ended.push_back((changes, ticket, end));
    }

    fn page_now(&self, request: &PageRequest, now: ClockReading) -> Reply {
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
        let longest = keys.iter().map(Bytes::len).max().unwrap_or_default();
        let mut room = request.max_content_bytes(longest);
        let fits = |key: &&Bytes| {
            let bytes = request.content_bytes(key.len(), map.entries[*key].value.len());
            let has_room = bytes <= room;
            room = room.saturating_sub(bytes);
            has_room
        };
        let count = keys.iter().take(PAGE_KEYS).take_while(fits).count().max(1);
        let token = (keys.len() > count).then(|| {
            keys.truncate(count);
            [b"+", &keys[count - 1][..]].concat().into()
        });
        if !request.with_values {
            return Reply::Page { keys, token };
        }
        let entries = keys.into_iter().map(|key| {
            let entry = &map.entries[&key];
            PageEntry {
                value: entry.value.clone(),
                version: statestore_protocol::Version::new(entry.version.0, entry.version.1),
                expires_in_ms: entry.deadline_ms.map(|at_ms| at_ms - now.mono_ms),
                key,
            }
        });
        Reply::EntryPage {
            entries: entries.collect(),
            token,
        }
    }

    fn get_many_now(&self, keys: &[Bytes], max_reply_bytes: usize, now: ClockReading) -> Reply {
        let mut map = self.map.lock();
        let mut list = EntryList::new(keys.len(), max_reply_bytes);
        for key in keys {
            let seen = map.read(key);
            expire(&mut map, key, &seen, now);
            let entry = map.read(key).entry;
            if !list.has_room(entry.as_ref().map(|entry| entry.value.len())) {
                break;
            }
            list.push(entry.map(|entry| (entry.value, entry.version)));
        }
        list.into_reply()
    }

    fn report(change: &MapChange, events: &mut dyn EventSink) {
        events.changed(&ChangeEvent {
            key: &change.key,
            version: change.version,
            state: match &change.put {
                Mutation::Set {
                    value,
                    token,
                    expiry,
                    ..
                } => EntryState::Set {
                    value,
                    token: token.as_ref(),
                    expiry: *expiry,
                    is_new: false,
                },
                Mutation::Removed => EntryState::Removed {
                    floor: change.floor,
                },
            },
        });
    }
}

impl Keyspace for OptimisticKeyspace {
    fn operate(
        &mut self,
        context: &RequestContext,
        key: &Bytes,
        operation: &Operation<'_>,
        _events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let due_ms = self.due_ms(context.now);
        let queue = self.queues.entry(key.clone()).or_default();
        queue.push_back(PendingOperation {
            ticket: context.ticket,
            deadline_ms: context.deadline_ms,
            operation: OwnedOperation::of(operation),
            due_ms: queue.is_empty().then_some(due_ms),
            seen: None,
        });
        None
    }

    fn page(
        &mut self,
        context: &RequestContext,
        request: &PageRequest,
        _events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let due_ms = self.due_ms(context.now);
        let page = UnorderedOperation::Page(request.clone());
        self.others.push((due_ms, context.ticket, page));
        None
    }

    fn get_many(
        &mut self,
        context: &RequestContext,
        keys: &[Bytes],
        max_reply_bytes: usize,
        _events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let due_ms = self.due_ms(context.now);
        let read = UnorderedOperation::GetMany {
            keys: keys.to_vec(),
            max_reply_bytes,
        };
        self.others.push((due_ms, context.ticket, read));
        None
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::ALL;
        capabilities.transactions = None;
        capabilities
    }

    fn follow(&mut self, context: &RequestContext, _key: &Bytes) -> Option<Completion> {
        let due_ms = self.due_ms(context.now);
        self.others
            .push((due_ms, context.ticket, UnorderedOperation::Follow));
        None
    }

    fn advance(&mut self, most: usize, now: ClockReading, events: &mut dyn EventSink) {
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
        for change in map.changes.iter().skip(self.reported).take(most) {
            self.reported += 1;
            Self::report(change, events);
        }
        drop(map);
        while let Some((changes, ..)) = self.ended.front()
            && *changes <= self.reported
            && let Some((_, ticket, end)) = self.ended.pop_front()
        {
            events.completed(ticket, end);
        }
    }

    fn next_ms(&self) -> Option<u64> {
        let map = self.map.lock();
        let has_news = map.changes.len() > self.reported || !self.ended.is_empty();
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

    fn highest_version(&self) -> Version {
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
