//! Waits until a key holds no intent of another transaction.
use super::calls::{Backoff, Calls, FoundIntent};
use super::record::{Decision, Record, TransactionId};
use super::{DECISION_RETENTION, GRACE, Set, Store, UNDECIDED_TIMEOUT};
use bytes::Bytes;
use statestore::{Condition, Entry, Error, ErrorKind};
use std::time::Duration;

/// State of a key that no other transaction is about to change.
#[derive(Debug, Clone)]
pub struct SettledKey {
    /// The stored entry, if any: a value, a [tombstone](Record::Tombstone), or the intent of the calling transaction.
    pub stored: Option<Entry>,
    pub(super) since: Duration,
}

impl SettledKey {
    /// Returns the value that readers see.
    pub fn entry(&self) -> Option<&Entry> {
        let entry = self.stored.as_ref()?;
        match Record::decode(&entry.value) {
            None => Some(entry),
            Some(_) => None,
        }
    }

    /// Returns the stored record, if readers see no value. It is that of a deletion by a transaction.
    pub fn tombstone(self) -> Option<Entry> {
        match self.entry() {
            None => self.stored,
            Some(_) => None,
        }
    }
}

/// Reads a key. If the key holds an intent, waits for its transaction, aborts the transaction if that takes too long, and
/// applies its decision.
///
/// The stored value, even a tombstone, can be replaced by a [compare-and-set](statestore::lock::CompareAndSet).
///
/// # Errors
/// Returns the errors of the requests, or an error if the key is not settled within the time limit.
pub async fn settle<S: Store>(
    store: &S,
    key: &[u8],
    timeout: Duration,
) -> Result<SettledKey, Error> {
    let calls = Calls::new(store, timeout);
    calls.settle(key, None).await
}

impl<S: Store> Calls<'_, S> {
    /// Like [`settle`], for a transaction that may have an intent of its own at the key.
    pub(super) async fn settle(
        &self,
        key: &[u8],
        own: Option<TransactionId>,
    ) -> Result<SettledKey, Error> {
        let mut delays = Backoff::default();
        let mut met: Option<(TransactionId, Duration)> = None;
        loop {
            let (stored, since) = self.get(key).await?;
            let Some(found) = intent(stored.as_ref(), since) else {
                return Ok(SettledKey { stored, since });
            };
            let id = found.intent.id;
            if own == Some(id) {
                return Ok(SettledKey { stored, since });
            }
            let met_at = match met {
                Some((other, at)) if other == id => at,
                _ => since,
            };
            if met != Some((id, met_at)) {
                met = Some((id, met_at));
                delays = Backoff::default();
            }
            let waited = self.store.now().saturating_sub(met_at);
            match self.decision(id).await? {
                None if waited >= UNDECIDED_TIMEOUT => self.abort(&found).await?,
                Some(Decision::Aborted) => self.put(key, &found, false).await?,
                Some(decision) if waited >= GRACE => {
                    self.put(key, &found, true).await?;
                    if let Decision::Committed(keys) = decision {
                        // If this client cannot finish, other clients do.
                        let _ = self.complete(id, &keys).await;
                    }
                }
                None | Some(_) => {}
            }
            if self.remaining().is_zero() {
                let action = format!("waiting for transaction {id}");
                return Err(self.timeout_error(&action, None));
            }
            self.back_off(&mut delays).await;
        }
    }

    /// Puts all values of another transaction in place, and records that.
    pub(super) async fn complete(&self, id: TransactionId, keys: &[Bytes]) -> Result<(), Error> {
        for key in keys {
            let (stored, since) = self.get(key).await?;
            if let Some(found) = intent(stored.as_ref(), since)
                && found.intent.id == id
            {
                self.put(key, &found, true).await?;
            }
        }
        self.record_done(id, DECISION_RETENTION).await
    }

    /// Finishes an intent, unless another client did that first.
    pub(super) async fn put(
        &self,
        key: &[u8],
        found: &FoundIntent,
        is_committed: bool,
    ) -> Result<(), Error> {
        match self.finish(key, found, is_committed).await {
            Err(error) if error.kind() != ErrorKind::FencingTokenLower => Err(error),
            _ => Ok(()),
        }
    }

    /// Records in the register of a transaction that no intent is left.
    pub(super) async fn record_done(
        &self,
        id: TransactionId,
        remembered: Duration,
    ) -> Result<(), Error> {
        let set = Set {
            key: &id.register(),
            value: &Record::Decision(Decision::Done).encode(),
            condition: Condition::Always,
            token: None,
            expires_in: Some(remembered),
        };
        let timeout = self.remaining_since(self.store.now());
        self.store.set(set, timeout).await.map(|_| ())
    }
}

/// Returns the intent, if the stored value is one.
pub(super) fn intent(stored: Option<&Entry>, since: Duration) -> Option<FoundIntent> {
    let entry = stored?;
    match Record::decode(&entry.value) {
        Some(Record::Intent(intent)) => Some(FoundIntent {
            intent,
            version: entry.version.clone(),
            since,
        }),
        _ => None,
    }
}
