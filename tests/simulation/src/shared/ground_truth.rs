//! The truth: the log of the engine, and the contents of all keys after each change.
use super::engine::{Engine, LogEntry};
use bytes::Bytes;
use statestored_shared::{EngineKey, EngineValue, Record, RecordContent, Revision};
use std::collections::BTreeMap;

pub(super) type KeyStates = BTreeMap<Bytes, Record>;

/// The engine's log, and the contents of all keys after each change.
pub(super) struct GroundTruth<'w> {
    pub(super) log: &'w [LogEntry],
    /// States before the first change, after it, and so on.
    pub(super) states: Vec<KeyStates>,
}

impl<'w> GroundTruth<'w> {
    pub(super) fn new(engine: &'w Engine) -> Self {
        let mut states = vec![KeyStates::new()];
        for logged in &engine.log {
            let mut next = states[states.len() - 1].clone();
            for (place, put) in &logged.changes {
                match (place, put) {
                    (EngineKey::Entry(key), EngineValue::Record(record)) => {
                        next.insert(key.clone(), record.clone());
                    }
                    (EngineKey::Entry(key), _) => {
                        next.remove(key);
                    }
                    _ => {}
                }
            }
            states.push(next);
        }
        Self {
            log: &engine.log,
            states,
        }
    }

    /// Returns the states at all moments between two times, both included.
    pub(super) fn between(&self, from_ms: u64, to_ms: u64) -> impl Iterator<Item = &KeyStates> {
        let first = self.log.partition_point(|it| it.at_ms < from_ms);
        let last = self.index_at(to_ms);
        self.states[first..=last].iter()
    }

    /// Returns the number of the state at the end of this millisecond.
    pub(super) fn index_at(&self, at_ms: u64) -> usize {
        self.log.partition_point(|it| it.at_ms <= at_ms)
    }

    /// Returns the number of the state after this revision.
    pub(super) fn index_after(&self, revision: Revision) -> usize {
        self.log.partition_point(|it| it.revision <= revision.0)
    }

    /// Returns the changes of keys, each with its position in the log.
    pub(super) fn records(&self) -> impl Iterator<Item = (usize, &'w Bytes, &'w Record)> {
        let logged = self.log.iter().enumerate();
        logged.flat_map(|(index, logged)| {
            logged
                .changes
                .iter()
                .filter_map(move |change| match change {
                    (EngineKey::Entry(key), EngineValue::Record(record)) => {
                        Some((index, key, record))
                    }
                    _ => None,
                })
        })
    }

    /// Returns the positions of a value in the log.
    pub(super) fn positions_of_value(&self, value: &Bytes) -> Vec<usize> {
        let found = self.records().filter(|(_, _, record)| {
            matches!(&record.content, RecordContent::Entry { value: it, .. } if it == value)
        });
        found.map(|(index, ..)| index).collect()
    }
}
