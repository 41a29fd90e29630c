//! The base and the logs after it, read in the order in which their changes happened.
use super::directory::check_length;
use super::file_damage::damage_error;
use super::log::{FileHeader, FrameRead, Reader};
use super::manifest::{BaseFile, SealedLog};
use crate::StorageError;
use crate::disk::Disk;
use crate::record::{ChangeDecoder, LogChange};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of changes that are announced at a time.
const MAX_ANNOUNCED: usize = 32;

/// A visitor of changes.
pub(super) trait ChangeVisitor {
    /// Announces the next changes.
    fn announce(&mut self, _changes: &[LogChange<'_>]) {}
    /// Takes the next change.
    fn change(&mut self, change: LogChange<'_>) -> Result<(), StorageError>;
    /// Called after each frame with the number of file bytes read since the last call.
    fn progressed(&mut self, _bytes: u64) -> Result<(), StorageError> {
        Ok(())
    }
}

impl<F: FnMut(LogChange<'_>) -> Result<(), StorageError>> ChangeVisitor for F {
    fn change(&mut self, change: LogChange<'_>) -> Result<(), StorageError> {
        self(change)
    }
}

/// Files that no longer change, oldest first.
#[derive(Debug, Clone)]
pub(super) struct StoreFiles {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) salt: u64,
    pub(super) base: Option<(PathBuf, BaseFile)>,
    pub(super) logs: Vec<(PathBuf, SealedLog)>,
}

impl StoreFiles {
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
            next = base.last + 1;
        }
        for (path, log) in &self.logs {
            check_length(&*self.disk, path, log.length)?;
            check_first(path, log.first, next)?;
            next = log.last + 1;
        }
        Ok(())
    }

    /// Reads everything once.
    pub(super) fn visit_all(&self, visit: &mut dyn ChangeVisitor) -> Result<(), StorageError> {
        self.visit_base(visit)?;
        self.visit_logs(visit)
    }

    /// Reads the logs.
    pub(super) fn visit_logs(&self, visit: &mut dyn ChangeVisitor) -> Result<(), StorageError> {
        for (path, sealed) in &self.logs {
            self.visit_log(path, sealed, visit)?;
        }
        Ok(())
    }

    /// Reads one of the logs.
    pub(super) fn visit_log(
        &self,
        path: &Path,
        sealed: &SealedLog,
        visit: &mut dyn ChangeVisitor,
    ) -> Result<(), StorageError> {
        let header = FileHeader::log(self.salt, sealed.id, sealed.first);
        let mut reader = Reader::open(&*self.disk, path, header, Some(sealed.length))?;
        if !visit_changes(&mut reader, visit)? {
            return Err(reader.damaged_error());
        }
        if reader.next != sealed.last + 1 {
            return Err(damage_error(path, "commits are missing at its end"));
        }
        Ok(())
    }

    /// Reads the base.
    pub(super) fn visit_base(&self, visit: &mut dyn ChangeVisitor) -> Result<(), StorageError> {
        let Some((path, base)) = &self.base else {
            return Ok(());
        };
        let header = FileHeader::base(self.salt, base.id);
        let mut reader = Reader::open(&*self.disk, path, header, Some(base.length))?;
        if visit_changes(&mut reader, visit)? {
            Ok(())
        } else {
            Err(reader.damaged_error())
        }
    }
}

/// Checks that a log begins with the commit after those before it.
pub(super) fn check_first(log: &Path, first: u64, expected: u64) -> Result<(), StorageError> {
    if first == expected {
        Ok(())
    } else {
        Err(damage_error(log, "commits are missing before it"))
    }
}

/// Reads the rest of a file; `false` if it ends with something that is not an intact frame.
pub(super) fn visit_changes(
    reader: &mut Reader,
    visit: &mut dyn ChangeVisitor,
) -> Result<bool, StorageError> {
    loop {
        match visit_frame(reader, visit)? {
            ReadStatus::More => {}
            ReadStatus::EndOfFile => return Ok(true),
            ReadStatus::Damaged => return Ok(false),
        }
    }
}

/// Position after a frame was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadStatus {
    /// A frame was read; another one may follow.
    More,
    /// The file ended after an intact frame.
    EndOfFile,
    /// The file ends with bytes that are not an intact frame.
    Damaged,
}

/// Reads the changes of the next frame.
pub(super) fn visit_frame(
    reader: &mut Reader,
    visit: &mut dyn ChangeVisitor,
) -> Result<ReadStatus, StorageError> {
    let before = reader.offset;
    let mut changes = match reader.next_frame()? {
        FrameRead::Frame(payload) => ChangeDecoder::new(payload),
        FrameRead::End => return Ok(ReadStatus::EndOfFile),
        FrameRead::Damaged => return Ok(ReadStatus::Damaged),
    };
    let mut next = Vec::with_capacity(MAX_ANNOUNCED);
    let mut is_over = false;
    while !is_over {
        while next.len() < MAX_ANNOUNCED && !is_over {
            match changes.next() {
                Ok(Some(change)) => next.push(change),
                Ok(None) => is_over = true,
                Err(_) => return Err(reader.damaged_error()),
            }
        }
        visit.announce(&next);
        for change in next.drain(..) {
            visit.change(change)?;
        }
    }
    visit.progressed(reader.offset - before)?;
    Ok(ReadStatus::More)
}
