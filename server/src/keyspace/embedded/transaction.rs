//! Transactions: every operation is tried on what the ones before it would make of the entries, and only when all of them
//! can be carried out, the entries are changed.
use super::expiry::DEADLINE_BYTES;
use super::packed::{End, Fields, Packed};
use super::prefixes::Prefixes;
use super::room::Growth;
use super::{Embedded, Place, table};
use crate::clock::Now;
use crate::keyspace::rules::{self, Change, Entry, Operation, Outcome, Token, Version};
use crate::keyspace::{Size, Told};
use bytes::Bytes;
use foldhash::quality::RandomState;
use statestore_protocol::{Hlc, Rejection, Reply, Version as Given};
use std::collections::HashMap;
use std::num::NonZeroU64;

/// What an operation of a transaction takes, roughly in nanoseconds.
const STEPS_OF_OPERATION: usize = 350;

/// What the operations tried so far would make of the entries.
struct Plan<'o> {
    /// By key; `None` is what would be absent.
    entries: HashMap<&'o [u8], Option<Planned<'o>>, RandomState>,
    size: Size,
    prefixes: Prefixes,
    floor: Version,
}

/// An entry that a transaction would make.
struct Planned<'o> {
    value: &'o Bytes,
    version: Version,
    token: Option<&'o Hlc>,
    ttl_ms: Option<NonZeroU64>,
    /// What it would take, without its deadline.
    bytes: u64,
}

impl Planned<'_> {
    fn entry(&self) -> Entry<'_> {
        Entry {
            value: self.value,
            version: self.version,
            token: self.token.map(Token::from),
            expires_in_ms: self.ttl_ms.map(NonZeroU64::get),
        }
    }
}

/// An entry as it would be before an operation, and what it takes.
struct Former<'a> {
    entry: Entry<'a>,
    bytes: u64,
}

impl Embedded {
    pub(super) fn transact_all(
        &mut self,
        operations: &[(&Bytes, Operation<'_>)],
        now: Now,
        told: &mut dyn Told,
    ) -> Reply {
        told.worked(operations.len() * STEPS_OF_OPERATION);
        let hashes = operations.iter().map(|(key, _)| self.table.hash(key));
        let hashes = hashes.collect::<Vec<_>>();
        self.table.touch(&hashes);
        for (&(key, _), &hash) in operations.iter().zip(&hashes) {
            if let Some(deadline) = self.deadline_of(hash, key).filter(|it| *it <= now.mono_ms) {
                self.expire_entry(hash, deadline, key, now, told);
            }
        }
        let mut plan = Plan {
            entries: HashMap::with_capacity_and_hasher(operations.len(), RandomState::default()),
            size: self.table_size(),
            prefixes: self.prefixes.clone(),
            floor: self.floor,
        };
        plan.size.bytes = self.bytes();
        let mut changes = Vec::with_capacity(operations.len());
        for (index, ((key, operation), &hash)) in operations.iter().zip(&hashes).enumerate() {
            let outcome = self.plan(&mut plan, key, hash, operation, now);
            if let Some(reason) = rejection(&outcome) {
                let operation = index as u64;
                return Reply::Rejected { operation, reason };
            }
            changes.push(outcome.change);
        }
        for ((&(key, _), &hash), change) in operations.iter().zip(&hashes).zip(&changes) {
            let packed = self.table.get(hash, key);
            let place = Place {
                key,
                hash,
                former: packed.and_then(|packed| packed.key_and_deadline().1),
                is_new: packed.is_none(),
            };
            self.change(&place, change, now, told);
        }
        Reply::Transacted(changes.iter().map(version_of).collect())
    }

    /// What comes of an operation, if those that are planned have been carried out; then it is planned, too.
    fn plan<'o>(
        &self,
        plan: &mut Plan<'o>,
        key: &'o Bytes,
        hash: u64,
        operation: &Operation<'o>,
        now: Now,
    ) -> Outcome<'o> {
        let former = match plan.entries.get(&key[..]) {
            Some(planned) => planned.as_ref().map(|planned| Former {
                entry: planned.entry(),
                bytes: planned.bytes,
            }),
            None => self.table.get(hash, key).map(|packed: &Packed| Former {
                entry: packed.fields().entry(now),
                bytes: table::entry_bytes(packed.len()),
            }),
        };
        let entry = former.as_ref().map(|former| &former.entry);
        let growth = Growth::by(key, entry, operation);
        let fits = |growth: Growth| growth.fits(key, plan.size, self.max(), &plan.prefixes);
        let context = rules::Context {
            wall_ms: now.wall_ms,
            floor: plan.floor,
            has_room: growth.is_none_or(fits),
        };
        let outcome = operation.apply(entry, &context);
        let had_deadline = entry.is_some_and(|entry| entry.expires_in_ms.is_some());
        let bytes = former.map(|former| former.bytes);
        match outcome.change {
            Change::Keep => {}
            Change::Put {
                value,
                version,
                token,
                ttl_ms,
            } => {
                let fields = Fields {
                    key,
                    value,
                    version,
                    token: token.map(Token::from),
                    end: ttl_ms.map(|ttl| End {
                        deadline_ms: now.mono_ms.saturating_add(ttl.get()),
                        since_ms: now.wall_ms,
                    }),
                };
                let planned = Planned {
                    value,
                    version,
                    token,
                    ttl_ms,
                    bytes: table::entry_bytes(fields.packed_len()),
                };
                plan.resize(key, bytes, Some(planned.bytes));
                plan.change_deadlines(had_deadline, ttl_ms.is_some());
                plan.entries.insert(key, Some(planned));
            }
            Change::Remove { version } => {
                plan.resize(key, bytes, None);
                plan.change_deadlines(had_deadline, false);
                plan.floor = plan.floor.max(version);
                plan.entries.insert(key, None);
            }
        }
        outcome
    }
}

impl Plan<'_> {
    /// An entry took so much, and takes so much; `None` is an absent one.
    fn resize(&mut self, key: &[u8], from: Option<u64>, to: Option<u64>) {
        let before = self.size;
        let keys = before.keys + u64::from(to.is_some());
        let bytes = before.bytes + to.unwrap_or(0);
        self.size = Size {
            keys: keys.saturating_sub(from.is_some().into()),
            bytes: bytes.saturating_sub(from.unwrap_or(0)),
        };
        self.prefixes.changed(key, before, self.size);
    }

    fn change_deadlines(&mut self, had: bool, has: bool) {
        let bytes = self.size.bytes + u64::from(has) * DEADLINE_BYTES;
        self.size.bytes = bytes.saturating_sub(u64::from(had) * DEADLINE_BYTES);
    }
}

/// Why a transaction with an operation of this outcome is not carried out.
fn rejection(outcome: &Outcome<'_>) -> Option<Rejection> {
    match &outcome.reply {
        Reply::NotApplied => Some(Rejection::Condition(outcome.version.map(given))),
        Reply::Error(error) => Some(Rejection::Error(error.clone())),
        _ => None,
    }
}

fn version_of(change: &Change<'_>) -> Option<Given> {
    match *change {
        Change::Keep => None,
        Change::Put { version, .. } | Change::Remove { version } => Some(given(version)),
    }
}

fn given((wall_ms, counter): Version) -> Given {
    Given::new(wall_ms, counter)
}
