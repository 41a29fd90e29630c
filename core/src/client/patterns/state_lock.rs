//! The lock around the state of an observer of a pattern.
use super::change_queue::ChangeQueue;
use super::key_states::KeyStates;
use crate::LostReason;
use crate::client::observation_queue::EndReason;
use crate::error::Error;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use tokio::time::Instant;

/// Number of undelivered events up to which the next page of a scan is read.
const MAX_SCANNED_EVENTS: usize = 4096;
/// Size of the undelivered events up to which the next page of a scan is read, in bytes.
const MAX_SCANNED_BYTES: usize = 4 << 20;

/// Reason why the keys must be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Gap {
    /// The connection was lost, or the store reported a gap.
    Missed,
    /// A notification is in doubt.
    Doubt,
    /// The reader was too slow, and events were dropped.
    Overflow,
}

/// The lock. It calls wakers only after it is released, since a waker may poll the observer.
#[derive(Debug)]
pub(super) struct StateLock(Mutex<Inner>);

/// Access to the locked state.
#[derive(Debug)]
pub(super) struct StateGuard<'a>(Option<MutexGuard<'a, Inner>>);

// Each flag is independent of the others.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) keys: KeyStates,
    pub(super) queue: ChangeQueue,
    pub(super) is_connected: bool,
    /// Number of the last connection, from 1.
    pub(super) connection: u64,
    /// Whether the observer has started on this connection.
    pub(super) is_live: bool,
    /// Whether notifications of this connection count, because the store watches the pattern.
    pub(super) is_notified: bool,
    /// Whether the store may watch the pattern.
    pub(super) is_watched: bool,
    /// Whether a scan has begun since the observer was created.
    pub(super) has_begun: bool,
    pub(super) gap: Option<Gap>,
    /// Whether a notification was not trusted during the present scan, so that another one must follow.
    pub(super) has_doubt: bool,
    /// Time until which notifications of changes before the last scan may arrive.
    pub(super) late_until: Option<Instant>,
    pub(super) end: Option<EndReason>,
    /// Whether the observer was dropped.
    pub(super) is_abandoned: bool,
    pub(super) reader: Option<Waker>,
    pub(super) task: Option<Waker>,
    /// Wakers to call when the lock is released.
    woken: Vec<Waker>,
}

impl StateLock {
    /// Creates the state for the present connection, or for the time without one.
    pub(super) fn new(connection: Option<u64>) -> Self {
        Self(Mutex::new(Inner {
            is_connected: connection.is_some(),
            connection: connection.unwrap_or(0),
            ..Inner::default()
        }))
    }

    pub(super) fn lock(&self) -> StateGuard<'_> {
        StateGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Deref for StateGuard<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        self.0.as_ref().expect("it is released only by its drop")
    }
}

impl DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        self.0.as_mut().expect("it is released only by its drop")
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        let woken = self
            .0
            .take()
            .map(|mut inner| std::mem::take(&mut inner.woken));
        woken.into_iter().flatten().for_each(Waker::wake);
    }
}

impl Inner {
    /// Records that changes may have been missed.
    pub(super) fn open_gap(&mut self, gap: Gap) {
        let is_open = match self.gap {
            None => false,
            // Any other gap is reported at once.
            Some(Gap::Doubt) => gap == Gap::Doubt,
            Some(_) => true,
        };
        if is_open || !self.has_begun {
            return;
        }
        self.gap = Some(gap);
        self.keys.abort_scan();
        // The reader hears of a doubt when the keys are read. Until then it can take the end of the last scan.
        if gap != Gap::Doubt {
            self.queue.push_resync();
            self.wake_reader();
        }
        self.wake_task();
    }

    /// Begins a scan of all keys, and returns its number.
    pub(super) fn begin_scan(&mut self) -> u64 {
        if self.gap.take() == Some(Gap::Doubt) {
            self.queue.push_resync();
            self.wake_reader();
        }
        self.has_doubt = false;
        self.has_begun = true;
        self.keys.begin_scan()
    }

    /// Handles a notification that cannot be trusted. It does not end a scan, which could otherwise never be completed.
    pub(super) fn doubt(&mut self) {
        if self.keys.has_scan() {
            self.has_doubt = true;
        } else {
            self.open_gap(Gap::Doubt);
        }
    }

    /// Returns why all keys must be read again, or why the task must look: the connection was lost, or the observer ended.
    pub(super) fn present_gap(&self) -> Option<Gap> {
        let must_look = !self.is_live || self.end.is_some();
        self.gap.or_else(|| must_look.then_some(Gap::Missed))
    }

    /// Returns whether this scan may continue.
    pub(super) fn is_scanning(&self, scan: u64) -> bool {
        self.is_live && self.end.is_none() && self.keys.is_scanning(scan)
    }

    /// Returns whether the reader has taken enough events for another page.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < MAX_SCANNED_EVENTS && self.queue.bytes() < MAX_SCANNED_BYTES
    }

    /// Ends the observer because of an error.
    pub(super) fn end(&mut self, error: Error) {
        // Without the full error, which names the pattern.
        tracing::warn!(kind = ?error.kind(), "an observer of a pattern ends");
        self.end.get_or_insert(EndReason {
            lost_reason: LostReason::Refused,
            error: Some(error),
        });
        self.wake_reader();
        self.wake_task();
    }

    pub(super) fn wake_reader(&mut self) {
        self.woken.extend(self.reader.take());
    }

    pub(super) fn wake_task(&mut self) {
        self.woken.extend(self.task.take());
    }
}

/// Stores the waker of the task that polls.
pub(super) fn set_waker(slot: &mut Option<Waker>, context: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(context.waker()),
        None => *slot = Some(context.waker().clone()),
    }
}
