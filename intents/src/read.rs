//! Reads of keys that may hold a record of a transaction.
use super::calls::{Backoff, Calls, FoundIntent};
use super::record::{Decision, Record};
use super::settle::intent;
use super::{ABANDONED_AFTER_MS, Store};
use statestore::{Entry, Error};
use std::time::Duration;

/// Returns the value that readers see for a key whose stored value is `stored`.
///
/// For an intent, this is the new value if its transaction is committed, and the old value otherwise. Until the new value is in
/// place, its version is that of the intent; then it is a higher one.
///
/// # Errors
/// Returns the errors of the requests.
pub async fn read<S: Store>(
    store: &S,
    key: &[u8],
    stored: Option<Entry>,
    timeout: Duration,
) -> Result<Option<Entry>, Error> {
    let calls = Calls::new(store, timeout);
    let mut since = store.now();
    let mut stored = stored;
    let mut delays = Backoff::default();
    loop {
        let Some(entry) = &stored else {
            return Ok(None);
        };
        let Some(record) = Record::decode(&entry.value) else {
            return Ok(stored);
        };
        let Record::Intent(_) = record else {
            return Ok(None);
        };
        let Some(found) = intent(stored.as_ref(), since) else {
            return Ok(None);
        };
        let intent = &found.intent;
        let decision = calls.decision(intent.id).await?;
        let entry = match decision {
            Some(Decision::Committed(_) | Decision::Done) => intent.after(&found.version),
            Some(Decision::Aborted) => intent.before(),
            None => {
                // Since the key was read, the transaction may have decided, put its values in place, and dropped its register.
                let reread = calls.get(key).await?;
                let is_same =
                    |reread: &Entry| Some(&reread.value) == stored.as_ref().map(|it| &it.value);
                if !reread.0.as_ref().is_some_and(is_same) {
                    (stored, since) = reread;
                    calls.back_off(&mut delays).await;
                    continue;
                }
                since = reread.1;
                intent.before()
            }
        };
        // A client that only reads may lack the permission to write.
        let _ = calls
            .clear(key, &FoundIntent { since, ..found }, decision)
            .await;
        return Ok(entry);
    }
}

impl<S: Store> Calls<'_, S> {
    /// Clears an intent whose transaction seems to be abandoned.
    async fn clear(
        &self,
        key: &[u8],
        found: &FoundIntent,
        decision: Option<Decision>,
    ) -> Result<(), Error> {
        let age_ms = self.store.wall_ms().saturating_sub(found.version.wall_ms());
        if age_ms < ABANDONED_AFTER_MS {
            return Ok(());
        }
        match decision {
            None => self.abort(found).await,
            Some(Decision::Aborted) => self.put(key, found, false).await,
            Some(Decision::Committed(keys)) => self.complete(found.intent.id, &keys).await,
            Some(Decision::Done) => self.put(key, found, true).await,
        }
    }
}
