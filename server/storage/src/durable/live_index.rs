//! The live records of a base and the logs after it.
use super::files::{ChangeVisitor, StoreFiles};
use crate::StorageError;
use crate::record::{LogChange, Version};
use siphasher::sip128::SipHasher13;
use std::collections::HashMap;

/// An index of the last change of each key.
///
/// Takes memory for each key that was changed since the base, regardless of the size of keys and values. A key is identified by a
/// keyed hash of 128 bits, so that collisions are not expected.
#[derive(Debug)]
pub(super) struct LiveIndex {
    files: StoreFiles,
    hasher: SipHasher13,
    /// Number of the last change of each key, counted through all logs.
    last_change: HashMap<[u64; 2], u64, foldhash::fast::RandomState>,
    /// Highest clock in the logs.
    clock: Option<Version>,
}

impl LiveIndex {
    /// Reads the logs; `read` receives the number of bytes of each frame.
    pub(super) fn new(
        files: &StoreFiles,
        read: &mut dyn FnMut(u64) -> Result<(), StorageError>,
    ) -> Result<Self, StorageError> {
        let hasher = SipHasher13::new_with_keys(files.salt, !files.salt);
        let mut live = Self {
            files: files.clone(),
            hasher,
            last_change: HashMap::default(),
            clock: None,
        };
        files.visit_logs(&mut IndexingVisitor {
            index: &mut live,
            number: 0,
            read,
        })?;
        Ok(live)
    }

    /// Reads everything, visits each live record once, and returns the highest clock.
    pub(super) fn visit_live(
        &self,
        visit: &mut dyn ChangeVisitor,
    ) -> Result<Option<Version>, StorageError> {
        let mut of_base = BaseVisitor {
            index: self,
            clock: self.clock,
            to: visit,
        };
        self.files.visit_base(&mut of_base)?;
        let clock = of_base.clock;
        self.files.visit_logs(&mut LogVisitor {
            index: self,
            number: 0,
            to: visit,
        })?;
        Ok(clock)
    }

    fn key_hash(&self, key: &[u8]) -> [u64; 2] {
        let hash = self.hasher.hash(key);
        [hash.h1, hash.h2]
    }
}

/// A visitor that numbers the changes of the logs.
struct IndexingVisitor<'a> {
    index: &'a mut LiveIndex,
    number: u64,
    read: &'a mut dyn FnMut(u64) -> Result<(), StorageError>,
}

impl ChangeVisitor for IndexingVisitor<'_> {
    fn change(&mut self, change: LogChange<'_>) -> Result<(), StorageError> {
        self.number += 1;
        let key = match &change {
            LogChange::Clock(version) => {
                self.index.clock = self.index.clock.max(Some(*version));
                return Ok(());
            }
            LogChange::Put(put) => put.record.key,
            LogChange::Delete(key) => *key,
        };
        let name = self.index.key_hash(key);
        self.index.last_change.insert(name, self.number);
        Ok(())
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        (self.read)(bytes)
    }
}

/// A visitor that passes on the records of the base that no log changes.
struct BaseVisitor<'a> {
    index: &'a LiveIndex,
    clock: Option<Version>,
    to: &'a mut dyn ChangeVisitor,
}

impl ChangeVisitor for BaseVisitor<'_> {
    fn change(&mut self, change: LogChange<'_>) -> Result<(), StorageError> {
        match &change {
            LogChange::Clock(version) => self.clock = self.clock.max(Some(*version)),
            LogChange::Put(put)
                if !self
                    .index
                    .last_change
                    .contains_key(&self.index.key_hash(put.record.key)) =>
            {
                self.to.change(change)?;
            }
            LogChange::Put(_) | LogChange::Delete(_) => {}
        }
        Ok(())
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.to.progressed(bytes)
    }
}

/// A visitor that passes on the records of the logs that no later change replaces.
struct LogVisitor<'a> {
    index: &'a LiveIndex,
    number: u64,
    to: &'a mut dyn ChangeVisitor,
}

impl ChangeVisitor for LogVisitor<'_> {
    fn change(&mut self, change: LogChange<'_>) -> Result<(), StorageError> {
        self.number += 1;
        if let LogChange::Put(put) = &change
            && self
                .index
                .last_change
                .get(&self.index.key_hash(put.record.key))
                == Some(&self.number)
        {
            self.to.change(change)?;
        }
        Ok(())
    }

    fn progressed(&mut self, bytes: u64) -> Result<(), StorageError> {
        self.to.progressed(bytes)
    }
}
