//! Changes of a mirror.
use crate::client::TryNextError;
use crate::client::patterns::{ChangeQueue, MatchObservation};
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A receiver of the changes of a mirror.
#[derive(Debug)]
pub(super) struct Subscription {
    max_events: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: ChangeQueue,
    is_ended: bool,
    is_lagging: bool,
    waker: Option<Waker>,
}

impl Subscription {
    /// Creates a receiver. `is_complete` is whether the mirror had the state of the store before.
    pub(super) fn new(is_complete: bool, max_keys: usize) -> Self {
        Self {
            // A key that is gone needs an event, too.
            max_events: max_keys.saturating_mul(2),
            inner: Mutex::new(Inner {
                queue: ChangeQueue::new(is_complete),
                is_ended: false,
                is_lagging: false,
                waker: None,
            }),
        }
    }

    /// Adds an event. Returns the waker to call.
    pub(super) fn push(&self, event: MatchObservation) -> Option<Waker> {
        let mut inner = self.lock();
        if inner.is_ended {
            return None;
        }
        inner.queue.push_event(event);
        if inner.queue.len() > self.max_events {
            inner.queue.drop_changes();
            inner.is_lagging = true;
            inner.is_ended = true;
        }
        inner.waker.take()
    }

    /// Ends the changes. Returns the waker to call.
    pub(super) fn end(&self) -> Option<Waker> {
        let mut inner = self.lock();
        inner.is_ended = true;
        inner.waker.take()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The changes of a [`Mirror`](crate::Mirror), from the moment when it was created. It ends with the mirror.
///
/// There is at most one event for each key. If you read slowly, you get the newest state of each key. The changes end if events
/// of more than twice [`max_keys`](crate::MirrorOptions::max_keys) keys wait; [`is_lagging`](Self::is_lagging) reports that.
#[derive(Debug)]
pub struct MirrorChanges {
    subscription: Arc<Subscription>,
}

impl MirrorChanges {
    pub(super) fn new(subscription: Arc<Subscription>) -> Self {
        Self { subscription }
    }

    /// Returns the next event, or `None` after the last one.
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<MatchObservation> {
        self.ready().await;
        self.try_next().ok()
    }

    /// Waits until [`try_next`](Self::try_next) has an event, or the changes have ended. It takes no event.
    ///
    /// Dropping the future loses no event.
    pub async fn ready(&mut self) {
        poll_fn(|context| self.poll_ready(context)).await;
    }

    /// Polls [`ready`](Self::ready), for futures and streams that are written by hand.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.subscription.lock();
        if !inner.queue.is_empty() || inner.is_ended {
            return Poll::Ready(());
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Returns the next event without waiting.
    ///
    /// # Errors
    /// Returns [`TryNextError::Empty`] if there is no event yet, or [`TryNextError::Ended`] after the last one.
    pub fn try_next(&mut self) -> Result<MatchObservation, TryNextError> {
        let mut inner = self.subscription.lock();
        match inner.queue.take() {
            Some(event) => Ok(event),
            None if inner.is_ended => Err(TryNextError::Ended),
            None => Err(TryNextError::Empty),
        }
    }

    /// Returns whether the changes have ended because too many events waited.
    pub fn is_lagging(&self) -> bool {
        self.subscription.lock().is_lagging
    }
}

/// Yields the events of [`next`](MirrorChanges::next), and ends with them.
impl Stream for MirrorChanges {
    type Item = MatchObservation;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.poll_ready(context).map(|()| this.try_next().ok())
    }
}
