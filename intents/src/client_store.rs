//! The store of a client.
use super::calls::Calls;
use super::{Record, Set, SettledKey, Store, TOMBSTONE, TransactionId, settle};
use bytes::Bytes;
use statestore::lock::{CompareAndSet, Progress};
use statestore::{
    Client, Entry, Error, GetOptions, Hlc, Outcome, SetOptions, SetOutcome, TransactionRecord,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Numbers of the transactions of a client.
#[derive(Debug)]
pub(crate) struct TransactionIds {
    /// First half of the numbers, which is random.
    session: u64,
    issued: AtomicU64,
}

impl TransactionIds {
    pub(crate) fn new(session: u64) -> Self {
        let issued = AtomicU64::new(0);
        Self { session, issued }
    }

    fn next(&self) -> TransactionId {
        let number = self.issued.fetch_add(1, Ordering::Relaxed) + 1;
        TransactionId(u128::from(self.session) << 64 | u128::from(number))
    }
}

/// The store that a client is connected to, during one call.
#[derive(Debug)]
pub(crate) struct ClientStore<'a> {
    client: &'a Client,
    ids: &'a TransactionIds,
    start: Instant,
    timeout: Duration,
    /// Whether the store is asked to keep written values on disk.
    pub(crate) persist: bool,
    /// Whether requests fail if they cannot be sent at once.
    pub(crate) at_once: bool,
}

impl<'a> ClientStore<'a> {
    /// Starts a call with this time limit; the client's by default.
    pub(crate) fn new(
        client: &'a Client,
        ids: &'a TransactionIds,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            client,
            ids,
            start: Instant::now(),
            timeout: timeout.unwrap_or(client.request_timeout()),
            persist: false,
            at_once: false,
        }
    }

    /// Returns the time that is left for the call.
    pub(crate) fn remaining(&self) -> Duration {
        self.timeout.saturating_sub(self.now())
    }

    /// Settles a key after a call that failed because of its record. Returns any other error.
    pub(crate) async fn settle(&self, key: &[u8], error: Error) -> Result<SettledKey, Error> {
        let record = TransactionRecord::of(&error);
        if record.is_none_or(|record| Record::decode(&record.value).is_none()) {
            return Err(error);
        }
        let settled = Box::pin(settle(self, key, self.remaining())).await;
        settled.map_err(|error| error.with_outcome(Outcome::NotDone))
    }

    /// Replaces the record of a deletion by a value, and returns its version. Returns `None` if another client changes the key
    /// first.
    pub(crate) async fn replace(
        &self,
        key: &[u8],
        tombstone: Entry,
        value: Bytes,
        expires_in: Option<Duration>,
    ) -> Result<Option<Hlc>, Error> {
        let calls = Calls::new(self, self.remaining());
        let since = self.now();
        let mut steps = CompareAndSet::outranking(Some(tombstone), value, &self.timestamp());
        while let Some(step) = steps.request() {
            let set = Set {
                key,
                value: &step.value,
                condition: step.condition,
                token: Some(step.token),
                expires_in: if step.is_write {
                    expires_in
                } else {
                    Some(TOMBSTONE)
                },
            };
            let result = self.set(set, calls.remaining_since(since)).await;
            match (steps.handle_outcome((&result).into()), result) {
                (Progress::Applied(version), _) => return Ok(Some(version)),
                (Progress::Outranked | Progress::Failed, Err(error)) => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Store for ClientStore<'_> {
    async fn get(&self, key: &[u8], timeout: Duration) -> Result<Option<Entry>, Error> {
        let options = GetOptions::new().timeout(timeout).at_once(self.at_once);
        self.client.get_with(key, &options).await.or_else(stored)
    }

    async fn set(&self, set: Set<'_>, timeout: Duration) -> Result<SetOutcome, Error> {
        let mut options = SetOptions::new()
            .condition(set.condition)
            .expires_in(set.expires_in)
            .persist(self.persist)
            .timeout(timeout)
            .at_once(self.at_once);
        options.fencing_token = set.token;
        let set = self.client.set_with(set.key, set.value, &options);
        set.await
    }

    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall_ms(&self) -> u64 {
        self.client.platform().wall_ms()
    }

    fn timestamp(&self) -> Hlc {
        self.client.unique_timestamp()
    }

    fn transaction_id(&self) -> TransactionId {
        self.ids.next()
    }

    fn random(&self) -> u64 {
        let random = self.client.platform().random();
        random.unwrap_or(u64::MAX)
    }
}

/// Returns the record on which a GET failed. Returns any other error.
pub(crate) fn stored(error: Error) -> Result<Option<Entry>, Error> {
    match TransactionRecord::of(&error) {
        Some(TransactionRecord { value, version }) => {
            Ok(Some(Entry::new(value.clone(), version.clone())))
        }
        None => Err(error),
    }
}
