//! One attempt to carry out a transaction, under a number of its own.
use super::calls::{Calls, Found, backoff};
use super::record::{Decision, Intent, Record, TransactionId};
use super::settle::{self, Settled};
use super::{FORGOTTEN, Set, Store, TOMBSTONE};
use crate::client::abandoned::Doubt;
use crate::error::{Error, ErrorKind, Outcome};
use crate::lock::{above, is_passing};
use crate::{Condition, Entry, Hlc, SetOutcome, TransactionOutcome, Version};
use bytes::Bytes;
use statestore_protocol::TransactionOperation;
use std::num::NonZeroU64;
use std::time::Duration;

/// One attempt.
pub(super) struct Attempt<'a, S> {
    calls: &'a Calls<'a, S>,
    operations: &'a [TransactionOperation],
    id: TransactionId,
    /// The intents that stand, with their keys.
    placed: Vec<(Bytes, Found)>,
}

/// How it ended.
pub(super) enum End {
    Over(Result<TransactionOutcome, Error>),
    /// Somebody had no patience. Nothing was changed, and another attempt may have more luck.
    Aborted,
}

/// Why there will be no intent at a key.
enum Stop {
    /// The condition of this operation is not met; the key has this version.
    NotApplied(usize, Option<Hlc>),
    Failed(Error),
}

/// What the register says.
enum Decided {
    /// It was first asked to say so at this time.
    Committed(Duration),
    Aborted,
    /// It was never written.
    Refused(Error),
    Unknown(Error),
}

impl<'a, S: Store> Attempt<'a, S> {
    pub(super) fn new(calls: &'a Calls<'a, S>, operations: &'a [TransactionOperation]) -> Self {
        Self {
            calls,
            operations,
            id: calls.store.transaction_id(),
            placed: Vec::with_capacity(operations.len()),
        }
    }

    /// `groups` are the operations on each key.
    pub(super) async fn run(mut self, groups: &[Vec<usize>]) -> End {
        for group in groups {
            let Some((first, key)) = group.first().and_then(|first| {
                let operation = self.operations.get(*first)?;
                Some((*first, key_of(operation)))
            }) else {
                continue;
            };
            let outcome = match self.place(key, group).await {
                Ok(found) => {
                    self.placed.push((key.clone(), found));
                    continue;
                }
                Err(Stop::NotApplied(operation, version)) => {
                    Ok(TransactionOutcome::NotApplied { operation, version })
                }
                Err(Stop::Failed(error)) => Err(error.with_operation(first)),
            };
            self.restore().await;
            return End::Over(outcome.map_err(not_done));
        }
        // Who is dropped from here on may have carried it out, even if the request that is dropped with it only reads or puts a value
        // in place.
        let mut doubt = Doubt::default();
        doubt.begin();
        match self.decide().await {
            Decided::Committed(since) => {
                let outcome = self.finish(since, groups).await;
                doubt.end();
                End::Over(Ok(outcome))
            }
            Decided::Aborted => {
                doubt.end();
                self.restore().await;
                End::Aborted
            }
            Decided::Refused(error) => {
                doubt.end();
                self.restore().await;
                End::Over(Err(not_done(error)))
            }
            Decided::Unknown(error) => {
                doubt.end();
                End::Over(Err(error.with_outcome(Outcome::Unknown)))
            }
        }
    }

    /// Puts an intent in the place of what a key holds, if that is what the conditions of the operations on it ask for.
    async fn place(&self, key: &Bytes, group: &[usize]) -> Result<Found, Stop> {
        let mut delays = backoff();
        let mut is_outranked = false;
        let mut why = None;
        loop {
            if self.calls.left().is_zero() {
                let action = format!("writing \"{}\"", key.escape_ascii());
                return Err(Stop::Failed(self.calls.too_late(&action, why.as_ref())));
            }
            let placed = match self.calls.settle(key, Some(self.id)).await {
                Ok(settled) => self.replace(key, group, &settled, is_outranked).await,
                Err(error) => Err(Stop::Failed(error)),
            };
            match placed {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(Stop::Failed(error)) if error.kind() == ErrorKind::FencingTokenLower => {
                    // A token that is even ahead of the clock was given by hand; its time will come.
                    is_outranked = true;
                    why = Some(error);
                }
                Err(Stop::Failed(error)) if may_pass(&error) => why = Some(error),
                Err(stop) => return Err(stop),
            }
            self.calls.rest(&mut delays).await;
        }
    }

    /// One compare-and-set; `None` if somebody else was faster.
    async fn replace(
        &self,
        key: &Bytes,
        group: &[usize],
        settled: &Settled,
        is_outranked: bool,
    ) -> Result<Option<Found>, Stop> {
        if let Some(found) = settle::intent(settled.stored.as_ref(), settled.since) {
            // Its own, which was stored though the answer got lost.
            return Ok(Some(found));
        }
        let entry = settled.entry();
        let mut held = Held::of(entry);
        for (index, operation) in self.on_key(group) {
            if !held.meets(operation) {
                let version = entry.map(|entry| entry.version.clone());
                return Err(Stop::NotApplied(index, version));
            }
            held = Held::after(operation);
        }
        let timestamp = self.calls.store.timestamp();
        let (condition, token, raised) = match &settled.stored {
            None => (Condition::IfAbsent, timestamp, None),
            Some(stored) => {
                let mut token = above(&stored.version, &timestamp);
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
            // With the version that raising the fence gave it, so that readers see versions rise.
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
            SetOutcome::Applied { version } => Some(Found {
                intent,
                version,
                since: settled.since,
            }),
            SetOutcome::NotApplied { .. } => None,
        })
    }

    /// These operations, with their places in the transaction.
    fn on_key<'g>(
        &self,
        group: &'g [usize],
    ) -> impl Iterator<Item = (usize, &'a TransactionOperation)> + use<'a, 'g, S> {
        let operations = self.operations;
        group
            .iter()
            .filter_map(|index| Some((*index, operations.get(*index)?)))
    }

    async fn set(&self, set: Set<'_>, since: Duration) -> Result<SetOutcome, Stop> {
        let timeout = self.calls.left_since(since);
        let outcome = self.calls.store.set(set, timeout).await;
        outcome.map_err(Stop::Failed)
    }

    /// Writes into the register that the transaction is carried out, unless somebody wrote that it is not.
    async fn decide(&self) -> Decided {
        let keys = self.placed.iter().map(|(key, _)| key.clone());
        let committed = Record::Decision(Decision::Committed(keys.collect())).encode();
        let register = self.id.register();
        let mut delays = backoff();
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
            let outcome = self.calls.store.set(set, self.calls.left_since(now)).await;
            let known = match outcome {
                Ok(SetOutcome::Applied { .. }) => return Decided::Committed(since),
                // Its own first SET may have been applied though the answer got lost.
                Ok(SetOutcome::NotApplied { .. }) => {
                    is_unknown = true;
                    self.calls.decision(self.id).await
                }
                Err(error) => Err(error),
            };
            let error = match known {
                Ok(Some(Decision::Committed(_) | Decision::Done)) => {
                    return Decided::Committed(since);
                }
                Ok(Some(Decision::Aborted)) => return Decided::Aborted,
                Ok(None) => {
                    let action = format!("deciding transaction {}", self.id);
                    let reason = "its register was deleted";
                    let kind = ErrorKind::InvalidResponse;
                    return Decided::Unknown(Error::new(kind, Outcome::Unknown, action, reason));
                }
                Err(error) => error,
            };
            is_unknown |= error.outcome() == Outcome::Unknown;
            if self.calls.left().is_zero() || !may_pass(&error) {
                return if is_unknown {
                    Decided::Unknown(error)
                } else {
                    Decided::Refused(error)
                };
            }
            self.calls.rest(&mut delays).await;
        }
    }

    /// Puts the new values in place, as far as there is time. What is left, whoever meets it does.
    async fn finish(self, decided: Duration, groups: &[Vec<usize>]) -> TransactionOutcome {
        let mut versions = vec![None; self.operations.len()];
        let mut is_whole = true;
        for ((key, found), group) in self.placed.iter().zip(groups) {
            // Nobody else can have done it before.
            let since = Found {
                since: decided,
                ..found.clone()
            };
            let version = match self.calls.finish(key, &since, true).await {
                Ok(SetOutcome::Applied { version }) => Some(version),
                _ => self.version_in_place(key, found).await,
            };
            is_whole &= version.is_some();
            let version = version.unwrap_or_else(|| found.version.clone());
            let mut was_there = found.intent.old.is_some();
            for (index, operation) in self.on_key(group) {
                let is_there = Held::after(operation).value.is_some();
                if let Some(place) = versions.get_mut(index)
                    && (was_there || is_there)
                {
                    *place = Some(version.clone());
                }
                was_there = is_there;
            }
        }
        if is_whole {
            // It would only tell others that there is nothing to do.
            let _ = self.calls.note_done(self.id, FORGOTTEN).await;
        }
        TransactionOutcome::Applied(versions)
    }

    /// The version under which somebody else put the new value in place; that of the intent if something newer stands there.
    /// `None` if it may not be in place.
    async fn version_in_place(&self, key: &Bytes, found: &Found) -> Option<Hlc> {
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

    /// Puts the old values back, as far as there is time. It will never be carried out: others who meet the rest abort it.
    async fn restore(&mut self) {
        for (key, found) in std::mem::take(&mut self.placed) {
            let mut found = found;
            if self.calls.left_since(found.since).is_zero() {
                let Ok((stored, since)) = self.calls.get(&key).await else {
                    continue;
                };
                match settle::intent(stored.as_ref(), since) {
                    Some(other) if other.intent.id == self.id => found = other,
                    _ => continue,
                }
            }
            // Whoever meets it does it.
            let _ = self.calls.put(&key, &found, false).await;
        }
    }
}

fn key_of(operation: &TransactionOperation) -> &Bytes {
    match operation {
        TransactionOperation::Set { key, .. } | TransactionOperation::Del { key, .. } => key,
    }
}

/// What a key holds, before or after an operation.
struct Held<'a> {
    value: Option<&'a Bytes>,
    /// None of what the transaction itself sets.
    version: Option<Version>,
    expires_in_ms: Option<NonZeroU64>,
}

impl<'a> Held<'a> {
    fn of(entry: Option<&'a Entry>) -> Self {
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

    /// Whether the condition of an operation is met.
    fn meets(&self, operation: &TransactionOperation) -> bool {
        match operation {
            TransactionOperation::Set { value, options, .. } => match options.condition {
                Condition::Always => true,
                Condition::IfAbsentOrEqual => self.value.is_none_or(|held| held == value),
                Condition::IfVersion(version) => self.version == Some(version),
                // NX, and whatever is not known here: what exists is not overwritten.
                _ => self.value.is_none(),
            },
            TransactionOperation::Del { if_version, .. } => {
                if_version.is_none_or(|version| self.version == Some(version))
            }
        }
    }
}

/// Whether another request may have more luck. A store that refuses is believed at once, while there is time to put back what
/// was there.
fn may_pass(error: &Error) -> bool {
    is_passing(error) && error.service_error().is_none()
}

fn not_done(error: Error) -> Error {
    error.with_outcome(Outcome::NotDone)
}
