//! Retention: the keys that the storage keeps (the deployed broker's `persistence.stateStore`).
use siphasher::sip128::{Hasher128, SipHasher13};
use statestored_access::policy::KeyPatterns;
use std::collections::HashSet;
use std::hash::Hasher;

/// Keys that survive a restart, if a storage keeps anything.
#[derive(Debug, Clone, Default)]
pub enum Retention {
    /// All keys.
    #[default]
    All,
    /// No keys.
    Nothing,
    /// Some keys.
    Custom {
        /// Keys that are always kept.
        keys: KeyPatterns,
        /// Whether other keys are kept as well, as long as their last SET asked for it.
        on_request: bool,
    },
}

/// The write that a change requires of the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionAction {
    /// A put of the current entry.
    Put,
    /// A deletion: the storage has an earlier entry of the key, and the key is absent now or not to be kept.
    Delete,
    /// No write.
    Nothing,
}

/// The retention rules, and the keys that the storage keeps on request.
#[derive(Debug)]
pub struct RetentionIndex {
    retention: Retention,
    /// Hashes of the keys that are kept because their last SET asked for it. A hash has 128 bits, so collisions do not
    /// occur.
    on_request: HashSet<u128, foldhash::fast::RandomState>,
    hash_key: [u64; 2],
}

impl RetentionIndex {
    /// Creates an index without keys, which hashes keys by `hash_key`.
    pub fn new(retention: Retention, hash_key: [u64; 2]) -> Self {
        Self {
            retention,
            on_request: HashSet::default(),
            hash_key,
        }
    }

    /// Records that an entry was created or changed, by a SET that asked for it to be kept or did not. Returns the
    /// write that this requires.
    pub(crate) fn record_set(&mut self, key: &[u8], is_asked_for: bool) -> RetentionAction {
        match &self.retention {
            Retention::All => RetentionAction::Put,
            Retention::Nothing => RetentionAction::Nothing,
            Retention::Custom { keys, .. } if keys.contains(key) => RetentionAction::Put,
            Retention::Custom {
                on_request: true, ..
            } if is_asked_for => {
                self.on_request.insert(self.hash(key));
                RetentionAction::Put
            }
            Retention::Custom { .. } => self.forget(key),
        }
    }

    /// Records that an entry is gone. Returns the write that this requires.
    pub fn record_removal(&mut self, key: &[u8]) -> RetentionAction {
        match &self.retention {
            Retention::All => RetentionAction::Delete,
            Retention::Nothing => RetentionAction::Nothing,
            Retention::Custom { keys, .. } if keys.contains(key) => RetentionAction::Delete,
            Retention::Custom { .. } => self.forget(key),
        }
    }

    /// Returns whether the storage holds the entry of this key.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        match &self.retention {
            Retention::All => true,
            Retention::Nothing => false,
            Retention::Custom { keys, .. } => {
                keys.contains(key)
                    || (!self.on_request.is_empty() && self.on_request.contains(&self.hash(key)))
            }
        }
    }

    /// Records that the storage has this key from a former run. Returns whether the entry is to be restored.
    pub fn record_stored(&mut self, key: &[u8]) -> bool {
        self.record_set(key, true) == RetentionAction::Put
    }

    fn forget(&mut self, key: &[u8]) -> RetentionAction {
        if !self.on_request.is_empty() && self.on_request.remove(&self.hash(key)) {
            RetentionAction::Delete
        } else {
            RetentionAction::Nothing
        }
    }

    fn hash(&self, key: &[u8]) -> u128 {
        let mut hasher = SipHasher13::new_with_keys(self.hash_key[0], self.hash_key[1]);
        hasher.write(key);
        hasher.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestored_access::policy::KeyType;

    fn custom(on_request: bool) -> RetentionIndex {
        let mut keys = KeyPatterns::default();
        keys.add(KeyType::Pattern, "kept/*").unwrap();
        RetentionIndex::new(Retention::Custom { keys, on_request }, [1, 2])
    }

    #[test]
    fn all_keys_or_no_keys_are_kept() {
        let mut all = RetentionIndex::new(Retention::All, [0, 0]);
        assert_eq!(
            (all.record_set(b"k", false), all.record_removal(b"k")),
            (RetentionAction::Put, RetentionAction::Delete)
        );
        let mut nothing = RetentionIndex::new(Retention::Nothing, [0, 0]);
        assert_eq!(
            (nothing.record_set(b"k", true), nothing.record_removal(b"k")),
            (RetentionAction::Nothing, RetentionAction::Nothing)
        );
        assert!(all.record_stored(b"k") && !nothing.record_stored(b"k"));
        assert!(all.contains(b"k") && !nothing.contains(b"k"));
    }

    #[test]
    fn a_key_is_kept_while_its_last_set_requests_it() {
        let mut kept = custom(true);
        for key in [&b"kept/a"[..], b"other"] {
            assert_eq!(kept.record_set(key, true), RetentionAction::Put);
        }
        assert!(kept.contains(b"kept/a") && kept.contains(b"other") && !kept.contains(b"another"));
        assert_eq!(kept.record_set(b"kept/a", false), RetentionAction::Put);
        assert_eq!(
            kept.record_set(b"other", false),
            RetentionAction::Delete,
            "what it had is on disk"
        );
        assert_eq!(kept.record_set(b"other", false), RetentionAction::Nothing);
        assert_eq!(kept.record_set(b"other", true), RetentionAction::Put);
        assert_eq!(kept.record_removal(b"other"), RetentionAction::Delete);
        assert_eq!(kept.record_removal(b"other"), RetentionAction::Nothing);
        assert_eq!(kept.record_removal(b"kept/a"), RetentionAction::Delete);
        assert!(kept.record_stored(b"other"));
        assert_eq!(kept.record_removal(b"other"), RetentionAction::Delete);
        assert!(kept.on_request.is_empty());
    }

    #[test]
    fn a_request_to_keep_is_ignored_where_not_allowed() {
        let mut kept = custom(false);
        assert_eq!(kept.record_set(b"other", true), RetentionAction::Nothing);
        assert!(!kept.record_stored(b"other") && kept.record_stored(b"kept/b"));
    }
}
