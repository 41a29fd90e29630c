//! The base and the logs after it, read in the order in which their changes happened.
use super::directory::check_length;
use super::log::{FileHeader, Reader, Step, damaged};
use super::manifest::{Base, Sealed};
use super::record::{Change, Changes, Put, Version};
use crate::storage::StorageError;
use crate::storage::disk::Disk;
use siphasher::sip128::SipHasher13;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many changes are announced at a time.
const AHEAD: usize = 32;

/// What reads changes.
pub(super) trait Visit {
    /// The changes that come next.
    fn ahead(&mut self, _changes: &[Change<'_>]) {}
    /// The next change.
    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError>;
    /// A frame is behind us; so many bytes of files have been read since the last call.
    fn read(&mut self, _bytes: u64) -> Result<(), StorageError> {
        Ok(())
    }
}

impl<F: FnMut(Change<'_>) -> Result<(), StorageError>> Visit for F {
    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError> {
        self(change)
    }
}

/// Files that do not change any more, oldest first.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) salt: u64,
    pub(super) base: Option<(PathBuf, Base)>,
    pub(super) logs: Vec<(PathBuf, Sealed)>,
}

impl Files {
    /// Their length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let base = self.base.as_ref().map_or(0, |(_, base)| base.length);
        base + self.logs.iter().map(|(_, log)| log.length).sum::<u64>()
    }

    /// Checks that no file and no commit is missing.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        let mut next = 1;
        if let Some((path, base)) = &self.base {
            check_length(&*self.disk, path, base.length)?;
            next = base.through + 1;
        }
        for (path, log) in &self.logs {
            check_length(&*self.disk, path, log.length)?;
            check_first(path, log.first, next)?;
            next = log.last + 1;
        }
        Ok(())
    }

    /// Reads everything once.
    pub(super) fn changes(&self, visit: &mut dyn Visit) -> Result<(), StorageError> {
        self.base_changes(visit)?;
        self.log_changes(visit)
    }

    /// Calls `emit` once for each live record, and returns the highest clock.
    ///
    /// Reads the logs twice: first to learn which change of a key is its last one, then for the
    /// values. So memory is needed per key changed since the base, whatever the size of keys and values. A key is told
    /// by a hash of 128 bits with a secret, which no two keys share.
    pub(super) fn live(
        &self,
        emit: &mut dyn FnMut(&Put<'_>) -> Result<(), StorageError>,
    ) -> Result<Option<Version>, StorageError> {
        let mut clock = None;
        let mut last_change: HashMap<[u64; 2], u64, foldhash::fast::RandomState> =
            HashMap::default();
        let hasher = SipHasher13::new_with_keys(self.salt, !self.salt);
        let name = |key: &[u8]| {
            let hash = hasher.hash(key);
            [hash.h1, hash.h2]
        };
        let mut number = 0;
        self.log_changes(&mut |change: Change<'_>| {
            number += 1;
            let key = match &change {
                Change::Clock(version) => {
                    clock = clock.max(Some(*version));
                    return Ok(());
                }
                Change::Put(put) => put.record.key,
                Change::Delete(key) => *key,
            };
            last_change.insert(name(key), number);
            Ok(())
        })?;
        self.base_changes(&mut |change: Change<'_>| match change {
            Change::Clock(version) => {
                clock = clock.max(Some(version));
                Ok(())
            }
            Change::Put(put) if last_change.contains_key(&name(put.record.key)) => Ok(()),
            Change::Put(put) => emit(&put),
            Change::Delete(_) => Ok(()),
        })?;
        number = 0;
        self.log_changes(&mut |change: Change<'_>| {
            number += 1;
            match change {
                Change::Put(put) if last_change.get(&name(put.record.key)) == Some(&number) => {
                    emit(&put)
                }
                _ => Ok(()),
            }
        })?;
        Ok(clock)
    }

    fn log_changes(&self, visit: &mut dyn Visit) -> Result<(), StorageError> {
        for (path, sealed) in &self.logs {
            let header = FileHeader::log(self.salt, sealed.id, sealed.first);
            let mut reader = Reader::open(&*self.disk, path, header, Some(sealed.length))?;
            if !each_change(&mut reader, visit)? {
                return Err(reader.broken());
            }
            if reader.next != sealed.last + 1 {
                return Err(damaged(path, "commits are missing at its end"));
            }
        }
        Ok(())
    }

    fn base_changes(&self, visit: &mut dyn Visit) -> Result<(), StorageError> {
        let Some((path, base)) = &self.base else {
            return Ok(());
        };
        let header = FileHeader::base(self.salt, base.id);
        let mut reader = Reader::open(&*self.disk, path, header, Some(base.length))?;
        if each_change(&mut reader, visit)? {
            Ok(())
        } else {
            Err(reader.broken())
        }
    }
}

/// Checks that a log begins with the commit after those before it.
pub(super) fn check_first(log: &Path, first: u64, expected: u64) -> Result<(), StorageError> {
    if first == expected {
        Ok(())
    } else {
        Err(damaged(log, "commits are missing before it"))
    }
}

/// Reads the rest of a file; `false` if it ends with something that is not an intact frame.
pub(super) fn each_change(
    reader: &mut Reader,
    visit: &mut dyn Visit,
) -> Result<bool, StorageError> {
    loop {
        match next_changes(reader, visit)? {
            Ended::Not => {}
            Ended::Whole => return Ok(true),
            Ended::Broken => return Ok(false),
        }
    }
}

/// Whether a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// A frame was read.
    Not,
    /// After an intact frame.
    Whole,
    /// With something that is not an intact frame.
    Broken,
}

/// Reads the changes of the next frame.
pub(super) fn next_changes(
    reader: &mut Reader,
    visit: &mut dyn Visit,
) -> Result<Ended, StorageError> {
    let before = reader.offset;
    let mut changes = match reader.step()? {
        Step::Frame(payload) => Changes::new(payload),
        Step::End => return Ok(Ended::Whole),
        Step::Broken => return Ok(Ended::Broken),
    };
    let mut next = Vec::with_capacity(AHEAD);
    let mut is_over = false;
    while !is_over {
        while next.len() < AHEAD && !is_over {
            match changes.next() {
                Ok(Some(change)) => next.push(change),
                Ok(None) => is_over = true,
                Err(_) => return Err(reader.broken()),
            }
        }
        visit.ahead(&next);
        for change in next.drain(..) {
            visit.change(change)?;
        }
    }
    visit.read(reader.offset - before)?;
    Ok(Ended::Not)
}
