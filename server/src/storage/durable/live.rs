//! The live records of a base and the logs after it.
use super::files::{Files, Visit};
use crate::storage::StorageError;
use crate::storage::record::{Change, Version};
use siphasher::sip128::SipHasher13;
use std::collections::HashMap;

/// An index of the last change of each key.
///
/// Takes memory for each key that was changed since the base, regardless of the size of keys and values. A key is identified by a
/// keyed hash of 128 bits, so that collisions are not expected.
#[derive(Debug)]
pub(super) struct Live {
    files: Files,
    hasher: SipHasher13,
    /// Number of the last change of each key, counted through all logs.
    last_change: HashMap<[u64; 2], u64, foldhash::fast::RandomState>,
    /// Highest clock in the logs.
    clock: Option<Version>,
}

impl Live {
    /// Reads the logs; `read` receives the number of bytes of each frame.
    pub(super) fn new(
        files: &Files,
        read: &mut dyn FnMut(u64) -> Result<(), StorageError>,
    ) -> Result<Self, StorageError> {
        let hasher = SipHasher13::new_with_keys(files.salt, !files.salt);
        let mut live = Self {
            files: files.clone(),
            hasher,
            last_change: HashMap::default(),
            clock: None,
        };
        files.log_changes(&mut Indexing {
            live: &mut live,
            number: 0,
            read,
        })?;
        Ok(live)
    }

    /// Reads everything, visits each live record once, and returns the highest clock.
    pub(super) fn each(&self, visit: &mut dyn Visit) -> Result<Option<Version>, StorageError> {
        let mut of_base = OfBase {
            live: self,
            clock: self.clock,
            to: visit,
        };
        self.files.base_changes(&mut of_base)?;
        let clock = of_base.clock;
        self.files.log_changes(&mut OfLogs {
            live: self,
            number: 0,
            to: visit,
        })?;
        Ok(clock)
    }

    fn name(&self, key: &[u8]) -> [u64; 2] {
        let hash = self.hasher.hash(key);
        [hash.h1, hash.h2]
    }
}

/// A visitor that numbers the changes of the logs.
struct Indexing<'a> {
    live: &'a mut Live,
    number: u64,
    read: &'a mut dyn FnMut(u64) -> Result<(), StorageError>,
}

impl Visit for Indexing<'_> {
    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError> {
        self.number += 1;
        let key = match &change {
            Change::Clock(version) => {
                self.live.clock = self.live.clock.max(Some(*version));
                return Ok(());
            }
            Change::Put(put) => put.record.key,
            Change::Delete(key) => *key,
        };
        let name = self.live.name(key);
        self.live.last_change.insert(name, self.number);
        Ok(())
    }

    fn read(&mut self, bytes: u64) -> Result<(), StorageError> {
        (self.read)(bytes)
    }
}

/// A visitor that passes on the records of the base that no log changes.
struct OfBase<'a> {
    live: &'a Live,
    clock: Option<Version>,
    to: &'a mut dyn Visit,
}

impl Visit for OfBase<'_> {
    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError> {
        match &change {
            Change::Clock(version) => self.clock = self.clock.max(Some(*version)),
            Change::Put(put)
                if !self
                    .live
                    .last_change
                    .contains_key(&self.live.name(put.record.key)) =>
            {
                self.to.change(change)?;
            }
            Change::Put(_) | Change::Delete(_) => {}
        }
        Ok(())
    }

    fn read(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.to.read(bytes)
    }
}

/// A visitor that passes on the records of the logs that no later change replaces.
struct OfLogs<'a> {
    live: &'a Live,
    number: u64,
    to: &'a mut dyn Visit,
}

impl Visit for OfLogs<'_> {
    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError> {
        self.number += 1;
        if let Change::Put(put) = &change
            && self.live.last_change.get(&self.live.name(put.record.key)) == Some(&self.number)
        {
            self.to.change(change)?;
        }
        Ok(())
    }

    fn read(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.to.read(bytes)
    }
}
