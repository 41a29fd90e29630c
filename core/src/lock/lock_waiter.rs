//! Waits for a lease.
use super::guard::Guard;
use super::lease::{self, Holding};
use super::options::LockOptions;
use super::{action, renewal_task};
use crate::client::backoff::Backoff;
use crate::client::{ContendedLock, within};
use crate::error::{Error, ErrorKind, Outcome};
use crate::{Client, ConnectionState, Entry, Observation, Observer};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::Instant;

/// Delay of a waiter that has lost no round yet, after the lock becomes free. Clients that have waited longer ask first.
const YIELD_DELAY: Duration = Duration::from_millis(16);
/// Number of lost rounds after which the delay is halved.
const ROUNDS_PER_HALVING: u32 = 4;
/// Maximum random addition to the delay, so that not all waiters ask at once.
const YIELD_JITTER: Duration = Duration::from_millis(4);
/// Bounds of the delay after a failed request.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Delay after the end of a lease by the waiter's own clock: the store counts whole milliseconds.
const EXPIRY_MARGIN: Duration = Duration::from_millis(2);
/// Upper bound of the mean time between attempts, if the end of the holder's lease is unknown.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Takes a lock, and waits for it as long as the options allow.
pub(super) async fn lock(
    client: &Client,
    name: &Bytes,
    options: &LockOptions,
) -> Result<Guard, Error> {
    client
        .shared()
        .check_fail_fast(|| action("locking", name))?;
    let mut contender = LockWaiter {
        client,
        name,
        options,
        yields_first: client.shared().contended_locks.was_just_released(name),
        lost_rounds: 0,
        last_holding: None,
        last_error: None,
    };
    match options.wait {
        None => contender.contend().await,
        Some(Duration::ZERO) => contender.try_once().await,
        Some(wait) => {
            let now = Instant::now();
            // A deadline that is too far in the future for an `Instant` counts as none.
            let Some(deadline) = now.checked_add(wait) else {
                return contender.contend().await;
            };
            let timers = &client.shared().runtime;
            match timers.timeout_at(deadline, contender.contend()).await {
                Ok(result) => result,
                Err(_) => Err(contender.timeout_error(wait)),
            }
        }
    }
}

struct LockWaiter<'a> {
    client: &'a Client,
    name: &'a Bytes,
    options: &'a LockOptions,
    /// Whether this client held the lock a moment ago and other clients wanted it.
    yields_first: bool,
    /// Number of times that another client was faster.
    lost_rounds: u32,
    /// The last holder that was seen.
    last_holding: Option<Holding>,
    /// Error of the last request, unless a later one succeeded.
    last_error: Option<Error>,
}

impl LockWaiter<'_> {
    /// Makes one attempt, within the time limit of the lease's options. Makes none while the connection is lost.
    async fn try_once(&mut self) -> Result<Guard, Error> {
        if let Some(error) = self.disconnected_error(Duration::ZERO) {
            return Err(error);
        }
        let timeout = self.options.lease.attempt_timeout(self.client);
        let deadline = Instant::now() + timeout;
        if let Some(guard) =
            renewal_task::acquire(self.client, self.name, &self.options.lease).await?
        {
            return Ok(guard);
        }
        // Another client holds the lock, even if its name stays unknown.
        let holding = lease::read_holding(self.client, self.name, &self.options.lease);
        let timers = &self.client.shared().runtime;
        match timers.timeout_at(deadline, holding).await {
            Ok(Ok(holding)) => self.last_holding = holding,
            Ok(Err(error)) if !error.is_transient() => return Err(error),
            Ok(Err(_)) | Err(_) => {}
        }
        Err(self.lock_held_error(Duration::ZERO))
    }

    /// Tries until the lock is taken. Dropping the future leaves no lease behind.
    async fn contend(&mut self) -> Result<Guard, Error> {
        let mut backoff = Backoff::new(RETRY_DELAY.0, RETRY_DELAY.1);
        let mut observer = None;
        loop {
            match self.round(&mut observer).await {
                Ok(Some(guard)) => {
                    let contended_lock = (self.lost_rounds > 0).then(|| ContendedLock {
                        client: self.client.clone(),
                        lock_name: self.name.clone(),
                    });
                    return Ok(guard.with_contended_lock(contended_lock));
                }
                Ok(None) => {
                    self.last_error = None;
                    backoff.reset();
                }
                Err(error) if error.is_transient() => {
                    let known = self.last_error.as_ref().map(Error::kind);
                    if known != Some(error.kind()) {
                        tracing::warn!(kind = ?error.kind(), "a lock cannot be asked for; it is tried again");
                    }
                    self.last_error = Some(error);
                    let delay = backoff.next(self.random());
                    self.client.shared().runtime.sleep(delay).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes one attempt, and waits until there is a reason for the next one.
    ///
    /// The first wait follows an attempt, or a read, that was made while the key was already observed. So an end of the lease
    /// between the attempt and the wait is noticed.
    async fn round(&mut self, observer: &mut Option<Observer>) -> Result<Option<Guard>, Error> {
        let lease = &self.options.lease;
        let attempts_first = !std::mem::take(&mut self.yields_first);
        if attempts_first
            && let Some(guard) = renewal_task::acquire(self.client, self.name, lease).await?
        {
            return Ok(Some(guard));
        }
        let is_observed = observer.is_some();
        let changes = match observer.take() {
            Some(changes) => observer.insert(changes),
            None => observer.insert(self.client.observe(self.name).await?),
        };
        if attempts_first && !is_observed {
            return Ok(None);
        }
        let holding = lease::read_holding(self.client, self.name, lease).await?;
        let is_held = holding.is_some();
        if let Some(holding) = holding {
            self.record_holding(holding);
        } else if attempts_first {
            return Ok(None);
        }
        if !self.wait(changes, is_held).await? {
            *observer = None;
        }
        Ok(None)
    }

    /// Records the holder that was seen.
    fn record_holding(&mut self, holding: Holding) {
        let known = self.last_holding.as_ref().map(|known| &known.holder);
        if known != Some(&holding.holder) {
            self.lost_rounds = self.lost_rounds.saturating_add(1);
        }
        self.last_holding = Some(holding);
    }

    /// Waits until it is time for the next attempt. That is when the lock has been free for the delay of this waiter. It is
    /// also when the lease must have ended by the local clock, since its notification can be lost. Returns whether the key is
    /// still observed.
    async fn wait(&mut self, changes: &mut Observer, is_held: bool) -> Result<bool, Error> {
        let mut attempt_at = (!is_held).then(|| Instant::now() + self.yield_delay());
        loop {
            let end = attempt_at.unwrap_or_else(|| Instant::now() + self.time_until_poll());
            let observation = tokio::select! {
                biased;
                observation = changes.next() => observation,
                () = self.client.shared().runtime.sleep_until(end) => return Ok(true),
            };
            match observation {
                // The lease was renewed, or another client was faster.
                Some(Observation::Set { value, version }) => {
                    let entry = Entry::new(value, version);
                    let lease = &self.options.lease;
                    self.record_holding(lease::parse_holding(
                        self.client,
                        self.name,
                        lease,
                        entry,
                    )?);
                    attempt_at = None;
                }
                Some(_) => attempt_at = attempt_at.or(Some(Instant::now() + self.yield_delay())),
                None => {
                    let reason = changes.error();
                    return reason.map_or(Ok(false), Err);
                }
            }
        }
    }

    /// Returns the time until the next attempt without a notification. It is the end of the lease if the holder's name contains
    /// its duration. Otherwise it is random, with the duration of our own lease as its mean, limited by [`MAX_POLL_INTERVAL`].
    fn time_until_poll(&self) -> Duration {
        let known = self
            .last_holding
            .as_ref()
            .and_then(|holding| holding.holder.lease());
        if let Some(lease) = known {
            return lease + EXPIRY_MARGIN;
        }
        let period = self.options.lease.duration.min(MAX_POLL_INTERVAL);
        period / 2 + self.random_part(period)
    }

    /// Returns the delay that lets other clients go first. It decreases with each lost round, so that the longest waiter comes
    /// first.
    fn yield_delay(&self) -> Duration {
        YIELD_DELAY * ROUNDS_PER_HALVING / self.lost_rounds.saturating_add(ROUNDS_PER_HALVING)
            + self.random_part(YIELD_JITTER)
    }

    /// Returns a random part of a duration.
    fn random_part(&self, whole: Duration) -> Duration {
        let nanos = (u128::from(self.random()) * whole.as_nanos()) >> 64;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn random(&self) -> u64 {
        self.client.shared().platform().random().unwrap_or(u64::MAX)
    }

    /// Returns the error for the end of the wait.
    fn timeout_error(&self, wait: Duration) -> Error {
        if let Some(error) = &self.last_error {
            return self.failed_error(wait, error);
        }
        if let Some(error) = self.disconnected_error(wait) {
            return error;
        }
        if self.last_holding.is_some() {
            return self.lock_held_error(wait);
        }
        let action = action("locking", self.name);
        let reason = format!("the store did not answer {}", within(wait));
        Error::new(ErrorKind::TimedOut, Outcome::NotDone, action, reason)
    }

    /// Returns the error of a lost connection, which hides whether the lock is held.
    fn disconnected_error(&self, wait: Duration) -> Option<Error> {
        match &*self.client.state().borrow() {
            ConnectionState::Reconnecting(error) | ConnectionState::Closed { error, .. } => {
                Some(self.failed_error(wait, error))
            }
            _ => None,
        }
    }

    fn failed_error(&self, wait: Duration, error: &Error) -> Error {
        let action = action("locking", self.name);
        let reason = format!("not {}: {error}", within(wait));
        Error::new(error.kind(), Outcome::NotDone, action, reason).with_source(error.clone())
    }

    /// Returns the error for a lock that another client holds.
    fn lock_held_error(&self, wait: Duration) -> Error {
        let within = within(wait);
        let reason = match &self.last_holding {
            Some(Holding { holder, version }) => {
                let hint = if holder.lease().is_some() {
                    ""
                } else {
                    "; if that is not the name of a holder, the key holds ordinary data"
                };
                format!(
                    "\"{holder}\" holds it, last renewed at {version}, and was not released {within}{hint}"
                )
            }
            None => format!("another client holds it, and did not release it {within}"),
        };
        let action = action("locking", self.name);
        Error::new(ErrorKind::LockHeld, Outcome::NotDone, action, reason)
    }
}
