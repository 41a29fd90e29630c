//! Changing a key by what it holds, without a lock.
use super::cas::{Answer, CompareAndSet, Progress};
use super::options::certain;
use super::{action, invalid, is_passing};
use crate::client::backoff::Backoff;
use crate::error::{Error, ErrorKind, Outcome};
use crate::{Client, Entry, GetOptions, Hlc, SetOptions, SetOutcome};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The bounds of the delay after a conflict.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

/// Options of [`Client::update_with`](crate::Client::update_with).
#[derive(Debug, Clone, Default)]
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
        let mut failed = None;
        loop {
            let timeout = self.left(failed.take())?;
            match self.get(timeout).await {
                Ok(old) => {
                    let Some(new) = change(old.clone()).await else {
                        return Ok(UpdateOutcome::Unchanged);
                    };
                    let new = Bytes::copy_from_slice(new.as_ref());
                    if let Some(version) = self.replace(old, new).await? {
                        return Ok(UpdateOutcome::Applied { version });
                    }
                }
                Err(error) if is_passing(&error) => failed = Some(error),
                Err(error) => return Err(error),
            }
            let random = self.client.shared().platform().random();
            sleep(backoff.next(random.unwrap_or(u64::MAX))).await;
        }
    }

    async fn get(&self, timeout: Duration) -> Result<Option<Entry>, Error> {
        let options = GetOptions {
            timeout: Some(timeout),
        };
        self.client.get_with(self.key, &options).await
    }

    /// One attempt; `None` if somebody else was faster, or nothing happened for another reason that passes.
    async fn replace(&self, old: Option<Entry>, new: Bytes) -> Result<Option<Hlc>, Error> {
        let mut steps = CompareAndSet::new(old, new, &self.client.shared().unique_timestamp());
        let mut fence_ends = None;
        while let Some(step) = steps.request() {
            let sent = Instant::now();
            let result = match self.time_to_write(fence_ends) {
                Ok(timeout) => {
                    let options = SetOptions {
                        condition: step.condition,
                        expires_in: self.options.expires_in,
                        fencing_token: Some(step.token),
                        persist: self.options.persist,
                        timeout: Some(timeout),
                        ..SetOptions::default()
                    };
                    self.client.set_with(self.key, &step.value, &options).await
                }
                Err(error) => Err(error),
            };
            match steps.answered(answer(&result)) {
                Progress::Continue => {
                    fence_ends = self.options.expires_in.map(|after| sent + certain(after));
                }
                Progress::Applied(version) => return Ok(Some(version)),
                Progress::Conflict => return Ok(None),
                Progress::Failed => return result.map(|_| None),
            }
        }
        Ok(None)
    }

    /// How long the next SET may take. A fence that may have expired keeps nobody out any more.
    fn time_to_write(&self, fence_ends: Option<Instant>) -> Result<Duration, Error> {
        let left = self.left(None)?;
        let Some(end) = fence_ends else {
            return Ok(left);
        };
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(self.too_late("the key may have expired", None)),
            fenced => Ok(left.min(fenced)),
        }
    }

    /// How long the next request may take.
    fn left(&self, failed: Option<Error>) -> Result<Duration, Error> {
        let Some(deadline) = self.deadline else {
            return Ok(Duration::MAX);
        };
        match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => {
                let reason = match &failed {
                    Some(error) => error.to_string(),
                    None => "others changed the key each time".to_owned(),
                };
                Err(self.too_late(&reason, failed))
            }
            left => Ok(left),
        }
    }

    fn too_late(&self, reason: &str, cause: Option<Error>) -> Error {
        let kind = cause.as_ref().map_or(ErrorKind::TimedOut, Error::kind);
        let reason = format!("not within {:?}: {reason}", self.timeout);
        let error = Error::new(kind, Outcome::NotDone, action("updating", self.key), reason);
        match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }
}

fn answer(result: &Result<SetOutcome, Error>) -> Answer {
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
