//! Observation of keys.
use super::Client;
use super::action::action;
use super::call::invalid_argument;
use super::observation_queue::{ObservationQueue, Overflow};
use super::observer::Observer;
use super::shared::saturating_after;
use crate::AsBytes;
use crate::error::{Error, ErrorKind, Outcome};
use bytes::Bytes;
use statestore_protocol::CommandRef;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Options of [`Client::observe_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ObserveOptions {
    /// Behaviour when the key changes faster than the observer reads.
    pub overflow: Overflow,
    /// Time limit for the store to start the watch; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
}

impl ObserveOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`overflow`](Self#structfield.overflow).
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Sets [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }
}

impl Client {
    /// Observes a key. Every change after this call returns is observed. The state before is not, so read it afterwards if you
    /// need it.
    ///
    /// The watch continues over reconnects; see [`Observation::Resync`](super::Observation::Resync). All observers of one key
    /// share one watch at the store (KEYNOTIFY).
    ///
    /// Dropping the future leaves no observer behind.
    pub async fn observe(&self, key: impl AsBytes) -> Result<Observer, Error> {
        self.observe_with(key, &ObserveOptions::default()).await
    }

    /// Observes a key, with options.
    ///
    /// Dropping the future leaves no observer behind.
    pub async fn observe_with(
        &self,
        key: impl AsBytes,
        options: &ObserveOptions,
    ) -> Result<Observer, Error> {
        let command = CommandRef::Watch { key: key.as_ref() };
        if key.as_ref().is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        self.shared().check_fail_fast(|| action(command))?;
        let denied = |core: &super::shared::ClientState| {
            core.exchange
                .session()
                .granted()
                .get(1)
                .copied()
                .filter(|reason| reason.is_failure())
        };
        if let Some(reason) = denied(&self.shared().lock_state()) {
            let explanation =
                format!("the broker refused the subscription to notifications: {reason}");
            let error = Error::new(
                ErrorKind::Rejected,
                Outcome::NotDone,
                action(command),
                explanation,
            );
            return Err(error.with_mqtt_reason(Some(reason)));
        }
        let queue = Arc::new(ObservationQueue::new(options.overflow));
        let key = Bytes::copy_from_slice(key.as_ref());
        let timeout = options
            .timeout
            .unwrap_or(self.shared().settings.request_timeout);
        let until = saturating_after(Instant::now(), timeout);
        let (watching, begun) =
            self.shared()
                .watches
                .add(self.handle.clone(), key.clone(), queue.clone(), until);
        let observer = Observer {
            queue,
            watch_guard: watching,
        };
        match self.shared().runtime.timeout_at(until, begun).await {
            Ok(Ok(Ok(()))) => Ok(observer),
            Ok(Ok(Err(error))) => Err(error),
            // A watch ends with its connection, so no state is left at the store.
            Ok(Err(_)) => Err(Error::new(
                ErrorKind::Closed,
                Outcome::NotDone,
                action(CommandRef::Watch { key: &key }),
                "the client was closed",
            )),
            Err(_) => Err(Error::new(
                ErrorKind::TimedOut,
                Outcome::Unknown,
                action(CommandRef::Watch { key: &key }),
                match self.shared().outage() {
                    Some(outage) => format!("the watch did not begin within {timeout:?}; {outage}"),
                    None => format!("the watch did not begin within {timeout:?}"),
                },
            )),
        }
    }
}
