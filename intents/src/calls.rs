//! The requests of one call and their time limits.
use super::record::{Decision, Intent, Record, TransactionId};
use super::{DECISION_RETENTION, READ_WRITE_WINDOW, Set, Store, TOMBSTONE};
use statestore::lock::token_above;
use statestore::{Condition, Entry, Error, ErrorKind, Hlc, Outcome, SetOutcome};
use std::time::Duration;

/// Bounds of the delay between two reads of the same key.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

/// A store, as used by a call with a deadline.
#[derive(Debug)]
pub(super) struct Calls<'a, S> {
    pub(super) store: &'a S,
    /// Deadline by the clock of the store.
    deadline: Duration,
    timeout: Duration,
}

/// An intent that was read or written.
#[derive(Debug, Clone)]
pub(super) struct FoundIntent {
    pub(super) intent: Intent,
    pub(super) version: Hlc,
    /// Time at which it was requested. The intent existed at that time or later.
    pub(super) since: Duration,
}

impl<'a, S: Store> Calls<'a, S> {
    pub(super) fn new(store: &'a S, timeout: Duration) -> Self {
        Self {
            store,
            deadline: store.now().saturating_add(timeout),
            timeout,
        }
    }

    pub(super) fn remaining(&self) -> Duration {
        self.deadline.saturating_sub(self.store.now())
    }

    /// Returns the time limit of a request that is based on a read at `since`.
    pub(super) fn remaining_since(&self, since: Duration) -> Duration {
        let end = since.saturating_add(READ_WRITE_WINDOW).min(self.deadline);
        end.saturating_sub(self.store.now())
    }

    /// Returns the stored value of a key, even if it is a record, and the time at which it was requested.
    pub(super) async fn get(&self, key: &[u8]) -> Result<(Option<Entry>, Duration), Error> {
        let since = self.store.now();
        let found = self.store.get(key, self.remaining_since(since)).await?;
        Ok((found, since))
    }

    /// Returns the decision of a transaction, if the register holds one.
    pub(super) async fn decision(&self, id: TransactionId) -> Result<Option<Decision>, Error> {
        let register = id.register();
        let Some(entry) = self.get(&register).await?.0 else {
            return Ok(None);
        };
        match Record::decode(&entry.value) {
            Some(Record::Decision(decision)) => Ok(Some(decision)),
            _ => Err(Error::new(
                ErrorKind::InvalidResponse,
                Outcome::NotDone,
                format!("looking at what became of transaction {id}"),
                "its register holds something else",
            )),
        }
    }

    /// Aborts a transaction that has not decided yet, so that it can never commit.
    pub(super) async fn abort(&self, found: &FoundIntent) -> Result<(), Error> {
        let set = Set {
            key: &found.intent.id.register(),
            value: &Record::Decision(Decision::Aborted).encode(),
            condition: Condition::IfAbsent,
            token: None,
            expires_in: Some(DECISION_RETENTION),
        };
        let timeout = self.remaining_since(found.since);
        self.store.set(set, timeout).await.map(|_| ())
    }

    /// Replaces an intent by the value that the decision implies. This takes one SET, whose token is just above the version of
    /// the intent. All clients that finish the same intent write the same value. A client that reads that value and continues
    /// from there has a higher token.
    pub(super) async fn finish(
        &self,
        key: &[u8],
        found: &FoundIntent,
        is_committed: bool,
    ) -> Result<SetOutcome, Error> {
        let tombstone = Record::Tombstone.encode();
        let intent = &found.intent;
        let target = match (is_committed, &intent.new, &intent.old) {
            (true, Some((value, expires_in_ms)), _) => {
                let after = expires_in_ms.map(|ms| Duration::from_millis(ms.get()));
                Some((value, after))
            }
            (false, _, Some((value, _))) => Some((value, None)),
            _ => None,
        };
        let (value, expires_in) = target.unwrap_or((&tombstone, Some(TOMBSTONE)));
        let set = Set {
            key,
            value,
            condition: Condition::Always,
            token: Some(token_above(&found.version, &self.store.timestamp())),
            expires_in,
        };
        self.store.set(set, self.remaining_since(found.since)).await
    }

    /// Waits before the next read.
    pub(super) async fn back_off(&self, backoff: &mut Backoff) {
        let time = backoff.next(self.store.random()).min(self.remaining());
        self.store.pause(time).await;
    }

    /// Returns the error for the end of the time limit.
    pub(super) fn timeout_error(&self, action: &str, cause: Option<&Error>) -> Error {
        let (kind, reason) = match cause {
            Some(cause) => (cause.kind(), cause.to_string()),
            None => (
                ErrorKind::TimedOut,
                "others changed the same keys".to_owned(),
            ),
        };
        let reason = format!("not within {:?}: {reason}", self.timeout);
        let error = Error::new(kind, Outcome::NotDone, action, reason);
        match cause {
            Some(cause) => error.with_source(cause.clone()),
            None => error,
        }
    }
}

/// Delays between reads of the same key: random, below a bound that doubles.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    bound: Duration,
}

impl Backoff {
    fn next(&mut self, random: u64) -> Duration {
        let bound = self.bound;
        self.bound = (bound * 2).clamp(BACKOFF.0, BACKOFF.1);
        let nanos = (u128::from(random) * bound.as_nanos()) >> 64;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
