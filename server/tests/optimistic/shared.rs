//! A map that several keyspaces share: each reads entries, and commits by compare-and-swap on what it read.
use bytes::Bytes;
use statestore_protocol::Hlc;
use statestored_storage::Expiry;
use statestored_store::keyspace::rules::Version;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An entry, with the revision that a commit which replaces it has to name.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) revision: u64,
    pub(crate) value: Bytes,
    pub(crate) version: Version,
    pub(crate) token: Option<Hlc>,
    pub(crate) deadline_ms: Option<u64>,
}

/// A change of a key.
#[derive(Debug, Clone)]
pub(crate) enum Mutation {
    Set {
        value: Bytes,
        token: Option<Hlc>,
        expiry: Option<Expiry>,
        deadline_ms: Option<u64>,
    },
    Removed,
}

/// A change, in the order in which all of them happened.
#[derive(Debug, Clone)]
pub(crate) struct MapChange {
    pub(crate) key: Bytes,
    pub(crate) version: Version,
    pub(crate) put: Mutation,
    /// The highest version of a deletion up to this change.
    pub(crate) floor: Version,
}

/// State that a read has seen and that a commit compares: the entry by its revision, or the floor if there is no entry.
#[derive(Debug, Clone)]
pub(crate) struct ReadSnapshot {
    pub(crate) entry: Option<Entry>,
    pub(crate) floor: Version,
}

#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) entries: BTreeMap<Bytes, Entry>,
    /// Deadlines of the entries that have one, with their keys.
    deadlines: BTreeSet<(u64, Bytes)>,
    pub(crate) changes: Vec<MapChange>,
    pub(crate) floor: Version,
    pub(crate) highest: Version,
    /// Refused commits, whatever the reason.
    pub(crate) conflicts: usize,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct SharedMap(Arc<Mutex<Map>>);

impl SharedMap {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Map> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Map {
    pub(crate) fn read(&self, key: &Bytes) -> ReadSnapshot {
        ReadSnapshot {
            entry: self.entries.get(key).cloned(),
            floor: self.floor,
        }
    }

    /// Makes a change if nothing has changed since the read; whether it did.
    pub(crate) fn commit(
        &mut self,
        key: &Bytes,
        seen: &ReadSnapshot,
        version: Version,
        put: Mutation,
    ) -> bool {
        let is_same = match (&seen.entry, self.entries.get(key)) {
            (Some(seen), Some(entry)) => seen.revision == entry.revision,
            (None, None) => seen.floor == self.floor,
            _ => false,
        };
        if !is_same {
            self.conflicts += 1;
            return false;
        }
        match &put {
            Mutation::Set {
                value,
                token,
                deadline_ms,
                ..
            } => {
                let entry = Entry {
                    revision: self.changes.len() as u64,
                    value: value.clone(),
                    version,
                    token: token.clone(),
                    deadline_ms: *deadline_ms,
                };
                self.put(key, entry);
            }
            Mutation::Removed => {
                let deadline_ms = self.entries.remove(key).and_then(|it| it.deadline_ms);
                self.forget_deadline(key, deadline_ms);
                self.floor = self.floor.max(version);
            }
        }
        self.highest = self.highest.max(version);
        self.changes.push(MapChange {
            key: key.clone(),
            version,
            put,
            floor: self.floor,
        });
        true
    }

    /// Makes or replaces an entry without an event.
    pub(crate) fn put(&mut self, key: &Bytes, entry: Entry) {
        if let Some(at_ms) = entry.deadline_ms {
            self.deadlines.insert((at_ms, key.clone()));
        }
        let deadline_ms = entry.deadline_ms;
        if let Some(former) = self.entries.insert(key.clone(), entry)
            && former.deadline_ms != deadline_ms
        {
            self.forget_deadline(key, former.deadline_ms);
        }
    }

    fn forget_deadline(&mut self, key: &Bytes, deadline_ms: Option<u64>) {
        if let Some(at_ms) = deadline_ms {
            self.deadlines.remove(&(at_ms, key.clone()));
        }
    }

    /// Returns the entry that expires first.
    pub(crate) fn first_deadline(&self) -> Option<(u64, Bytes)> {
        self.deadlines.first().cloned()
    }
}
