//! What to do next with what was asked, once it is known what its keys hold: a pure function.
use super::answer;
use super::engine::{Place, Put, Revision, Seen, Unit, bucket_of};
use super::record::{Content, Record, WriteId};
use super::sights::{Remaining, Sights};
use crate::clock::Now;
use crate::keyspace::rules::{self, Change, Context, Token, Version};
use crate::keyspace::{End, OwnedOperation, RequestDigest};
use crate::storage::Expiry;
use bytes::Bytes;
use statestore_protocol::{Rejection, Reply, ServiceError, Version as Given};

/// What is to be done.
#[derive(Debug, Clone)]
pub(super) enum Work {
    /// One operation on the only key.
    Operation(OwnedOperation),
    /// All of these or none, each on the key of this place.
    Transaction(Vec<(usize, OwnedOperation)>),
    /// The record of the only key is over, if it has this revision still: an entry becomes a tombstone, a tombstone goes.
    Finish(Revision),
}

impl Work {
    /// Whether it changes nothing, and nobody wants to know later what it has found: a floor is of no use then.
    pub(super) fn only_looks(&self) -> bool {
        matches!(self, Self::Operation(operation) if operation.only_reads() && !operation.is_eventual())
    }

    /// Whether it may change what somebody has put there.
    pub(super) fn may_change(&self) -> bool {
        match self {
            Self::Operation(operation) => !operation.only_reads(),
            Self::Transaction(_) => true,
            Self::Finish(_) => false,
        }
    }
}

/// What is done next.
#[derive(Debug)]
pub(super) enum Decision {
    /// Nothing is changed.
    Ended(End),
    /// This is to be committed, and then it has ended.
    Commit(Unit, End),
    /// Entries are over: this is to be committed, and then everything begins anew.
    Expire(Unit),
    /// It is not known how much time an entry has left: the keys are to be read again.
    ReadAgain,
}

/// What the operations so far would make of a key.
#[derive(Clone)]
struct State {
    record: Option<Record>,
    /// `None` if it does not end.
    left_ms: Option<u64>,
    floor: Version,
    /// The place of the last operation that changed it.
    changed_by: Option<usize>,
}

/// Where and when is decided.
pub(super) struct Circumstances<'a> {
    pub(super) keys: &'a [Bytes],
    pub(super) seen: &'a [Seen],
    pub(super) sights: &'a Sights,
    pub(super) stamps: Stamps,
    pub(super) write: WriteId,
}

/// What is put on what is changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamps {
    pub(super) now: Now,
    /// Whether versions may be made of the clock of this node.
    pub(super) may_stamp: bool,
    /// What the wall clock of some node may show that is ahead: an end is written so that it is not early for anybody.
    pub(super) latest_ms: u64,
}

impl Circumstances<'_> {
    /// What comes next, if the answer to the request has to be kept: with the changes, or alone.
    pub(super) fn decide_for_all(&self, work: &Work, request: RequestDigest) -> Decision {
        let (mut unit, end) = match self.decide(work) {
            Decision::Ended(end) => (self.unit(Vec::new()), end),
            Decision::Commit(unit, end) => (unit, end),
            other @ (Decision::Expire(_) | Decision::ReadAgain) => return other,
        };
        if let Some(answer) = answer::encode(&end) {
            let place = Place::Answer(request);
            unit.compares.push((place.clone(), Revision(0)));
            unit.puts.push((place, Put::Answer(answer)));
        }
        Decision::Commit(unit, end)
    }

    pub(super) fn decide(&self, work: &Work) -> Decision {
        if let Work::Finish(revision) = work {
            return self.finish(*revision);
        }
        let over = self.over();
        if !over.is_empty() {
            return Decision::Expire(self.unit(over));
        }
        let Some(mut states) = self.states() else {
            return Decision::ReadAgain;
        };
        let end = match work {
            Work::Operation(operation) => self.operate(operation, &mut states[0]),
            Work::Transaction(operations) => self.transact(operations, &mut states),
            Work::Finish(_) => return Decision::Ended(End::Unknown),
        };
        // Changes of one moment are told in the order of the puts.
        let changed = states.into_iter().enumerate();
        let changed = changed.filter_map(|(key, it)| Some((it.changed_by?, (key, it.record?))));
        let mut changed: Vec<_> = changed.collect();
        changed.sort_by_key(|(operation, _)| *operation);
        let puts: Vec<_> = changed.into_iter().map(|(_, put)| put).collect();
        if puts.is_empty() {
            return Decision::Ended(end);
        }
        if !self.stamps.may_stamp {
            return Decision::Ended(clock_is_wrong());
        }
        Decision::Commit(self.unit(puts), end)
    }

    /// The tombstones of the entries whose time is over.
    fn over(&self) -> Vec<(usize, Record)> {
        let seen = self.seen.iter().zip(self.keys).enumerate();
        let over = seen.filter_map(|(index, (seen, key))| {
            let (record, revision) = seen.record.as_ref()?;
            let is_over =
                record.is_entry() && self.remaining(key, record, *revision) == Remaining::Ms(0);
            is_over.then(|| (index, self.tombstone(record)))
        });
        over.collect()
    }

    fn remaining(&self, key: &[u8], record: &Record, revision: Revision) -> Remaining {
        let seen = (record, revision);
        self.sights.remaining(key, seen, self.stamps.now)
    }

    fn tombstone(&self, record: &Record) -> Record {
        // An end has to be told, whatever the clock shows.
        let wall_ms = if self.stamps.may_stamp {
            self.stamps.now.wall_ms
        } else {
            0
        };
        Record {
            version: rules::deletion_version(record.version, wall_ms),
            write: self.write,
            content: Content::Tombstone,
        }
    }

    /// The keys as they are; nothing if it is not known how much time one of them has left.
    fn states(&self) -> Option<Vec<State>> {
        let states = self.seen.iter().zip(self.keys).map(|(seen, key)| {
            let mut left_ms = None;
            if let Some((record, revision)) = &seen.record
                && record.is_entry()
            {
                left_ms = match self.remaining(key, record, *revision) {
                    Remaining::Endless => None,
                    Remaining::Ms(ms) => Some(ms),
                    Remaining::Unknown => return None,
                };
            }
            Some(State {
                record: seen.record.as_ref().map(|(record, _)| record.clone()),
                left_ms,
                floor: seen.floor.0,
                changed_by: None,
            })
        });
        states.collect()
    }

    fn operate(&self, operation: &OwnedOperation, state: &mut State) -> End {
        let Applied { reply, version, .. } = self.apply(0, operation, state);
        End::Answered { reply, version }
    }

    fn transact(&self, operations: &[(usize, OwnedOperation)], states: &mut [State]) -> End {
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
                return End::reply(Reply::Rejected { operation, reason });
            }
            versions.push(outcome.changed.map(given));
        }
        End::reply(Reply::Transacted(versions))
    }

    /// Carries an operation out on what the ones before it made.
    fn apply(&self, place: usize, operation: &OwnedOperation, state: &mut State) -> Applied {
        let entry = match &state.record {
            Some(Record {
                version,
                content: Content::Entry { value, token, .. },
                ..
            }) => Some(rules::Entry {
                value,
                version: *version,
                token: token.as_ref().map(Token::from),
                expires_in_ms: state.left_ms,
            }),
            _ => None,
        };
        let tombstone = state.record.as_ref().map_or((0, 0), |it| it.version);
        let circumstances = Context {
            wall_ms: self.stamps.now.wall_ms,
            floor: state.floor.max(tombstone),
            has_room: true,
        };
        let operation = operation.borrowed();
        let rules::Outcome {
            reply,
            version,
            change,
        } = operation.apply(entry.as_ref(), &circumstances);
        let (version_of_change, made, ttl_ms) = match change {
            Change::Keep => {
                return Applied {
                    reply,
                    version,
                    changed: None,
                };
            }
            Change::Put {
                value,
                version,
                token,
                ttl_ms,
            } => {
                let expiry = ttl_ms.map(|ttl| Expiry {
                    at_wall_ms: self.stamps.latest_ms.saturating_add(ttl.get()),
                    ttl_ms: ttl.get(),
                });
                let made = Content::Entry {
                    value: value.clone(),
                    token: token.cloned(),
                    expiry,
                };
                (version, made, ttl_ms.map(std::num::NonZeroU64::get))
            }
            Change::Remove { version } => (version, Content::Tombstone, None),
        };
        state.record = Some(Record {
            version: version_of_change,
            write: self.write,
            content: made,
        });
        state.left_ms = ttl_ms;
        state.changed_by = Some(place);
        Applied {
            reply,
            version,
            changed: Some(version_of_change),
        }
    }

    /// All places that were looked at are compared; these records are put.
    fn unit(&self, puts: Vec<(usize, Record)>) -> Unit {
        let mut compares = Vec::with_capacity(2 * self.keys.len());
        for (key, seen) in self.keys.iter().zip(self.seen) {
            let revision = seen.record.as_ref().map_or(Revision(0), |(_, it)| *it);
            compares.push((Place::Entry(key.clone()), revision));
            // While the floor stays, no tombstone was purged that said more of the key than the floor does.
            let floor = (Place::Floor(bucket_of(key)), seen.floor.1);
            if seen.record.is_none() && !compares.contains(&floor) {
                compares.push(floor);
            }
        }
        let puts = puts.into_iter().map(|(index, record)| {
            let place = Place::Entry(self.keys[index].clone());
            (place, Put::Record(record))
        });
        Unit {
            compares,
            puts: puts.collect(),
        }
    }

    fn finish(&self, revision: Revision) -> Decision {
        let nothing = End::Expired;
        let (Some(seen), Some(key)) = (self.seen.first(), self.keys.first()) else {
            return Decision::Ended(nothing);
        };
        let Some((record, is)) = &seen.record else {
            return Decision::Ended(nothing);
        };
        let is_over = self.remaining(key, record, *is) == Remaining::Ms(0);
        if *is != revision || !is_over {
            return Decision::Ended(nothing);
        }
        if record.is_entry() {
            let unit = self.unit(vec![(0, self.tombstone(record))]);
            return Decision::Commit(unit, nothing);
        }
        // Both are compared: of two who purge at the same time, one would lower the floor again.
        let entry = Place::Entry(key.clone());
        let floor = Place::Floor(bucket_of(key));
        let unit = Unit {
            compares: vec![(entry.clone(), revision), (floor.clone(), seen.floor.1)],
            puts: vec![
                (entry, Put::Nothing),
                (floor, Put::Floor(seen.floor.0.max(record.version))),
            ],
        };
        Decision::Commit(unit, nothing)
    }
}

/// What a read of a key answers that holds this; nothing if its time is over, or it is not known when that is.
pub(super) fn look(
    (key, seen): (&Bytes, &Seen),
    remaining: bool,
    sights: &Sights,
    now: Now,
) -> Option<End> {
    let mut entry = None;
    if let Some((record, revision)) = &seen.record
        && let Content::Entry { value, token, .. } = &record.content
    {
        let expires_in_ms = match sights.remaining(key, (record, *revision), now) {
            Remaining::Endless => None,
            Remaining::Ms(0) | Remaining::Unknown => return None,
            Remaining::Ms(ms) => Some(ms),
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
        has_room: true,
    };
    let rules::Outcome { reply, version, .. } = read.apply(entry.as_ref(), &context);
    Some(End::Answered { reply, version })
}

/// What an operation answers, and the version of what it changed.
struct Applied {
    reply: Reply,
    version: Option<Version>,
    changed: Option<Version>,
}

/// The answer to what would be stamped with a clock that is wrong.
fn clock_is_wrong() -> End {
    End::reply(Reply::Error(ServiceError::TimestampSkew))
}

/// The answer to what an engine refuses for good.
pub(super) fn refusal(error: &super::EngineError) -> End {
    End::reply(Reply::Error(match error {
        super::EngineError::Full => ServiceError::QuotaExceeded,
        other => ServiceError::Other(other.to_string().into()),
    }))
}
