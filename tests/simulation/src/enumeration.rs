//! Every end of a process that writes to its disk, and every failure of a call, within one workload. The workload has commits of
//! one sector and of several, deletions, sealed logs, merges, orderly ends and starts.
//!
//! The seeds draw the end of a process and the surviving changes at random; here both are enumerated. Every change of the disk is
//! recorded, call by call. After each call, the state that the next process would find is checked. It is checked after the end of
//! the process, and after a power failure with each distinct state that it [may leave](FileTree::crash_states). Acknowledged commits
//! have to be there, and a pending commit as a whole or not at all.
use crate::disk::{DiskChange, DiskHandle, Failure, FileTree, NameChange, ProcessEnd};
use bytes::Bytes;
use statestored_storage::{
    Batch, DurableStorage, Record, RecordView, Restore, Storage as _, StorageError, Write,
};
use std::collections::{BTreeMap, HashSet};

/// Length of a log, small enough that a few commits fill it.
const LOG_BYTES: u64 = 900;
/// Number of commits of each process.
const COMMITS: [usize; 3] = [11, 6, 3];
/// Lengths of the values, in turn; some take several sectors.
const LENGTHS: [usize; 5] = [10, 700, 40, 300, 5];

/// The number of enumerated states.
#[derive(Debug, Default, Clone, Copy)]
pub struct EnumerationReport {
    /// Calls after which the state was checked.
    pub prefixes: u64,
    /// Distinct disks that the next process found.
    pub disks: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Logs and merged bases that the workload creates.
    pub files: (usize, usize),
}

/// The state that a process finds.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct StoreContents {
    records: BTreeMap<Bytes, Record>,
    clock: Option<(u64, u64)>,
}

impl StoreContents {
    fn apply(&mut self, batch: &Batch) {
        self.clock = self.clock.max(batch.clock);
        for write in &batch.writes {
            match write {
                Write::Put(record) => self.records.insert(record.key.clone(), record.clone()),
                Write::Delete(key) => self.records.remove(key),
            };
        }
    }
}

impl Restore for StoreContents {
    fn put(&mut self, record: &RecordView<'_>) {
        let record = Record {
            key: Bytes::copy_from_slice(record.key),
            value: Bytes::copy_from_slice(record.value),
            version: record.version,
            fence: record.fence.clone(),
            expiry: record.expiry,
        };
        self.records.insert(record.key.clone(), record);
    }

    fn delete(&mut self, key: &[u8]) {
        self.records.remove(key);
    }
}

/// Returns the batch of the commit with this number.
fn batch(number: usize) -> Batch {
    let key: Bytes = format!("k{}", number % 4).into();
    let version = (number as u64 + 1, 0);
    let mut batch = Batch::default();
    if number % 5 == 4 {
        batch.delete(&key, version);
    } else {
        let mut value = format!("{number} ").into_bytes();
        value.resize(LENGTHS[number % LENGTHS.len()], b'.');
        batch.writes.push(Write::Put(Record {
            key,
            value: value.into(),
            version,
            fence: None,
            expiry: None,
        }));
    }
    batch
}

/// Returns the state of the store after each number of commits.
fn states() -> Vec<StoreContents> {
    let mut states = vec![StoreContents::default()];
    for number in 0..COMMITS.iter().sum() {
        let mut next = states[number].clone();
        next.apply(&batch(number));
        states.push(next);
    }
    states
}

/// The workload: the number of disk changes at which each event became known.
#[derive(Debug, Default)]
struct WorkloadLog {
    /// Start of each commit.
    started: Vec<usize>,
    /// Acknowledgement of each commit.
    acknowledged: Vec<usize>,
    /// Position of each orderly end.
    closed: Vec<usize>,
}

impl WorkloadLog {
    /// Runs the workload, as far as possible. A job continues after this number of commits; with 0 it runs to its end.
    fn new(drive: &DiskHandle, pace: usize) -> Self {
        let mut work = Self::default();
        for (process, commits) in COMMITS.iter().enumerate() {
            let result = work.process(drive, *commits, pace, process + 1 < COMMITS.len());
            drive.end(ProcessEnd::Killed, u64::MAX);
            if result.is_err() {
                break;
            }
        }
        work
    }

    fn process(
        &mut self,
        drive: &DiskHandle,
        commits: usize,
        pace: usize,
        closes: bool,
    ) -> Result<(), StorageError> {
        let mut storage = drive.open(LOG_BYTES)?;
        let result = self.commits(drive, &mut storage, commits, pace);
        if result.is_err() || !closes {
            // The process ends without closing the storage.
            drive.end(ProcessEnd::Killed, u64::MAX);
            return result;
        }
        drop(storage);
        self.closed.push(drive.recorded());
        Ok(())
    }

    fn commits(
        &mut self,
        drive: &DiskHandle,
        storage: &mut DurableStorage,
        commits: usize,
        pace: usize,
    ) -> Result<(), StorageError> {
        let mut found = StoreContents::default();
        storage.load(&mut found)?;
        let mut jobs = Vec::new();
        for _ in 0..commits {
            prepare(storage)?;
            let number = self.acknowledged.len();
            self.started.truncate(number);
            self.started.push(drive.recorded());
            let batches = [batch(number)];
            match storage.commit(&batches) {
                // On a full disk the batch is kept, and retried.
                Err(StorageError::Full { .. }) => {
                    prepare(storage)?;
                    storage.commit(&batches)?;
                }
                result => result?,
            }
            self.acknowledged.push(drive.recorded());
            jobs.extend(drive.take_started_jobs());
            if pace == 0 {
                jobs.drain(..).for_each(|job| while drive.step(job).0 {});
            } else if number.is_multiple_of(pace) {
                jobs.retain(|job| drive.step(*job).0);
            }
        }
        Ok(())
    }

    /// Returns the states that may be found after this number of calls.
    fn allowed<'s>(&self, states: &'s [StoreContents], done: usize) -> &'s [StoreContents] {
        let count = self.acknowledged.partition_point(|at| *at <= done);
        let is_under_way = self.started.get(count).is_some_and(|at| *at <= done);
        &states[count..=count + usize::from(is_under_way)]
    }
}

fn prepare(storage: &mut DurableStorage) -> Result<(), StorageError> {
    match storage.prepare() {
        Err(StorageError::Full { .. }) => Ok(()),
        result => result,
    }
}

/// Checks each disk once.
#[derive(Debug, Default)]
struct CrashChecker {
    checked: HashSet<(u64, usize, usize)>,
    report: EnumerationReport,
}

impl CrashChecker {
    /// Checks that a start with these files finds one of these states.
    fn check_start(&mut self, files: &FileTree, allowed: &[StoreContents]) -> Result<(), String> {
        let known = (
            files.fingerprint(),
            allowed.as_ptr() as usize,
            allowed.len(),
        );
        if !self.checked.insert(known) {
            return Ok(());
        }
        self.report.disks += 1;
        let drive = DiskHandle::recording(files.clone());
        let found = start(&drive).map(|(_, found)| found);
        drive.end(ProcessEnd::Killed, u64::MAX);
        check_allowed(found, allowed).map(|_| ())
    }

    /// Checks that a start finds one of these states after any power failure.
    fn check_power_failures(
        &mut self,
        files: &FileTree,
        allowed: &[StoreContents],
    ) -> Result<(), String> {
        let mut survivals = files.crash_states().into_iter();
        survivals.try_for_each(|files| self.check_start(&files, allowed))
    }

    /// Checks that a process finds one of these states, and commits once more. The found state is then as durable as the new
    /// commit.
    fn check_and_commit(
        &mut self,
        files: FileTree,
        allowed: &[StoreContents],
    ) -> Result<(), String> {
        let drive = DiskHandle::recording(files.clone());
        let (mut storage, found) = match start(&drive) {
            Ok(started) => started,
            Err(error) => return check_allowed(Err(error), allowed).map(|_| ()),
        };
        let loaded = drive.recorded();
        let found = check_allowed(Ok(found), allowed)?;
        let next = batch(0);
        let committed = storage.commit(std::slice::from_ref(&next));
        let acknowledged = drive.recorded();
        drive.end(ProcessEnd::Killed, u64::MAX);
        drop(storage);
        committed.map_err(|error| format!("a commit fails after a start: {error}"))?;
        let mut after = found.clone();
        after.apply(&next);
        let states = [found, after];
        let mut files = files;
        for (done, change) in drive.take_record().iter().enumerate() {
            files.apply(change);
            let done = done + 1;
            let allowed = match done {
                _ if done < loaded => allowed,
                _ if done < acknowledged => &states[..],
                _ => &states[1..],
            };
            // The keys of `checked` contain addresses of the allowed states, which may be reused.
            self.checked.clear();
            self.check_power_failures(&files, allowed)
                .map_err(|why| format!("{why}\nafter {done} calls of the next process"))?;
        }
        Ok(())
    }
}

fn start(drive: &DiskHandle) -> Result<(DurableStorage, StoreContents), StorageError> {
    let mut storage = drive.open(LOG_BYTES)?;
    let mut found = StoreContents::default();
    found.clock = storage.load(&mut found)?;
    Ok((storage, found))
}

fn check_allowed(
    found: Result<StoreContents, StorageError>,
    allowed: &[StoreContents],
) -> Result<StoreContents, String> {
    let found = found.map_err(|error| format!("a start fails: {error}"))?;
    if allowed.contains(&found) {
        return Ok(found);
    }
    Err(format!(
        "a start finds\n  {found:?}\nin the place of one of\n  {allowed:?}"
    ))
}

/// Ends the process, or its machine, after each call. A job continues after this number of commits.
///
/// # Errors
/// The violated invariant, and the call before it.
pub fn enumerate_ends(pace: usize) -> Result<EnumerationReport, String> {
    let (states, mut judge) = (states(), CrashChecker::default());
    let drive = DiskHandle::recording(FileTree::default());
    let work = WorkloadLog::new(&drive, pace);
    let mut files = FileTree::default();
    let record = drive.take_record();
    judge.report.files = (
        count_created(&record, "log-"),
        count_created(&record, "base-"),
    );
    for done in 0..=record.len() {
        let change = done.checked_sub(1).map(|last| &record[last]);
        let result = check_after(&mut judge, &work, &states, &mut files, done, change);
        result.map_err(|why| format!("{why}\nafter the call {done}: {change:?}"))?;
    }
    Ok(judge.report)
}

fn check_after(
    judge: &mut CrashChecker,
    work: &WorkloadLog,
    states: &[StoreContents],
    files: &mut FileTree,
    done: usize,
    change: Option<&DiskChange>,
) -> Result<(), String> {
    if let Some(DiskChange::Name(NameChange::Rename { from, to, .. })) = change
        && current_log(&files.text(from)) != current_log(&files.text(to))
        && !files.is_durable(&to.with_file_name("acknowledged"))
    {
        return Err("a log is sealed before the mark is durable".into());
    }
    if let Some(change) = change {
        files.apply(change);
    }
    if work.closed.contains(&done) && !files.are_durable() {
        return Err("not everything is durable after an orderly end".into());
    }
    judge.report.prefixes += 1;
    let allowed = work.allowed(states, done);
    judge.check_start(files, allowed)?;
    judge.check_power_failures(files, allowed)
}

/// Counts the created files with this name prefix.
fn count_created(record: &[DiskChange], begin: &str) -> usize {
    let is_one = |change: &&DiskChange| match change {
        DiskChange::Name(NameChange::Create { path, .. }) => path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(begin)),
        _ => false,
    };
    record.iter().filter(is_one).count()
}

/// Returns the line of a manifest that names the current log.
fn current_log(manifest: &str) -> Option<&str> {
    let mut lines = manifest.lines();
    lines.rfind(|line| line.starts_with("log "))
}

/// Ends the process after each call; the next one runs until its machine ends after each of its calls.
///
/// # Errors
/// As for [`enumerate_ends`].
pub fn enumerate_ends_of_the_next_process(pace: usize) -> Result<EnumerationReport, String> {
    let (states, mut judge) = (states(), CrashChecker::default());
    let drive = DiskHandle::recording(FileTree::default());
    let work = WorkloadLog::new(&drive, pace);
    let mut files = FileTree::default();
    for (last, change) in drive.take_record().iter().enumerate() {
        files.apply(change);
        let done = last + 1;
        judge.report.prefixes += 1;
        for left in files.after_process() {
            judge
                .check_and_commit(left, work.allowed(&states, done))
                .map_err(|why| format!("{why}\nafter the call {done}: {change:?}"))?;
        }
    }
    Ok(judge.report)
}

/// Makes each call fail, in each possible way.
///
/// # Errors
/// As for [`enumerate_ends`].
pub fn enumerate_failures(pace: usize) -> Result<EnumerationReport, String> {
    let (states, mut judge) = (states(), CrashChecker::default());
    let first = DiskHandle::recording(FileTree::default());
    WorkloadLog::new(&first, pace);
    for how in Failure::ALL {
        for call in 1..=first.calls(how) {
            let drive = DiskHandle::recording(FileTree::default());
            drive.fail(call, how);
            let work = WorkloadLog::new(&drive, pace);
            judge.report.failures += 1;
            let done = drive.recorded();
            let allowed = work.allowed(&states, done);
            for left in drive.files().after_process() {
                judge
                    .check_start(&left, allowed)
                    .and_then(|()| judge.check_power_failures(&left, allowed))
                    .and_then(|()| judge.check_and_commit(left, allowed))
                    .map_err(|why| format!("{why}\nafter {how:?} of the call {call}"))?;
            }
        }
    }
    Ok(judge.report)
}
