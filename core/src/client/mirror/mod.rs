//! Mirrors: local copies of all entries whose keys match a pattern.
mod mirror_changes;
mod mirror_state;

pub use mirror_changes::MirrorChanges;

use super::observation_queue::EndReason;
use super::patterns::pattern_action;
use super::{Client, Entry, ObserveMatchingOptions};
use crate::error::{Error, ErrorKind, Outcome};
use crate::{AsBytes, LostReason};
use bytes::Bytes;
use mirror_state::{MirrorState, MirrorTask};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Options of [`Client::mirror_with`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MirrorOptions {
    /// Time limit for the store to start the watch; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
    /// As [`ObserveMatchingOptions::refresh`].
    pub refresh: Option<Duration>,
    /// Maximum number of keys; 1,000,000 by default. With more keys the mirror ends with
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
    pub max_keys: usize,
    /// Maximum size of all keys and values, in bytes; 256 MiB by default. Beyond that the mirror ends with
    /// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
    pub max_bytes: usize,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        let ObserveMatchingOptions {
            timeout,
            refresh,
            max_keys,
        } = ObserveMatchingOptions::default();
        Self {
            timeout,
            refresh,
            max_keys,
            max_bytes: 256 << 20,
        }
    }
}

impl MirrorOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`refresh`](Self#structfield.refresh).
    #[must_use]
    pub fn refresh(mut self, refresh: impl Into<Option<Duration>>) -> Self {
        self.refresh = refresh.into();
        self
    }

    /// Sets [`max_keys`](Self#structfield.max_keys).
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Sets [`max_bytes`](Self#structfield.max_bytes).
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }
}

/// A local copy of all entries whose keys match a pattern, which follows the store.
///
/// Clones share one copy. It ends with [`close`](Self::close), or when the last clone is dropped. After its end the mirror keeps
/// its last state, and [`error`](Self::error) describes the end.
#[derive(Debug, Clone)]
pub struct Mirror {
    handle: Arc<MirrorHandle>,
}

/// Guard that ends the task when the last clone of the mirror is dropped.
#[derive(Debug)]
struct MirrorHandle {
    pattern: Bytes,
    state: Arc<MirrorState>,
    /// Dropping it ends the task. `None` after the mirror was closed.
    alive: Mutex<Option<oneshot::Sender<Infallible>>>,
}

impl Client {
    /// Mirrors all entries whose keys match a pattern. The pattern is that of [`scan`](Self::scan). The mirror is empty at
    /// first; [`Mirror::synced`] waits until it has all entries.
    ///
    /// ```no_run
    /// # async fn example(client: &statestore::Client) -> Result<(), statestore::Error> {
    /// let gateways = client.mirror("gateways/*").await?;
    /// gateways.synced().await?;
    /// for (key, entry) in &*gateways.snapshot() {
    ///     println!("{key:?} is {:?}", entry.value);
    /// }
    /// if let Some(entry) = gateways.get("gateways/7") {
    ///     println!("the gateway is present: {:?}", entry.value);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The mirror follows the store as [`observe_matching`](Self::observe_matching) does, also on stores without that
    /// extension. Reads send no request. While the connection is lost they return the last known state, and
    /// [`Mirror::stale_since`] returns since when.
    ///
    /// # Errors
    /// Returns the error of the first request. Later errors end the mirror.
    ///
    /// Dropping the future leaves no mirror behind.
    pub async fn mirror(&self, pattern: impl AsBytes) -> Result<Mirror, Error> {
        self.mirror_with(pattern, &MirrorOptions::default()).await
    }

    /// Mirrors all entries whose keys match a pattern, with options.
    ///
    /// Dropping the future leaves no mirror behind.
    pub async fn mirror_with(
        &self,
        pattern: impl AsBytes,
        options: &MirrorOptions,
    ) -> Result<Mirror, Error> {
        let observer_options = ObserveMatchingOptions::new()
            .timeout(options.timeout)
            .refresh(options.refresh)
            .max_keys(options.max_keys);
        let observe = self.observe_matching_with(pattern, &observer_options);
        let observer = Box::pin(observe).await?;
        let pattern = Bytes::copy_from_slice(observer.pattern());
        let state = Arc::new(MirrorState::new(options.max_keys));
        let (alive, abandoned) = oneshot::channel();
        let task = MirrorTask::new(state.clone(), observer, self.state(), options.max_bytes);
        let shared = self.shared();
        let task = Box::pin(task.run(abandoned));
        shared.runtime.spawn(shared.platform(), task);
        Ok(Mirror {
            handle: Arc::new(MirrorHandle {
                pattern,
                state,
                alive: Mutex::new(Some(alive)),
            }),
        })
    }
}

impl Mirror {
    /// Returns the entry of a key, or `None` if it is absent. Its remaining time is unknown.
    pub fn get(&self, key: impl AsBytes) -> Option<Entry> {
        self.state().entries().get(key.as_ref()).cloned()
    }

    /// Returns whether the key exists.
    pub fn contains_key(&self, key: impl AsBytes) -> bool {
        self.state().entries().contains_key(key.as_ref())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.state().entries().len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all entries. They do not change; the mirror copies its map at the next change if you still hold the snapshot.
    pub fn snapshot(&self) -> Arc<HashMap<Bytes, Entry>> {
        self.state().entries().clone()
    }

    /// Returns a stream of every change from now on. To get the state before too, call this first and
    /// [`snapshot`](Self::snapshot) then.
    pub fn changes(&self) -> MirrorChanges {
        MirrorChanges::new(self.state().subscribe())
    }

    /// Waits until the mirror has the state of the store: all entries at first, and all differences after a gap.
    ///
    /// # Errors
    /// Returns the error that ended the mirror.
    pub async fn synced(&self) -> Result<(), Error> {
        let mut status = self.state().status.subscribe();
        let is_settled = status.wait_for(|status| status.is_synced() || status.end.is_some());
        let end = match is_settled.await {
            Ok(status) => status.end.clone(),
            // The sender lives as long as the mirror.
            Err(_) => None,
        };
        match end {
            None => Ok(()),
            Some(end) => Err(end.error.unwrap_or_else(|| self.closed())),
        }
    }

    /// Returns since when the mirror may differ from the store, or `None` while it follows every change. It may differ until
    /// it is first [`synced`](Self::synced), while the connection is lost, until the differences after a gap have arrived,
    /// and after its end.
    pub fn stale_since(&self) -> Option<Instant> {
        self.state().status.borrow().stale_since
    }

    /// Returns the pattern.
    pub fn pattern(&self) -> &[u8] {
        &self.handle.pattern
    }

    /// Returns the reason why the mirror ended, or `None` while it continues. The reasons are those of
    /// [`MatchObserver::lost_reason`](crate::MatchObserver::lost_reason). `Refused` also means that the entries exceed
    /// [`MirrorOptions::max_bytes`].
    pub fn lost_reason(&self) -> Option<LostReason> {
        let end = self.state().status.borrow().end.clone();
        end.map(|end| end.lost_reason)
    }

    /// Returns the error that ended the mirror; `None` while it continues, and if the client or the mirror was closed.
    pub fn error(&self) -> Option<Error> {
        self.state().status.borrow().end.clone()?.error
    }

    /// Ends the mirror for all its clones, and its changes. Closing again does nothing.
    pub fn close(&self) {
        self.state().end(EndReason {
            lost_reason: LostReason::Closed,
            error: None,
        });
        let alive = self
            .handle
            .alive
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(alive);
    }

    /// Returns the error of a mirror that was closed.
    fn closed(&self) -> Error {
        Error::new(
            ErrorKind::Closed,
            Outcome::NotDone,
            pattern_action(self.pattern()),
            "the client or the mirror was closed",
        )
    }

    fn state(&self) -> &MirrorState {
        &self.handle.state
    }
}
