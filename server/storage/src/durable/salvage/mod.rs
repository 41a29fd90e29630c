//! Salvage: a new store of all that is intact in a damaged data directory, and the list of what is lost.
//!
//! Each frame has checksums of its own, so the intact frames behind damage are found again. The logs are read twice: for the last
//! change of each key, and for the records. A record that a lost commit may have changed or deleted is kept, and counted as
//! possibly stale.
mod file_scan;
mod plan;
mod scanner;

use super::directory_lock::DirectoryLock;
use super::new_store::NewStore;
use crate::disk::{Disk, FileSystem};
use crate::record::{ChangeDecoder, LogChange, Version};
use crate::{RecordReceiver, RecordView, StorageError};
use file_scan::{FileScan, PlannedFile};
use plan::SalvagePlan;
use scanner::ReadCounter;
use siphasher::sip128::SipHasher13;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A part of a store that could not be salvaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The damaged or missing file.
    pub path: PathBuf,
    /// Positions of the bytes that were skipped, if they are known.
    pub bytes: Option<Range<u64>>,
    /// The problem and the loss, as a sentence whose subject is the path.
    pub problem: String,
}

impl Loss {
    fn of_file(path: &Path, problem: &str) -> Self {
        Self {
            path: path.into(),
            bytes: None,
            problem: problem.into(),
        }
    }
}

/// Result of a salvage.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Number of records in the new store.
    pub records: u64,
    /// Number of these records that a lost commit may have changed or deleted.
    pub possibly_stale: u64,
    /// Number of commits that are known to be lost.
    pub lost_commits: u64,
    /// Damage and losses. Empty if the new store has everything.
    pub losses: Vec<Loss>,
    /// The log that ends with an unfinished commit, which was never acknowledged.
    pub torn_log: Option<PathBuf>,
}

/// Creates a store in `to` with all that is intact in the data directory `from`, which no process uses and which is not changed.
/// `read` receives the number of bytes read since the last call, and can stop the salvage with an error.
///
/// The clock of the new store is not below any version that was found, if something is lost.
///
/// # Errors
/// `from` is in use, cannot be read, or has no file of a store. `to` is in `from`, has files or cannot be written; nothing
/// remains in it.
pub fn salvage(
    from: &Path,
    to: &Path,
    read: &mut dyn FnMut(u64) -> Result<(), StorageError>,
) -> Result<SalvageReport, StorageError> {
    let disk = FileSystem;
    reject_nested(from, to)?;
    let _lock = DirectoryLock::take_if_present(&disk, from)?;
    let plan = SalvagePlan::make(&disk, from, read)?;
    let mut store = NewStore::create(to, plan.salt)?;
    let mut salvage = Salvage::new(&disk, plan);
    salvage.index_logs(read)?;
    salvage.copy_records(&mut store, read)?;
    let clock = salvage.clock();
    store.finish(clock)?;
    Ok(salvage.report)
}

/// Rejects a new directory inside of the damaged one, in which nothing may be written.
fn reject_nested(from: &Path, to: &Path) -> Result<(), StorageError> {
    let outer = from.canonicalize().map_err(StorageError::io(|| {
        format!("cannot read the directory {}", from.display())
    }))?;
    let cannot = || format!("cannot make a store in {}", to.display());
    let to = std::path::absolute(to).map_err(StorageError::io(cannot))?;
    let existing = to.ancestors().find_map(|path| path.canonicalize().ok());
    if existing.is_some_and(|existing| existing.starts_with(&outer)) {
        let problem = "it is in the damaged directory, which must stay as it is";
        let source = io::Error::new(ErrorKind::InvalidInput, problem);
        return Err(StorageError::io(cannot)(source));
    }
    Ok(())
}

/// A key, identified by a keyed hash of 128 bits, so that collisions are not expected.
type KeyHash = [u64; 2];
/// Position of a change: number of its commit, and index in the commit.
type Position = (u64, usize);

/// A salvage in progress.
struct Salvage<'a> {
    disk: &'a dyn Disk,
    plan: SalvagePlan,
    hasher: SipHasher13,
    /// Position of the last intact change of each key in the logs.
    last_change: HashMap<KeyHash, Position, foldhash::fast::RandomState>,
    /// Number of frames in the logs.
    frames: u64,
    /// Number of the last lost commit.
    last_lost: Option<u64>,
    versions: SeenVersions,
    report: SalvageReport,
}

/// The highest versions that were found.
#[derive(Debug, Default, Clone, Copy)]
struct SeenVersions {
    clock: Option<Version>,
    record: Option<Version>,
}

impl SeenVersions {
    fn add(&mut self, change: &LogChange<'_>) {
        match change {
            LogChange::Clock(version) => self.clock = self.clock.max(Some(*version)),
            LogChange::Put(put) => self.record = self.record.max(Some(put.record.version)),
            LogChange::Delete(_) => {}
        }
    }
}

impl<'a> Salvage<'a> {
    fn new(disk: &'a dyn Disk, mut plan: SalvagePlan) -> Self {
        let report = SalvageReport {
            losses: std::mem::take(&mut plan.losses),
            ..SalvageReport::default()
        };
        Self {
            disk,
            hasher: SipHasher13::new_with_keys(plan.salt, !plan.salt),
            last_change: HashMap::default(),
            frames: 0,
            last_lost: plan.missing_through,
            versions: SeenVersions::default(),
            report,
            plan,
        }
    }

    /// Finds the last intact change of each key in the logs.
    fn index_logs(&mut self, read: &mut ReadCounter<'_>) -> Result<(), StorageError> {
        for log in &self.plan.logs {
            let (hasher, last_change) = (&self.hasher, &mut self.last_change);
            let versions = &mut self.versions;
            let scan = FileScan::run(self.disk, log, read, &mut |sequence, payload| {
                visit_changes(payload, &mut |index, change| {
                    versions.add(&change);
                    if let Some(key) = changed_key(&change) {
                        last_change.insert(key_hash(hasher, key), (sequence, index));
                    }
                    Ok(())
                })
            })?;
            self.frames += scan.frames;
            self.last_lost = self.last_lost.max(scan.last_lost);
            self.report.lost_commits += scan.lost_commits;
            if scan.is_torn {
                self.report.torn_log = Some(log.path.clone());
            }
            self.report.losses.extend(scan.losses);
        }
        Ok(())
    }

    /// Writes the records that no later change replaces.
    fn copy_records(
        &mut self,
        store: &mut NewStore,
        read: &mut ReadCounter<'_>,
    ) -> Result<(), StorageError> {
        let (hasher, last_change) = (&self.hasher, &self.last_change);
        let last_lost = self.last_lost;
        let versions = &mut self.versions;
        let (mut records, mut stale) = (0, 0);
        let mut copy = |record: &RecordView<'_>, sequence: u64| {
            records += 1;
            stale += u64::from(last_lost.is_some_and(|lost| lost >= sequence));
            store.record(record)
        };
        if let Some(base) = &self.plan.base {
            let scan = FileScan::run(self.disk, base, read, &mut |_, payload| {
                visit_changes(payload, &mut |_, change| {
                    versions.add(&change);
                    match change {
                        LogChange::Put(put)
                            if !last_change.contains_key(&key_hash(hasher, put.record.key)) =>
                        {
                            copy(&put.record, 0)
                        }
                        _ => Ok(()),
                    }
                })
            })?;
            self.report.losses.extend(scan.losses);
        }
        let mut frames = 0;
        for log in &self.plan.logs {
            let scan = FileScan::run(self.disk, log, read, &mut |sequence, payload| {
                visit_changes(payload, &mut |index, change| match change {
                    LogChange::Put(put)
                        if last_change.get(&key_hash(hasher, put.record.key))
                            == Some(&(sequence, index)) =>
                    {
                        copy(&put.record, sequence)
                    }
                    _ => Ok(()),
                })
            })?;
            frames += scan.frames;
        }
        if frames != self.frames {
            return Err(logs_changed_error(&self.plan.logs));
        }
        (self.report.records, self.report.possibly_stale) = (records, stale);
        Ok(())
    }

    /// Returns the clock of the new store. Deletions and later versions of records may be lost if anything is, so that the
    /// versions of all records count then.
    fn clock(&self) -> Option<Version> {
        let SeenVersions { clock, record } = self.versions;
        if self.report.losses.is_empty() {
            clock
        } else {
            clock.max(record)
        }
    }
}

/// Visits the changes in a payload that was checked, with their indexes.
fn visit_changes(
    payload: &[u8],
    visit: &mut dyn FnMut(usize, LogChange<'_>) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut changes = ChangeDecoder::new(payload);
    let mut index = 0;
    while let Ok(Some(change)) = changes.next() {
        visit(index, change)?;
        index += 1;
    }
    Ok(())
}

fn changed_key<'a>(change: &LogChange<'a>) -> Option<&'a [u8]> {
    match change {
        LogChange::Clock(_) => None,
        LogChange::Put(put) => Some(put.record.key),
        LogChange::Delete(key) => Some(*key),
    }
}

fn key_hash(hasher: &SipHasher13, key: &[u8]) -> KeyHash {
    let hash = hasher.hash(key);
    [hash.h1, hash.h2]
}

fn logs_changed_error(logs: &[PlannedFile]) -> StorageError {
    let path = logs.first().map_or(Path::new(""), |log| &log.path);
    StorageError::Io {
        what: format!("cannot read {} and the logs after it twice", path.display()),
        source: io::Error::other("they have changed meanwhile"),
    }
}
