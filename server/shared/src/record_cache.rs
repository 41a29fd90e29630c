//! Cache of the last known records. A change starts from the cached record, which saves it the read.
//!
//! A commit compares the state on which it is based. A stale cached record is therefore refused, and the refusal contains the current one.
//! An operation that would change nothing is never answered from the cache, except for eventual reads.
//!
//! For eventual reads, the cache must not go back and must not miss a change. Each change updates it, but an answer can arrive later than
//! changes made after it. For each answer, the cache therefore knows whether it has learnt about the key since the request.
use super::engine::{BUCKETS, EngineRequestId, KeyState, Revision, bucket_of};
use super::maps::ByKey;
use super::record::{Record, RecordContent};
use bytes::Bytes;

/// Approximate memory of a cached record in bytes, without key and value.
const RECORD_OVERHEAD: usize = 200;

/// Cache of records in two generations. When the younger generation fills its half of the memory, it becomes the older one. The former
/// older generation, which was not used since, is dropped.
#[derive(Debug)]
pub(super) struct RecordCache {
    young: ByKey<KeyState>,
    old: ByKey<KeyState>,
    young_bytes: usize,
    max_bytes: usize,
    /// The last information for each bucket.
    bucket_updates: Box<[BucketUpdate]>,
    /// The last engine request.
    last_request: EngineRequestId,
    /// The last engine request whose answer may miss changes.
    last_doubtful_request: EngineRequestId,
}

/// The last information about the keys of a bucket. Two keys in one bucket can cost a cached answer, nothing else.
#[derive(Debug, Clone, Copy)]
struct BucketUpdate {
    /// The last engine request at that time.
    last_request: EngineRequestId,
    revision: Revision,
}

impl RecordCache {
    /// Creates a cache of approximately `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        let nothing = BucketUpdate {
            last_request: EngineRequestId(0),
            revision: Revision(0),
        };
        Self {
            young: ByKey::default(),
            old: ByKey::default(),
            young_bytes: 0,
            max_bytes,
            bucket_updates: vec![nothing; usize::from(BUCKETS)].into(),
            last_request: EngineRequestId(0),
            last_doubtful_request: EngineRequestId(0),
        }
    }

    /// Records an engine request.
    pub(super) fn request_sent(&mut self, ask: EngineRequestId) {
        self.last_request = ask;
    }

    /// Returns the cached states of these keys if there is one for each.
    pub(super) fn states_of(&mut self, keys: &[Bytes]) -> Option<Vec<KeyState>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn get(&mut self, key: &Bytes) -> Option<KeyState> {
        self.state(key).cloned()
    }

    /// Returns the cached state of a key.
    pub(super) fn state(&mut self, key: &Bytes) -> Option<&KeyState> {
        if !self.old.is_empty()
            && let Some(seen) = self.old.remove(key)
        {
            self.insert(key, seen);
        }
        self.young.get(key)
    }

    /// Returns the cached state of a key, without counting as a use.
    pub(super) fn peek(&self, key: &[u8]) -> Option<&KeyState> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Returns whether the state of a key is cached.
    pub(super) fn contains(&self, key: &Bytes) -> bool {
        self.young.contains_key(key) || self.old.contains_key(key)
    }

    /// Records the answer to an engine request. Returns whether this state or a later one is cached now.
    pub(super) fn observe(&mut self, ask: EngineRequestId, key: &Bytes, seen: &KeyState) -> bool {
        let learnt = self.bucket_updates[usize::from(bucket_of(key))];
        let is_behind = learnt.last_request >= ask && learnt.revision > seen.revision();
        if is_behind || self.last_doubtful_request >= ask {
            return false;
        }
        self.record_update(key, seen.revision());
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

    /// Records a change of a key.
    pub(super) fn changed(&mut self, key: &Bytes, record: &Record, revision: Revision) {
        self.record_update(key, revision);
        if let Some(known) = self.young.get_mut(key) {
            if known.revision() >= revision {
                return;
            }
            // Most changes leave the size of a key's record unchanged.
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
            let seen = KeyState {
                record: Some((record.clone(), revision)),
                floor: known.floor,
            };
            self.old.remove(key);
            self.insert(key, seen);
        }
    }

    /// Records the purge of a key's tombstone.
    pub(super) fn purged(&mut self, key: &Bytes, at: Revision) {
        self.record_update(key, at);
        self.old.remove(key);
        self.remove(key);
    }

    /// Drops the cached states of these keys, which have changed in an unknown way.
    pub(super) fn invalidate(&mut self, keys: &[Bytes]) {
        for key in keys {
            self.old.remove(key);
            self.remove(key);
        }
        self.last_doubtful_request = self.last_request;
    }

    /// Clears the cache, because changes may have been missed.
    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
        self.young_bytes = 0;
        self.last_doubtful_request = self.last_request;
    }

    fn record_update(&mut self, key: &[u8], revision: Revision) {
        let learnt = &mut self.bucket_updates[usize::from(bucket_of(key))];
        learnt.last_request = self.last_request;
        learnt.revision = learnt.revision.max(revision);
    }

    fn insert(&mut self, key: &Bytes, seen: KeyState) {
        let bytes = bytes_of(key, &seen);
        self.remove(key);
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

    fn remove(&mut self, key: &Bytes) {
        if let Some(seen) = self.young.remove(key) {
            self.young_bytes = self.young_bytes.saturating_sub(bytes_of(key, &seen));
        }
    }
}

fn bytes_of(key: &Bytes, seen: &KeyState) -> usize {
    match &seen.record {
        Some((record, _)) => bytes_with(key, record),
        None => RECORD_OVERHEAD + key.len(),
    }
}

fn bytes_with(key: &Bytes, record: &Record) -> usize {
    let value = match &record.content {
        RecordContent::Entry { value, .. } => value.len(),
        RecordContent::Tombstone => 0,
    };
    RECORD_OVERHEAD + key.len() + value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WriteId;

    static KEY: Bytes = Bytes::from_static(b"key");

    fn record(version: u64) -> Record {
        Record {
            version: (version, 0),
            write: WriteId {
                process: 0,
                number: version,
            },
            content: RecordContent::Tombstone,
        }
    }

    fn key_state(at: u64) -> KeyState {
        KeyState {
            record: Some((record(at), Revision(at))),
            floor: ((0, 0), Revision(0)),
        }
    }

    /// Returns the revision of the cached state.
    fn cached_revision(guesses: &mut RecordCache) -> Option<u64> {
        let seen = guesses.states_of(std::slice::from_ref(&KEY))?;
        Some(seen[0].revision().0)
    }

    #[test]
    fn a_reply_older_than_a_change_is_not_cached() {
        let mut guesses = RecordCache::new(10_000);
        guesses.request_sent(EngineRequestId(1));
        guesses.changed(&KEY, &record(6), Revision(6));
        guesses.observe(EngineRequestId(1), &KEY, &key_state(5));
        assert_eq!(cached_revision(&mut guesses), None);
        // The answer to a request sent after that cannot be older.
        guesses.request_sent(EngineRequestId(2));
        guesses.observe(EngineRequestId(2), &KEY, &key_state(6));
        assert_eq!(cached_revision(&mut guesses), Some(6));
        guesses.changed(&KEY, &record(7), Revision(7));
        assert_eq!(cached_revision(&mut guesses), Some(7));
    }

    #[test]
    fn a_change_of_any_size_replaces_the_cached_record_and_an_earlier_one_does_not() {
        let entry = |bytes: usize, at: u64| Record {
            content: RecordContent::Entry {
                value: vec![0; bytes].into(),
                token: None,
                expiry: None,
            },
            ..record(at)
        };
        let mut guesses = RecordCache::new(1_000);
        guesses.request_sent(EngineRequestId(1));
        guesses.observe(EngineRequestId(1), &KEY, &key_state(5));
        for (bytes, at) in [(10, 6), (10, 7), (200, 8), (3, 9)] {
            guesses.changed(&KEY, &entry(bytes, at), Revision(at));
            assert_eq!(cached_revision(&mut guesses), Some(at));
            let taken = guesses.young_bytes;
            assert_eq!(taken, bytes_with(&KEY, &entry(bytes, at)), "{at}");
        }
        guesses.changed(&KEY, &entry(3, 8), Revision(8));
        assert_eq!(cached_revision(&mut guesses), Some(9));
        // The record takes more than half of the memory.
        guesses.changed(&KEY, &entry(400, 10), Revision(10));
        assert_eq!(cached_revision(&mut guesses), None);
        assert_eq!(guesses.young_bytes, 0);
    }

    #[test]
    fn an_evicted_record_is_not_replaced_by_an_older_one() {
        let mut guesses = RecordCache::new(10_000);
        guesses.request_sent(EngineRequestId(1));
        guesses.request_sent(EngineRequestId(2));
        guesses.observe(EngineRequestId(2), &KEY, &key_state(7));
        guesses.remove(&KEY);
        guesses.observe(EngineRequestId(1), &KEY, &key_state(5));
        assert_eq!(cached_revision(&mut guesses), None);
    }

    #[test]
    fn a_reply_requested_before_a_gap_is_not_cached() {
        let mut guesses = RecordCache::new(10_000);
        guesses.request_sent(EngineRequestId(1));
        guesses.clear();
        guesses.observe(EngineRequestId(1), &KEY, &key_state(5));
        assert_eq!(cached_revision(&mut guesses), None);
        guesses.request_sent(EngineRequestId(2));
        guesses.observe(EngineRequestId(2), &KEY, &key_state(5));
        assert_eq!(cached_revision(&mut guesses), Some(5));
    }

    #[test]
    fn a_purged_tombstone_is_not_cached_from_an_earlier_reply() {
        let mut guesses = RecordCache::new(10_000);
        guesses.request_sent(EngineRequestId(1));
        guesses.purged(&KEY, Revision(8));
        guesses.observe(EngineRequestId(1), &KEY, &key_state(5));
        assert_eq!(cached_revision(&mut guesses), None);
    }
}
