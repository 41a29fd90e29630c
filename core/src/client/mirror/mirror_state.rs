//! Entries of a mirror, and the task that follows the store.
use super::mirror_changes::Subscription;
use crate::LostReason;
use crate::client::observation_queue::EndReason;
use crate::client::patterns::pattern_action;
use crate::client::{ConnectionState, Entry, MatchObservation, MatchObserver, TryNextError};
use crate::error::{Error, ErrorKind, Outcome};
use bytes::Bytes;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::task::Waker;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

/// Maximum number of events that are applied while readers wait.
const MAX_BATCH: usize = 256;

/// The entries of a mirror, shared by its clones and its task.
#[derive(Debug)]
pub(super) struct MirrorState {
    entries: RwLock<Arc<HashMap<Bytes, Entry>>>,
    subscriptions: Mutex<Vec<Weak<Subscription>>>,
    pub(super) status: watch::Sender<MirrorStatus>,
    max_keys: usize,
}

/// How current a mirror is.
#[derive(Debug)]
pub(super) struct MirrorStatus {
    /// Time since which the mirror may differ from the store.
    pub(super) stale_since: Option<Instant>,
    /// Whether the mirror had the state of the store at least once.
    is_complete: bool,
    pub(super) end: Option<EndReason>,
}

impl MirrorStatus {
    pub(super) fn is_synced(&self) -> bool {
        self.stale_since.is_none()
    }

    fn set_stale(&mut self) {
        self.stale_since.get_or_insert_with(Instant::now);
    }
}

impl MirrorState {
    pub(super) fn new(max_keys: usize) -> Self {
        Self {
            entries: RwLock::default(),
            subscriptions: Mutex::default(),
            status: watch::Sender::new(MirrorStatus {
                stale_since: Some(Instant::now()),
                is_complete: false,
                end: None,
            }),
            max_keys,
        }
    }

    pub(super) fn entries(&self) -> RwLockReadGuard<'_, Arc<HashMap<Bytes, Entry>>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a receiver of all changes from now on.
    pub(super) fn subscribe(&self) -> Arc<Subscription> {
        // The task changes entries and status under the lock for writing.
        let _entries = self.entries();
        let status = self.status.borrow();
        let subscription = Arc::new(Subscription::new(status.is_complete, self.max_keys));
        if status.end.is_some() {
            subscription.end().into_iter().for_each(Waker::wake);
        }
        let mut subscriptions = self
            .subscriptions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        subscriptions.retain(|other| other.strong_count() > 0);
        subscriptions.push(Arc::downgrade(&subscription));
        subscription
    }

    /// Ends the mirror, unless it has ended. No event is applied afterwards.
    pub(super) fn end(&self, reason: EndReason) {
        let wakers = {
            let _entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            self.set_end(reason)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the status and the subscriptions, unless they have ended. Returns the wakers to call.
    ///
    /// The caller has the lock of the entries for writing.
    fn set_end(&self, reason: EndReason) -> Vec<Waker> {
        if self.status.borrow().end.is_some() {
            return Vec::new();
        }
        self.status.send_modify(|status| {
            status.set_stale();
            status.end = Some(reason);
        });
        let subscriptions = self.subscriptions();
        subscriptions
            .iter()
            .filter_map(|subscription| subscription.end())
            .collect()
    }

    fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        let subscriptions = self
            .subscriptions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        subscriptions.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The task of a mirror, which ends the mirror when it is dropped.
#[derive(Debug)]
pub(super) struct MirrorTask {
    state: Arc<MirrorState>,
    observer: MatchObserver,
    connection: watch::Receiver<ConnectionState>,
    max_bytes: usize,
    /// Total size of the keys and values, in bytes.
    bytes: usize,
}

impl MirrorTask {
    pub(super) fn new(
        state: Arc<MirrorState>,
        observer: MatchObserver,
        connection: watch::Receiver<ConnectionState>,
        max_bytes: usize,
    ) -> Self {
        Self {
            state,
            observer,
            connection,
            max_bytes,
            bytes: 0,
        }
    }

    /// Follows the store until the mirror is dropped or has ended.
    pub(super) async fn run(mut self, mut abandoned: oneshot::Receiver<Infallible>) {
        loop {
            tokio::select! {
                // In a fixed order, so that simulations are reproducible.
                biased;
                _ = &mut abandoned => return,
                // The sender lives as long as the observer.
                _ = self.connection.changed() => self.check_connection(),
                () = self.observer.ready() => {
                    if !self.apply_batch() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn check_connection(&mut self) {
        let is_connected = self.connection.borrow_and_update().is_connected();
        if !is_connected {
            self.state.status.send_modify(MirrorStatus::set_stale);
        }
    }

    /// Applies the present events. Returns whether the mirror continues.
    fn apply_batch(&mut self) -> bool {
        let state = self.state.clone();
        let mut wakers = Vec::new();
        let is_ended = {
            let mut entries = state
                .entries
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            if state.status.borrow().end.is_some() {
                return false;
            }
            let subscriptions = state.subscriptions();
            let mut end = None;
            for _ in 0..MAX_BATCH {
                match self.observer.try_next() {
                    Ok(event) => {
                        let applied = self.apply(&mut entries, &event);
                        for subscription in &subscriptions {
                            wakers.extend(subscription.push(event.clone()));
                        }
                        if let Err(error) = applied {
                            end = Some(EndReason {
                                lost_reason: LostReason::Refused,
                                error: Some(error),
                            });
                            break;
                        }
                    }
                    Err(TryNextError::Empty) => break,
                    Err(TryNextError::Ended) => {
                        end = Some(EndReason {
                            lost_reason: self.observer.lost_reason().unwrap_or(LostReason::Closed),
                            error: self.observer.error(),
                        });
                        break;
                    }
                }
            }
            let is_ended = end.is_some();
            if let Some(reason) = end {
                wakers.extend(state.set_end(reason));
            }
            is_ended
        };
        wakers.into_iter().for_each(Waker::wake);
        !is_ended
    }

    /// Applies an event.
    ///
    /// # Errors
    /// Returns an error if the entries exceed the limit.
    fn apply(
        &mut self,
        entries: &mut Arc<HashMap<Bytes, Entry>>,
        event: &MatchObservation,
    ) -> Result<(), Error> {
        match event {
            MatchObservation::Set {
                key,
                value,
                version,
            } => {
                let entry = Entry::new(value.clone(), version.clone());
                self.bytes += key.len() + value.len();
                let former = Arc::make_mut(entries).insert(key.clone(), entry);
                self.subtract(key, former.as_ref());
                if self.bytes > self.max_bytes {
                    let reason = format!(
                        "the entries have {} bytes; {} are allowed (`max_bytes`)",
                        self.bytes, self.max_bytes
                    );
                    return Err(Error::new(
                        ErrorKind::TooLarge,
                        Outcome::NotDone,
                        pattern_action(self.observer.pattern()),
                        reason,
                    ));
                }
            }
            MatchObservation::Deleted { key, .. } => {
                let former = Arc::make_mut(entries).remove(key);
                self.subtract(key, former.as_ref());
            }
            MatchObservation::Resync => {
                self.state.status.send_modify(MirrorStatus::set_stale);
            }
            MatchObservation::Complete | MatchObservation::Resynced => {
                let is_connected = self.connection.borrow().is_connected();
                self.state.status.send_modify(|status| {
                    status.is_complete = true;
                    if is_connected {
                        status.stale_since = None;
                    }
                });
            }
        }
        Ok(())
    }

    /// Subtracts the size of an entry that is not there any more.
    fn subtract(&mut self, key: &Bytes, entry: Option<&Entry>) {
        if let Some(entry) = entry {
            self.bytes -= key.len() + entry.value.len();
        }
    }
}

impl Drop for MirrorTask {
    fn drop(&mut self) {
        self.state.end(EndReason {
            lost_reason: LostReason::Closed,
            error: None,
        });
    }
}
