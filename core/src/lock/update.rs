//! Changing a key by what it holds, without a lock.
use super::cas::{Answer, CompareAndSet, Progress};
use super::options::certain;
use super::{action, invalid, is_passing};
use crate::client::backoff::Backoff;
use crate::error::{Error, ErrorKind, Outcome};
use crate::intents::{Local, Settled, TOMBSTONE};
use crate::{Client, Entry, Hlc, SetOptions, SetOutcome};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The bounds of the delay after a conflict.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

/// Options of [`Client::update_with`](crate::Client::update_with).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct UpdateOptions {
    /// After what time the key expires, at least 100 ms. Without it the key does not expire, even if it was to expire
    /// before: the store does not tell when that is.
    pub expires_in: Option<Duration>,
    /// Asks the store to keep the key on disk.
    pub persist: bool,
    /// How long all attempts together may take;
    /// [`Settings::request_timeout`](crate::Settings::request_timeout) unless given.
    pub timeout: Option<Duration>,
}

impl UpdateOptions {
    /// The defaults.
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

/// What an update did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The new value is stored.
    Applied {
        /// Its version.
        version: Hlc,
    },
    /// The caller wanted no change, or no change of what is there.
    Unchanged,
}

pub(super) async fn update<V: AsRef<[u8]>, F: Future<Output = Option<V>>>(
    client: &Client,
    key: &[u8],
    options: &UpdateOptions,
    change: impl FnMut(Option<Entry>) -> F,
) -> Result<UpdateOutcome, Error> {
    if key.is_empty() {
        return Err(invalid("updating", key, "the key is empty"));
    }
    if options
        .expires_in
        .is_some_and(|after| certain(after).is_zero())
    {
        let reason = "a key that expires so soon may be gone before it is written";
        return Err(invalid("updating", key, reason));
    }
    let timeout = options.timeout.unwrap_or(client.shared().request_timeout());
    let update = Update {
        client,
        key,
        options,
        deadline: Instant::now().checked_add(timeout),
        timeout,
    };
    update.run(change).await
}

/// Why nothing was stored so far.
enum Why {
    /// Nothing was in the way but time.
    Slow,
    /// Others changed the key.
    Changed,
    Failed(Error),
}

/// What came of one attempt.
enum Attempt {
    Applied(Hlc),
    /// Another one may have more luck.
    Again(Why),
    /// The key is protected by a higher token, which this error says.
    Outranked(Error),
}

struct Update<'a> {
    client: &'a Client,
    key: &'a [u8],
    options: &'a UpdateOptions,
    /// None if it is too far away to be counted.
    deadline: Option<Instant>,
    timeout: Duration,
}

impl Update<'_> {
    async fn run<V: AsRef<[u8]>, F: Future<Output = Option<V>>>(
        &self,
        mut change: impl FnMut(Option<Entry>) -> F,
    ) -> Result<UpdateOutcome, Error> {
        let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
        let mut why = Why::Slow;
        let mut is_outranked = false;
        loop {
            let timeout = self.left(&why)?;
            match self.get(timeout).await {
                Ok(found) => {
                    let Some(new) = change(found.entry().cloned()).await else {
                        return Ok(UpdateOutcome::Unchanged);
                    };
                    let is_tombstone = found.is_tombstone();
                    let old = found.stored;
                    let new = Bytes::copy_from_slice(new.as_ref());
                    let timestamp = self.client.shared().unique_timestamp();
                    let steps = if is_outranked {
                        CompareAndSet::outranking(old, new, &timestamp)
                    } else {
                        CompareAndSet::new(old, new, &timestamp)
                    };
                    why = match self.replace(steps, is_tombstone, why).await? {
                        Attempt::Applied(version) => {
                            return Ok(UpdateOutcome::Applied { version });
                        }
                        Attempt::Again(why) => why,
                        // A token that is even ahead of the clock was not made by another update.
                        Attempt::Outranked(error) if is_outranked => Why::Failed(error),
                        Attempt::Outranked(_) => {
                            is_outranked = true;
                            Why::Changed
                        }
                    };
                }
                Err(error) if is_passing(&error) => why = Why::Failed(error),
                Err(error) => return Err(error),
            }
            let random = self.client.shared().platform().random();
            sleep(backoff.next(random.unwrap_or(u64::MAX))).await;
        }
    }

    async fn get(&self, timeout: Duration) -> Result<Settled, Error> {
        let store = Local::new(self.client.shared());
        store.settle(self.key, timeout).await
    }

    /// One attempt. `why` is why those before it did not store anything.
    async fn replace(
        &self,
        mut steps: CompareAndSet,
        is_tombstone: bool,
        why: Why,
    ) -> Result<Attempt, Error> {
        let mut fence_ends = None;
        while let Some(step) = steps.request() {
            let sent = Instant::now();
            let Some(timeout) = self.time_to_write(fence_ends, &why)? else {
                return Ok(Attempt::Again(Why::Slow));
            };
            let expires_in = if is_tombstone && !step.is_write {
                Some(TOMBSTONE)
            } else {
                self.options.expires_in
            };
            let options = SetOptions {
                condition: step.condition,
                expires_in,
                fencing_token: Some(step.token),
                persist: self.options.persist,
                timeout: Some(timeout),
                ..SetOptions::default()
            };
            let result = self.client.set_with(self.key, &step.value, &options).await;
            return match (steps.answered(answer(&result)), result) {
                (Progress::Continue, _) => {
                    fence_ends = expires_in.map(|after| sent + certain(after));
                    continue;
                }
                (Progress::Applied(version), _) => Ok(Attempt::Applied(version)),
                (Progress::Outranked, Err(error)) => Ok(Attempt::Outranked(error)),
                (Progress::Conflict, Err(error)) => Ok(Attempt::Again(Why::Failed(error))),
                (Progress::Failed, Err(error)) => Err(error),
                (_, Ok(_)) => Ok(Attempt::Again(Why::Changed)),
            };
        }
        Ok(Attempt::Again(why))
    }

    /// How long the next SET may take; `None` if the fence may have expired, so that it keeps nobody out any more.
    fn time_to_write(
        &self,
        fence_ends: Option<Instant>,
        why: &Why,
    ) -> Result<Option<Duration>, Error> {
        let left = self.left(why)?;
        let fenced = fence_ends.map(|end| end.saturating_duration_since(Instant::now()));
        Ok(match fenced {
            Some(Duration::ZERO) => None,
            Some(fenced) => Some(left.min(fenced)),
            None => Some(left),
        })
    }

    /// How long the next request may take.
    fn left(&self, why: &Why) -> Result<Duration, Error> {
        let Some(deadline) = self.deadline else {
            return Ok(Duration::MAX);
        };
        match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(match why {
                Why::Slow => self.too_late("the requests took too long", None),
                Why::Changed => self.too_late("others changed the key each time", None),
                Why::Failed(error) if error.kind() == ErrorKind::FencingTokenLower => {
                    let hint = "somebody protected the key with a token that is ahead of the clock";
                    self.too_late(&format!("{error}; {hint}"), Some(error))
                }
                Why::Failed(error) => self.too_late(&error.to_string(), Some(error)),
            }),
            left => Ok(left),
        }
    }

    fn too_late(&self, reason: &str, cause: Option<&Error>) -> Error {
        let kind = cause.map_or(ErrorKind::TimedOut, Error::kind);
        let reason = format!("not within {:?}: {reason}", self.timeout);
        let error = Error::new(kind, Outcome::NotDone, action("updating", self.key), reason);
        match cause {
            Some(cause) => error.with_source(cause.clone()),
            None => error,
        }
    }
}

pub(super) fn answer(result: &Result<SetOutcome, Error>) -> Answer {
    match result {
        Ok(SetOutcome::Applied { version }) => Answer::Applied(version.clone()),
        Ok(SetOutcome::NotApplied { .. }) => Answer::NotApplied,
        Err(error) if error.kind() == ErrorKind::FencingTokenLower => Answer::Refused,
        Err(error) => Answer::Failed {
            outcome: error.outcome(),
            may_pass: is_passing(error),
        },
    }
}
