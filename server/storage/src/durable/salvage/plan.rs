//! The files that belong to a damaged store: those of its manifest, or what the files themselves tell if it cannot be read.
use super::Loss;
use super::file_scan::PlannedFile;
use super::scanner::{FrameScanner, Piece, ReadCounter};
use crate::StorageError;
use crate::disk::{Disk, OpenMode};
use crate::durable::acknowledgement_mark::AcknowledgementMark;
use crate::durable::directory::{base_path, id_of, log_path, read_manifest};
use crate::durable::log::{FILE_HEADER, FileHeader, FileKind};
use crate::durable::manifest::{self, Manifest, newer_format};
use crate::durable::stopped_store::no_store_error;
use crate::record::{ChangeDecoder, LogChange};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files to read, oldest first.
#[derive(Debug)]
pub(super) struct SalvagePlan {
    pub(super) salt: u64,
    pub(super) base: Option<PlannedFile>,
    pub(super) logs: Vec<PlannedFile>,
    /// Losses that are known before the files are read.
    pub(super) losses: Vec<Loss>,
    /// Number up to which commits may be missing between the base and the logs.
    pub(super) missing_through: Option<u64>,
}

impl SalvagePlan {
    /// Finds the files of a store.
    ///
    /// # Errors
    /// No file of a store is there, or a later version of this program wrote it.
    pub(super) fn make(
        disk: &dyn Disk,
        directory: &Path,
        read: &mut ReadCounter<'_>,
    ) -> Result<Self, StorageError> {
        let path = directory.join(manifest::NAME);
        let problem: String = match read_manifest(disk, directory) {
            Ok(Some(manifest)) => return Self::of_manifest(disk, directory, &manifest),
            Ok(None) => "is missing".into(),
            Err(StorageError::Damaged(damage)) => {
                let is_as_written = disk
                    .read(&path)
                    .is_ok_and(|bytes| manifest::is_as_written(&bytes));
                if is_as_written {
                    return Err(damage.into());
                }
                damage.problem().into()
            }
            Err(error) => return Err(error),
        };
        let mut plan = FoundFiles::find(disk, directory, read)?.plan();
        let consequence = match plan.missing_through {
            Some(_) => "commits before the oldest log may be lost",
            None => "the other files tell which belong to the store",
        };
        let loss = Loss::of_file(&path, &format!("{problem}; {consequence}"));
        plan.losses.insert(0, loss);
        Ok(plan)
    }

    fn of_manifest(
        disk: &dyn Disk,
        directory: &Path,
        manifest: &Manifest,
    ) -> Result<Self, StorageError> {
        let salt = manifest.salt;
        let mut losses = Vec::new();
        let acknowledged = match AcknowledgementMark::read(disk, directory, salt) {
            Ok(acknowledged) => Some(acknowledged.sequence),
            Err(StorageError::Damaged(damage)) => {
                let problem = format!(
                    "{}; the last commits of log-{} may be lost",
                    damage.problem(),
                    manifest.active
                );
                losses.push(Loss::of_file(damage.path(), &problem));
                None
            }
            Err(error) => return Err(error),
        };
        let base = manifest.base.map(|base| PlannedFile {
            path: base_path(directory, base.id),
            header: FileHeader::base(salt, base.id),
            last: None,
            length: Some(base.length),
            is_current: false,
        });
        let sealed = manifest.sealed.iter().map(|log| PlannedFile {
            path: log_path(directory, log.id),
            header: FileHeader::log(salt, log.id, log.first),
            last: Some(log.last),
            length: Some(log.length),
            is_current: false,
        });
        let current = PlannedFile {
            path: log_path(directory, manifest.active),
            header: FileHeader::log(salt, manifest.active, manifest.first),
            last: acknowledged,
            length: None,
            is_current: true,
        };
        Ok(Self {
            salt,
            base,
            logs: sealed.chain([current]).collect(),
            losses,
            missing_through: None,
        })
    }
}

/// A log or base that was found without a manifest.
#[derive(Debug)]
struct FoundFile {
    path: PathBuf,
    id: u64,
    first: u64,
    /// Number of the last intact frame; one less than `first` if there is none.
    last: u64,
    /// Whether no frame is missing and nothing else is in the file.
    is_whole: bool,
    /// Whether the last frame ends with a clock, as that of a finished base does.
    ends_with_clock: bool,
}

/// The logs and bases in a directory that have the same salt, in order of their numbers.
#[derive(Debug)]
struct FoundFiles {
    salt: u64,
    bases: Vec<FoundFile>,
    logs: Vec<FoundFile>,
    /// Number of the last acknowledged commit, if it is known.
    acknowledged: Option<u64>,
    losses: Vec<Loss>,
}

impl FoundFiles {
    fn find(
        disk: &dyn Disk,
        directory: &Path,
        read: &mut ReadCounter<'_>,
    ) -> Result<Self, StorageError> {
        let names = disk.names(directory).map_err(StorageError::io(|| {
            format!("cannot read the directory {}", directory.display())
        }))?;
        let mut kinds = BTreeMap::new();
        for name in names.iter().filter_map(|name| name.to_str()) {
            let kind = match (id_of(name, "base-"), id_of(name, "log-")) {
                (Some(id), _) => (id, FileKind::Base),
                (_, Some(id)) => (id, FileKind::Log),
                _ => continue,
            };
            kinds.insert(directory.join(name), kind);
        }
        let mut headers = BTreeMap::new();
        for path in kinds.keys() {
            headers.insert(path.clone(), read_header(disk, path)?);
        }
        let salt = most_frequent_salt(headers.values().flatten())
            .or_else(|| AcknowledgementMark::read_salt(disk, directory));
        let Some(salt) = salt else {
            return Err(no_store_error(directory));
        };
        let mark = AcknowledgementMark::read(disk, directory, salt);
        let mut found = Self {
            salt,
            bases: Vec::new(),
            logs: Vec::new(),
            acknowledged: mark.ok().map(|acknowledged| acknowledged.sequence),
            losses: Vec::new(),
        };
        for (path, (id, kind)) in kinds {
            let header = headers.remove(&path).flatten();
            let is_foreign = header
                .is_some_and(|header| (header.salt, header.id, header.kind) != (salt, id, kind));
            if is_foreign {
                found.losses.push(Loss::of_file(&path, "is another file"));
                continue;
            }
            let first = header.map(|header| header.first);
            let file = measure(disk, &path, salt, (id, kind), first, read)?;
            match (file, kind) {
                (Some(base), FileKind::Base) => found.bases.push(base),
                (Some(log), FileKind::Log) => found.logs.push(log),
                // The next log is prepared without content.
                (None, _) if disk.status(&path).is_ok_and(|status| status.length == 0) => {}
                (None, _) => found
                    .losses
                    .push(Loss::of_file(&path, "has no intact record")),
            }
        }
        found.bases.sort_by_key(|base| base.id);
        found.logs.sort_by_key(|log| log.id);
        Ok(found)
    }

    /// Chooses the oldest base that all logs after it continue without a gap: files before it were merged into it, and newer
    /// bases contain nothing else. Without such a base, chooses the newest one that was finished.
    fn plan(mut self) -> SalvagePlan {
        let merged = |base: &FoundFile| self.logs.partition_point(|log| log.id + 1 < base.id);
        let is_start = |base: &FoundFile, log: &FoundFile| {
            log.id + 1 == base.id || base.id == 2 && log.first == 2
        };
        // A merge begins with a log after all that it merges.
        let newest_base = self.bases.last().map_or(0, |base| base.id);
        let has_newest_log = self
            .logs
            .last()
            .is_some_and(|log| log.id + 1 >= newest_base);
        let is_complete = |base: &FoundFile| {
            let logs = &self.logs[merged(base)..];
            let is_continued = logs.first().is_some_and(|log| is_start(base, log));
            base.is_whole && has_newest_log && is_continued && is_chain(logs)
        };
        let is_whole_history = has_newest_log
            && self.logs.first().is_some_and(|log| log.first == 1)
            && is_chain(&self.logs);
        let complete = self.bases.iter().position(is_complete);
        let chosen = if is_whole_history {
            None
        } else {
            let is_finished = |base: &FoundFile| base.is_whole && base.ends_with_clock;
            let finished = || self.bases.iter().rposition(is_finished);
            let any = || (!self.bases.is_empty()).then_some(0);
            complete.or_else(finished).or_else(any)
        };
        let mut skipped = 0;
        if let Some(index) = chosen {
            skipped = merged(&self.bases[index]);
            while skipped > 0 && is_next(&self.logs, skipped) {
                skipped -= 1;
            }
        }
        let salt = self.salt;
        let base = chosen.map(|index| {
            let base = self.bases.swap_remove(index);
            PlannedFile {
                header: FileHeader::base(salt, base.id),
                path: base.path,
                last: None,
                length: None,
                is_current: false,
            }
        });
        let logs: Vec<_> = self.logs.drain(skipped..).collect();
        let missing_through = (!is_whole_history && complete.is_none()).then(|| {
            logs.first()
                .map_or(u64::MAX, |log| log.first.saturating_sub(1))
        });
        let next: Vec<_> = logs.iter().skip(1).map(|log| log.first).collect();
        let logs = logs.into_iter().enumerate().map(|(at, log)| {
            let next = next.get(at).copied();
            PlannedFile {
                path: log.path,
                header: FileHeader::log(salt, log.id, log.first),
                last: next.map_or(self.acknowledged, |next| next.checked_sub(1)),
                length: None,
                is_current: next.is_none(),
            }
        });
        SalvagePlan {
            salt,
            base,
            logs: logs.collect(),
            losses: self.losses,
            missing_through,
        }
    }
}

/// Returns whether the log at this index continues the one before it.
fn is_next(logs: &[FoundFile], at: usize) -> bool {
    logs.get(at)
        .is_some_and(|log| logs[at - 1].last + 1 == log.first)
}

/// Returns whether each log continues the one before it. The last one may end with anything.
fn is_chain(logs: &[FoundFile]) -> bool {
    (1..logs.len()).all(|at| logs[at - 1].is_whole && is_next(logs, at))
}

/// Reads the header of a log or base, if it is intact.
fn read_header(disk: &dyn Disk, path: &Path) -> Result<Option<FileHeader>, StorageError> {
    let mut bytes = Vec::with_capacity(FILE_HEADER);
    let read = disk
        .open(path, OpenMode::Read)
        .and_then(|file| file.take(FILE_HEADER as u64).read_to_end(&mut bytes));
    if read.is_err() {
        return Ok(None);
    }
    match FileHeader::newer_format(&bytes) {
        Some(format) => Err(newer_format(path, format)),
        None => Ok(FileHeader::decode(&bytes)),
    }
}

fn most_frequent_salt<'a>(headers: impl Iterator<Item = &'a FileHeader>) -> Option<u64> {
    let mut counts = BTreeMap::new();
    for header in headers {
        *counts.entry(header.salt).or_insert(0_u64) += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(salt, _)| salt)
}

/// Reads the frames of a log or base. Returns `None` if nothing in it can be used.
fn measure(
    disk: &dyn Disk,
    path: &Path,
    salt: u64,
    (id, kind): (u64, FileKind),
    first: Option<u64>,
    read: &mut ReadCounter<'_>,
) -> Result<Option<FoundFile>, StorageError> {
    let mut scanner = match FrameScanner::open(disk, path, salt, None) {
        Ok(scanner) => scanner,
        Err(StorageError::Damaged(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut first = if kind == FileKind::Base {
        Some(1)
    } else {
        first
    };
    let mut last = None;
    let mut is_whole = true;
    let mut ends_with_clock = false;
    while let Some(piece) = scanner.next(read)? {
        let Piece::Frame(sequence) = piece else {
            is_whole = false;
            continue;
        };
        let first = *first.get_or_insert(sequence);
        let next = last.map_or(first, |last: u64| last.saturating_add(1));
        is_whole &= sequence == next;
        last = last.max(Some(sequence));
        ends_with_clock = has_clock_at_end(scanner.payload());
    }
    let is_base_without_frames = kind == FileKind::Base && last.is_none();
    Ok(first
        .filter(|_| !is_base_without_frames)
        .map(|first| FoundFile {
            path: path.into(),
            id,
            first,
            last: last.unwrap_or(first.saturating_sub(1)),
            is_whole,
            ends_with_clock,
        }))
}

fn has_clock_at_end(payload: &[u8]) -> bool {
    let mut changes = ChangeDecoder::new(payload);
    let mut is_clock = false;
    while let Ok(Some(change)) = changes.next() {
        is_clock = matches!(change, LogChange::Clock(_));
    }
    is_clock
}
