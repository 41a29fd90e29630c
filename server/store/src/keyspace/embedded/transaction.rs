//! Transactions: each operation is planned on the entries as the operations before it would leave them. The entries change only
//! if all operations can be executed.
use super::expiry_index::DEADLINE_BYTES;
use super::packed_entry::{EntryExpiry, EntryFields, PackedEntry};
use super::prefix_limits::PrefixLimits;
use super::size_growth::SizeGrowth;
use super::{ChangeTarget, EmbeddedKeyspace, table};
use crate::keyspace::rules::{self, Entry, EntryChange, Operation, Outcome, Token, Version};
use crate::keyspace::{EventSink, Quota, Size};
use bytes::Bytes;
use foldhash::quality::RandomState;
use statestore_protocol::{Hlc, Rejection, Reply, Version as Given};
use statestored_common::ClockReading;
use std::collections::HashMap;
use std::num::NonZeroU64;

/// Work of an operation of a transaction, roughly in nanoseconds.
const OPERATION_STEPS: usize = 350;

/// The combined effect of the operations planned so far.
struct TransactionPlan<'o> {
    /// Planned entries by key; a `None` value is an absent entry. The map is `None` if no two hashes of keys are equal.
    entries: Option<HashMap<&'o [u8], Option<PlannedEntry<'o>>, RandomState>>,
    size: Size,
    prefixes: PrefixLimits,
    floor: Version,
    /// The quota that the last planned operation exceeds.
    exceeded_quota: Option<Quota>,
}

/// An entry that a transaction would make.
struct PlannedEntry<'o> {
    value: &'o Bytes,
    version: Version,
    token: Option<&'o Hlc>,
    ttl_ms: Option<NonZeroU64>,
    /// Memory that the entry would take, without its deadline.
    bytes: u64,
}

impl PlannedEntry<'_> {
    fn entry(&self) -> Entry<'_> {
        Entry {
            value: self.value,
            version: self.version,
            token: self.token.map(Token::from),
            expires_in_ms: self.ttl_ms.map(NonZeroU64::get),
        }
    }
}

/// An entry as it would be before an operation, and its memory without a deadline.
struct PreviousEntry<'a> {
    entry: Entry<'a>,
    bytes: u64,
}

/// The state of an entry before a change.
#[derive(Clone, Copy)]
struct PreviousState {
    is_absent: bool,
    deadline_ms: Option<u64>,
}

impl PreviousState {
    fn of(fields: Option<&EntryFields<'_>>) -> Self {
        Self {
            is_absent: fields.is_none(),
            deadline_ms: fields.and_then(EntryFields::deadline_ms),
        }
    }
}

impl EmbeddedKeyspace {
    pub(super) fn transact_all(
        &mut self,
        operations: &[(&Bytes, Operation<'_>)],
        now: ClockReading,
        events: &mut dyn EventSink,
    ) -> Reply {
        events.add_work(operations.len() * OPERATION_STEPS);
        let hashes = operations.iter().map(|(key, _)| self.table.hash(key));
        let hashes = hashes.collect::<Vec<_>>();
        self.table.prefetch(&hashes);
        for (&(key, _), &hash) in operations.iter().zip(&hashes) {
            if let Some(deadline) = self.deadline_of(hash, key).filter(|it| *it <= now.mono_ms) {
                self.expire_entry(hash, deadline, key, now, events);
            }
        }
        let mut plan = TransactionPlan {
            entries: has_duplicates(&hashes).then(HashMap::default),
            size: self.table_size(),
            prefixes: self.prefixes.clone(),
            floor: self.floor,
            exceeded_quota: None,
        };
        plan.size.bytes = self.bytes();
        let mut changes = Vec::with_capacity(operations.len());
        for (index, ((key, operation), &hash)) in operations.iter().zip(&hashes).enumerate() {
            let (outcome, was) = self.plan_operation(&mut plan, key, hash, operation, now);
            if let Some(reason) = rejection(&outcome) {
                self.exceeded_quota = plan.exceeded_quota;
                let operation = index as u64;
                return Reply::Rejected { operation, reason };
            }
            changes.push((outcome.change, was));
        }
        let is_each_alone = plan.entries.is_none();
        for ((&(key, _), &hash), (change, was)) in operations.iter().zip(&hashes).zip(&changes) {
            let was = if is_each_alone {
                *was
            } else {
                PreviousState::of(self.table.get(hash, key).map(PackedEntry::fields).as_ref())
            };
            let place = ChangeTarget {
                key,
                hash,
                former_deadline_ms: was.deadline_ms,
                is_new: was.is_absent,
            };
            self.change(&place, change, now, events);
        }
        let versions = changes.iter().map(|(change, _)| version_of(change));
        Reply::Transacted(versions.collect())
    }

    /// Plans an operation on top of those planned before, and returns its outcome. Also returns the present state of the entry,
    /// which is valid only if no other operation has the same key.
    fn plan_operation<'o>(
        &self,
        plan: &mut TransactionPlan<'o>,
        key: &'o Bytes,
        hash: u64,
        operation: &Operation<'o>,
        now: ClockReading,
    ) -> (Outcome<'o>, PreviousState) {
        let mut was = PreviousState::of(None);
        let planned = plan.entries.as_ref().and_then(|it| it.get(&key[..]));
        let former = match planned {
            Some(planned) => planned.as_ref().map(|planned| PreviousEntry {
                entry: planned.entry(),
                bytes: planned.bytes,
            }),
            None => self.table.get(hash, key).map(|packed| {
                let fields = packed.fields();
                was = PreviousState::of(Some(&fields));
                PreviousEntry {
                    entry: fields.entry(now),
                    bytes: table::entry_bytes(packed.len()),
                }
            }),
        };
        let entry = former.as_ref().map(|former| &former.entry);
        let growth = SizeGrowth::by(key, entry, operation);
        let exceeded = growth
            .and_then(|growth| self.quota_exceeded_by(growth, key, plan.size, &plan.prefixes));
        let context = rules::Context {
            wall_ms: now.wall_ms,
            floor: plan.floor,
            has_capacity: exceeded.is_none(),
        };
        let outcome = operation.apply(entry, &context);
        plan.exceeded_quota = exceeded;
        let had_deadline = entry.is_some_and(|entry| entry.expires_in_ms.is_some());
        let bytes = former.map(|former| former.bytes);
        match outcome.change {
            EntryChange::Keep => {}
            EntryChange::Put {
                value,
                version,
                token,
                ttl_ms,
            } => {
                let fields = EntryFields {
                    key,
                    value,
                    version,
                    token: token.map(Token::from),
                    expiry: ttl_ms.map(|ttl| EntryExpiry {
                        deadline_ms: now.mono_ms.saturating_add(ttl.get()),
                        since_ms: now.wall_ms,
                    }),
                };
                let planned = PlannedEntry {
                    value,
                    version,
                    token,
                    ttl_ms,
                    bytes: table::entry_bytes(fields.packed_len()),
                };
                plan.resize(key, hash, bytes, Some(planned.bytes));
                plan.change_deadlines(had_deadline, ttl_ms.is_some());
                plan.set_planned(key, Some(planned));
            }
            EntryChange::Remove { version } => {
                plan.resize(key, hash, bytes, None);
                plan.change_deadlines(had_deadline, false);
                plan.floor = plan.floor.max(version);
                plan.set_planned(key, None);
            }
        }
        (outcome, was)
    }
}

impl<'o> TransactionPlan<'o> {
    fn set_planned(&mut self, key: &'o [u8], planned: Option<PlannedEntry<'o>>) {
        if let Some(entries) = &mut self.entries {
            entries.insert(key, planned);
        }
    }

    /// Accounts for an entry that changes its memory; `None` is an absent entry.
    fn resize(&mut self, key: &[u8], hash: u64, from: Option<u64>, to: Option<u64>) {
        let before = self.size;
        let keys = before.keys + u64::from(to.is_some());
        let bytes = before.bytes + to.unwrap_or(0);
        self.size = Size {
            keys: keys.saturating_sub(from.is_some().into()),
            bytes: bytes.saturating_sub(from.unwrap_or(0)),
        };
        self.prefixes.record_change(key, hash, before, self.size);
    }

    fn change_deadlines(&mut self, had: bool, has: bool) {
        let bytes = self.size.bytes + u64::from(has) * DEADLINE_BYTES;
        self.size.bytes = bytes.saturating_sub(u64::from(had) * DEADLINE_BYTES);
    }
}

/// Returns whether any two hashes are equal.
fn has_duplicates(hashes: &[u64]) -> bool {
    /// Number of hashes from which sorting is faster than comparing all pairs.
    const MANY: usize = 24;
    if hashes.len() < MANY {
        let mut rest = hashes;
        while let Some((first, behind)) = rest.split_first() {
            if behind.contains(first) {
                return true;
            }
            rest = behind;
        }
        return false;
    }
    let mut sorted = hashes.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// Returns the reason for which an operation with this outcome rejects its transaction.
fn rejection(outcome: &Outcome<'_>) -> Option<Rejection> {
    match &outcome.reply {
        Reply::NotApplied => Some(Rejection::Condition(outcome.version.map(protocol_version))),
        Reply::Error(error) => Some(Rejection::Error(error.clone())),
        _ => None,
    }
}

fn version_of(change: &EntryChange<'_>) -> Option<Given> {
    match *change {
        EntryChange::Keep => None,
        EntryChange::Put { version, .. } | EntryChange::Remove { version } => {
            Some(protocol_version(version))
        }
    }
}

fn protocol_version((wall_ms, counter): Version) -> Given {
    Given::new(wall_ms, counter)
}
