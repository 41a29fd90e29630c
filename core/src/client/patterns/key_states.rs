//! Known states of the keys that match a pattern, merged from scans and notifications.
//!
//! A scan and the notifications that arrive during it are merged by version, and the newer one wins. A scan replaces what was
//! known before it began, even by a lower version: the store may have been restored from a backup. Deletions are remembered
//! until the scan ends, since a page may still contain the deleted entry.
use bytes::Bytes;
use statestore_protocol::Hlc;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

/// Result of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notified {
    /// The reader must get the state.
    Change,
    /// The state is not newer than the known one, or nothing changes for the reader.
    Stale,
    /// The notification contradicts an earlier one. One of them is wrong, or the store was restored.
    Doubtful,
}

/// The known states of the keys.
#[derive(Debug, Default)]
pub(super) struct KeyStates {
    keys: HashMap<Bytes, KeyState>,
    /// Number of the present or last scan.
    scan: u64,
    is_scanning: bool,
}

#[derive(Debug)]
struct KeyState {
    /// Version of the state; `None` if a read found the key absent.
    version: Option<Hlc>,
    /// Hash of the value; `None` if the key is absent. A store that lost its keys may issue a version again.
    fingerprint: Option<u64>,
    /// Whether the state was read. Notifications may come from other clients, depending on the broker.
    is_read: bool,
    /// Whether the reader may have another state, because an event was dropped.
    is_unreported: bool,
    /// Number of the last scan that found the key.
    found_by: u64,
    /// Number of the last scan during or after which the key was notified.
    notified_in: u64,
}

impl KeyStates {
    /// Returns the number of keys, including remembered deletions.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the key exists.
    pub(super) fn contains(&self, key: &Bytes) -> bool {
        let state = self.keys.get(key);
        state.is_some_and(|state| state.fingerprint.is_some())
    }

    /// Begins a scan and returns its number.
    pub(super) fn begin_scan(&mut self) -> u64 {
        self.scan += 1;
        self.is_scanning = true;
        self.scan
    }

    /// Returns whether this scan is under way.
    pub(super) fn is_scanning(&self, scan: u64) -> bool {
        self.is_scanning && self.scan == scan
    }

    /// Returns whether any scan is under way.
    pub(super) fn has_scan(&self) -> bool {
        self.is_scanning
    }

    /// Ends the scan before it has found all keys.
    pub(super) fn abort_scan(&mut self) {
        self.is_scanning = false;
    }

    /// Merges a notified state. `is_late_expected` is whether notifications of changes before the last scan may still arrive.
    pub(super) fn notify(
        &mut self,
        key: &Bytes,
        value: Option<&Bytes>,
        version: Option<Hlc>,
        is_late_expected: bool,
    ) -> Notified {
        let fingerprint = fingerprint(value);
        let Some(known) = self.keys.get_mut(key) else {
            if fingerprint.is_none() && !self.is_scanning {
                return Notified::Stale;
            }
            let state = KeyState {
                version,
                fingerprint,
                is_read: false,
                is_unreported: false,
                found_by: 0,
                notified_in: self.scan,
            };
            self.keys.insert(key.clone(), state);
            return match fingerprint {
                Some(_) => Notified::Change,
                None => Notified::Stale,
            };
        };
        let order = match (&version, &known.version) {
            (Some(version), Some(known)) => version.cmp(known),
            _ => Ordering::Greater,
        };
        if order == Ordering::Equal && known.fingerprint == fingerprint {
            return Notified::Stale;
        }
        if order != Ordering::Greater {
            let is_excused = self.is_scanning || is_late_expected && known.is_read;
            return if is_excused {
                Notified::Stale
            } else {
                Notified::Doubtful
            };
        }
        let was_reported = known.fingerprint.is_some() || known.is_unreported;
        *known = KeyState {
            version,
            fingerprint,
            is_read: false,
            is_unreported: false,
            found_by: known.found_by,
            notified_in: self.scan,
        };
        if fingerprint.is_none() && !self.is_scanning {
            self.keys.remove(key);
        }
        if fingerprint.is_some() || was_reported {
            Notified::Change
        } else {
            Notified::Stale
        }
    }

    /// Merges an entry that the present scan found. Returns whether the reader must get it.
    pub(super) fn merge_found(&mut self, key: &Bytes, value: &Bytes, version: &Hlc) -> bool {
        let fingerprint = fingerprint(Some(value));
        let Some(known) = self.keys.get_mut(key) else {
            let state = KeyState {
                version: Some(version.clone()),
                fingerprint,
                is_read: true,
                is_unreported: false,
                found_by: self.scan,
                notified_in: 0,
            };
            self.keys.insert(key.clone(), state);
            return true;
        };
        known.found_by = self.scan;
        let is_notified = known.notified_in == self.scan;
        if is_notified && known.version.as_ref().is_some_and(|it| it >= version) {
            return false;
        }
        let is_change = known.is_unreported
            || known.fingerprint != fingerprint
            || known.version.as_ref() != Some(version);
        known.version = Some(version.clone());
        known.fingerprint = fingerprint;
        known.is_read = true;
        known.is_unreported = false;
        is_change
    }

    /// Records that the present scan found the key, whose state is known otherwise.
    pub(super) fn mark_found(&mut self, key: &Bytes) {
        if let Some(known) = self.keys.get_mut(key) {
            known.found_by = self.scan;
        }
    }

    /// Ends the scan, which found all keys. Returns the keys that the reader must be told to be gone, in their order.
    pub(super) fn end_scan(&mut self) -> Vec<Bytes> {
        self.is_scanning = false;
        let scan = self.scan;
        let mut gone = Vec::new();
        self.keys.retain(|key, state| {
            let is_current = state.found_by == scan || state.notified_in == scan;
            let exists = state.fingerprint.is_some();
            if is_current && exists {
                return true;
            }
            if state.is_unreported || exists {
                gone.push(key.clone());
            }
            false
        });
        gone.sort_unstable();
        gone
    }

    /// Records that an event of the key was dropped before the reader got it.
    pub(super) fn mark_unreported(&mut self, key: Bytes) {
        let absent = || KeyState {
            version: None,
            fingerprint: None,
            is_read: false,
            is_unreported: true,
            found_by: 0,
            notified_in: 0,
        };
        self.keys.entry(key).or_insert_with(absent).is_unreported = true;
    }
}

/// Returns the hash of a value; `None` for an absent one.
fn fingerprint(value: Option<&Bytes>) -> Option<u64> {
    value.map(|value| {
        let mut hasher = DefaultHasher::new();
        hasher.write(value);
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64) -> Hlc {
        Hlc::new(number, 0, "n").unwrap()
    }

    fn notify(
        keys: &mut KeyStates,
        key: &'static str,
        value: Option<&'static str>,
        number: u64,
    ) -> Notified {
        let value = value.map(Bytes::from);
        keys.notify(&key.into(), value.as_ref(), Some(version(number)), false)
    }

    fn found(keys: &mut KeyStates, key: &'static str, number: u64) -> bool {
        keys.merge_found(&key.into(), &"v".into(), &version(number))
    }

    #[test]
    fn a_dropped_deletion_is_reported_by_the_next_scan() {
        let mut keys = KeyStates::default();
        keys.begin_scan();
        assert!(found(&mut keys, "a", 1));
        assert!(found(&mut keys, "b", 1));
        assert!(keys.end_scan().is_empty());
        assert_eq!(notify(&mut keys, "a", None, 2), Notified::Change);
        // The reader was too slow for both events.
        keys.mark_unreported("a".into());
        keys.mark_unreported("b".into());
        keys.begin_scan();
        assert!(found(&mut keys, "b", 1));
        assert_eq!(keys.end_scan(), ["a"]);
        assert_eq!(keys.len(), 1);
    }

    #[test]
    fn deletions_are_forgotten_when_the_scan_ends() {
        let mut keys = KeyStates::default();
        keys.begin_scan();
        assert_eq!(notify(&mut keys, "a", None, 5), Notified::Stale);
        assert!(!found(&mut keys, "a", 4));
        assert_eq!(keys.len(), 1);
        assert!(keys.end_scan().is_empty());
        assert_eq!(keys.len(), 0);
    }

    #[test]
    fn a_scan_replaces_what_was_known_before_it_began() {
        let mut keys = KeyStates::default();
        keys.begin_scan();
        keys.end_scan();
        assert_eq!(notify(&mut keys, "a", Some("v"), 9), Notified::Change);
        assert_eq!(notify(&mut keys, "a", Some("w"), 3), Notified::Doubtful);
        keys.begin_scan();
        assert!(found(&mut keys, "a", 3));
        // A late notification of an earlier change.
        assert_eq!(notify(&mut keys, "a", Some("u"), 2), Notified::Stale);
        assert!(keys.end_scan().is_empty());
        assert_eq!(notify(&mut keys, "a", Some("x"), 4), Notified::Change);
    }

    #[test]
    fn an_aborted_scan_changes_nothing_for_the_next_one() {
        let mut keys = KeyStates::default();
        keys.begin_scan();
        assert!(found(&mut keys, "a", 1));
        assert_eq!(notify(&mut keys, "b", None, 5), Notified::Stale);
        keys.abort_scan();
        keys.begin_scan();
        assert!(found(&mut keys, "b", 2), "the store was restored");
        assert_eq!(keys.end_scan(), ["a"]);
    }
}
