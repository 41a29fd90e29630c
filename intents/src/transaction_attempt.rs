//! One attempt to execute a transaction, under a number of its own.
use super::calls::{Backoff, Calls, FoundIntent};
use super::record::{Decision, Intent, Record, TransactionId};
use super::settle::{self, SettledKey};
use super::{DONE_RETENTION, Set, Store, TOMBSTONE};
use bytes::Bytes;
use statestore::lock::token_above;
use statestore::{
    Condition, Entry, Error, ErrorKind, Hlc, Outcome, SetOutcome, TransactionOutcome, Version,
};
use statestore_protocol::TransactionOperation;
use std::num::NonZeroU64;
use std::time::Duration;

/// One attempt to execute a transaction.
pub(super) struct TransactionAttempt<'a, S> {
    calls: &'a Calls<'a, S>,
    operations: &'a [TransactionOperation],
    id: TransactionId,
    /// The intents that were written, with their keys.
    intents: Vec<(Bytes, FoundIntent)>,
}

/// Result of an attempt.
pub(super) enum AttemptOutcome {
    Completed(Result<TransactionOutcome, Error>),
    /// Another client ran out of patience and aborted the attempt. No value was changed, and another attempt may succeed.
    Aborted,
}

/// Reason why no intent is written to a key.
enum IntentError {
    /// The condition of this operation is not met; the key has this version.
    NotApplied(usize, Option<Hlc>),
    Failed(Error),
}

/// Decision in the register.
enum DecisionOutcome {
    /// The transaction is committed. The time is that of the first request to write the decision.
    Committed(Duration),
    Aborted,
    /// The decision was never written.
    NotWritten(Error),
    Unknown(Error),
}

impl<'a, S: Store> TransactionAttempt<'a, S> {
    pub(super) fn new(calls: &'a Calls<'a, S>, operations: &'a [TransactionOperation]) -> Self {
        Self {
            calls,
            operations,
            id: calls.store.transaction_id(),
            intents: Vec::with_capacity(operations.len()),
        }
    }

    /// Runs the attempt. `groups` are the operations on each key.
    pub(super) async fn run(mut self, groups: &[Vec<usize>]) -> AttemptOutcome {
        for group in groups {
            let Some((first, key)) = group.first().and_then(|first| {
                let operation = self.operations.get(*first)?;
                Some((*first, key_of(operation)))
            }) else {
                continue;
            };
            let outcome = match self.write_intent(key, group).await {
                Ok(found) => {
                    self.intents.push((key.clone(), found));
                    continue;
                }
                Err(IntentError::NotApplied(operation, version)) => {
                    Ok(TransactionOutcome::NotApplied { operation, version })
                }
                Err(IntentError::Failed(error)) => Err(error.with_operation(first)),
            };
            self.restore().await;
            return AttemptOutcome::Completed(outcome.map_err(not_done));
        }
        match self.decide().await {
            DecisionOutcome::Committed(since) => {
                AttemptOutcome::Completed(Ok(self.finish(since, groups).await))
            }
            DecisionOutcome::Aborted => {
                self.restore().await;
                AttemptOutcome::Aborted
            }
            DecisionOutcome::NotWritten(error) => {
                self.restore().await;
                AttemptOutcome::Completed(Err(not_done(error)))
            }
            DecisionOutcome::Unknown(error) => {
                AttemptOutcome::Completed(Err(error.with_outcome(Outcome::Unknown)))
            }
        }
    }

    /// Replaces the value of a key by an intent, if the conditions of the operations on the key are met.
    async fn write_intent(&self, key: &Bytes, group: &[usize]) -> Result<FoundIntent, IntentError> {
        let mut delays = Backoff::default();
        let mut is_outranked = false;
        let mut last_error = None;
        loop {
            if self.calls.remaining().is_zero() {
                let action = format!("writing \"{}\"", key.escape_ascii());
                return Err(IntentError::Failed(
                    self.calls.timeout_error(&action, last_error.as_ref()),
                ));
            }
            let placed = match self.calls.settle(key, Some(self.id)).await {
                Ok(settled) => self.replace(key, group, &settled, is_outranked).await,
                Err(error) => Err(IntentError::Failed(error)),
            };
            match placed {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(IntentError::Failed(error)) if error.kind() == ErrorKind::FencingTokenLower => {
                    // A token that is ahead even of the clock was chosen by a caller; the clock will pass it.
                    is_outranked = true;
                    last_error = Some(error);
                }
                Err(IntentError::Failed(error)) if is_retryable(&error) => last_error = Some(error),
                Err(stop) => return Err(stop),
            }
            self.calls.back_off(&mut delays).await;
        }
    }

    /// Makes one compare-and-set. Returns `None` if another client was faster.
    async fn replace(
        &self,
        key: &Bytes,
        group: &[usize],
        settled: &SettledKey,
        is_outranked: bool,
    ) -> Result<Option<FoundIntent>, IntentError> {
        if let Some(found) = settle::intent(settled.stored.as_ref(), settled.since) {
            // The own intent, which was stored although the response was lost.
            return Ok(Some(found));
        }
        let entry = settled.entry();
        let mut held = KeyState::from_entry(entry);
        for (index, operation) in self.on_key(group) {
            if !held.meets(operation) {
                let version = entry.map(|entry| entry.version.clone());
                return Err(IntentError::NotApplied(index, version));
            }
            held = KeyState::after(operation);
        }
        let timestamp = self.calls.store.timestamp();
        let (condition, token, raised) = match &settled.stored {
            None => (Condition::IfAbsent, timestamp, None),
            Some(stored) => {
                let mut token = token_above(&stored.version, &timestamp);
                if is_outranked {
                    token = token.max(timestamp);
                }
                let raise = Set {
                    key,
                    value: &stored.value,
                    condition: Condition::IfAbsentOrEqual,
                    token: Some(token.clone()),
                    expires_in: entry.is_none().then_some(TOMBSTONE),
                };
                match self.set(raise, settled.since).await? {
                    SetOutcome::Applied { version } => (Condition::Always, token, Some(version)),
                    SetOutcome::NotApplied { .. } => return Ok(None),
                }
            }
        };
        let intent = Intent {
            id: self.id,
            // With the version from raising the fence, so that readers see versions rise.
            old: entry.and_then(|entry| Some((entry.value.clone(), raised?))),
            new: held.value.map(|value| (value.clone(), held.expires_in_ms)),
        };
        let set = Set {
            key,
            value: &Record::Intent(intent.clone()).encode(),
            condition,
            token: Some(token),
            expires_in: None,
        };
        Ok(match self.set(set, settled.since).await? {
            SetOutcome::Applied { version } => Some(FoundIntent {
                intent,
                version,
                since: settled.since,
            }),
            SetOutcome::NotApplied { .. } => None,
        })
    }

    /// Returns these operations, with their indexes in the transaction.
    fn on_key<'g>(
        &self,
        group: &'g [usize],
    ) -> impl Iterator<Item = (usize, &'a TransactionOperation)> + use<'a, 'g, S> {
        let operations = self.operations;
        group
            .iter()
            .filter_map(|index| Some((*index, operations.get(*index)?)))
    }

    async fn set(&self, set: Set<'_>, since: Duration) -> Result<SetOutcome, IntentError> {
        let timeout = self.calls.remaining_since(since);
        let outcome = self.calls.store.set(set, timeout).await;
        outcome.map_err(IntentError::Failed)
    }

    /// Writes to the register that the transaction is committed, unless another client aborted it there.
    async fn decide(&self) -> DecisionOutcome {
        let keys = self.intents.iter().map(|(key, _)| key.clone());
        let committed = Record::Decision(Decision::Committed(keys.collect())).encode();
        let register = self.id.register();
        let mut delays = Backoff::default();
        let since = self.calls.store.now();
        let mut is_unknown = false;
        loop {
            let now = self.calls.store.now();
            let set = Set {
                key: &register,
                value: &committed,
                condition: Condition::IfAbsent,
                token: None,
                expires_in: None,
            };
            let outcome = self
                .calls
                .store
                .set(set, self.calls.remaining_since(now))
                .await;
            let known = match outcome {
                Ok(SetOutcome::Applied { .. }) => return DecisionOutcome::Committed(since),
                // The own first SET may have been applied although the response was lost.
                Ok(SetOutcome::NotApplied { .. }) => {
                    is_unknown = true;
                    self.calls.decision(self.id).await
                }
                Err(error) => Err(error),
            };
            let error = match known {
                Ok(Some(Decision::Committed(_) | Decision::Done)) => {
                    return DecisionOutcome::Committed(since);
                }
                Ok(Some(Decision::Aborted)) => return DecisionOutcome::Aborted,
                Ok(None) => {
                    let action = format!("deciding transaction {}", self.id);
                    let reason = "its register was deleted";
                    let kind = ErrorKind::InvalidResponse;
                    return DecisionOutcome::Unknown(Error::new(
                        kind,
                        Outcome::Unknown,
                        action,
                        reason,
                    ));
                }
                Err(error) => error,
            };
            is_unknown |= error.outcome() == Outcome::Unknown;
            if self.calls.remaining().is_zero() || !is_retryable(&error) {
                return if is_unknown {
                    DecisionOutcome::Unknown(error)
                } else {
                    DecisionOutcome::NotWritten(error)
                };
            }
            self.calls.back_off(&mut delays).await;
        }
    }

    /// Puts the new values in place while there is time. Other clients do the rest when they find it.
    async fn finish(self, decided: Duration, groups: &[Vec<usize>]) -> TransactionOutcome {
        let mut versions = vec![None; self.operations.len()];
        let mut is_whole = true;
        for ((key, found), group) in self.intents.iter().zip(groups) {
            // No other client can have done it before.
            let since = FoundIntent {
                since: decided,
                ..found.clone()
            };
            let version = match self.calls.finish(key, &since, true).await {
                Ok(SetOutcome::Applied { version }) => Some(version),
                _ => self.version_in_place(key, found).await,
            };
            is_whole &= version.is_some();
            let version = version.unwrap_or_else(|| found.version.clone());
            let mut existed = found.intent.old.is_some();
            for (index, operation) in self.on_key(group) {
                let exists = KeyState::after(operation).value.is_some();
                if let Some(place) = versions.get_mut(index)
                    && (existed || exists)
                {
                    *place = Some(version.clone());
                }
                existed = exists;
            }
        }
        if is_whole {
            // The register would only tell other clients that nothing is left to do.
            let _ = self.calls.record_done(self.id, DONE_RETENTION).await;
        }
        TransactionOutcome::Applied(versions)
    }

    /// Returns the version under which another client put the new value in place, or that of the intent if the key has a newer
    /// value. Returns `None` if the new value may not be in place.
    async fn version_in_place(&self, key: &Bytes, found: &FoundIntent) -> Option<Hlc> {
        let (stored, since) = self.calls.get(key).await.ok()?;
        if let Some(other) = settle::intent(stored.as_ref(), since)
            && other.intent.id == self.id
        {
            return None;
        }
        let value = stored.as_ref().map(|entry| &entry.value);
        match (&found.intent.new, stored.as_ref()) {
            (Some((new, _)), Some(entry)) if value == Some(new) => Some(entry.version.clone()),
            _ => Some(found.version.clone()),
        }
    }

    /// Restores the old values while there is time. The transaction can never be committed, so other clients abort the rest
    /// when they find it.
    async fn restore(&mut self) {
        for (key, found) in std::mem::take(&mut self.intents) {
            let mut found = found;
            if self.calls.remaining_since(found.since).is_zero() {
                let Ok((stored, since)) = self.calls.get(&key).await else {
                    continue;
                };
                match settle::intent(stored.as_ref(), since) {
                    Some(other) if other.intent.id == self.id => found = other,
                    _ => continue,
                }
            }
            // Another client does it when it finds the intent.
            let _ = self.calls.put(&key, &found, false).await;
        }
    }
}

fn key_of(operation: &TransactionOperation) -> &Bytes {
    match operation {
        TransactionOperation::Set { key, .. } | TransactionOperation::Del { key, .. } => key,
    }
}

/// State of a key before or after an operation.
struct KeyState<'a> {
    value: Option<&'a Bytes>,
    /// Version; `None` for a value that the transaction itself sets.
    version: Option<Version>,
    expires_in_ms: Option<NonZeroU64>,
}

impl<'a> KeyState<'a> {
    fn from_entry(entry: Option<&'a Entry>) -> Self {
        Self {
            value: entry.map(|entry| &entry.value),
            version: entry.map(|entry| Version::from(&entry.version)),
            expires_in_ms: None,
        }
    }

    fn after(operation: &'a TransactionOperation) -> Self {
        let (value, expires_in_ms) = match operation {
            TransactionOperation::Set { value, options, .. } => {
                (Some(value), options.expires_in_ms)
            }
            TransactionOperation::Del { .. } => (None, None),
        };
        Self {
            value,
            version: None,
            expires_in_ms,
        }
    }

    /// Returns whether the condition of an operation is met.
    fn meets(&self, operation: &TransactionOperation) -> bool {
        match operation {
            TransactionOperation::Set { value, options, .. } => match options.condition {
                Condition::Always => true,
                Condition::IfAbsentOrEqual => self.value.is_none_or(|held| held == value),
                Condition::IfVersion(version) => self.version == Some(version),
                // NX, and any unknown condition: an existing value is not overwritten.
                _ => self.value.is_none(),
            },
            TransactionOperation::Del { if_version, .. } => {
                if_version.is_none_or(|version| self.version == Some(version))
            }
        }
    }
}

/// Returns whether another request may succeed. A rejection by the store is final at once, while there is time to restore the
/// old values.
fn is_retryable(error: &Error) -> bool {
    let is_lost = error.outcome() == Outcome::Unknown
        && !matches!(error.kind(), ErrorKind::Closed | ErrorKind::InvalidResponse);
    (error.is_retryable() || is_lost) && error.service_error().is_none()
}

fn not_done(error: Error) -> Error {
    error.with_outcome(Outcome::NotDone)
}
