//! The truth: the log of the engine, and the contents of all keys after each change.
use super::engine::{Engine, Logged};
use bytes::Bytes;
use statestored::keyspace::remote::{Content, Place, Put, Record, Revision};
use std::collections::BTreeMap;

pub(super) type States = BTreeMap<Bytes, Record>;

/// The engine's log, and the contents of all keys after each change.
pub(super) struct Truth<'w> {
    pub(super) log: &'w [Logged],
    /// States before the first change, after it, and so on.
    pub(super) states: Vec<States>,
}

impl<'w> Truth<'w> {
    pub(super) fn new(engine: &'w Engine) -> Self {
        let mut states = vec![States::new()];
        for logged in &engine.log {
            let mut next = states[states.len() - 1].clone();
            for (place, put) in &logged.changes {
                match (place, put) {
                    (Place::Entry(key), Put::Record(record)) => {
                        next.insert(key.clone(), record.clone());
                    }
                    (Place::Entry(key), _) => {
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
    pub(super) fn between(&self, from_ms: u64, to_ms: u64) -> impl Iterator<Item = &States> {
        let first = self.log.partition_point(|it| it.at_ms < from_ms);
        let last = self.until(to_ms);
        self.states[first..=last].iter()
    }

    /// Returns the number of the state at the end of this millisecond.
    pub(super) fn until(&self, at_ms: u64) -> usize {
        self.log.partition_point(|it| it.at_ms <= at_ms)
    }

    /// Returns the number of the state after this revision.
    pub(super) fn behind(&self, revision: Revision) -> usize {
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
                    (Place::Entry(key), Put::Record(record)) => Some((index, key, record)),
                    _ => None,
                })
        })
    }

    /// Returns the positions of a value in the log.
    pub(super) fn of_value(&self, value: &Bytes) -> Vec<usize> {
        let found = self.records().filter(|(_, _, record)| {
            matches!(&record.content, Content::Entry { value: it, .. } if it == value)
        });
        found.map(|(index, ..)| index).collect()
    }
}
