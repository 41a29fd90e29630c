//! State of an observer of a pattern, shared by its task, its reader and the driver.
use super::change_queue::KeyChange;
use super::key_states::Notified;
use super::observation::MatchObservation;
use super::state_lock::{Gap, Inner, StateGuard, StateLock, set_waker};
use crate::TransactionRecord;
use crate::client::action::action;
use crate::client::detach;
use crate::client::observation_queue::EndReason;
use crate::error::{Error, ErrorKind, Outcome};
use bytes::Bytes;
use statestore_protocol::glob::Glob;
use statestore_protocol::{CommandRef, Event, Hlc, Notification};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum size of the undelivered events that notifications add to, in bytes. Beyond that they are dropped, and read again.
const MAX_NOTIFIED_BYTES: usize = 16 << 20;
/// Time after a scan in which notifications of earlier changes may still arrive.
const MAX_NOTIFICATION_LAG: Duration = Duration::from_secs(10);

/// Describes the observation of a pattern for messages.
pub(in super::super) fn pattern_action(pattern: &[u8]) -> String {
    action(CommandRef::WatchPattern { pattern })
}

/// An entry that a scan found.
#[derive(Debug)]
pub(in super::super) struct FoundEntry {
    pub(in super::super) key: Bytes,
    pub(in super::super) value: Bytes,
    pub(in super::super) version: Hlc,
}

/// The state of one observer of a pattern.
#[derive(Debug)]
pub(in super::super) struct MatchState {
    pattern: Bytes,
    glob: Glob,
    max_keys: usize,
    /// Lock during the requests that start or end the watch of this pattern, shared by all of its observers.
    pub(in super::super) order: Arc<tokio::sync::Mutex<()>>,
    inner: StateLock,
}

impl MatchState {
    pub(in super::super) fn new(
        pattern: Bytes,
        max_keys: usize,
        connection: Option<u64>,
        order: Arc<tokio::sync::Mutex<()>>,
    ) -> Self {
        Self {
            glob: Glob::new(&pattern),
            pattern,
            max_keys,
            order,
            inner: StateLock::new(connection),
        }
    }

    pub(in super::super) fn pattern(&self) -> &Bytes {
        &self.pattern
    }

    /// Handles a notification. `is_trusted` is whether its version is not too far ahead. Returns whether the reader gets it.
    pub(in super::super) fn handle_notification(
        &self,
        notification: &Notification,
        is_trusted: impl FnOnce(&Hlc) -> bool,
    ) -> bool {
        if !self.glob.matches(&notification.key) {
            return false;
        }
        let value = match &notification.event {
            Event::Set(value) => Some(value),
            Event::Deleted => None,
            Event::Resync => return false,
        };
        let mut inner = self.lock();
        if !inner.is_notified || inner.is_abandoned || inner.end.is_some() {
            return false;
        }
        if !is_trusted(&notification.version) {
            inner.doubt();
            return false;
        }
        let version = Some(notification.version.clone());
        self.notify(&mut inner, &notification.key, value, version)
    }

    /// Handles a change or a read of a single key.
    pub(in super::super) fn handle_change(
        &self,
        key: &Bytes,
        value: Option<&Bytes>,
        version: Option<Hlc>,
    ) {
        self.notify(&mut self.lock(), key, value, version);
    }

    fn notify(
        &self,
        inner: &mut Inner,
        key: &Bytes,
        value: Option<&Bytes>,
        version: Option<Hlc>,
    ) -> bool {
        if let (Some(value), Some(version)) = (value, &version)
            && let Err(error) = TransactionRecord::reject(value, version, || self.action())
        {
            inner.end(error);
            return false;
        }
        let is_late_expected = inner.late_until.is_some_and(|until| Instant::now() < until);
        let notified = inner
            .keys
            .notify(key, value, version.clone(), is_late_expected);
        match notified {
            Notified::Stale => return false,
            Notified::Doubtful => {
                inner.doubt();
                return false;
            }
            Notified::Change => {}
        }
        let change = match (value, version) {
            (Some(value), Some(version)) => KeyChange::Set {
                value: detach(value.clone()),
                version,
            },
            (_, version) => KeyChange::Deleted { version },
        };
        inner.queue.push(key.clone(), change);
        self.check_limit(inner);
        if inner.queue.bytes() > MAX_NOTIFIED_BYTES && inner.queue.len() > 1 {
            for key in inner.queue.drop_changes() {
                inner.keys.mark_unreported(key);
            }
            inner.open_gap(Gap::Overflow);
        }
        inner.wake_reader();
        true
    }

    /// Handles the store's report that changes may have been missed.
    pub(in super::super) fn handle_gap(&self, pattern: &[u8]) {
        let mut inner = self.lock();
        if self.pattern == pattern && inner.is_notified {
            inner.open_gap(Gap::Missed);
        }
    }

    /// Records that changes may have been missed.
    pub(in super::super) fn open_gap(&self) {
        self.lock().open_gap(Gap::Missed);
    }

    /// Ignores notifications until the watch has started again.
    pub(in super::super) fn disconnected(&self) {
        let mut inner = self.lock();
        inner.is_connected = false;
        inner.is_notified = false;
    }

    /// Handles a new connection: the store has no watch of it, and changes may have been missed.
    pub(in super::super) fn connected_anew(&self, connection: u64) {
        let mut inner = self.lock();
        inner.is_connected = true;
        inner.connection = connection;
        inner.is_live = false;
        inner.is_notified = false;
        inner.is_watched = false;
        inner.open_gap(Gap::Missed);
        inner.wake_task();
    }

    /// Returns the number of the connection.
    pub(in super::super) fn connection(&self) -> u64 {
        self.lock().connection
    }

    /// Records that the observer has started on this connection. `is_notified` is whether the store notifies of the pattern.
    pub(in super::super) fn set_live(&self, connection: u64, is_notified: bool) {
        let mut inner = self.lock();
        if inner.connection == connection {
            inner.is_live = true;
            inner.is_notified = is_notified;
        }
    }

    pub(in super::super) fn is_live(&self) -> bool {
        self.lock().is_live
    }

    /// Records that the store may watch the pattern from now on.
    pub(in super::super) fn set_watched(&self) {
        self.lock().is_watched = true;
    }

    /// Returns whether the store may watch the pattern.
    pub(in super::super) fn is_watched(&self) -> bool {
        self.lock().is_watched
    }

    /// Begins a scan of all keys, and returns its number; `None` without a connection.
    pub(in super::super) fn begin_scan(&self) -> Option<u64> {
        let mut inner = self.lock();
        inner.is_live.then(|| inner.begin_scan())
    }

    /// Begins a scan for new keys; `None` if all keys must be read.
    pub(in super::super) fn begin_refresh(&self) -> Option<u64> {
        let mut inner = self.lock();
        let has_gap = !inner.is_live || inner.gap.is_some();
        (!has_gap).then(|| inner.keys.begin_scan())
    }

    /// Returns whether the scan may continue.
    pub(in super::super) fn is_scanning(&self, scan: u64) -> bool {
        self.lock().is_scanning(scan)
    }

    /// Ends a scan that failed.
    pub(in super::super) fn abort_scan(&self) {
        self.lock().keys.abort_scan();
    }

    /// Merges entries that a scan found. Returns whether the scan may continue.
    pub(in super::super) fn merge_entries(
        &self,
        scan: u64,
        entries: impl Iterator<Item = FoundEntry>,
    ) -> bool {
        let mut inner = self.lock();
        if !inner.is_scanning(scan) {
            return false;
        }
        for FoundEntry {
            key,
            value,
            version,
        } in entries
        {
            if inner.keys.merge_found(&key, &value, &version) {
                inner.queue.push(key, KeyChange::Set { value, version });
            }
        }
        self.check_limit(&mut inner);
        inner.wake_reader();
        inner.end.is_none()
    }

    /// Records that a scan found a key whose state is known otherwise.
    pub(in super::super) fn mark_found(&self, key: &Bytes) {
        self.lock().keys.mark_found(key);
    }

    /// Ends a scan that has found all keys. Returns whether it was valid to its end. `is_refresh` is whether it only looked for
    /// new keys.
    pub(in super::super) fn end_scan(&self, scan: u64, is_refresh: bool) -> bool {
        let mut inner = self.lock();
        if !inner.is_scanning(scan) {
            return false;
        }
        for key in inner.keys.end_scan() {
            inner.queue.push(key, KeyChange::Deleted { version: None });
        }
        if !is_refresh {
            inner.queue.push_end();
        }
        inner.late_until = Instant::now().checked_add(MAX_NOTIFICATION_LAG);
        if std::mem::take(&mut inner.has_doubt) {
            inner.doubt();
        }
        inner.wake_reader();
        true
    }

    /// Returns whether the key exists.
    pub(in super::super) fn contains(&self, key: &Bytes) -> bool {
        self.lock().keys.contains(key)
    }

    /// Ends the observer if it would have more than this number of keys. Returns whether it continues.
    pub(in super::super) fn reserve_keys(&self, keys: usize) -> bool {
        if keys > self.max_keys {
            self.lock().end(self.limit_error());
        }
        !self.is_ended()
    }

    /// Waits until all keys must be read again, and returns the reason.
    pub(in super::super) async fn gap(&self) -> Gap {
        poll_fn(|context| {
            let mut inner = self.lock();
            if let Some(gap) = inner.present_gap() {
                return Poll::Ready(gap);
            }
            set_waker(&mut inner.task, context);
            Poll::Pending
        })
        .await
    }

    /// Waits until the reader has taken enough events for another page.
    pub(in super::super) async fn room(&self) {
        poll_fn(|context| {
            let mut inner = self.lock();
            if inner.has_room() || inner.end.is_some() {
                return Poll::Ready(());
            }
            set_waker(&mut inner.task, context);
            Poll::Pending
        })
        .await;
    }

    /// Waits until the client is connected, or the observer has ended.
    pub(in super::super) async fn connected(&self) {
        poll_fn(|context| {
            let mut inner = self.lock();
            if inner.is_connected || inner.end.is_some() {
                return Poll::Ready(());
            }
            set_waker(&mut inner.task, context);
            Poll::Pending
        })
        .await;
    }

    /// Waits until the observer has ended.
    pub(in super::super) async fn ended(&self) {
        poll_fn(|context| {
            let mut inner = self.lock();
            if inner.end.is_some() {
                return Poll::Ready(());
            }
            set_waker(&mut inner.task, context);
            Poll::Pending
        })
        .await;
    }

    /// Waits until the observer was dropped.
    pub(in super::super) async fn abandoned(&self) {
        poll_fn(|context| {
            let mut inner = self.lock();
            if inner.is_abandoned {
                return Poll::Ready(());
            }
            set_waker(&mut inner.task, context);
            Poll::Pending
        })
        .await;
    }

    /// Handles the drop of the observer.
    pub(in super::super) fn abandon(&self) {
        let mut inner = self.lock();
        inner.is_abandoned = true;
        inner.wake_task();
    }

    pub(in super::super) fn is_abandoned(&self) -> bool {
        self.lock().is_abandoned
    }

    /// Ends the observer because of an error.
    pub(in super::super) fn end(&self, error: Error) {
        self.lock().end(error);
    }

    /// Ends the observer, because the client is closed.
    pub(in super::super) fn close(&self, reason: EndReason) {
        let mut inner = self.lock();
        inner.end.get_or_insert(reason);
        inner.wake_reader();
        inner.wake_task();
    }

    pub(in super::super) fn is_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Returns the reason for the end; `None` while events may follow.
    pub(in super::super) fn end_reason(&self) -> Option<EndReason> {
        self.lock().end.clone()
    }

    pub(in super::super) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if !inner.queue.is_empty() || inner.end.is_some() {
            return Poll::Ready(());
        }
        set_waker(&mut inner.reader, context);
        Poll::Pending
    }

    /// Takes the next event; `None` after the last one.
    pub(in super::super) fn try_next(&self) -> Poll<Option<MatchObservation>> {
        // One lock for both checks: an event that arrives before the end is never skipped.
        let mut inner = self.lock();
        let had_room = inner.has_room();
        let taken = inner.queue.take();
        if !had_room && inner.has_room() {
            inner.wake_task();
        }
        match taken {
            None if inner.end.is_none() => Poll::Pending,
            taken => Poll::Ready(taken),
        }
    }

    /// Describes the observation for messages.
    pub(in super::super) fn action(&self) -> String {
        pattern_action(&self.pattern)
    }

    fn check_limit(&self, inner: &mut Inner) {
        if inner.keys.len() > self.max_keys {
            inner.end(self.limit_error());
        }
    }

    fn limit_error(&self) -> Error {
        let reason = format!(
            "more than {} keys match, which is the limit `max_keys`",
            self.max_keys
        );
        Error::new(ErrorKind::TooLarge, Outcome::NotDone, self.action(), reason)
    }

    fn lock(&self) -> StateGuard<'_> {
        self.inner.lock()
    }
}
