//! What keys held when somebody last looked: the first guess of a change, which saves it the question.
//!
//! A commit compares what it was decided on, so a guess that is wrong is refused, and the refusal says what is right. What would
//! change nothing is never answered from a guess, but for reads that ask for no more.
//!
//! For these a guess must not go back, and must not miss a change: each change is told to it, but an answer can come later than
//! changes that were made after it. So for each answer it is known whether anything was learnt of its key since it was asked for.
use super::engine::{AskId, BUCKETS, Revision, Seen, bucket_of};
use super::maps::ByKey;
use super::record::{Content, Record};
use bytes::Bytes;

/// What a guess takes besides key and value, roughly.
const OVERHEAD: usize = 200;

/// The keys that were looked at last. There are two generations: when the younger one has its half of the room, it becomes the
/// older one, and what nobody has asked for since goes.
#[derive(Debug)]
pub(super) struct Guesses {
    young: ByKey<Seen>,
    old: ByKey<Seen>,
    young_bytes: usize,
    max_bytes: usize,
    /// Of each bucket.
    learnt: Box<[Learnt]>,
    /// The last question that was asked.
    asked: AskId,
    /// Of answers to questions up to this one changes may be missed.
    doubtful: AskId,
}

/// The last that was learnt of the keys of one bucket. Two keys in one can cost an answer that is not remembered, nothing else.
#[derive(Debug, Clone, Copy)]
struct Learnt {
    /// What was asked until then.
    asked: AskId,
    revision: Revision,
}

impl Guesses {
    /// In so many bytes, roughly.
    pub(super) fn new(max_bytes: usize) -> Self {
        let nothing = Learnt {
            asked: AskId(0),
            revision: Revision(0),
        };
        Self {
            young: ByKey::default(),
            old: ByKey::default(),
            young_bytes: 0,
            max_bytes,
            learnt: vec![nothing; usize::from(BUCKETS)].into(),
            asked: AskId(0),
            doubtful: AskId(0),
        }
    }

    /// A question was asked.
    pub(super) fn asked(&mut self, ask: AskId) {
        self.asked = ask;
    }

    /// What all of these keys may hold, if there is a guess for each.
    pub(super) fn of(&mut self, keys: &[Bytes]) -> Option<Vec<Seen>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn get(&mut self, key: &Bytes) -> Option<Seen> {
        self.look(key).cloned()
    }

    /// What a key may hold, if there is a guess.
    pub(super) fn look(&mut self, key: &Bytes) -> Option<&Seen> {
        if !self.old.is_empty()
            && let Some(seen) = self.old.remove(key)
        {
            self.insert(key, seen);
        }
        self.young.get(key)
    }

    /// Returns the guess of what a key holds, without counting as a look.
    pub(super) fn peek(&self, key: &[u8]) -> Option<&Seen> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Whether there is a guess of what a key holds.
    pub(super) fn has(&self, key: &Bytes) -> bool {
        self.young.contains_key(key) || self.old.contains_key(key)
    }

    /// This was the answer to a question. Whether it is known by now, or something later.
    pub(super) fn saw(&mut self, ask: AskId, key: &Bytes, seen: &Seen) -> bool {
        let learnt = self.learnt[usize::from(bucket_of(key))];
        let is_behind = learnt.asked >= ask && learnt.revision > seen.revision();
        if is_behind || self.doubtful >= ask {
            return false;
        }
        self.learn(key, seen.revision());
        // Answers may overtake each other.
        let is_known = if let Some(known) = self.young.get(key) {
            known.revision() >= seen.revision()
        } else {
            let old = self.old.get(key);
            old.is_some_and(|known| known.revision() > seen.revision())
        };
        if !is_known {
            self.old.remove(key);
            self.insert(key, seen.clone());
        }
        true
    }

    /// The key was given this record.
    pub(super) fn changed(&mut self, key: &Bytes, record: &Record, revision: Revision) {
        self.learn(key, revision);
        if let Some(known) = self.young.get_mut(key) {
            if known.revision() >= revision {
                return;
            }
            // Most changes leave a key as large as it was.
            let before = bytes_of(key, known);
            if before == bytes_with(key, record) {
                known.record = Some((record.clone(), revision));
                return;
            }
        }
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
    pub(super) fn purged(&mut self, key: &Bytes, at: Revision) {
        self.learn(key, at);
        self.old.remove(key);
        self.forget(key);
    }

    /// These keys have changed, nobody says how.
    pub(super) fn doubt(&mut self, keys: &[Bytes]) {
        for key in keys {
            self.old.remove(key);
            self.forget(key);
        }
        self.doubtful = self.asked;
    }

    /// Changes may have been missed.
    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
        self.young_bytes = 0;
        self.doubtful = self.asked;
    }

    fn learn(&mut self, key: &[u8], revision: Revision) {
        let learnt = &mut self.learnt[usize::from(bucket_of(key))];
        learnt.asked = self.asked;
        learnt.revision = learnt.revision.max(revision);
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
    match &seen.record {
        Some((record, _)) => bytes_with(key, record),
        None => OVERHEAD + key.len(),
    }
}

fn bytes_with(key: &Bytes, record: &Record) -> usize {
    let value = match &record.content {
        Content::Entry { value, .. } => value.len(),
        Content::Tombstone => 0,
    };
    OVERHEAD + key.len() + value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::remote::WriteId;

    static KEY: Bytes = Bytes::from_static(b"key");

    fn record(version: u64) -> Record {
        Record {
            version: (version, 0),
            write: WriteId {
                process: 0,
                number: version,
            },
            content: Content::Tombstone,
        }
    }

    fn seen(at: u64) -> Seen {
        Seen {
            record: Some((record(at), Revision(at))),
            floor: ((0, 0), Revision(0)),
        }
    }

    /// At which revision the guess is.
    fn known(guesses: &mut Guesses) -> Option<u64> {
        let seen = guesses.of(std::slice::from_ref(&KEY))?;
        Some(seen[0].revision().0)
    }

    #[test]
    fn an_answer_that_a_change_has_overtaken_is_not_remembered() {
        let mut guesses = Guesses::new(10_000);
        guesses.asked(AskId(1));
        guesses.changed(&KEY, &record(6), Revision(6));
        guesses.saw(AskId(1), &KEY, &seen(5));
        assert_eq!(known(&mut guesses), None);
        // One that was asked for after that cannot be behind it.
        guesses.asked(AskId(2));
        guesses.saw(AskId(2), &KEY, &seen(6));
        assert_eq!(known(&mut guesses), Some(6));
        guesses.changed(&KEY, &record(7), Revision(7));
        assert_eq!(known(&mut guesses), Some(7));
    }

    #[test]
    fn a_change_is_remembered_whatever_its_size_and_never_an_earlier_one() {
        let entry = |bytes: usize, at: u64| Record {
            content: Content::Entry {
                value: vec![0; bytes].into(),
                token: None,
                expiry: None,
            },
            ..record(at)
        };
        let mut guesses = Guesses::new(1_000);
        guesses.asked(AskId(1));
        guesses.saw(AskId(1), &KEY, &seen(5));
        for (bytes, at) in [(10, 6), (10, 7), (200, 8), (3, 9)] {
            guesses.changed(&KEY, &entry(bytes, at), Revision(at));
            assert_eq!(known(&mut guesses), Some(at));
            let taken = guesses.young_bytes;
            assert_eq!(taken, bytes_with(&KEY, &entry(bytes, at)), "{at}");
        }
        guesses.changed(&KEY, &entry(3, 8), Revision(8));
        assert_eq!(known(&mut guesses), Some(9));
        // It takes more than half of the room.
        guesses.changed(&KEY, &entry(400, 10), Revision(10));
        assert_eq!(known(&mut guesses), None);
        assert_eq!(guesses.young_bytes, 0);
    }

    #[test]
    fn what_was_forgotten_does_not_come_back_older() {
        let mut guesses = Guesses::new(10_000);
        guesses.asked(AskId(1));
        guesses.asked(AskId(2));
        guesses.saw(AskId(2), &KEY, &seen(7));
        guesses.forget(&KEY);
        guesses.saw(AskId(1), &KEY, &seen(5));
        assert_eq!(known(&mut guesses), None);
    }

    #[test]
    fn what_was_asked_before_a_gap_is_not_remembered() {
        let mut guesses = Guesses::new(10_000);
        guesses.asked(AskId(1));
        guesses.clear();
        guesses.saw(AskId(1), &KEY, &seen(5));
        assert_eq!(known(&mut guesses), None);
        guesses.asked(AskId(2));
        guesses.saw(AskId(2), &KEY, &seen(5));
        assert_eq!(known(&mut guesses), Some(5));
    }

    #[test]
    fn a_purged_tombstone_is_not_remembered_from_an_answer_before() {
        let mut guesses = Guesses::new(10_000);
        guesses.asked(AskId(1));
        guesses.purged(&KEY, Revision(8));
        guesses.saw(AskId(1), &KEY, &seen(5));
        assert_eq!(known(&mut guesses), None);
    }
}
