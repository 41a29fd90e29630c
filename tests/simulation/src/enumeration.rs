//! Every end of a process that writes to its disk, and every failure of a call, within one workload. The workload has commits of
//! one sector and of several, deletions, sealed logs, merges, orderly ends and starts.
//!
//! The seeds draw the end of a process and the surviving changes at random; here both are enumerated. Every change of the disk is
//! recorded, call by call. After each call, the state that the next process would find is checked. It is checked after the end of
//! the process, and after a power failure with each distinct state that it [may leave](Files::survivals). Acknowledged commits
//! have to be there, and a pending commit as a whole or not at all.
use crate::disk::{Change, Drive, End, Failure, Files, NameChange};
use bytes::Bytes;
use statestored::storage::{
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
pub struct Enumerated {
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
struct Found {
    records: BTreeMap<Bytes, Record>,
    clock: Option<(u64, u64)>,
}

impl Found {
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

impl Restore for Found {
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
fn states() -> Vec<Found> {
    let mut states = vec![Found::default()];
    for number in 0..COMMITS.iter().sum() {
        let mut next = states[number].clone();
        next.apply(&batch(number));
        states.push(next);
    }
    states
}

/// The workload: the number of disk changes at which each event became known.
#[derive(Debug, Default)]
struct Work {
    /// Start of each commit.
    begun: Vec<usize>,
    /// Acknowledgement of each commit.
    acknowledged: Vec<usize>,
    /// Position of each orderly end.
    closed: Vec<usize>,
}

impl Work {
    /// Runs the workload, as far as possible. A job continues after this number of commits; with 0 it runs to its end.
    fn new(drive: &Drive, pace: usize) -> Self {
        let mut work = Self::default();
        for (process, commits) in COMMITS.iter().enumerate() {
            let result = work.process(drive, *commits, pace, process + 1 < COMMITS.len());
            drive.end(End::Process, u64::MAX);
            if result.is_err() {
                break;
            }
        }
        work
    }

    fn process(
        &mut self,
        drive: &Drive,
        commits: usize,
        pace: usize,
        closes: bool,
    ) -> Result<(), StorageError> {
        let mut storage = drive.open(LOG_BYTES)?;
        let result = self.commits(drive, &mut storage, commits, pace);
        if result.is_err() || !closes {
            // The process ends without closing the storage.
            drive.end(End::Process, u64::MAX);
            return result;
        }
        drop(storage);
        self.closed.push(drive.noted());
        Ok(())
    }

    fn commits(
        &mut self,
        drive: &Drive,
        storage: &mut DurableStorage,
        commits: usize,
        pace: usize,
    ) -> Result<(), StorageError> {
        let mut found = Found::default();
        storage.load(&mut found)?;
        let mut jobs = Vec::new();
        for _ in 0..commits {
            prepare(storage)?;
            let number = self.acknowledged.len();
            self.begun.truncate(number);
            self.begun.push(drive.noted());
            let batches = [batch(number)];
            match storage.commit(&batches) {
                // On a full disk the batch is kept, and retried.
                Err(StorageError::Full { .. }) => {
                    prepare(storage)?;
                    storage.commit(&batches)?;
                }
                result => result?,
            }
            self.acknowledged.push(drive.noted());
            jobs.extend(drive.begun());
            if pace == 0 {
                jobs.drain(..).for_each(|job| while drive.step(job).0 {});
            } else if number.is_multiple_of(pace) {
                jobs.retain(|job| drive.step(*job).0);
            }
        }
        Ok(())
    }

    /// Returns the states that may be found after this number of calls.
    fn allowed<'s>(&self, states: &'s [Found], done: usize) -> &'s [Found] {
        let count = self.acknowledged.partition_point(|at| *at <= done);
        let is_under_way = self.begun.get(count).is_some_and(|at| *at <= done);
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
struct Judge {
    seen: HashSet<(u64, usize, usize)>,
    enumerated: Enumerated,
}

impl Judge {
    /// Checks that a start with these files finds one of these states.
    fn look(&mut self, files: &Files, allowed: &[Found]) -> Result<(), String> {
        let known = (
            files.fingerprint(),
            allowed.as_ptr() as usize,
            allowed.len(),
        );
        if !self.seen.insert(known) {
            return Ok(());
        }
        self.enumerated.disks += 1;
        let drive = Drive::recording(files.clone());
        let found = start(&drive).map(|(_, found)| found);
        drive.end(End::Process, u64::MAX);
        is_allowed(found, allowed).map(|_| ())
    }

    /// Checks that a start finds one of these states after any power failure.
    fn look_at_all(&mut self, files: &Files, allowed: &[Found]) -> Result<(), String> {
        let mut survivals = files.survivals().into_iter();
        survivals.try_for_each(|files| self.look(&files, allowed))
    }

    /// Checks that a process finds one of these states, and commits once more. The found state is then as durable as the new
    /// commit.
    fn go_on(&mut self, files: Files, allowed: &[Found]) -> Result<(), String> {
        let drive = Drive::recording(files.clone());
        let (mut storage, found) = match start(&drive) {
            Ok(started) => started,
            Err(error) => return is_allowed(Err(error), allowed).map(|_| ()),
        };
        let loaded = drive.noted();
        let found = is_allowed(Ok(found), allowed)?;
        let next = batch(0);
        let committed = storage.commit(std::slice::from_ref(&next));
        let acknowledged = drive.noted();
        drive.end(End::Process, u64::MAX);
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
            // The keys of `seen` contain addresses of the allowed states, which may be reused.
            self.seen.clear();
            self.look_at_all(&files, allowed)
                .map_err(|why| format!("{why}\nafter {done} calls of the next process"))?;
        }
        Ok(())
    }
}

fn start(drive: &Drive) -> Result<(DurableStorage, Found), StorageError> {
    let mut storage = drive.open(LOG_BYTES)?;
    let mut found = Found::default();
    found.clock = storage.load(&mut found)?;
    Ok((storage, found))
}

fn is_allowed(found: Result<Found, StorageError>, allowed: &[Found]) -> Result<Found, String> {
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
pub fn every_end(pace: usize) -> Result<Enumerated, String> {
    let (states, mut judge) = (states(), Judge::default());
    let drive = Drive::recording(Files::default());
    let work = Work::new(&drive, pace);
    let mut files = Files::default();
    let record = drive.take_record();
    judge.enumerated.files = (made(&record, "log-"), made(&record, "base-"));
    for done in 0..=record.len() {
        let change = done.checked_sub(1).map(|last| &record[last]);
        let result = look_after(&mut judge, &work, &states, &mut files, done, change);
        result.map_err(|why| format!("{why}\nafter the call {done}: {change:?}"))?;
    }
    Ok(judge.enumerated)
}

fn look_after(
    judge: &mut Judge,
    work: &Work,
    states: &[Found],
    files: &mut Files,
    done: usize,
    change: Option<&Change>,
) -> Result<(), String> {
    if let Some(Change::Name(NameChange::Rename { from, to, .. })) = change
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
    judge.enumerated.prefixes += 1;
    let allowed = work.allowed(states, done);
    judge.look(files, allowed)?;
    judge.look_at_all(files, allowed)
}

/// Counts the created files with this name prefix.
fn made(record: &[Change], begin: &str) -> usize {
    let is_one = |change: &&Change| match change {
        Change::Name(NameChange::Make { path, .. }) => path
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
/// As for [`every_end`].
pub fn every_end_of_the_next_process(pace: usize) -> Result<Enumerated, String> {
    let (states, mut judge) = (states(), Judge::default());
    let drive = Drive::recording(Files::default());
    let work = Work::new(&drive, pace);
    let mut files = Files::default();
    for (last, change) in drive.take_record().iter().enumerate() {
        files.apply(change);
        let done = last + 1;
        judge.enumerated.prefixes += 1;
        for left in files.after_process() {
            judge
                .go_on(left, work.allowed(&states, done))
                .map_err(|why| format!("{why}\nafter the call {done}: {change:?}"))?;
        }
    }
    Ok(judge.enumerated)
}

/// Makes each call fail, in each possible way.
///
/// # Errors
/// As for [`every_end`].
pub fn every_failure(pace: usize) -> Result<Enumerated, String> {
    let (states, mut judge) = (states(), Judge::default());
    let first = Drive::recording(Files::default());
    Work::new(&first, pace);
    for how in Failure::ALL {
        for call in 1..=first.calls(how) {
            let drive = Drive::recording(Files::default());
            drive.fail(call, how);
            let work = Work::new(&drive, pace);
            judge.enumerated.failures += 1;
            let done = drive.noted();
            let allowed = work.allowed(&states, done);
            for left in drive.files().after_process() {
                judge
                    .look(&left, allowed)
                    .and_then(|()| judge.look_at_all(&left, allowed))
                    .and_then(|()| judge.go_on(left, allowed))
                    .map_err(|why| format!("{why}\nafter {how:?} of the call {call}"))?;
            }
        }
    }
    Ok(judge.enumerated)
}
