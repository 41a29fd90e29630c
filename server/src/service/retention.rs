//! Retention: the keys that the storage keeps (the deployed broker's `persistence.stateStore`).
use crate::access::policy::KeyPatterns;
use siphasher::sip128::{Hasher128, SipHasher13};
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
pub(crate) enum Keeping {
    /// A put of the current entry.
    Entry,
    /// A deletion: the storage has an earlier entry of the key, and the key is absent now or not to be kept.
    Removal,
    /// No write.
    Nothing,
}

/// The retention rules, and the keys that the storage keeps on request.
#[derive(Debug)]
pub(crate) struct Kept {
    retention: Retention,
    /// Hashes of the keys that are kept because their last SET asked for it. A hash has 128 bits, so collisions do not
    /// occur.
    on_request: HashSet<u128, foldhash::fast::RandomState>,
    hash_key: [u64; 2],
}

impl Kept {
    pub(crate) fn new(retention: Retention, hash_key: [u64; 2]) -> Self {
        Self {
            retention,
            on_request: HashSet::default(),
            hash_key,
        }
    }

    /// Records that an entry was created or changed, by a SET that asked for it to be kept or did not. Returns the
    /// write that this requires.
    pub(crate) fn set(&mut self, key: &[u8], is_asked_for: bool) -> Keeping {
        match &self.retention {
            Retention::All => Keeping::Entry,
            Retention::Nothing => Keeping::Nothing,
            Retention::Custom { keys, .. } if keys.contain(key) => Keeping::Entry,
            Retention::Custom {
                on_request: true, ..
            } if is_asked_for => {
                self.on_request.insert(self.hash(key));
                Keeping::Entry
            }
            Retention::Custom { .. } => self.forget(key),
        }
    }

    /// Records that an entry is gone. Returns the write that this requires.
    pub(crate) fn removed(&mut self, key: &[u8]) -> Keeping {
        match &self.retention {
            Retention::All => Keeping::Removal,
            Retention::Nothing => Keeping::Nothing,
            Retention::Custom { keys, .. } if keys.contain(key) => Keeping::Removal,
            Retention::Custom { .. } => self.forget(key),
        }
    }

    /// Returns whether the storage holds the entry of this key.
    pub(crate) fn keeps(&self, key: &[u8]) -> bool {
        match &self.retention {
            Retention::All => true,
            Retention::Nothing => false,
            Retention::Custom { keys, .. } => {
                keys.contain(key)
                    || (!self.on_request.is_empty() && self.on_request.contains(&self.hash(key)))
            }
        }
    }

    /// Records that the storage has this key from a former run. Returns whether the entry is to be restored.
    pub(crate) fn found(&mut self, key: &[u8]) -> bool {
        self.set(key, true) == Keeping::Entry
    }

    fn forget(&mut self, key: &[u8]) -> Keeping {
        if !self.on_request.is_empty() && self.on_request.remove(&self.hash(key)) {
            Keeping::Removal
        } else {
            Keeping::Nothing
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
    use crate::access::policy::KeyType;

    fn custom(on_request: bool) -> Kept {
        let mut keys = KeyPatterns::default();
        keys.add(KeyType::Pattern, "kept/*").unwrap();
        Kept::new(Retention::Custom { keys, on_request }, [1, 2])
    }

    #[test]
    fn all_and_nothing() {
        let mut all = Kept::new(Retention::All, [0, 0]);
        assert_eq!(
            (all.set(b"k", false), all.removed(b"k")),
            (Keeping::Entry, Keeping::Removal)
        );
        let mut nothing = Kept::new(Retention::Nothing, [0, 0]);
        assert_eq!(
            (nothing.set(b"k", true), nothing.removed(b"k")),
            (Keeping::Nothing, Keeping::Nothing)
        );
        assert!(all.found(b"k") && !nothing.found(b"k"));
        assert!(all.keeps(b"k") && !nothing.keeps(b"k"));
    }

    #[test]
    fn what_asks_for_it_is_kept_until_it_does_not() {
        let mut kept = custom(true);
        for key in [&b"kept/a"[..], b"other"] {
            assert_eq!(kept.set(key, true), Keeping::Entry);
        }
        assert!(kept.keeps(b"kept/a") && kept.keeps(b"other") && !kept.keeps(b"another"));
        assert_eq!(kept.set(b"kept/a", false), Keeping::Entry);
        assert_eq!(
            kept.set(b"other", false),
            Keeping::Removal,
            "what it had is on disk"
        );
        assert_eq!(kept.set(b"other", false), Keeping::Nothing);
        assert_eq!(kept.set(b"other", true), Keeping::Entry);
        assert_eq!(kept.removed(b"other"), Keeping::Removal);
        assert_eq!(kept.removed(b"other"), Keeping::Nothing);
        assert_eq!(kept.removed(b"kept/a"), Keeping::Removal);
        assert!(kept.found(b"other"));
        assert_eq!(kept.removed(b"other"), Keeping::Removal);
        assert!(kept.on_request.is_empty());
    }

    #[test]
    fn nobody_can_ask_where_it_is_not_allowed() {
        let mut kept = custom(false);
        assert_eq!(kept.set(b"other", true), Keeping::Nothing);
        assert!(!kept.found(b"other") && kept.found(b"kept/b"));
    }
}
