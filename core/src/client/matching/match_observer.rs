//! Observers of all keys that match a pattern.
use super::follower::Follower;
use super::options::ObserveMatchingOptions;
use crate::client::action::action;
use crate::client::call::invalid_argument;
use crate::client::patterns::{MatchObservation, MatchState};
use crate::client::shared::saturating_after;
use crate::client::{Client, Handle, TryNextError};
use crate::error::{Error, ErrorKind, Outcome};
use crate::{AsBytes, LostReason};
use bytes::Bytes;
use futures_core::Stream;
use statestore_protocol::CommandRef;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// An observer of all keys that match a pattern. Dropping it ends the watch at the store.
///
/// The queue of the observer has at most one event for each key. If you read slowly, a newer event replaces the earlier one, and
/// you get the newest state of each key. If more than 16 MiB of events wait, the observer drops them, reports
/// [`Resync`](MatchObservation::Resync), and reads the keys again when you have caught up.
#[derive(Debug)]
pub struct MatchObserver {
    state: Arc<MatchState>,
    /// Keeps the client connected.
    _handle: Arc<Handle>,
}

impl Drop for MatchObserver {
    fn drop(&mut self) {
        self.state.abandon();
    }
}

impl Client {
    /// Observes all keys that match a pattern: first their present state, then every change. The pattern is that of
    /// [`scan`](Self::scan).
    ///
    /// ```no_run
    /// # async fn example(client: &statestore::Client) -> Result<(), statestore::Error> {
    /// use statestore::MatchObservation;
    ///
    /// let mut line = client.observe_matching("line1/*").await?;
    /// while let Some(observation) = line.next().await {
    ///     match observation {
    ///         MatchObservation::Set { key, value, .. } => println!("{key:?} is {value:?}"),
    ///         MatchObservation::Deleted { key, .. } => println!("{key:?} is gone"),
    ///         MatchObservation::Complete => println!("that is all for now"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`MatchObservation`] describes the order of the events. The observer continues over reconnects.
    ///
    /// # Stores without this extension
    /// On stores without [`Capabilities::observe_matching`](crate::Capabilities::observe_matching), the client scans for keys
    /// and watches each of them (KEYNOTIFY). It scans for new keys once per [`ObserveMatchingOptions::refresh`]. So a new key
    /// is reported up to that much later, and not at all if it was deleted before. Each key costs a watch at the store. The
    /// client asks for the capabilities after each reconnect, and changes to the other way if necessary.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidArgument`] for an empty pattern or a `refresh` of zero, and the error of the first request. Later
    /// errors end the observer.
    ///
    /// Dropping the future leaves no observer behind.
    pub async fn observe_matching(&self, pattern: impl AsBytes) -> Result<MatchObserver, Error> {
        self.observe_matching_with(pattern, &ObserveMatchingOptions::default())
            .await
    }

    /// Observes all keys that match a pattern, with options.
    ///
    /// Dropping the future leaves no observer behind.
    pub async fn observe_matching_with(
        &self,
        pattern: impl AsBytes,
        options: &ObserveMatchingOptions,
    ) -> Result<MatchObserver, Error> {
        let pattern = Bytes::copy_from_slice(pattern.as_ref());
        let command = CommandRef::WatchPattern { pattern: &pattern };
        if pattern.is_empty() {
            return Err(invalid_argument(command, "the pattern is empty"));
        }
        if options.refresh == Some(Duration::ZERO) {
            return Err(invalid_argument(command, "`refresh` is zero"));
        }
        self.check_observation(command)?;
        let shared = self.shared();
        let timeout = options.timeout.unwrap_or(shared.request_timeout());
        let state = shared.patterns.add(pattern.clone(), options.max_keys);
        let observer = MatchObserver {
            state: state.clone(),
            _handle: self.handle.clone(),
        };
        let (started, start) = oneshot::channel();
        let follower = Follower::new(self.clone(), state, timeout, options.refresh);
        let task = Box::pin(follower.run(started));
        shared.runtime.spawn(shared.platform(), task);
        let until = saturating_after(Instant::now(), timeout);
        match shared.runtime.timeout_at(until, start).await {
            Ok(Ok(Ok(()))) => Ok(observer),
            Ok(Ok(Err(error))) => Err(error),
            // A watch ends with its connection, so no state is left at the store.
            Ok(Err(_)) => Err(Error::new(
                ErrorKind::Closed,
                Outcome::NotDone,
                action(command),
                "the client was closed",
            )),
            Err(_) => Err(self.start_timeout(command, timeout)),
        }
    }
}

/// Yields the events of [`next`](MatchObserver::next), and ends with them.
impl Stream for MatchObserver {
    type Item = MatchObservation;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.poll_ready(context).map(|()| this.try_next().ok())
    }
}

impl MatchObserver {
    /// Returns the next event, or `None` after the last one. [`lost_reason`](Self::lost_reason) gives the reason for the end.
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<MatchObservation> {
        self.ready().await;
        self.try_next().ok()
    }

    /// Waits until [`try_next`](Self::try_next) has an event, or the observer has ended. It takes no event.
    ///
    /// Dropping the future loses no event.
    pub async fn ready(&mut self) {
        poll_fn(|context| self.poll_ready(context)).await;
    }

    /// Polls [`ready`](Self::ready), for futures and streams that are written by hand.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.state.poll_ready(context)
    }

    /// Returns the next event without waiting.
    ///
    /// # Errors
    /// Returns [`TryNextError::Empty`] if there is no event yet, or [`TryNextError::Ended`] after the last one.
    pub fn try_next(&mut self) -> Result<MatchObservation, TryNextError> {
        match self.state.try_next() {
            Poll::Ready(next) => next.ok_or(TryNextError::Ended),
            Poll::Pending => Err(TryNextError::Empty),
        }
    }

    /// Returns the pattern.
    pub fn pattern(&self) -> &[u8] {
        self.state.pattern()
    }

    /// Returns the reason why the observer ended, or `None` while it continues. The reasons are [`Closed`](LostReason::Closed),
    /// [`TakenOver`](LostReason::TakenOver), [`GaveUp`](LostReason::GaveUp) and [`Refused`](LostReason::Refused). `Refused`
    /// means that the store rejected a request, that more than [`max_keys`](ObserveMatchingOptions::max_keys) keys match, or
    /// that a key holds a [`TransactionRecord`](crate::TransactionRecord).
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.state.end_reason().map(|end| end.lost_reason)
    }

    /// Returns the error that ended the observer; `None` while it continues, and if the client was closed.
    pub fn error(&self) -> Option<Error> {
        self.state.end_reason()?.error
    }
}
