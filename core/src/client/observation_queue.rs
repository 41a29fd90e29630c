//! Observations of a key that are not yet delivered.
use crate::LostReason;
use crate::error::Error;
use bytes::Bytes;
use statestore_protocol::Hlc;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// An event that an observer reports about its key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// The key has a new value.
    Set {
        /// The value.
        value: Bytes,
        /// Version of the value. It is higher than that of any earlier observation, unless a [`Resync`](Self::Resync) lies
        /// between.
        version: Hlc,
    },
    /// The key was deleted, or it expired.
    Deleted {
        /// Version of the deletion; `None` if a read found the key absent.
        version: Option<Hlc>,
    },
    /// Changes may have been missed. The connection was lost, or the key was found in an older state than the last observation,
    /// as after the store was restored. The current state follows, unless it equals the last observation of this observer.
    Resync,
    /// The observer was too slow, and this many observations were dropped. The newest ones are kept.
    Lagged(u64),
}

/// Behaviour when a key changes faster than its observer reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Keeps only the newest state.
    #[default]
    Latest,
    /// Keeps every change, up to this many and up to 16 MiB of values; the newest is always kept. Beyond that, the oldest are
    /// dropped, and [`Observation::Lagged`] reports how many.
    All(usize),
}

/// Maximum size of the values in a queue, in bytes, besides its newest state.
const MAX_BYTES: usize = 16 << 20;

/// A bounded queue of observations.
#[derive(Debug)]
pub(super) struct ObservationQueue {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    capacity: usize,
    /// Whether only the newest state is kept and the others are dropped silently.
    conflate: bool,
    resync: bool,
    observations: VecDeque<Observation>,
    /// Total size of the values in `observations`, in bytes.
    bytes: usize,
    lagged: u64,
    /// Whether no state was added yet, or the only one was dropped for a marker.
    needs_state: bool,
    /// The state that was read when the observer was added, until another one arrives.
    initial: Option<InitialState>,
    waker: Option<Waker>,
    end_reason: Option<EndReason>,
}

/// The state that an observer got first, and that its watch does not know.
#[derive(Debug)]
struct InitialState {
    /// Version of the state; `None` if the key was absent.
    version: Option<Hlc>,
    /// Whether changes may have been missed since, so that lower versions are newer.
    has_gap: bool,
}

impl InitialState {
    /// Returns whether the observer needs no other state with this version.
    fn covers(&self, version: Option<&Hlc>) -> bool {
        match (version, &self.version) {
            (Some(version), Some(initial)) if !self.has_gap => version <= initial,
            (version, initial) => version == initial.as_ref(),
        }
    }
}

/// Reason for the end of the observations.
#[derive(Debug, Clone)]
pub(super) struct EndReason {
    pub(super) lost_reason: LostReason,
    /// The error; `None` if the client was closed.
    pub(super) error: Option<Error>,
}

impl ObservationQueue {
    pub(super) fn new(overflow: Overflow) -> Self {
        let (conflate, capacity) = match overflow {
            Overflow::Latest => (true, 1),
            Overflow::All(capacity) => (false, capacity.max(1)),
        };
        Self {
            inner: Mutex::new(Inner {
                capacity,
                conflate,
                resync: false,
                observations: VecDeque::new(),
                bytes: 0,
                lagged: 0,
                needs_state: true,
                initial: None,
                waker: None,
                end_reason: None,
            }),
        }
    }

    /// Adds a state, and drops older ones if the queue is full.
    pub(super) fn push(&self, observation: Observation) {
        let waker = self.inner().push(observation);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Adds the state that was read when the observer was added, unless a notification has arrived before.
    pub(super) fn push_initial(&self, observation: Observation) {
        let waker = {
            let mut inner = self.inner();
            if !inner.needs_state {
                return;
            }
            let version = observation.version().cloned();
            let waker = inner.push(observation);
            inner.initial = Some(InitialState {
                version,
                has_gap: false,
            });
            waker
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns whether the newest state must be delivered even if it did not change.
    pub(super) fn needs_state(&self) -> bool {
        self.inner().needs_state
    }

    /// Adds the marker that changes may have been missed.
    pub(super) fn resync(&self) {
        let waker = {
            let mut inner = self.inner();
            if let Some(initial) = &mut inner.initial {
                initial.has_gap = true;
            }
            // The marker must stay before the state that follows and after the earlier ones. A conflating queue delivers only
            // the newest state, which is the one that follows.
            if inner.conflate && !inner.observations.is_empty() {
                inner.drop_oldest();
                inner.needs_state = true;
            }
            if inner.observations.is_empty() {
                inner.resync = true;
            } else if inner.observations.back() != Some(&Observation::Resync) {
                inner.observations.push_back(Observation::Resync);
            }
            inner.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Ends the queue: no further observations follow.
    pub(super) fn close(&self, end: EndReason) {
        let waker = {
            let mut inner = self.inner();
            inner.end_reason.get_or_insert(end);
            inner.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    pub(super) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner();
        let has_observation = inner.lagged > 0 || inner.resync || !inner.observations.is_empty();
        if has_observation || inner.end_reason.is_some() {
            return Poll::Ready(());
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Takes the next observation; `None` after the last one.
    pub(super) fn try_next(&self) -> Poll<Option<Observation>> {
        // One lock for both checks: an observation that arrives before the end is never skipped.
        let mut inner = self.inner();
        match inner.take() {
            None if inner.end_reason.is_none() => Poll::Pending,
            taken => Poll::Ready(taken),
        }
    }

    /// Returns the reason for the end; `None` while observations may follow.
    pub(super) fn end_reason(&self) -> Option<EndReason> {
        self.inner().end_reason.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Adds a state. Returns the waker to call.
    fn push(&mut self, observation: Observation) -> Option<Waker> {
        let initial = self.initial.take();
        if let Some(initial) = initial.filter(|it| it.covers(observation.version()))
            && !self.needs_state
        {
            self.initial = Some(initial);
            return None;
        }
        let bytes = observation.bytes();
        while self.observations.len() >= self.capacity
            || !self.observations.is_empty() && self.bytes.saturating_add(bytes) > MAX_BYTES
        {
            self.drop_oldest();
        }
        self.bytes += bytes;
        self.observations.push_back(observation);
        self.needs_state = false;
        self.waker.take()
    }

    fn take(&mut self) -> Option<Observation> {
        if self.lagged > 0 {
            return Some(Observation::Lagged(std::mem::take(&mut self.lagged)));
        }
        if std::mem::take(&mut self.resync) {
            return Some(Observation::Resync);
        }
        let observation = self.observations.pop_front()?;
        self.bytes -= observation.bytes();
        Some(observation)
    }

    fn drop_oldest(&mut self) {
        match self.observations.pop_front() {
            // The marker that changes may have been missed is delivered in any case.
            Some(Observation::Resync) => self.resync = true,
            Some(observation) => {
                self.bytes -= observation.bytes();
                self.lagged += u64::from(!self.conflate);
            }
            None => {}
        }
    }
}

impl Observation {
    /// Returns the version of the state, if it has one.
    fn version(&self) -> Option<&Hlc> {
        match self {
            Self::Set { version, .. } => Some(version),
            Self::Deleted { version } => version.as_ref(),
            Self::Resync | Self::Lagged(_) => None,
        }
    }

    /// Returns the size of the value, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Set { value, .. } => value.len(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deleted(number: u64) -> Observation {
        Observation::Deleted {
            version: Some(Hlc::new(number, 0, "n").unwrap()),
        }
    }

    /// Returns all observations that can be delivered now.
    fn drain(queue: &ObservationQueue) -> Vec<Observation> {
        std::iter::from_fn(|| queue.inner().take()).collect()
    }

    #[test]
    fn a_conflating_queue_delivers_only_the_newest_state() {
        let queue = ObservationQueue::new(Overflow::Latest);
        queue.push(deleted(1));
        queue.push(deleted(2));
        queue.resync();
        queue.push(deleted(3));
        assert_eq!(drain(&queue), [Observation::Resync, deleted(3)]);
        queue.resync();
        assert_eq!(drain(&queue), [Observation::Resync]);
        assert!(!queue.needs_state());
        queue.push(deleted(4));
        queue.resync();
        assert_eq!(drain(&queue), [Observation::Resync]);
        assert!(
            queue.needs_state(),
            "a dropped state must be delivered again"
        );
    }

    #[test]
    fn a_full_queue_keeps_the_newest_and_reports_how_many_it_dropped() {
        let queue = ObservationQueue::new(Overflow::All(3));
        queue.push(deleted(1));
        queue.push(deleted(2));
        queue.resync();
        assert_eq!(drain(&queue), [deleted(1), deleted(2), Observation::Resync]);
        (1..=5)
            .map(deleted)
            .for_each(|observation| queue.push(observation));
        assert_eq!(
            drain(&queue),
            [Observation::Lagged(2), deleted(3), deleted(4), deleted(5)]
        );
    }

    #[test]
    fn a_queue_of_large_values_is_bounded_in_bytes() {
        let large = |number: u64, bytes: usize| Observation::Set {
            value: vec![0; bytes].into(),
            version: Hlc::new(number, 0, "n").unwrap(),
        };
        let queue = ObservationQueue::new(Overflow::All(1024));
        queue.push(large(1, MAX_BYTES / 2));
        queue.resync();
        queue.push(large(2, MAX_BYTES / 2));
        assert_eq!(queue.inner().observations.len(), 3);
        queue.push(large(3, 1));
        assert_eq!(queue.inner().bytes, MAX_BYTES / 2 + 1);
        queue.push(large(4, MAX_BYTES));
        assert_eq!(queue.inner().bytes, MAX_BYTES);
        // The newest state is kept, regardless of its size.
        queue.push(large(5, 2 * MAX_BYTES));
        assert_eq!(
            drain(&queue),
            [
                Observation::Lagged(4),
                Observation::Resync,
                large(5, 2 * MAX_BYTES)
            ]
        );
        assert_eq!(queue.inner().bytes, 0);
    }

    #[test]
    fn states_up_to_the_initial_one_are_not_repeated() {
        let queue = ObservationQueue::new(Overflow::All(8));
        queue.push_initial(deleted(3));
        for number in [2, 3, 4, 4] {
            queue.push(deleted(number));
        }
        assert_eq!(drain(&queue), [deleted(3), deleted(4), deleted(4)]);

        // A state that arrived before is newer.
        let queue = ObservationQueue::new(Overflow::Latest);
        queue.push(deleted(5));
        queue.push_initial(deleted(3));
        assert_eq!(drain(&queue), [deleted(5)]);
    }

    #[test]
    fn after_a_gap_only_a_state_that_differs_from_the_initial_one_follows() {
        let queue = ObservationQueue::new(Overflow::All(8));
        queue.push_initial(deleted(3));
        assert_eq!(drain(&queue), [deleted(3)]);
        queue.resync();
        queue.push(deleted(3));
        assert_eq!(drain(&queue), [Observation::Resync]);
        // The store was restored.
        queue.push(deleted(2));
        assert_eq!(drain(&queue), [deleted(2)]);
    }

    #[test]
    fn observations_before_the_end_are_delivered() {
        let queue = ObservationQueue::new(Overflow::Latest);
        queue.push(deleted(1));
        queue.close(EndReason {
            lost_reason: LostReason::Closed,
            error: None,
        });
        assert_eq!(drain(&queue), [deleted(1)]);
        assert!(
            queue
                .poll_ready(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        );
    }
}
