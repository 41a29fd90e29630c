//! Updates of a key without a lock.
use super::guard::{Guard, WRITE_ACTION};
use super::{action, invalid};
use crate::AsBytes;
use crate::client::backoff::Backoff;
use crate::client::{
    CompareAndSet, Deadline, Progress, certain_lifetime, check_expiry, is_unsupported_request,
    within,
};
use crate::error::{Error, ErrorKind, Outcome};
use crate::{Client, Condition, Entry, Expiry, GetOptions, Hlc, SetOptions, SetOutcome};
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

/// Bounds of the delay after a conflict.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));
/// Maximum part of a GET's duration that counts as travel time. The rest was spent waiting for a connection.
const MAX_TRAVEL: Duration = Duration::from_secs(1);

/// Options of [`Client::update_with`](crate::Client::update_with) and [`Guard::update_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct UpdateOptions {
    /// Time after which the key expires, at least 100 ms; [`Duration::MAX`] for never. By default, the key keeps its remaining
    /// time. On a store that cannot report that time ([`Capabilities`](crate::Capabilities)), the key then does not expire.
    pub expires_in: Option<Duration>,
    /// Whether the store is asked to keep the key on disk.
    pub persist: bool,
    /// Time limit of all attempts together; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
}

impl UpdateOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`expires_in`](Self#structfield.expires_in).
    #[must_use]
    pub fn expires_in(mut self, expires_in: impl Into<Option<Duration>>) -> Self {
        self.expires_in = expires_in.into();
        self
    }

    /// Sets [`persist`](Self#structfield.persist).
    #[must_use]
    pub fn persist(mut self, persist: bool) -> Self {
        self.persist = persist;
        self
    }

    /// Sets [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }
}

/// Result of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The new value is stored.
    Applied {
        /// Version of the new value.
        version: Hlc,
    },
    /// The caller requested no change.
    Unchanged,
}

pub(super) async fn update<V: AsBytes, F: Future<Output = Option<V>>>(
    client: &Client,
    guard: Option<&Guard>,
    key: &[u8],
    options: &UpdateOptions,
    change: impl FnMut(Option<Entry>) -> F,
) -> Result<UpdateOutcome, Error> {
    if key.is_empty() {
        return Err(invalid("updating", key, "the key is empty"));
    }
    check_expiry("updating", key, options.expires_in)?;
    client
        .shared()
        .check_fail_fast(|| action("updating", key))?;
    let timeout = options.timeout.unwrap_or(client.shared().request_timeout());
    let update = Update {
        client,
        guard,
        key,
        options,
        deadline: Instant::now().checked_add(timeout),
        timeout,
    };
    update.run(change).await
}

/// Reason why no value was stored so far.
enum RetryReason {
    /// The time limit alone.
    TimeLimit,
    /// Other clients changed the key.
    Conflict,
    Failed(Error),
}

/// Result of one attempt.
enum AttemptOutcome {
    Applied(Hlc),
    /// No value was stored; another attempt may succeed.
    Retry(RetryReason),
    /// A higher token protects the key, as this error reports.
    Outranked(Error),
}

/// The key as read by an attempt.
struct ReadEntry<'a> {
    found: Option<Entry>,
    /// Time at which the store executed the GET, less the travel time of a SET.
    since: Instant,
    /// Whether the store has conditions on versions.
    has_conditions: bool,
    /// On a store without conditions on versions, two updates of one guard have the same token, so only one runs at a time.
    _permit: Option<MutexGuard<'a, ()>>,
}

/// Expiry of the stored entry, which an update keeps by default: a time after an instant. `None` if the entry does not expire,
/// or the store cannot report its remaining time.
type Kept = Option<(Duration, Instant)>;

struct Update<'a> {
    client: &'a Client,
    /// Guard whose token is sent with each write, and whose lease limits each request.
    guard: Option<&'a Guard>,
    key: &'a [u8],
    options: &'a UpdateOptions,
    /// The deadline; `None` if it is too far in the future for an `Instant`.
    deadline: Option<Instant>,
    timeout: Duration,
}

impl Update<'_> {
    async fn run<V: AsBytes, F: Future<Output = Option<V>>>(
        &self,
        mut change: impl FnMut(Option<Entry>) -> F,
    ) -> Result<UpdateOutcome, Error> {
        let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
        let mut retry_reason = RetryReason::TimeLimit;
        let mut is_outranked = false;
        loop {
            let timeout = self.remaining(&retry_reason)?;
            match self.read(timeout).await {
                Ok(read) => {
                    let Some(new) = change(read.found.clone()).await else {
                        return Ok(UpdateOutcome::Unchanged);
                    };
                    let new = Bytes::copy_from_slice(new.as_ref());
                    let kept = match read.found.as_ref().map(|found| found.expires_in) {
                        Some(Expiry::After(time)) => Some((time, read.since)),
                        _ => None,
                    };
                    let attempt = if read.has_conditions {
                        self.replace_version(read.found.as_ref(), kept, &new, &retry_reason)
                            .await?
                    } else {
                        let steps = self.steps(read.found, new, is_outranked);
                        self.replace(steps, kept, retry_reason).await?
                    };
                    retry_reason = match attempt {
                        AttemptOutcome::Applied(version) => {
                            return Ok(UpdateOutcome::Applied { version });
                        }
                        AttemptOutcome::Retry(retry_reason) => retry_reason,
                        // A newer holder of the lock has written the key.
                        AttemptOutcome::Outranked(error) if self.guard.is_some() => {
                            return Err(error);
                        }
                        // A token that is ahead even of the clock does not come from another update.
                        AttemptOutcome::Outranked(error) if is_outranked => {
                            RetryReason::Failed(error)
                        }
                        AttemptOutcome::Outranked(_) => {
                            is_outranked = true;
                            RetryReason::Conflict
                        }
                    };
                }
                Err(error) if error.is_transient() || is_unsupported_request(&error) => {
                    retry_reason = RetryReason::Failed(error);
                }
                Err(error) => return Err(error),
            }
            let random = self.client.shared().platform().random();
            let delay = backoff.next(random.unwrap_or(u64::MAX));
            self.client.shared().runtime.sleep(delay).await;
        }
    }

    async fn read(&self, limit: Duration) -> Result<ReadEntry<'_>, Error> {
        let deadline = Deadline::after(limit);
        let store = self.client.capabilities_within(&deadline, true).await;
        let store = store.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        let permit = match self.guard {
            Some(guard) if !store.conditions => {
                let timers = &self.client.shared().runtime;
                let permit = timers
                    .timeout(deadline.remaining(), guard.updates().lock())
                    .await;
                Some(permit.map_err(|_| {
                    self.timeout_error("another update by the guard takes long", None)
                })?)
            }
            _ => None,
        };
        let options = GetOptions::new()
            .timeout(deadline.remaining())
            .remaining(store.remaining_time && self.options.expires_in.is_none());
        let sent = Instant::now();
        let found = self.client.shared().send_get(self.key, &options).await;
        let found = found
            .map_err(|error| error.with_outcome(Outcome::NotDone))
            .inspect_err(|error| self.invalidate_capabilities_if_unsupported(error))?;
        let now = Instant::now();
        let latency = now.duration_since(sent).min(MAX_TRAVEL);
        Ok(ReadEntry {
            found,
            since: now.checked_sub(latency).unwrap_or(now),
            has_conditions: store.conditions,
            _permit: permit,
        })
    }

    /// Discards the known capabilities if the store rejected the form of a request: the connection leads to another store.
    fn invalidate_capabilities_if_unsupported(&self, error: &Error) {
        if is_unsupported_request(error) {
            self.client.invalidate_capabilities();
        }
    }

    /// Makes one attempt on a store that has conditions on versions.
    async fn replace_version(
        &self,
        found: Option<&Entry>,
        kept: Kept,
        new: &[u8],
        retry_reason: &RetryReason,
    ) -> Result<AttemptOutcome, Error> {
        let condition = found.map_or(Condition::IfAbsent, |found| {
            Condition::IfVersion((&found.version).into())
        });
        let options = SetOptions {
            condition,
            expires_in: self.expires_in(kept),
            fencing_token: self.guard.map(|guard| guard.token().clone()),
            persist: self.options.persist,
            timeout: Some(self.remaining(retry_reason)?),
            ..SetOptions::default()
        };
        let result = self.client.shared().send_set(self.key, new, &options).await;
        match result {
            Ok(SetOutcome::Applied { version }) => Ok(AttemptOutcome::Applied(version)),
            Ok(SetOutcome::NotApplied { .. }) => Ok(AttemptOutcome::Retry(RetryReason::Conflict)),
            Err(error) => {
                self.invalidate_capabilities_if_unsupported(&error);
                let is_certain = error.outcome() == Outcome::NotDone;
                if is_certain && (error.is_transient() || is_unsupported_request(&error)) {
                    return Ok(AttemptOutcome::Retry(RetryReason::Failed(error)));
                }
                Err(error)
            }
        }
    }

    /// Returns the steps of one attempt on a store without conditions on versions.
    fn steps(&self, old: Option<Entry>, new: Bytes, is_outranked: bool) -> CompareAndSet {
        if let Some(guard) = self.guard {
            return CompareAndSet::with_token(old, new, guard.token().clone());
        }
        let timestamp = self.client.shared().unique_timestamp();
        if is_outranked {
            CompareAndSet::outranking(old, new, &timestamp)
        } else {
            CompareAndSet::new(old, new, &timestamp)
        }
    }

    /// Returns the expiry of the new value: that of the options, or the remaining time of the key; `None` for no expiry.
    fn expires_in(&self, kept: Kept) -> Option<Duration> {
        match self.options.expires_in {
            Some(Duration::MAX) => None,
            Some(time) => Some(time),
            None => kept.map(|(time, since)| remaining_since(time, since)),
        }
    }

    /// Makes one attempt on a store without conditions on versions. `retry_reason` is the reason why earlier attempts stored no value.
    async fn replace(
        &self,
        mut steps: CompareAndSet,
        kept: Kept,
        retry_reason: RetryReason,
    ) -> Result<AttemptOutcome, Error> {
        let mut fence_ends = None;
        while let Some(step) = steps.request() {
            let sent = Instant::now();
            let Some(timeout) = self.write_timeout(fence_ends, &retry_reason)? else {
                return Ok(AttemptOutcome::Retry(RetryReason::TimeLimit));
            };
            let expires_in = self.expires_in(kept);
            let options = SetOptions {
                condition: step.condition,
                expires_in,
                fencing_token: Some(step.token),
                persist: self.options.persist,
                timeout: Some(timeout),
                ..SetOptions::default()
            };
            let result = self.client.set_with(self.key, &step.value, &options).await;
            return match (steps.handle_outcome((&result).into()), result) {
                (Progress::Continue, _) => {
                    fence_ends = expires_in.map(|after| sent + certain_lifetime(after));
                    continue;
                }
                (Progress::Applied(version), _) => Ok(AttemptOutcome::Applied(version)),
                (Progress::Outranked, Err(error)) => Ok(AttemptOutcome::Outranked(error)),
                (Progress::Conflict, Err(error)) => {
                    Ok(AttemptOutcome::Retry(RetryReason::Failed(error)))
                }
                (Progress::Failed, Err(error)) => Err(error),
                (_, Ok(_)) => Ok(AttemptOutcome::Retry(RetryReason::Conflict)),
            };
        }
        Ok(AttemptOutcome::Retry(retry_reason))
    }

    /// Returns the time limit of the next SET; `None` if the fence may have expired and no longer excludes other clients.
    fn write_timeout(
        &self,
        fence_ends: Option<Instant>,
        retry_reason: &RetryReason,
    ) -> Result<Option<Duration>, Error> {
        let left = self.remaining(retry_reason)?;
        let fenced = fence_ends.map(|end| end.saturating_duration_since(Instant::now()));
        Ok(match fenced {
            Some(Duration::ZERO) => None,
            Some(fenced) => Some(left.min(fenced)),
            None => Some(left),
        })
    }

    /// Returns the time limit of the next request.
    fn remaining(&self, retry_reason: &RetryReason) -> Result<Duration, Error> {
        let held = match self.guard {
            Some(guard) => guard.remaining(WRITE_ACTION)?,
            None => Duration::MAX,
        };
        let Some(deadline) = self.deadline else {
            return Ok(held);
        };
        match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(match retry_reason {
                RetryReason::TimeLimit => self.timeout_error("the requests took too long", None),
                RetryReason::Conflict => {
                    self.timeout_error("others changed the key each time", None)
                }
                RetryReason::Failed(error) if error.kind() == ErrorKind::FencingTokenLower => {
                    let hint = "the key is protected by a fencing token that is ahead of the clock";
                    self.timeout_error(&format!("{error}; {hint}"), Some(error))
                }
                RetryReason::Failed(error) => self.timeout_error(&error.to_string(), Some(error)),
            }),
            left => Ok(left.min(held)),
        }
    }

    fn timeout_error(&self, reason: &str, cause: Option<&Error>) -> Error {
        let kind = cause.map_or(ErrorKind::TimedOut, Error::kind);
        let reason = format!("not {}: {reason}", within(self.timeout));
        let error = Error::new(kind, Outcome::NotDone, action("updating", self.key), reason);
        match cause {
            Some(cause) => error.with_source(cause.clone()),
            None => error,
        }
    }
}

/// Returns the remaining time in whole milliseconds, at least one. `since` is when the time started to run.
fn remaining_since(time: Duration, since: Instant) -> Duration {
    let left = time.saturating_sub(since.elapsed());
    let ms = (left + Duration::from_micros(500)).as_millis().max(1);
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}
