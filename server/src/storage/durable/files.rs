//! The base and the logs after it, read in the order in which their changes happened.
use super::directory::check_length;
use super::log::{FileHeader, Reader, Step, damaged};
use super::manifest::{Base, Sealed};
use crate::storage::StorageError;
use crate::storage::disk::Disk;
use crate::storage::record::{Change, Changes};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of changes that are announced at a time.
const AHEAD: usize = 32;

/// A visitor of changes.
pub(super) trait Visit {
    /// Announces the next changes.
    fn ahead(&mut self, _changes: &[Change<'_>]) {}
    /// Takes the next change.
    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError>;
    /// Called after each frame with the number of file bytes read since the last call.
    fn read(&mut self, _bytes: u64) -> Result<(), StorageError> {
        Ok(())
    }
}

impl<F: FnMut(Change<'_>) -> Result<(), StorageError>> Visit for F {
    fn change(&mut self, change: Change<'_>) -> Result<(), StorageError> {
        self(change)
    }
}

/// Files that no longer change, oldest first.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) salt: u64,
    pub(super) base: Option<(PathBuf, Base)>,
    pub(super) logs: Vec<(PathBuf, Sealed)>,
}

impl Files {
    /// Returns the total length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let base = self.base.as_ref().map_or(0, |(_, base)| base.length);
        base + self.logs.iter().map(|(_, log)| log.length).sum::<u64>()
    }

    /// Returns the paths of the files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let base = self.base.iter().map(|(path, _)| path.as_path());
        base.chain(self.logs.iter().map(|(path, _)| path.as_path()))
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

    /// Reads the logs.
    pub(super) fn log_changes(&self, visit: &mut dyn Visit) -> Result<(), StorageError> {
        for (path, sealed) in &self.logs {
            self.changes_of(path, sealed, visit)?;
        }
        Ok(())
    }

    /// Reads one of the logs.
    pub(super) fn changes_of(
        &self,
        path: &Path,
        sealed: &Sealed,
        visit: &mut dyn Visit,
    ) -> Result<(), StorageError> {
        let header = FileHeader::log(self.salt, sealed.id, sealed.first);
        let mut reader = Reader::open(&*self.disk, path, header, Some(sealed.length))?;
        if !each_change(&mut reader, visit)? {
            return Err(reader.broken());
        }
        if reader.next != sealed.last + 1 {
            return Err(damaged(path, "commits are missing at its end"));
        }
        Ok(())
    }

    /// Reads the base.
    pub(super) fn base_changes(&self, visit: &mut dyn Visit) -> Result<(), StorageError> {
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

/// Position after a frame was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// A frame was read; another one may follow.
    Not,
    /// The file ended after an intact frame.
    Whole,
    /// The file ends with bytes that are not an intact frame.
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
