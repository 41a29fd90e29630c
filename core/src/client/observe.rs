//! Observation of keys.
use super::Client;
use super::action::action;
use super::call::invalid_argument;
use super::deadline::within;
use super::observation_queue::{Observation, ObservationQueue, Overflow};
use super::observer::Observer;
use super::shared::saturating_after;
use super::{Entry, GetOptions};
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
    /// Whether the first observation is the present state of the key. [`Observation::Deleted`](super::Observation::Deleted)
    /// without a version means that the key is absent. The client reads the key after the watch has started, and merges the
    /// response with the notifications by version.
    pub initial: bool,
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

    /// Sets [`initial`](Self#structfield.initial).
    #[must_use]
    pub fn initial(mut self, initial: bool) -> Self {
        self.initial = initial;
        self
    }
}

impl Client {
    /// Observes a key. Every change after this call returns is observed. The state before is not, unless you set
    /// [`ObserveOptions::initial`].
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
        self.check_observation(command)?;
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
            Ok(Ok(Ok(()))) if options.initial => {
                let remaining = until.saturating_duration_since(Instant::now());
                Box::pin(self.read_initial(observer, remaining)).await
            }
            Ok(Ok(Ok(()))) => Ok(observer),
            Ok(Ok(Err(error))) => Err(error),
            // A watch ends with its connection, so no state is left at the store.
            Ok(Err(_)) => Err(Error::new(
                ErrorKind::Closed,
                Outcome::NotDone,
                action(CommandRef::Watch { key: &key }),
                "the client was closed",
            )),
            Err(_) => Err(self.start_timeout(CommandRef::Watch { key: &key }, timeout)),
        }
    }

    /// Reads the key, and makes its state the first observation unless a newer one has arrived.
    async fn read_initial(&self, observer: Observer, timeout: Duration) -> Result<Observer, Error> {
        let options = GetOptions::new().timeout(timeout);
        let entry = self.shared().send_get(observer.key(), &options).await?;
        observer.queue.push_initial(match entry {
            Some(Entry { value, version, .. }) => Observation::Set { value, version },
            None => Observation::Deleted { version: None },
        });
        Ok(observer)
    }

    /// Checks whether notifications can arrive. `command` starts the watch.
    pub(super) fn check_observation(&self, command: CommandRef<'_>) -> Result<(), Error> {
        self.shared().check_fail_fast(|| action(command))?;
        let denied = |core: &super::shared::ClientState| {
            core.exchange
                .session()
                .granted()
                .get(1)
                .copied()
                .filter(|reason| reason.is_failure())
        };
        let Some(reason) = denied(&self.shared().lock_state()) else {
            return Ok(());
        };
        let explanation = format!("the broker refused the subscription to notifications: {reason}");
        let error = Error::new(
            ErrorKind::Rejected,
            Outcome::NotDone,
            action(command),
            explanation,
        );
        Err(error.with_mqtt_reason(Some(reason)))
    }

    /// Returns the error of a watch that did not start in time.
    pub(super) fn start_timeout(&self, command: CommandRef<'_>, timeout: Duration) -> Error {
        let within = within(timeout);
        Error::new(
            ErrorKind::TimedOut,
            Outcome::Unknown,
            action(command),
            match self.shared().outage() {
                Some(outage) => format!("the watch did not begin {within}; {outage}"),
                None => format!("the watch did not begin {within}"),
            },
        )
    }
}
