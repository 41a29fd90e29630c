//! A shared engine with the documented behaviour of etcd: compare-and-swap of many keys, consistent reads, changes in order. It
//! can also lose acknowledged changes.
use super::node::BASE_MS;
use bytes::Bytes;
use statestored::keyspace::RequestDigest;
use statestored::keyspace::remote::{
    Found, FoundClocks, FoundPage, Place, Put, Record, Revision, Seen, Unit, Verdict, bucket_of,
};
use statestored::keyspace::rules::Version;
use std::collections::BTreeMap;

/// A rule that is left out, to check that its absence is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Floors are not compared.
    FloorNotCompared,
    /// A purge does not compare the floor.
    PurgeWithoutFloor,
    /// A lost watch is not noticed: it continues with later changes.
    GapUnnoticed,
    /// A snapshot lacks the entries that expire.
    SnapshotWithoutExpiring,
    /// A commit whose answer is lost is reported as rejected.
    LossToldAsRefusal,
    /// Commits that arrive twice are reported to arrive once.
    SaysToSendOnce,
    /// The answers to requests that are delivered again are not compared.
    AnswerNotCompared,
    /// A loss of changes in the engine is reported as a mere gap of the watch.
    ReversionToldAsGap,
    /// A node whose clock is far ahead still assigns versions.
    ClockBelieved,
    /// Nodes do not get the clock readings of the others.
    ClocksUntold,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 10] = [
        Self::FloorNotCompared,
        Self::PurgeWithoutFloor,
        Self::GapUnnoticed,
        Self::SnapshotWithoutExpiring,
        Self::LossToldAsRefusal,
        Self::SaysToSendOnce,
        Self::AnswerNotCompared,
        Self::ReversionToldAsGap,
        Self::ClockBelieved,
        Self::ClocksUntold,
    ];
}

/// A put, and its time.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) at_ms: u64,
    pub(crate) revision: u64,
    pub(crate) changes: Vec<(Place, Put)>,
}

#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) now_ms: u64,
    pub(super) records: BTreeMap<Bytes, (Bytes, Revision)>,
    floors: BTreeMap<u16, (Version, Revision)>,
    answers: BTreeMap<RequestDigest, Bytes>,
    /// The last clock reading of each node, and when the node reported it.
    clocks: BTreeMap<u128, (u64, u64)>,
    /// Whether the engine reports its own clock, which is right.
    pub(super) has_clock: bool,
    /// Whether the engine reports its revision.
    pub(super) counts_revisions: bool,
    pub(crate) log: Vec<Logged>,
    pub(crate) fault: Option<Fault>,
    /// Sum of all jumps of the revisions.
    jumped: u64,
}

/// How long the engine keeps the clock reading of a node.
pub(super) const CLOCK_LIFETIME_MS: u64 = 5_000;

/// Jump of the revisions when the engine loses changes.
const JUMP: u64 = 1 << 32;

impl Engine {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
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
        self.answers.clear();
        for Logged {
            revision, changes, ..
        } in std::mem::take(&mut self.log)
        {
            self.put(&changes, Revision(revision));
            let at_ms = self.now_ms;
            self.log.push(Logged {
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

    pub(super) fn seen(&self, key: &Bytes) -> Seen {
        Seen {
            record: self.record(key),
            floor: self.floor(bucket_of(key)),
        }
    }

    pub(super) fn compare_clocks(&mut self, process: u128, shown_ms: u64) -> FoundClocks {
        let now_ms = self.now_ms;
        self.clocks
            .retain(|_, (_, at_ms)| *at_ms + CLOCK_LIFETIME_MS > now_ms);
        let clocks = self.clocks.iter();
        let nodes = clocks.map(|(process, (shown_ms, _))| (*process, *shown_ms));
        let found = FoundClocks {
            engine_ms: self.has_clock.then_some(BASE_MS + now_ms),
            nodes: nodes.collect(),
        };
        self.clocks.insert(process, (shown_ms, now_ms));
        if self.fault == Some(Fault::ClocksUntold) {
            return FoundClocks::default();
        }
        found
    }

    pub(super) fn commit(&mut self, unit: &Unit) -> Verdict {
        let answer = unit.request().and_then(|it| self.answers.get(&it));
        if let Some(answer) = answer.filter(|_| self.fault != Some(Fault::AnswerNotCompared)) {
            return Verdict::Answered(answer.clone());
        }
        let holds = |(place, revision): &(Place, Revision)| match place {
            Place::Entry(key) => {
                self.records.get(key).map_or(Revision(0), |(_, it)| *it) == *revision
            }
            Place::Floor(bucket) => {
                let is_purge = unit.puts.iter().any(|(_, put)| *put == Put::Nothing);
                let ignored = if is_purge {
                    Fault::PurgeWithoutFloor
                } else {
                    Fault::FloorNotCompared
                };
                self.fault == Some(ignored) || self.floor(*bucket).1 == *revision
            }
            Place::Answer(_) => true,
        };
        if !unit.compares.iter().all(holds) {
            let keys = unit.compares.iter().filter_map(|(place, _)| match place {
                Place::Entry(key) => Some(self.seen(key)),
                Place::Floor(_) | Place::Answer(_) => None,
            });
            return Verdict::Refused(keys.collect());
        }
        let revision = Revision(self.revision().0 + 1);
        self.put(&unit.puts, revision);
        self.log.push(Logged {
            at_ms: self.now_ms,
            revision: revision.0,
            changes: unit.puts.clone(),
        });
        Verdict::Done(revision)
    }

    fn put(&mut self, puts: &[(Place, Put)], revision: Revision) {
        for (place, put) in puts {
            match (place, put) {
                (Place::Entry(key), Put::Record(record)) => {
                    self.records
                        .insert(key.clone(), (record.encode(), revision));
                }
                (Place::Entry(key), Put::Nothing) => {
                    self.records.remove(key);
                }
                (Place::Floor(bucket), Put::Floor(version)) => {
                    self.floors.insert(*bucket, (*version, revision));
                }
                (Place::Answer(request), Put::Answer(answer)) => {
                    self.answers.insert(*request, answer.clone());
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(super) fn page(engine: &Engine, after: Option<&(u16, Bytes)>, most: usize) -> FoundPage {
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
        Some(Found {
            key,
            record,
            revision,
        })
    });
    FoundPage {
        records: found.collect(),
        has_more,
    }
}
