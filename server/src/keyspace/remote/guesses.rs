//! What keys held when somebody last looked: the first guess of a change, which saves it the question.
//!
//! A commit compares what it was decided on, so a guess that is wrong is refused, and the refusal says what is right. What would
//! change nothing is never answered from a guess.
use super::engine::{Revision, Seen};
use super::record::{Content, Record};
use bytes::Bytes;
use std::collections::HashMap;

/// What a guess takes besides key and value, roughly.
const OVERHEAD: usize = 200;

/// The keys that were looked at last. There are two generations: when the younger one has its half of the room, it becomes the
/// older one, and what nobody has asked for since goes.
#[derive(Debug)]
pub(super) struct Guesses {
    young: HashMap<Bytes, Seen>,
    old: HashMap<Bytes, Seen>,
    young_bytes: usize,
    max_bytes: usize,
}

impl Guesses {
    /// In so many bytes, roughly.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            young_bytes: 0,
            max_bytes,
        }
    }

    /// What all of these keys may hold, if there is a guess for each.
    pub(super) fn of(&mut self, keys: &[Bytes]) -> Option<Vec<Seen>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn get(&mut self, key: &Bytes) -> Option<Seen> {
        if let Some(seen) = self.young.get(key) {
            return Some(seen.clone());
        }
        let seen = self.old.remove(key)?;
        self.insert(key, seen.clone());
        Some(seen)
    }

    /// Somebody looked.
    pub(super) fn saw(&mut self, key: &Bytes, seen: &Seen) {
        let known = self.young.get(key).or_else(|| self.old.get(key));
        // Answers may overtake each other.
        if known.is_none_or(|known| known.revision() <= seen.revision()) {
            self.old.remove(key);
            self.insert(key, seen.clone());
        }
    }

    /// The key was given this record.
    pub(super) fn changed(&mut self, key: &Bytes, record: &Record, revision: Revision) {
        let Some(known) = self.young.get(key).or_else(|| self.old.get(key)) else {
            return;
        };
        if known.revision() < revision {
            let seen = Seen {
                record: Some((record.clone(), revision)),
                floor: known.floor,
            };
            self.old.remove(key);
            self.insert(key, seen);
        }
    }

    /// The key's tombstone was purged.
    pub(super) fn purged(&mut self, key: &Bytes) {
        self.old.remove(key);
        self.forget(key);
    }

    /// Changes may have been missed.
    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
        self.young_bytes = 0;
    }

    fn insert(&mut self, key: &Bytes, seen: Seen) {
        let bytes = bytes_of(key, &seen);
        self.forget(key);
        if bytes > self.max_bytes / 2 {
            return;
        }
        if self.young_bytes + bytes > self.max_bytes / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key.clone(), seen);
    }

    fn forget(&mut self, key: &Bytes) {
        if let Some(seen) = self.young.remove(key) {
            self.young_bytes = self.young_bytes.saturating_sub(bytes_of(key, &seen));
        }
    }
}

fn bytes_of(key: &Bytes, seen: &Seen) -> usize {
    let content = seen.record.as_ref().map(|(record, _)| &record.content);
    let value = match content {
        Some(Content::Entry { value, .. }) => value.len(),
        Some(Content::Tombstone) | None => 0,
    };
    OVERHEAD + key.len() + value
}
