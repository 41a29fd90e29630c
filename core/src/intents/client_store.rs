//! The store of a client.
use super::{Set, SettledKey, Store, TransactionId, has_record_prefix, settle};
use crate::client::Shared;
use crate::error::Error;
use crate::{Entry, Hlc, SetOptions, SetOutcome};
use std::time::Duration;
use tokio::time::Instant;

/// The store that a client is connected to.
#[derive(Debug)]
pub(crate) struct ClientStore<'a> {
    shared: &'a Shared,
    start: Instant,
    persist: bool,
    /// Whether requests may wait until they can be sent.
    may_wait: bool,
}

impl<'a> ClientStore<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            start: Instant::now(),
            persist: false,
            may_wait: true,
        }
    }

    /// Sets whether the store is asked to keep written values on disk.
    pub(crate) fn persist(mut self, persist: bool) -> Self {
        self.persist = persist;
        self
    }

    /// Sets whether requests fail if they cannot be sent at once.
    pub(crate) fn at_once(mut self, at_once: bool) -> Self {
        self.may_wait = !at_once;
        self
    }
}

impl ClientStore<'_> {
    /// Like [`settle`](fn@super::settle), optimized for keys that usually hold no record.
    pub(crate) async fn settle(&self, key: &[u8], timeout: Duration) -> Result<SettledKey, Error> {
        let since = self.now();
        let stored = self.get(key, timeout).await?;
        if let Some(entry) = &stored
            && has_record_prefix(&entry.value)
        {
            let left = timeout.saturating_sub(self.now().saturating_sub(since));
            return Box::pin(settle(self, key, left)).await;
        }
        Ok(SettledKey { stored, since })
    }
}

impl Store for ClientStore<'_> {
    async fn get(&self, key: &[u8], timeout: Duration) -> Result<Option<Entry>, Error> {
        self.shared
            .get_stored(key, timeout, self.may_wait, false)
            .await
    }

    async fn set(&self, set: Set<'_>, timeout: Duration) -> Result<SetOutcome, Error> {
        let options = SetOptions {
            condition: set.condition,
            expires_in: set.expires_in,
            fencing_token: set.token,
            persist: self.persist,
            timeout: Some(timeout),
            at_once: !self.may_wait,
            ..SetOptions::default()
        };
        self.shared.send_set(set.key, set.value, &options).await
    }

    async fn pause(&self, time: Duration) {
        self.shared.runtime.sleep(time).await;
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall_ms(&self) -> u64 {
        self.shared.platform().wall_ms()
    }

    fn timestamp(&self) -> Hlc {
        self.shared.unique_timestamp()
    }

    fn transaction_id(&self) -> TransactionId {
        let (name, number) = self.shared.unique_name();
        let name = u64::from_str_radix(&name, 16).unwrap_or_default();
        TransactionId(u128::from(name) << 64 | u128::from(number))
    }

    fn random(&self) -> u64 {
        let random = self.shared.platform().random();
        random.unwrap_or(u64::MAX)
    }
}
