//! Decides the next step of a task from the state of its keys: a pure function.
use super::engine::{EngineCommit, EngineKey, EngineValue, KeyState, Revision, bucket_of};
use super::expiry_index::{ExpiryIndex, RemainingTime};
use super::record::{Record, RecordContent, WriteId};
use super::stored_reply;
use bytes::Bytes;
use statestore_protocol::{Rejection, Reply, ServiceError, Version as Given};
use statestored_common::ClockReading;
use statestored_storage::Expiry;
use statestored_store::keyspace::rules::{self, Context, EntryChange, Token, Version};
use statestored_store::keyspace::{Completion, EntryList, OwnedOperation, RequestDigest};

/// Maximum number of expired entries that one commit of a read removes.
const MAX_REMOVALS: usize = 50;

/// The work of a task.
#[derive(Debug, Clone)]
pub(super) enum TaskAction {
    /// A single operation on the only key.
    Operation(OwnedOperation),
    /// All of these operations or none, each on the key at this index.
    Transaction(Vec<(usize, OwnedOperation)>),
    /// A read of the keys at these indices.
    GetMany {
        places: Vec<usize>,
        max_reply_bytes: usize,
    },
    /// Removes the expired record of the only key if it still has this revision: an entry becomes a tombstone, a
    /// tombstone is purged.
    RemoveExpired(Revision),
}

impl TaskAction {
    /// Returns whether the work changes nothing, and its result is not kept for later eventual reads. The floor is not
    /// needed then.
    pub(super) fn is_read(&self) -> bool {
        match self {
            Self::Operation(operation) => operation.is_read() && !operation.is_eventual(),
            Self::GetMany { .. } => true,
            Self::Transaction(_) | Self::RemoveExpired(_) => false,
        }
    }

    /// Returns whether the work may change an entry's content.
    pub(super) fn may_change(&self) -> bool {
        match self {
            Self::Operation(operation) => !operation.is_read(),
            Self::Transaction(_) => true,
            Self::GetMany { .. } | Self::RemoveExpired(_) => false,
        }
    }
}

/// The next step of a task.
#[derive(Debug)]
pub(super) enum Decision {
    /// End with this outcome, without changes.
    Complete(Completion),
    /// Commit this unit, and end with this outcome.
    Commit(EngineCommit, Completion),
    /// Commit this unit, which removes expired entries, and start again.
    Expire(EngineCommit),
    /// Read the keys again, because the remaining time of an entry is unknown.
    ReadAgain,
}

/// The state of a key after the operations so far.
#[derive(Clone)]
struct PlannedState {
    record: Option<Record>,
    /// The remaining time in milliseconds; `None` if the entry does not expire.
    remaining_ms: Option<u64>,
    floor: Version,
    /// The index of the last operation that changed the key.
    changed_by: Option<usize>,
}

/// The state and time on which a decision is based.
pub(super) struct PlanContext<'a> {
    pub(super) keys: &'a [Bytes],
    pub(super) states: &'a [KeyState],
    pub(super) expiry_index: &'a ExpiryIndex,
    pub(super) clock: VersionClock,
    pub(super) write: WriteId,
}

/// The time and versions of changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct VersionClock {
    pub(super) now: ClockReading,
    /// Whether versions may be made of this node's clock.
    pub(super) may_assign_versions: bool,
    /// The latest time that any node's wall clock may show. Expiry times are written so that no node ends an entry too
    /// early.
    pub(super) latest_ms: u64,
}

impl PlanContext<'_> {
    /// Decides the next step for a request whose answer is kept, with the changes or alone.
    pub(super) fn decide_with_reply(&self, work: &TaskAction, request: RequestDigest) -> Decision {
        let (mut unit, end) = match self.decide(work) {
            Decision::Complete(end) => (self.commit(Vec::new()), end),
            Decision::Commit(unit, end) => (unit, end),
            other @ (Decision::Expire(_) | Decision::ReadAgain) => return other,
        };
        if let Some(answer) = stored_reply::encode(&end) {
            let place = EngineKey::Reply(request);
            unit.compares.push((place.clone(), Revision(0)));
            unit.puts.push((place, EngineValue::Reply(answer)));
        }
        Decision::Commit(unit, end)
    }

    pub(super) fn decide(&self, work: &TaskAction) -> Decision {
        if let TaskAction::RemoveExpired(revision) = work {
            return self.remove_expired(*revision);
        }
        let over = self.expired_tombstones();
        if !over.is_empty() {
            return Decision::Expire(match work {
                TaskAction::GetMany { .. } => self.removal(over),
                _ => self.commit(over),
            });
        }
        let Some(mut states) = self.planned_states() else {
            return Decision::ReadAgain;
        };
        let end = match work {
            TaskAction::Operation(operation) => self.operate(operation, &mut states[0]),
            TaskAction::Transaction(operations) => self.transact(operations, &mut states),
            TaskAction::GetMany {
                places,
                max_reply_bytes,
            } => get_many(places, *max_reply_bytes, &states),
            TaskAction::RemoveExpired(_) => return Decision::Complete(Completion::Unknown),
        };
        // Changes of one moment are reported in the order of the puts.
        let changed = states.into_iter().enumerate();
        let changed = changed.filter_map(|(key, it)| Some((it.changed_by?, (key, it.record?))));
        let mut changed: Vec<_> = changed.collect();
        changed.sort_by_key(|(operation, _)| *operation);
        let puts: Vec<_> = changed.into_iter().map(|(_, put)| put).collect();
        if puts.is_empty() {
            return Decision::Complete(end);
        }
        if !self.clock.may_assign_versions {
            return Decision::Complete(clock_rejection());
        }
        Decision::Commit(self.commit(puts), end)
    }

    /// Returns the tombstones of the expired entries.
    fn expired_tombstones(&self) -> Vec<(usize, Record)> {
        let seen = self.states.iter().zip(self.keys).enumerate();
        let over = seen.filter_map(|(index, (seen, key))| {
            let (record, revision) = seen.record.as_ref()?;
            let is_over =
                record.is_entry() && self.remaining(key, record, *revision) == RemainingTime::Ms(0);
            is_over.then(|| (index, self.tombstone(record)))
        });
        over.collect()
    }

    fn remaining(&self, key: &[u8], record: &Record, revision: Revision) -> RemainingTime {
        let seen = (record, revision);
        self.expiry_index.remaining(key, seen, self.clock.now)
    }

    fn tombstone(&self, record: &Record) -> Record {
        // The end of an entry has to be reported, whatever the clock shows.
        let wall_ms = if self.clock.may_assign_versions {
            self.clock.now.wall_ms
        } else {
            0
        };
        Record {
            version: rules::deletion_version(record.version, wall_ms),
            write: self.write,
            content: RecordContent::Tombstone,
        }
    }

    /// Returns the states of the keys, or `None` if the remaining time of one is unknown.
    fn planned_states(&self) -> Option<Vec<PlannedState>> {
        let states = self.states.iter().zip(self.keys).map(|(seen, key)| {
            let mut left_ms = None;
            if let Some((record, revision)) = &seen.record
                && record.is_entry()
            {
                left_ms = match self.remaining(key, record, *revision) {
                    RemainingTime::NoExpiry => None,
                    RemainingTime::Ms(ms) => Some(ms),
                    RemainingTime::Unknown => return None,
                };
            }
            Some(PlannedState {
                record: seen.record.as_ref().map(|(record, _)| record.clone()),
                remaining_ms: left_ms,
                floor: seen.floor.0,
                changed_by: None,
            })
        });
        states.collect()
    }

    fn operate(&self, operation: &OwnedOperation, state: &mut PlannedState) -> Completion {
        let AppliedOperation { reply, version, .. } = self.apply(0, operation, state);
        Completion::Answered { reply, version }
    }

    fn transact(
        &self,
        operations: &[(usize, OwnedOperation)],
        states: &mut [PlannedState],
    ) -> Completion {
        let mut versions = Vec::with_capacity(operations.len());
        for (index, (key, operation)) in operations.iter().enumerate() {
            let outcome = self.apply(index, operation, &mut states[*key]);
            let given = |(wall_ms, counter): Version| Given::new(wall_ms, counter);
            let reason = match outcome.reply {
                Reply::NotApplied => Some(Rejection::Condition(outcome.version.map(given))),
                Reply::Error(error) => Some(Rejection::Error(error)),
                _ => None,
            };
            if let Some(reason) = reason {
                for state in states.iter_mut() {
                    state.changed_by = None;
                }
                let operation = index as u64;
                return Completion::reply(Reply::Rejected { operation, reason });
            }
            versions.push(outcome.changed.map(given));
        }
        Completion::reply(Reply::Transacted(versions))
    }

    /// Applies an operation to the result of the ones before it.
    fn apply(
        &self,
        place: usize,
        operation: &OwnedOperation,
        state: &mut PlannedState,
    ) -> AppliedOperation {
        let entry = match &state.record {
            Some(Record {
                version,
                content: RecordContent::Entry { value, token, .. },
                ..
            }) => Some(rules::Entry {
                value,
                version: *version,
                token: token.as_ref().map(Token::from),
                expires_in_ms: state.remaining_ms,
            }),
            _ => None,
        };
        let tombstone = state.record.as_ref().map_or((0, 0), |it| it.version);
        let circumstances = Context {
            wall_ms: self.clock.now.wall_ms,
            floor: state.floor.max(tombstone),
            has_capacity: true,
        };
        let operation = operation.borrowed();
        let rules::Outcome {
            reply,
            version,
            change,
        } = operation.apply(entry.as_ref(), &circumstances);
        let (version_of_change, made, ttl_ms) = match change {
            EntryChange::Keep => {
                return AppliedOperation {
                    reply,
                    version,
                    changed: None,
                };
            }
            EntryChange::Put {
                value,
                version,
                token,
                ttl_ms,
            } => {
                let expiry = ttl_ms.map(|ttl| Expiry {
                    at_wall_ms: self.clock.latest_ms.saturating_add(ttl.get()),
                    ttl_ms: ttl.get(),
                });
                let made = RecordContent::Entry {
                    value: value.clone(),
                    token: token.cloned(),
                    expiry,
                };
                (version, made, ttl_ms.map(std::num::NonZeroU64::get))
            }
            EntryChange::Remove { version } => (version, RecordContent::Tombstone, None),
        };
        state.record = Some(Record {
            version: version_of_change,
            write: self.write,
            content: made,
        });
        state.remaining_ms = ttl_ms;
        state.changed_by = Some(place);
        AppliedOperation {
            reply,
            version,
            changed: Some(version_of_change),
        }
    }

    /// Returns a unit that puts these records and compares all engine keys that were read.
    fn commit(&self, puts: Vec<(usize, Record)>) -> EngineCommit {
        let mut compares = Vec::with_capacity(2 * self.keys.len());
        for (key, seen) in self.keys.iter().zip(self.states) {
            let revision = seen.record.as_ref().map_or(Revision(0), |(_, it)| *it);
            compares.push((EngineKey::Entry(key.clone()), revision));
            // While the floor is unchanged, no tombstone was purged whose version is above the floor.
            let floor = (EngineKey::Floor(bucket_of(key)), seen.floor.1);
            if seen.record.is_none() && !compares.contains(&floor) {
                compares.push(floor);
            }
        }
        EngineCommit {
            compares,
            puts: self.puts(puts),
        }
    }

    /// Returns a unit that puts the first of these tombstones and compares their entries only.
    fn removal(&self, mut tombstones: Vec<(usize, Record)>) -> EngineCommit {
        tombstones.truncate(MAX_REMOVALS);
        let compares = tombstones.iter().map(|(index, _)| {
            let record = self.states[*index].record.as_ref();
            let revision = record.map_or(Revision(0), |(_, it)| *it);
            (EngineKey::Entry(self.keys[*index].clone()), revision)
        });
        EngineCommit {
            compares: compares.collect(),
            puts: self.puts(tombstones),
        }
    }

    fn puts(&self, records: Vec<(usize, Record)>) -> Vec<(EngineKey, EngineValue)> {
        let puts = records.into_iter().map(|(index, record)| {
            let place = EngineKey::Entry(self.keys[index].clone());
            (place, EngineValue::Record(record))
        });
        puts.collect()
    }

    fn remove_expired(&self, revision: Revision) -> Decision {
        let nothing = Completion::Expired;
        let (Some(seen), Some(key)) = (self.states.first(), self.keys.first()) else {
            return Decision::Complete(nothing);
        };
        let Some((record, is)) = &seen.record else {
            return Decision::Complete(nothing);
        };
        let is_over = self.remaining(key, record, *is) == RemainingTime::Ms(0);
        if *is != revision || !is_over {
            return Decision::Complete(nothing);
        }
        if record.is_entry() {
            let unit = self.commit(vec![(0, self.tombstone(record))]);
            return Decision::Commit(unit, nothing);
        }
        // Both are compared: if two nodes purge at the same time, one would otherwise lower the floor again.
        let entry = EngineKey::Entry(key.clone());
        let floor = EngineKey::Floor(bucket_of(key));
        let unit = EngineCommit {
            compares: vec![(entry.clone(), revision), (floor.clone(), seen.floor.1)],
            puts: vec![
                (entry, EngineValue::Absent),
                (floor, EngineValue::Floor(seen.floor.0.max(record.version))),
            ],
        };
        Decision::Commit(unit, nothing)
    }
}

/// Returns the entries of the first keys at these indices, as many as fit.
fn get_many(places: &[usize], max_reply_bytes: usize, states: &[PlannedState]) -> Completion {
    let mut list = EntryList::new(places.len(), max_reply_bytes);
    for place in places {
        let Some(state) = states.get(*place) else {
            // The engine has left out the last keys.
            break;
        };
        let entry = match &state.record {
            Some(Record {
                version,
                content: RecordContent::Entry { value, .. },
                ..
            }) => Some((value.clone(), *version)),
            _ => None,
        };
        if !list.has_room(entry.as_ref().map(|(value, _)| value.len())) {
            break;
        }
        list.push(entry);
    }
    Completion::reply(list.into_reply())
}

/// Returns the outcome of a read of a key in this state, or `None` if the entry has expired or its remaining time is
/// unknown.
pub(super) fn read_outcome(
    (key, seen): (&Bytes, &KeyState),
    remaining: bool,
    sights: &ExpiryIndex,
    now: ClockReading,
) -> Option<Completion> {
    let mut entry = None;
    if let Some((record, revision)) = &seen.record
        && let RecordContent::Entry { value, token, .. } = &record.content
    {
        let expires_in_ms = match sights.remaining(key, (record, *revision), now) {
            RemainingTime::NoExpiry => None,
            RemainingTime::Ms(0) | RemainingTime::Unknown => return None,
            RemainingTime::Ms(ms) => Some(ms),
        };
        entry = Some(rules::Entry {
            value,
            version: record.version,
            token: token.as_ref().map(Token::from),
            expires_in_ms,
        });
    }
    let read = rules::Operation::Get {
        remaining,
        eventual: false,
    };
    let context = Context {
        wall_ms: now.wall_ms,
        // A read makes no version.
        floor: (0, 0),
        has_capacity: true,
    };
    let rules::Outcome { reply, version, .. } = read.apply(entry.as_ref(), &context);
    Some(Completion::Answered { reply, version })
}

/// The reply to an operation, and the version of its change.
struct AppliedOperation {
    reply: Reply,
    version: Option<Version>,
    changed: Option<Version>,
}

/// Returns the outcome of a request that needs a version while the clock is wrong.
fn clock_rejection() -> Completion {
    Completion::reply(Reply::Error(ServiceError::TimestampSkew))
}

/// Returns the outcome of a request that an engine refuses permanently.
pub(super) fn rejection(error: &super::EngineError) -> Completion {
    Completion::reply(Reply::Error(match error {
        super::EngineError::Full => ServiceError::QuotaExceeded,
        other => ServiceError::Other(other.to_string().into()),
    }))
}
