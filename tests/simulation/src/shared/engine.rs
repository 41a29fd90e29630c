//! A shared engine with the documented behaviour of etcd: compare-and-swap of many keys, consistent reads, changes in order. It
//! can also lose acknowledged changes.
use bytes::Bytes;
use statestored_shared::{
    ClockReadings, CommitOutcome, EngineCommit, EngineKey, EngineValue, KeyState, KeyedRecord,
    Record, RecordPage, Revision, UNKNOWN_FLOOR, bucket_of,
};
use statestored_store::keyspace::RequestDigest;
use statestored_store::keyspace::rules::Version;
use std::collections::BTreeMap;

/// Time of the wall clocks at the start.
pub(crate) const BASE_MS: u64 = 1_700_000_000_000;

/// A rule that is left out, to check that its absence is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// Floors are not compared.
    FloorNotCompared,
    /// A purge does not compare the floor.
    PurgeWithoutFloor,
    /// A lost watch is not noticed: it continues with later changes.
    GapUnnoticed,
    /// A snapshot lacks the entries that expire.
    SnapshotWithoutExpiring,
    /// A commit whose answer is lost is reported as rejected.
    LossReportedAsConflict,
    /// Commits that arrive twice are reported to arrive once.
    ClaimsToSendOnce,
    /// The answers to requests that are delivered again are not compared.
    ReplyNotCompared,
    /// A loss of changes in the engine is reported as a mere gap of the watch.
    ReversionReportedAsGap,
    /// A node whose clock is far ahead still assigns versions.
    WrongClockTrusted,
    /// Nodes do not get the clock readings of the others.
    ClocksNotReported,
}

impl Mutation {
    /// All faults.
    pub const ALL: [Self; 10] = [
        Self::FloorNotCompared,
        Self::PurgeWithoutFloor,
        Self::GapUnnoticed,
        Self::SnapshotWithoutExpiring,
        Self::LossReportedAsConflict,
        Self::ClaimsToSendOnce,
        Self::ReplyNotCompared,
        Self::ReversionReportedAsGap,
        Self::WrongClockTrusted,
        Self::ClocksNotReported,
    ];
}

/// A put, and its time.
#[derive(Debug, Clone)]
pub(crate) struct LogEntry {
    pub(crate) at_ms: u64,
    pub(crate) revision: u64,
    pub(crate) changes: Vec<(EngineKey, EngineValue)>,
}

#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) now_ms: u64,
    pub(super) records: BTreeMap<Bytes, (Bytes, Revision)>,
    floors: BTreeMap<u16, (Version, Revision)>,
    replies: BTreeMap<RequestDigest, Bytes>,
    /// The last clock reading of each node, and when the node reported it.
    clocks: BTreeMap<u128, (u64, u64)>,
    /// Whether the engine reports its own clock, which is right.
    pub(super) has_clock: bool,
    /// Whether the engine reports its revision.
    pub(super) counts_revisions: bool,
    pub(crate) log: Vec<LogEntry>,
    pub(crate) mutation: Option<Mutation>,
    /// Sum of all jumps of the revisions.
    jumped: u64,
}

/// How long the engine keeps the clock reading of a node.
pub(super) const CLOCK_LIFETIME_MS: u64 = 5_000;

/// Jump of the revisions when the engine loses changes.
const JUMP: u64 = 1 << 32;

impl Engine {
    pub(crate) fn new(fault: Option<Mutation>) -> Self {
        Self {
            mutation: fault,
            ..Self::default()
        }
    }

    pub(super) fn revision(&self) -> Revision {
        Revision(self.jumped + self.log.len() as u64)
    }

    /// Drops the last changes, as a replica that takes over does.
    pub(crate) fn lose(&mut self, changes: usize) {
        self.log.truncate(self.log.len().saturating_sub(changes));
        self.jumped += JUMP;
        self.records.clear();
        self.floors.clear();
        self.replies.clear();
        for LogEntry {
            revision, changes, ..
        } in std::mem::take(&mut self.log)
        {
            self.put(&changes, Revision(revision));
            let at_ms = self.now_ms;
            self.log.push(LogEntry {
                at_ms,
                revision,
                changes,
            });
        }
    }

    pub(super) fn floor(&self, bucket: u16) -> (Version, Revision) {
        self.floors.get(&bucket).copied().unwrap_or_default()
    }

    pub(crate) fn record(&self, key: &Bytes) -> Option<(Record, Revision)> {
        let (bytes, revision) = self.records.get(key)?;
        Some((Record::decode(bytes.clone()).unwrap(), *revision))
    }

    pub(super) fn key_state(&self, key: &Bytes) -> KeyState {
        KeyState {
            record: self.record(key),
            floor: self.floor(bucket_of(key)),
        }
    }

    /// Returns the state of a key for a read that changes nothing.
    pub(super) fn record_state(&self, key: &Bytes) -> KeyState {
        KeyState {
            record: self.record(key),
            floor: UNKNOWN_FLOOR,
        }
    }

    pub(super) fn compare_clocks(&mut self, process: u128, shown_ms: u64) -> ClockReadings {
        let now_ms = self.now_ms;
        self.clocks
            .retain(|_, (_, at_ms)| *at_ms + CLOCK_LIFETIME_MS > now_ms);
        let clocks = self.clocks.iter();
        let nodes = clocks.map(|(process, (shown_ms, _))| (*process, *shown_ms));
        let found = ClockReadings {
            engine_ms: self.has_clock.then_some(BASE_MS + now_ms),
            nodes: nodes.collect(),
        };
        self.clocks.insert(process, (shown_ms, now_ms));
        if self.mutation == Some(Mutation::ClocksNotReported) {
            return ClockReadings::default();
        }
        found
    }

    pub(super) fn commit(&mut self, unit: &EngineCommit) -> CommitOutcome {
        let answer = unit.request().and_then(|it| self.replies.get(&it));
        if let Some(answer) = answer.filter(|_| self.mutation != Some(Mutation::ReplyNotCompared)) {
            return CommitOutcome::AlreadyAnswered(answer.clone());
        }
        let holds = |(place, revision): &(EngineKey, Revision)| match place {
            EngineKey::Entry(key) => {
                self.records.get(key).map_or(Revision(0), |(_, it)| *it) == *revision
            }
            EngineKey::Floor(bucket) => {
                let is_purge = unit.puts.iter().any(|(_, put)| *put == EngineValue::Absent);
                let ignored = if is_purge {
                    Mutation::PurgeWithoutFloor
                } else {
                    Mutation::FloorNotCompared
                };
                self.mutation == Some(ignored) || self.floor(*bucket).1 == *revision
            }
            EngineKey::Reply(_) => true,
        };
        if !unit.compares.iter().all(holds) {
            let keys = unit.compares.iter().filter_map(|(place, _)| match place {
                EngineKey::Entry(key) => Some(self.key_state(key)),
                EngineKey::Floor(_) | EngineKey::Reply(_) => None,
            });
            return CommitOutcome::Conflict(keys.collect());
        }
        let revision = Revision(self.revision().0 + 1);
        self.put(&unit.puts, revision);
        self.log.push(LogEntry {
            at_ms: self.now_ms,
            revision: revision.0,
            changes: unit.puts.clone(),
        });
        CommitOutcome::Committed(revision)
    }

    fn put(&mut self, puts: &[(EngineKey, EngineValue)], revision: Revision) {
        for (place, put) in puts {
            match (place, put) {
                (EngineKey::Entry(key), EngineValue::Record(record)) => {
                    self.records
                        .insert(key.clone(), (record.encode(), revision));
                }
                (EngineKey::Entry(key), EngineValue::Absent) => {
                    self.records.remove(key);
                }
                (EngineKey::Floor(bucket), EngineValue::Floor(version)) => {
                    self.floors.insert(*bucket, (*version, revision));
                }
                (EngineKey::Reply(request), EngineValue::Reply(answer)) => {
                    self.replies.insert(*request, answer.clone());
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(super) fn page(engine: &Engine, after: Option<&(u16, Bytes)>, most: usize) -> RecordPage {
    let mut keys: Vec<_> = engine
        .records
        .keys()
        .map(|key| (bucket_of(key), key.clone()))
        .collect();
    keys.sort();
    keys.retain(|key| after.is_none_or(|after| key > after));
    let has_more = keys.len() > most;
    keys.truncate(most);
    let found = keys.into_iter().filter_map(|(_, key)| {
        let (record, revision) = engine.record(&key)?;
        Some(KeyedRecord {
            key,
            record,
            revision,
        })
    });
    RecordPage {
        records: found.collect(),
        has_more,
    }
}
