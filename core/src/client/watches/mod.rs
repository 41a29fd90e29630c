//! The watched keys: which observers each has, and what the store must be told about it.
//!
//! One task brings the store's watches in line with the observers: KEYNOTIFY for a key that has its first observer or
//! whose watch ended with the connection, a GET to learn what was missed, KEYNOTIFY STOP when the last observer is gone.
//! For each key it does one of these at a time.
//!
//! A notification is not trusted blindly, since a broker may let others publish on its topic. One whose version is lower
//! than the one before, or the same with another value, or too far ahead of the local clock, is not told: the key is read
//! instead, at most once in a while, and the answer decides.
mod task;

pub(super) use task::run;

use super::observer::{End, Observation, Queue};
use super::{Counters, Handle, detached};
use crate::LostReason;
use crate::error::Error;
use crate::intents::{self, Record};
use bytes::Bytes;
use statestore_protocol::{Event, Hlc, Notification};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// Between two readings of one key whose notifications are in doubt.
const REST: Duration = Duration::from_secs(1);

/// A caller that waits for a watch to begin.
#[derive(Debug)]
struct Waiting {
    begun: oneshot::Sender<Result<(), Error>>,
    /// When it gives up, by a timer of its own.
    until: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    registry: Mutex<Registry>,
    /// Something is to be done.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Registry {
    /// Ordered, so that the watches are renewed in the same order each time.
    keys: BTreeMap<Bytes, Watch>,
    /// Keys for which something is to be done; each at most once.
    due: VecDeque<Bytes>,
    /// Keys that were read out of doubt, and until when that is not done again, in the order of time.
    resting: VecDeque<(Instant, Bytes)>,
    /// Which connection it is. What a former one was told is void.
    connection: u64,
    closed: bool,
    notifications: u64,
    stale: u64,
    malformed: u64,
}

// Each flag is independent of the others.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Default)]
struct Watch {
    observers: Vec<Arc<Queue>>,
    /// Callers that wait for the watch to begin; some may have given up.
    waiting: Vec<Waiting>,
    /// The store sends notifications for it.
    begun: bool,
    /// Changes may have been missed since the last observation.
    gap: bool,
    /// A notification contradicts what was observed, or was not believed; the store is to be asked.
    doubt: bool,
    /// A notification was not believed, so that what it told may have been missed.
    disbelieved: bool,
    /// The store is being asked what such a notification told.
    catching_up: bool,
    /// The store was asked out of doubt a moment ago.
    resting: bool,
    /// A request is under way.
    busy: bool,
    /// It is in the list of keys for which something is to be done.
    is_due: bool,
    /// The version of the last observation.
    version: Option<Hlc>,
    /// Whether the key was there at the last observation.
    present: Option<bool>,
    /// Tells the value of the last observation from others: a store that lost its keys may give a version again.
    fingerprint: Option<u64>,
    /// Notifications that became observations.
    observed: u64,
    /// That the key is gone was told when a transaction deleted it; the record of that expires later.
    is_buried: bool,
}

/// What the store is to be asked next about a key.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Have it watched. `until` is when the last of the callers that wait gives up.
    Begin {
        until: Option<Instant>,
    },
    /// Learn what was missed; so many changes had been observed before. If nothing was `missed`, every later change is
    /// going to be notified.
    Read {
        observed: u64,
        missed: bool,
    },
    Stop,
}

/// Keeps a key watched for one observer.
#[derive(Debug)]
pub(super) struct Watching {
    handle: Arc<Handle>,
    key: Bytes,
    queue: Arc<Queue>,
}

impl Watching {
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.handle.shared.watches.remove(&self.key, &self.queue);
    }
}

impl Watches {
    /// Adds an observer, whose caller gives up at `until`. The receiver learns when the store sends notifications, or
    /// why it does not; it does not learn that the time is over.
    pub(super) fn add(
        &self,
        handle: Arc<Handle>,
        key: Bytes,
        queue: Arc<Queue>,
        until: Instant,
    ) -> (Watching, oneshot::Receiver<Result<(), Error>>) {
        let (begun, receiver) = oneshot::channel();
        {
            let mut registry = self.registry();
            if registry.closed {
                drop(begun);
            } else {
                let watch = registry.keys.entry(key.clone()).or_default();
                watch.observers.push(queue.clone());
                if watch.begun {
                    // Nobody is there to be told if the caller gave up.
                    let _ = begun.send(Ok(()));
                } else {
                    if watch.gap {
                        // What was on its way before the connection was lost may still come.
                        queue.resync();
                    }
                    watch.waiting.push(Waiting { begun, until });
                    registry.mark(&key);
                }
            }
        }
        self.changed.notify_one();
        (Watching { handle, key, queue }, receiver)
    }

    fn remove(&self, key: &Bytes, queue: &Arc<Queue>) {
        {
            let mut registry = self.registry();
            let Some(watch) = registry.keys.get_mut(key) else {
                return;
            };
            watch.observers.retain(|other| !Arc::ptr_eq(other, queue));
            if watch.observers.is_empty() {
                registry.mark(key);
            }
        }
        self.changed.notify_one();
    }

    /// The connection is lost: answers that still come are of no use, since changes may be missed before the next one
    /// is ready.
    pub(super) fn disconnected(&self) {
        self.registry().connection += 1;
    }

    /// A new connection: the store has forgotten the watches, and changes may have been missed.
    pub(super) fn resync(&self) {
        {
            let mut registry = self.registry();
            registry.connection += 1;
            let keys: Vec<_> = registry.keys.keys().cloned().collect();
            for key in keys {
                if let Some(watch) = registry.keys.get_mut(&key) {
                    // An observer that is still being added misses nothing.
                    if watch.begun || watch.gap {
                        watch.gap = true;
                        watch.observers.iter().for_each(|queue| queue.resync());
                    }
                    watch.begun = false;
                }
                registry.mark(&key);
            }
        }
        self.changed.notify_one();
    }

    /// A notification came. `merge` takes its version over, unless it is too far ahead.
    fn notified(&self, notification: Notification, merge: impl FnOnce(&Hlc) -> bool) {
        let mut registry = self.registry();
        let Notification {
            key,
            version,
            event,
        } = notification;
        let Some((event, is_tombstone)) = meaning(event) else {
            return;
        };
        let Some(watch) = registry
            .keys
            .get_mut(&key)
            .filter(|watch| !watch.observers.is_empty() && (watch.begun || watch.gap))
        else {
            // Of a watch that is only about to begin, it tells of the time before.
            registry.stale += 1;
            return;
        };
        let order = watch.version.as_ref().map(|known| version.cmp(known));
        let value = match &event {
            Event::Set(value) => Some(value),
            Event::Deleted => None,
        };
        if order == Some(Ordering::Equal) && watch.fingerprint == fingerprint(value) {
            registry.stale += 1;
            return;
        }
        let is_stale = matches!(order, Some(Ordering::Less | Ordering::Equal));
        if is_stale || !merge(&version) {
            watch.doubt = true;
            watch.disbelieved |= !is_stale;
            registry.stale += u64::from(is_stale);
            registry.mark(&key);
            drop(registry);
            return self.changed.notify_one();
        }
        // What was not believed and not read yet may have come before this.
        if watch.disbelieved || std::mem::take(&mut watch.catching_up) {
            watch.observers.iter().for_each(|queue| queue.resync());
        }
        let is_deleted = matches!(event, Event::Deleted);
        let is_told = is_deleted && watch.is_buried && watch.present == Some(false);
        watch.is_buried = is_tombstone || is_told;
        if is_told {
            watch.version = Some(version);
            registry.stale += 1;
            return;
        }
        watch.observe(Some(version), value.cloned().map(detached));
        watch.observed += 1;
        registry.notifications += 1;
    }

    /// The client is over: all observers end.
    pub(super) fn close(&self, lost_reason: LostReason, error: &Error) {
        let end = End {
            lost_reason,
            error: (lost_reason != LostReason::Closed).then(|| error.clone()),
        };
        let keys = {
            let mut registry = self.registry();
            registry.closed = true;
            std::mem::take(&mut registry.keys)
        };
        for watch in keys.into_values() {
            watch
                .observers
                .iter()
                .for_each(|queue| queue.end(end.clone()));
        }
        self.changed.notify_one();
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        let registry = self.registry();
        counters.notifications = registry.notifications;
        counters.stale_notifications = registry.stale;
        counters.malformed_messages = registry.malformed;
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Notes that something is to be done for a key.
    fn mark(&mut self, key: &Bytes) {
        if let Some(watch) = self.keys.get_mut(key)
            && !watch.is_due
            && !watch.busy
        {
            watch.is_due = true;
            self.due.push_back(key.clone());
        }
    }

    /// Keys whose rest is over may be read out of doubt again; when the next one may.
    fn wake_rested(&mut self) -> Option<Instant> {
        let now = Instant::now();
        loop {
            match self.resting.front() {
                Some((at, _)) if *at <= now => {}
                next => return next.map(|(at, _)| *at),
            }
            if let Some((_, key)) = self.resting.pop_front() {
                if let Some(watch) = self.keys.get_mut(&key) {
                    watch.resting = false;
                }
                self.mark(&key);
            }
        }
    }

    /// The next key with its step. Forgets keys that nobody observes.
    fn next(&mut self) -> Option<(Bytes, Step, u64)> {
        while let Some(key) = self.due.pop_front() {
            let Some(watch) = self.keys.get_mut(&key) else {
                continue;
            };
            watch.is_due = false;
            let step = match (watch.observers.is_empty(), watch.begun, watch.gap) {
                (true, false, _) => {
                    self.keys.remove(&key);
                    continue;
                }
                (true, true, _) => {
                    // Whoever comes now waits until it is begun anew, and knows nothing of the time before.
                    watch.begun = false;
                    (watch.version, watch.present, watch.fingerprint) = (None, None, None);
                    Step::Stop
                }
                (false, false, _) => {
                    watch.waiting.retain(|caller| !caller.begun.is_closed());
                    let until = watch.waiting.iter().map(|caller| caller.until).max();
                    Step::Begin { until }
                }
                (false, true, true) => Step::Read {
                    observed: watch.observed,
                    missed: true,
                },
                (false, true, false) if watch.doubt && !watch.resting => {
                    watch.resting = true;
                    self.resting.push_back((Instant::now() + REST, key.clone()));
                    Step::Read {
                        observed: watch.observed,
                        missed: watch.disbelieved,
                    }
                }
                (false, true, false) => continue,
            };
            if let Step::Read { .. } = step {
                watch.catching_up = watch.disbelieved;
                (watch.doubt, watch.disbelieved) = (false, false);
            }
            watch.busy = true;
            return Some((key, step, self.connection));
        }
        None
    }
}

impl Watch {
    /// Tells all observers about a state.
    fn observe(&mut self, version: Option<Hlc>, value: Option<Bytes>) {
        self.present = Some(value.is_some());
        self.version.clone_from(&version);
        self.fingerprint = fingerprint(value.as_ref());
        let observation = observation(version, value);
        // The first clone of a value allocates, so a single observer gets the value itself.
        if let Some((last, others)) = self.observers.split_last() {
            for queue in others {
                queue.push(observation.clone());
            }
            last.push(observation);
        }
    }

    /// Takes the state over that was read after a gap or out of doubt. `caught_up`: a notification had not been believed.
    fn read(
        &mut self,
        state: Option<(Bytes, Hlc)>,
        observed_before: u64,
        missed: bool,
        caught_up: bool,
    ) {
        let was_gap = std::mem::replace(&mut self.gap, false);
        let is_latest = self.observed == observed_before;
        let (value, version) = state.unzip();
        let is_news = match &version {
            // A version that differs is news even if it is lower: the store may have been set back.
            Some(version) if is_latest => {
                self.version.as_ref() != Some(version)
                    || self.present.is_some() && self.fingerprint != fingerprint(value.as_ref())
            }
            Some(version) => self.version.as_ref().is_none_or(|known| version > known),
            None => is_latest && self.present != Some(false),
        };
        if is_news {
            let rises = version > self.version;
            if !missed && rises {
                return;
            }
            // What was told since the gap may have been followed by what was not believed.
            let is_marked = was_gap && !caught_up && !self.disbelieved;
            // What was dropped for being lower than the state before may be higher than this one.
            self.disbelieved |= self.doubt && !rises;
            if !is_marked {
                self.observers.iter().for_each(|queue| queue.resync());
            }
            return self.observe(version, value);
        }
        if is_latest {
            if caught_up && version.is_none() {
                // It is as absent as before, but was not all the time if what was not believed is true.
                self.observers.iter().for_each(|queue| queue.resync());
            }
            // Later versions need not be higher than one from before the gap.
            self.version.clone_from(&version);
            // Others were told the same before this observer came.
            for queue in self.observers.iter().filter(|queue| queue.is_untold()) {
                queue.push(observation(version.clone(), value.clone()));
            }
        }
    }
}

/// Of a value; `None` of none.
fn fingerprint(value: Option<&Bytes>) -> Option<u64> {
    value.map(|value| {
        let mut hasher = DefaultHasher::new();
        hasher.write(value);
        hasher.finish()
    })
}

/// What a notification means for those who read, and whether it is a record that says that the key is deleted; `None` if it
/// is one that changes nothing.
fn meaning(event: Event) -> Option<(Event, bool)> {
    let Event::Set(value) = &event else {
        return Some((event, false));
    };
    if !intents::is_marked(value) {
        return Some((event, false));
    }
    match Record::decode(value) {
        None => Some((event, false)),
        Some(Record::Tombstone) => Some((Event::Deleted, true)),
        Some(_) => None,
    }
}

fn observation(version: Option<Hlc>, value: Option<Bytes>) -> Observation {
    match (value, version) {
        (Some(value), Some(version)) => Observation::Set { value, version },
        (_, version) => Observation::Deleted { version },
    }
}
