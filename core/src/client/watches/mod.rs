//! The watched keys: the observers of each, and the requests that the store needs for it.
//!
//! A single [task](super::watch_task) keeps the store's watches in line with the observers. For each key it sends one of these
//! requests at a time:
//!
//! - KEYNOTIFY, when the key gets its first observer or its watch ended with the connection;
//! - GET, to read the changes that were missed;
//! - KEYNOTIFY STOP, when the last observer is gone.
//!
//! Notifications are verified, since a broker may let other clients publish on the topic. A notification is not delivered if
//! its version is lower than the previous one, or too far ahead of the local clock. The same applies to the same version with
//! another value. The task reads the key instead, at most once per [`MIN_READ_INTERVAL`], and the response decides.
mod response;

pub(super) use response::is_transient;

use super::action::action;
use super::observation_queue::{EndReason, Observation, ObservationQueue};
use super::{Counters, Handle, detach};
use crate::error::Error;
use crate::{LostReason, TransactionRecord};
use bytes::Bytes;
use statestore_protocol::{CommandRef, Event, Hlc, Notification};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// Minimum time between two reads of a key whose notifications are in doubt.
const MIN_READ_INTERVAL: Duration = Duration::from_secs(1);

/// A caller that waits for a watch to start.
#[derive(Debug)]
struct WatchWaiter {
    started: oneshot::Sender<Result<(), Error>>,
    /// Time at which the caller gives up, by its own timer.
    until: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    registry: Mutex<Registry>,
    /// Notifies the task that a key needs a request.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    /// Watches by key; ordered, so that they are renewed in the same order each time.
    keys: BTreeMap<Bytes, Watch>,
    /// Keys that need a request; each at most once.
    pub(super) due: VecDeque<Bytes>,
    /// Keys that were read because of a doubt, with the time before which that is not repeated; ordered by time.
    recently_read: VecDeque<(Instant, Bytes)>,
    /// Number of the connection. Responses on an earlier one are void.
    connection: u64,
    pub(super) closed: bool,
    notifications: u64,
    stale: u64,
    pub(super) malformed: u64,
}

// Each flag is independent of the others.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Default)]
struct Watch {
    observers: Vec<Arc<ObservationQueue>>,
    /// Callers that wait for the watch to start; some may have given up.
    waiters: Vec<WatchWaiter>,
    /// Whether the store sends notifications for the key.
    started: bool,
    /// Whether changes may have been missed since the last observation.
    gap: bool,
    /// Whether a notification contradicts the last observation, or was not trusted. The key must be read.
    needs_read: bool,
    /// Whether a notification was not trusted, so that its change may have been missed.
    distrusted: bool,
    /// Whether the read for such a notification is under way.
    catching_up: bool,
    /// Whether the key was read because of a doubt a moment ago.
    recently_read: bool,
    /// Whether a request is under way.
    in_flight: bool,
    /// Whether the key is in [`Registry::due`].
    is_due: bool,
    /// Version of the last observation.
    version: Option<Hlc>,
    /// Whether the key existed at the last observation.
    present: Option<bool>,
    /// Hash of the value of the last observation: a store that lost its keys may issue a version again.
    fingerprint: Option<u64>,
    /// Number of notifications that became observations.
    observed: u64,
}

/// The next request for a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum WatchRequest {
    /// Start the watch. `until` is when the last of the waiting callers gives up.
    Start {
        until: Option<Instant>,
    },
    /// Read the missed changes. `observed` is the number of changes observed before. If nothing was `missed`, every later
    /// change is notified.
    Read {
        observed: u64,
        missed: bool,
    },
    Stop,
}

/// Guard that keeps a key watched for one observer.
#[derive(Debug)]
pub(super) struct WatchGuard {
    handle: Arc<Handle>,
    key: Bytes,
    queue: Arc<ObservationQueue>,
}

impl WatchGuard {
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.handle.shared.watches.remove(&self.key, &self.queue);
    }
}

impl Watches {
    /// Adds an observer, whose caller gives up at `until`. The receiver gets the result when the store starts or rejects the
    /// watch; it is not notified of the time-out.
    pub(super) fn add(
        &self,
        handle: Arc<Handle>,
        key: Bytes,
        queue: Arc<ObservationQueue>,
        until: Instant,
    ) -> (WatchGuard, oneshot::Receiver<Result<(), Error>>) {
        let (begun, receiver) = oneshot::channel();
        {
            let mut registry = self.registry();
            if registry.closed {
                drop(begun);
            } else {
                let watch = registry.keys.entry(key.clone()).or_default();
                watch.observers.push(queue.clone());
                if watch.started {
                    // The receiver is gone if the caller gave up.
                    let _ = begun.send(Ok(()));
                } else {
                    if watch.gap {
                        // Notifications from before the loss of the connection may still arrive.
                        queue.resync();
                    }
                    watch.waiters.push(WatchWaiter {
                        started: begun,
                        until,
                    });
                    registry.mark_due(&key);
                }
            }
        }
        self.changed.notify_one();
        (WatchGuard { handle, key, queue }, receiver)
    }

    fn remove(&self, key: &Bytes, queue: &Arc<ObservationQueue>) {
        {
            let mut registry = self.registry();
            let Some(watch) = registry.keys.get_mut(key) else {
                return;
            };
            watch.observers.retain(|other| !Arc::ptr_eq(other, queue));
            if watch.observers.is_empty() {
                registry.mark_due(key);
            }
        }
        self.changed.notify_one();
    }

    /// Invalidates responses that are still to come on the lost connection. Changes may be missed before the next connection is
    /// ready.
    pub(super) fn disconnected(&self) {
        self.registry().connection += 1;
    }

    /// Marks every watch as lost on a new connection: the store has dropped the watches, and changes may have been missed.
    pub(super) fn resync(&self) {
        {
            let mut registry = self.registry();
            registry.connection += 1;
            let keys: Vec<_> = registry.keys.keys().cloned().collect();
            for key in keys {
                if let Some(watch) = registry.keys.get_mut(&key) {
                    // An observer that is still being added misses nothing.
                    if watch.started || watch.gap {
                        watch.gap = true;
                        watch.observers.iter().for_each(|queue| queue.resync());
                    }
                    watch.started = false;
                }
                registry.mark_due(&key);
            }
        }
        self.changed.notify_one();
    }

    /// Handles a notification. `is_observed` is whether an observer of a pattern gets it. `merge` merges its version into the
    /// clock, unless it is too far ahead.
    pub(super) fn handle_notification(
        &self,
        notification: Notification,
        is_observed: bool,
        merge: impl FnOnce(&Hlc) -> bool,
    ) {
        let mut registry = self.registry();
        let Notification {
            key,
            version,
            event,
        } = notification;
        let Some(watch) = registry
            .keys
            .get_mut(&key)
            .filter(|watch| !watch.observers.is_empty() && (watch.started || watch.gap))
        else {
            // No watch of the key has started yet, so for the observers of the key this notification belongs to the time before.
            registry.notifications += u64::from(is_observed);
            registry.stale += u64::from(!is_observed);
            return;
        };
        let order = watch.version.as_ref().map(|known| version.cmp(known));
        let value = match &event {
            Event::Set(value) => Some(value),
            Event::Deleted => None,
            // It concerns a pattern, and no change of this key.
            Event::Resync => return,
        };
        if order == Some(Ordering::Equal) && watch.fingerprint == fingerprint(value) {
            registry.stale += 1;
            return;
        }
        let is_stale = matches!(order, Some(Ordering::Less | Ordering::Equal));
        if is_stale || !merge(&version) {
            watch.needs_read = true;
            watch.distrusted |= !is_stale;
            registry.stale += u64::from(is_stale);
            registry.mark_due(&key);
            drop(registry);
            return self.changed.notify_one();
        }
        // A notification that was not trusted and not verified yet may have come before this one.
        if watch.distrusted || std::mem::take(&mut watch.catching_up) {
            watch.observers.iter().for_each(|queue| queue.resync());
        }
        if let Some(value) = value {
            let watching = || action(CommandRef::Watch { key: &key });
            if let Err(error) = TransactionRecord::reject(value, &version, watching) {
                watch.end(&error);
                registry.mark_due(&key);
                drop(registry);
                return self.changed.notify_one();
            }
        }
        watch.observe(Some(version), value.cloned().map(detach));
        watch.observed += 1;
        registry.notifications += 1;
    }

    /// Ends all observers, because the client is closed.
    pub(super) fn close(&self, lost_reason: LostReason, error: &Error) {
        let end = EndReason {
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
                .for_each(|queue| queue.close(end.clone()));
        }
        self.changed.notify_one();
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        let registry = self.registry();
        counters.notifications = registry.notifications;
        counters.stale_notifications = registry.stale;
        counters.malformed_messages = registry.malformed;
    }

    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Marks a key that needs a request.
    pub(super) fn mark_due(&mut self, key: &Bytes) {
        if let Some(watch) = self.keys.get_mut(key)
            && !watch.is_due
            && !watch.in_flight
        {
            watch.is_due = true;
            self.due.push_back(key.clone());
        }
    }

    /// Makes keys eligible for another read once [`MIN_READ_INTERVAL`] has passed. Returns the time for the next key.
    pub(super) fn expire_recent_reads(&mut self) -> Option<Instant> {
        let now = Instant::now();
        loop {
            match self.recently_read.front() {
                Some((at, _)) if *at <= now => {}
                next => return next.map(|(at, _)| *at),
            }
            if let Some((_, key)) = self.recently_read.pop_front() {
                if let Some(watch) = self.keys.get_mut(&key) {
                    watch.recently_read = false;
                }
                self.mark_due(&key);
            }
        }
    }

    /// Returns the next key with its step. Removes keys without observers.
    pub(super) fn next_request(&mut self) -> Option<(Bytes, WatchRequest, u64)> {
        while let Some(key) = self.due.pop_front() {
            let Some(watch) = self.keys.get_mut(&key) else {
                continue;
            };
            watch.is_due = false;
            let step = match (watch.observers.is_empty(), watch.started, watch.gap) {
                (true, false, _) => {
                    self.keys.remove(&key);
                    continue;
                }
                (true, true, _) => {
                    // An observer that is added now waits until the watch starts again, and knows nothing of the time before.
                    watch.started = false;
                    (watch.version, watch.present, watch.fingerprint) = (None, None, None);
                    WatchRequest::Stop
                }
                (false, false, _) => {
                    watch.waiters.retain(|caller| !caller.started.is_closed());
                    let until = watch.waiters.iter().map(|caller| caller.until).max();
                    WatchRequest::Start { until }
                }
                (false, true, true) => WatchRequest::Read {
                    observed: watch.observed,
                    missed: true,
                },
                (false, true, false) if watch.needs_read && !watch.recently_read => {
                    watch.recently_read = true;
                    self.recently_read
                        .push_back((Instant::now() + MIN_READ_INTERVAL, key.clone()));
                    WatchRequest::Read {
                        observed: watch.observed,
                        missed: watch.distrusted,
                    }
                }
                (false, true, false) => continue,
            };
            if let WatchRequest::Read { .. } = step {
                watch.catching_up = watch.distrusted;
                (watch.needs_read, watch.distrusted) = (false, false);
            }
            watch.in_flight = true;
            return Some((key, step, self.connection));
        }
        None
    }
}

impl Watch {
    /// Ends all observers, and the callers that wait for the watch.
    fn end(&mut self, error: &Error) {
        // Without the full error, which names the key.
        tracing::warn!(kind = ?error.kind(), "a watch ends");
        for caller in self.waiters.drain(..) {
            // The receiver is gone if the caller gave up.
            let _ = caller.started.send(Err(error.clone()));
        }
        for queue in self.observers.drain(..) {
            queue.close(EndReason {
                lost_reason: LostReason::Refused,
                error: Some(error.clone()),
            });
        }
    }

    /// Delivers a state to all observers.
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

    /// Handles the state that was read after a gap or because of a doubt. `caught_up` is whether a notification had not been
    /// trusted.
    fn handle_read(
        &mut self,
        state: Option<(Bytes, Hlc)>,
        observed_before: u64,
        missed: bool,
        caught_up: bool,
    ) {
        let was_gap = std::mem::replace(&mut self.gap, false);
        let is_latest = self.observed == observed_before;
        let (value, version) = state.unzip();
        let is_change = match &version {
            // A version that differs is new even if it is lower: the store may have been restored from a backup.
            Some(version) if is_latest => {
                self.version.as_ref() != Some(version)
                    || self.present.is_some() && self.fingerprint != fingerprint(value.as_ref())
            }
            Some(version) => self.version.as_ref().is_none_or(|known| version > known),
            None => is_latest && self.present != Some(false),
        };
        if is_change {
            let rises = version > self.version;
            if !missed && rises {
                return;
            }
            // An untrusted change may have followed the observations since the gap.
            let is_marked = was_gap && !caught_up && !self.distrusted;
            // A notification that was dropped as lower than the previous state may be higher than this one.
            self.distrusted |= self.needs_read && !rises;
            if !is_marked {
                self.observers.iter().for_each(|queue| queue.resync());
            }
            return self.observe(version, value);
        }
        if is_latest {
            if caught_up && version.is_none() {
                // The key is still absent. If the untrusted notification is true, it existed in between.
                self.observers.iter().for_each(|queue| queue.resync());
            }
            // Later versions need not be higher than one from before the gap.
            self.version.clone_from(&version);
            // The other observers got the same state before this observer was added.
            for queue in self.observers.iter().filter(|queue| queue.needs_state()) {
                queue.push(observation(version.clone(), value.clone()));
            }
        }
    }
}

/// Returns the hash of a value; `None` for an absent one.
fn fingerprint(value: Option<&Bytes>) -> Option<u64> {
    value.map(|value| {
        let mut hasher = DefaultHasher::new();
        hasher.write(value);
        hasher.finish()
    })
}

fn observation(version: Option<Hlc>, value: Option<Bytes>) -> Observation {
    match (value, version) {
        (Some(value), Some(version)) => Observation::Set { value, version },
        (_, version) => Observation::Deleted { version },
    }
}
