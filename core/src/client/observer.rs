//! Observers of a key.
use super::observation_queue::{Observation, ObservationQueue};
use super::watches::WatchGuard;
use crate::LostReason;
use crate::error::Error;
use futures_core::Stream;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Reason why a `try_next` method returned no item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryNextError {
    /// No item is available yet. Others may follow.
    Empty,
    /// The observer has ended, and every item was returned. The observer's `lost_reason` and `error` describe the end.
    Ended,
}

impl fmt::Display for TryNextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "nothing was observed yet",
            Self::Ended => "the observer has ended",
        })
    }
}

impl std::error::Error for TryNextError {}

/// An observer of one key. Dropping the last observer of a key ends the watch at the store.
#[derive(Debug)]
pub struct Observer {
    pub(super) queue: Arc<ObservationQueue>,
    pub(super) watch_guard: WatchGuard,
}

/// Yields the observations of [`next`](Observer::next), and ends with them.
impl Stream for Observer {
    type Item = Observation;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.poll_ready(context).map(|()| this.try_next().ok())
    }
}

impl Observer {
    /// Returns the next observation, or `None` after the last one. [`lost_reason`](Self::lost_reason) gives the reason for the
    /// end.
    ///
    /// Dropping the future loses no observation.
    pub async fn next(&mut self) -> Option<Observation> {
        self.ready().await;
        self.try_next().ok()
    }

    /// Waits until [`try_next`](Self::try_next) has an observation, or the observer has ended. It takes no observation. A
    /// binding to another language can so take an observation only when it can deliver it.
    ///
    /// Dropping the future loses no observation.
    pub async fn ready(&mut self) {
        poll_fn(|context| self.poll_ready(context)).await;
    }

    /// Polls [`ready`](Self::ready), for futures and streams that are written by hand.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.queue.poll_ready(context)
    }

    /// Returns the next observation without waiting.
    ///
    /// # Errors
    /// Returns [`TryNextError::Empty`] if there is no observation yet, or [`TryNextError::Ended`] after the last one.
    pub fn try_next(&mut self) -> Result<Observation, TryNextError> {
        match self.queue.try_next() {
            Poll::Ready(next) => next.ok_or(TryNextError::Ended),
            Poll::Pending => Err(TryNextError::Empty),
        }
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        self.watch_guard.key()
    }

    /// Returns the reason why the observer ended, or `None` while it continues. The reasons are [`Closed`](LostReason::Closed),
    /// [`TakenOver`](LostReason::TakenOver), [`GaveUp`](LostReason::GaveUp) and [`Refused`](LostReason::Refused). `Refused`
    /// means that the store no longer allows the watch, or cannot send the value because it exceeds the maximum packet size of
    /// this client, or that the key holds a [`TransactionRecord`](crate::TransactionRecord).
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.queue.end_reason().map(|end| end.lost_reason)
    }

    /// Returns the error that ended the observer; `None` while it continues, and if the client was closed.
    pub fn error(&self) -> Option<Error> {
        self.queue.end_reason()?.error
    }
}
