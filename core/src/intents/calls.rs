//! The requests of one call, and how long they may take.
use super::record::{Decision, Intent, Record, TransactionId};
use super::{REMEMBERED, Set, Store, TOMBSTONE, WINDOW};
use crate::client::backoff::Backoff;
use crate::error::{Error, ErrorKind, Outcome};
use crate::lock::above;
use crate::{Condition, Entry, Hlc, SetOutcome};
use std::time::Duration;

/// The bounds of the delay between two looks at the same thing.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

/// A store, for a call that ends at a certain time.
#[derive(Debug)]
pub(super) struct Calls<'a, S> {
    pub(super) store: &'a S,
    /// By the clock of the store.
    deadline: Duration,
    timeout: Duration,
}

/// An intent as it was read or written.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) intent: Intent,
    pub(super) version: Hlc,
    /// When it was asked for. It stood there at that time or later.
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

    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_sub(self.store.now())
    }

    /// How long a request may take that is sent because of what was read at that time.
    pub(super) fn left_since(&self, since: Duration) -> Duration {
        let end = since.saturating_add(WINDOW).min(self.deadline);
        end.saturating_sub(self.store.now())
    }

    /// What the key holds, be it a record, and when it was asked for.
    pub(super) async fn get(&self, key: &[u8]) -> Result<(Option<Entry>, Duration), Error> {
        let since = self.store.now();
        let found = self.store.get(key, self.left_since(since)).await?;
        Ok((found, since))
    }

    /// What became of a transaction, as far as it is known.
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

    /// Sees to it that a transaction never decides otherwise, if it has not decided.
    pub(super) async fn abort(&self, found: &Found) -> Result<(), Error> {
        let set = Set {
            key: &found.intent.id.register(),
            value: &Record::Decision(Decision::Aborted).encode(),
            condition: Condition::IfAbsent,
            token: None,
            expires_in: Some(REMEMBERED),
        };
        let timeout = self.left_since(found.since);
        self.store.set(set, timeout).await.map(|_| ())
    }

    /// Replaces an intent by what the decision makes of it. It takes one SET, whose token is just above the version of the
    /// intent: everybody who finishes the same intent writes the same, and whoever reads that and goes on from there has a
    /// higher token.
    pub(super) async fn finish(
        &self,
        key: &[u8],
        found: &Found,
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
            token: Some(above(&found.version, &self.store.timestamp())),
            expires_in,
        };
        self.store.set(set, self.left_since(found.since)).await
    }

    /// Waits before looking again.
    pub(super) async fn rest(&self, backoff: &mut Backoff) {
        let time = backoff.next(self.store.random()).min(self.left());
        self.store.pause(time).await;
    }

    /// The time is over.
    pub(super) fn too_late(&self, action: &str, cause: Option<&Error>) -> Error {
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

/// The delays between two looks.
pub(super) fn backoff() -> Backoff {
    Backoff::new(BACKOFF.0, BACKOFF.1)
}
