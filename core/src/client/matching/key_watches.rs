//! Watches of single keys, for patterns on stores that do not watch patterns.
use crate::client::Client;
use crate::client::observation_queue::{Observation, ObservationQueue, Overflow};
use crate::client::patterns::MatchState;
use crate::client::shared::saturating_after;
use crate::client::watches::WatchGuard;
use crate::error::{Error, ErrorKind, Outcome};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// The watched keys of a pattern.
#[derive(Debug, Default)]
pub(super) struct KeyWatches {
    /// Watches by key; ordered, so that they end in the same order each time.
    keys: BTreeMap<Bytes, KeyWatch>,
    ready: Arc<ReadyKeys>,
}

#[derive(Debug)]
struct KeyWatch {
    queue: Arc<ObservationQueue>,
    waker: Waker,
    /// Ends the watch when it is dropped.
    _guard: WatchGuard,
}

/// Keys with observations that were not taken yet.
#[derive(Debug, Default)]
struct ReadyKeys {
    inner: Mutex<ReadyKeysInner>,
}

#[derive(Debug, Default)]
struct ReadyKeysInner {
    keys: VecDeque<Bytes>,
    task: Option<Waker>,
}

/// The waker of one key, which names the key to the task.
#[derive(Debug)]
struct KeyWaker {
    key: Bytes,
    ready: Arc<ReadyKeys>,
}

impl Wake for KeyWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.key.clone());
    }
}

impl ReadyKeys {
    fn push(&self, key: Bytes) {
        let task = {
            let mut inner = self.lock();
            inner.keys.push_back(key);
            inner.task.take()
        };
        task.into_iter().for_each(Waker::wake);
    }

    fn pop(&self) -> Option<Bytes> {
        self.lock().keys.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, ReadyKeysInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyWatches {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn contains(&self, key: &Bytes) -> bool {
        self.keys.contains_key(key)
    }

    /// Ends all watches.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Ends the watches of keys that do not exist.
    pub(super) fn retain_existing(&mut self, state: &MatchState) {
        self.keys.retain(|key, _| state.contains(key));
    }

    /// Watches these keys, and waits until all watches have started.
    pub(super) async fn add(
        &mut self,
        client: &Client,
        keys: &[Bytes],
        timeout: Duration,
    ) -> Result<(), Error> {
        let until = saturating_after(Instant::now(), timeout);
        let mut starts = Vec::with_capacity(keys.len());
        for key in keys {
            let queue = Arc::new(ObservationQueue::new(Overflow::Latest));
            let watches = &client.shared().watches;
            let (guard, start) =
                watches.add(client.handle.clone(), key.clone(), queue.clone(), until);
            starts.push(start);
            let waker = Waker::from(Arc::new(KeyWaker {
                key: key.clone(),
                ready: self.ready.clone(),
            }));
            let watch = KeyWatch {
                queue,
                waker,
                _guard: guard,
            };
            self.keys.insert(key.clone(), watch);
            self.ready.push(key.clone());
        }
        let failed = |kind, reason| Err(Error::new(kind, Outcome::Unknown, "KEYNOTIFY", reason));
        for start in starts {
            match client.shared().runtime.timeout_at(until, start).await {
                Ok(Ok(started)) => started?,
                Ok(Err(_)) => return failed(ErrorKind::Closed, "the client was closed"),
                Err(_) => return failed(ErrorKind::TimedOut, "the watches did not begin in time"),
            }
        }
        Ok(())
    }

    /// Waits until a key has observations.
    pub(super) async fn ready(&self) {
        poll_fn(|context| {
            let mut inner = self.ready.lock();
            if !inner.keys.is_empty() {
                return Poll::Ready(());
            }
            inner.task = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Delivers the present observations of all keys.
    ///
    /// # Errors
    /// Returns the error that ended the watch of a key.
    pub(super) fn deliver(&self, state: &MatchState) -> Result<(), Error> {
        while let Some(key) = self.ready.pop() {
            if let Some(watch) = self.keys.get(&key) {
                watch.deliver(&key, state)?;
            }
        }
        Ok(())
    }
}

impl KeyWatch {
    fn deliver(&self, key: &Bytes, state: &MatchState) -> Result<(), Error> {
        loop {
            match self.queue.try_next() {
                Poll::Ready(Some(Observation::Set { value, version })) => {
                    state.handle_change(key, Some(&value), Some(version));
                }
                Poll::Ready(Some(Observation::Deleted { version })) => {
                    state.handle_change(key, None, version);
                }
                Poll::Ready(Some(Observation::Resync | Observation::Lagged(_))) => {
                    state.open_gap();
                }
                // A client that is closed ends the observer itself.
                Poll::Ready(None) => {
                    let end = self.queue.end_reason();
                    return end.and_then(|end| end.error).map_or(Ok(()), Err);
                }
                Poll::Pending => {
                    let mut context = Context::from_waker(&self.waker);
                    if self.queue.poll_ready(&mut context).is_pending() {
                        return Ok(());
                    }
                }
            }
        }
    }
}
