//! The disk device: its changes, their times, and their fate.
use super::file_tree::{DiskChange, FileTree, SECTOR};
use crate::faults::{FaultCounts, Mishap};
use crate::seeded_rng::SeededRng;
use statestored_storage::environment::BackgroundJob;
use std::collections::BTreeMap;
use std::io;

/// The current faults of a disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskFaults {
    /// Maximum duration of a sync.
    pub(crate) sync_ms: u64,
    /// Share of the calls that read, write or sync and fail.
    pub(crate) error_percent: u64,
    /// Free space in bytes beyond the present size of the files.
    pub(crate) free_bytes: Option<usize>,
    /// Whether space can be reserved.
    pub(crate) can_reserve: bool,
    /// Whether writes are short only on a full disk.
    pub(crate) writes_fully: bool,
    /// Maximum number of bytes that a single write takes.
    pub(crate) max_write: usize,
}

impl Default for DiskFaults {
    fn default() -> Self {
        Self {
            sync_ms: 1,
            error_percent: 0,
            free_bytes: None,
            can_reserve: true,
            writes_fully: false,
            max_write: usize::MAX,
        }
    }
}

/// Kind of an injected failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The disk fails.
    Error,
    /// The disk is full.
    NoSpace,
    /// A write takes a part of the bytes, and there is no space for the rest.
    Short,
    /// A read-only call fails: opening, locking, listing names, or reading lengths.
    ReadOnlyCall,
}

impl Failure {
    /// All kinds.
    pub(crate) const ALL: [Self; 4] = [Self::Error, Self::NoSpace, Self::Short, Self::ReadOnlyCall];
}

/// The object of a call. Calls on the same object run one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallTarget {
    Names,
    File(u64),
}

/// A job that runs beside its owner.
pub(super) struct JobState {
    /// The job; `None` while it runs.
    pub(super) job: Option<Box<dyn BackgroundJob>>,
    pub(super) name: &'static str,
    /// Time at which the job ended.
    pub(super) ended_us: Option<u64>,
}

impl std::fmt::Debug for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.name, self.ended_us)
    }
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) chance: SeededRng,
    pub(super) faults: DiskFaults,
    /// Maximum size of all files together.
    capacity: Option<usize>,
    /// The clock of the running work.
    pub(super) clock_us: u64,
    /// Number of the current process; earlier ones have ended.
    pub(super) process: u64,
    pub(super) is_locked: bool,
    next_file: u64,
    /// Files as the process sees them.
    pub(super) visible: FileTree,
    /// Files without the changes in the journal.
    completed: FileTree,
    /// Changes by the time at which they complete, in the order in which they were entered.
    journal: BTreeMap<(u64, u64), DiskChange>,
    entered_changes: u64,
    /// Number of changes that were entered before the current work began.
    entered_before: u64,
    busy: BTreeMap<CallTarget, u64>,
    pub(super) jobs: BTreeMap<u64, JobState>,
    /// Jobs that have begun and have not been reported yet.
    pub(super) started_jobs: Vec<u64>,
    /// Faults that have happened so far.
    pub(super) fault_counts: FaultCounts,
    /// All changes, if they are recorded.
    pub(super) record: Option<Vec<DiskChange>>,
    /// Number of calls so far that can fail.
    pub(super) calls: u64,
    /// Number of read-only calls so far.
    pub(super) read_only_calls: u64,
    /// Number of the call that is to fail, and how it fails.
    pub(super) failing: Option<(u64, Failure)>,
}

impl Device {
    pub(super) fn new(chance: SeededRng, files: FileTree, next_file: u64) -> Self {
        Self {
            chance,
            faults: DiskFaults::default(),
            capacity: None,
            clock_us: 0,
            process: 0,
            is_locked: false,
            next_file,
            visible: files.clone(),
            completed: files,
            journal: BTreeMap::new(),
            entered_changes: 0,
            entered_before: 0,
            busy: BTreeMap::new(),
            jobs: BTreeMap::new(),
            started_jobs: Vec::new(),
            fault_counts: FaultCounts::default(),
            record: None,
            calls: 0,
            read_only_calls: 0,
            failing: None,
        }
    }

    pub(super) fn set_faults(&mut self, faults: DiskFaults) {
        self.faults = faults;
        self.capacity = faults.free_bytes.map(|room| self.visible.used() + room);
    }

    /// Starts work at this time.
    pub(super) fn begin(&mut self, now_us: u64) {
        self.clock_us = now_us;
        self.entered_before = self.entered_changes;
    }

    /// Returns a time during the last work: in the middle of a call, or after one.
    pub(super) fn random_time(&mut self) -> Option<u64> {
        let begun_at = self.entered_before;
        let journal = self.journal.keys();
        let times: Vec<_> = journal
            .filter(|(_, number)| *number >= begun_at)
            .map(|(at_us, _)| *at_us)
            .collect();
        if times.is_empty() {
            return None;
        }
        let at_us = self.chance.pick(&times);
        Some(at_us - self.chance.below(2))
    }

    /// Returns the files on the disk at a time, for a system that continues to run.
    pub(super) fn files_at(&self, cut_us: u64) -> FileTree {
        let mut files = self.completed.clone();
        for change in self.journal.range(..=(cut_us, u64::MAX)).map(|(_, it)| it) {
            files.apply(change);
        }
        files
    }

    /// Ends the process. Changes that it had not completed are dropped.
    pub(super) fn end_process(
        &mut self,
        mut files: FileTree,
        survive: fn(&mut FileTree, &mut SeededRng),
    ) {
        let before = files.clone();
        survive(&mut files, &mut self.chance);
        files.count_losses(&before, &mut self.fault_counts);
        self.visible = files.clone();
        self.completed = files;
        self.journal.clear();
        self.busy.clear();
        self.jobs.clear();
        self.started_jobs.clear();
        self.is_locked = false;
        self.process += 1;
    }

    /// Returns a copy in the state that the next process would find.
    pub(super) fn fork(
        &mut self,
        mut files: FileTree,
        survive: fn(&mut FileTree, &mut SeededRng),
    ) -> Self {
        survive(&mut files, &mut self.chance);
        Self::new(self.chance.fork(), files, self.next_file)
    }

    pub(super) fn new_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }

    /// Enters a call with its duration.
    pub(super) fn perform(&mut self, object: CallTarget, takes_us: u64, change: DiskChange) {
        self.wait(object, takes_us);
        self.visible.apply(&change);
        if let Some(record) = &mut self.record {
            record.push(change.clone());
        }
        self.journal
            .insert((self.clock_us, self.entered_changes), change);
        self.entered_changes += 1;
    }

    /// Advances the clock by the duration of a call.
    pub(super) fn wait(&mut self, object: CallTarget, takes_us: u64) {
        let free_us = self.busy.get(&object).copied().unwrap_or(0);
        self.clock_us = self.clock_us.max(free_us) + takes_us;
        self.busy.insert(object, self.clock_us);
    }

    /// Applies the changes that are complete by this time; only a power failure can undo them.
    pub(super) fn settle(&mut self, now_us: u64) {
        let later = self.journal.split_off(&(now_us, 0));
        for change in std::mem::replace(&mut self.journal, later).into_values() {
            self.completed.apply(&change);
        }
    }

    /// Fails if this is the read-only call that is to fail.
    pub(super) fn read_only_call(&mut self) -> io::Result<()> {
        self.read_only_calls += 1;
        if self.failing == Some((self.read_only_calls, Failure::ReadOnlyCall)) {
            return Err(io::Error::other("the disk failed"));
        }
        Ok(())
    }

    /// Fails if this is the call that is to fail, and at random.
    pub(super) fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        match self.failing {
            Some((call, Failure::Error)) if call == self.calls => {
                return Err(io::Error::other("the disk failed"));
            }
            Some((call, Failure::NoSpace)) if call == self.calls => {
                return Err(io::ErrorKind::StorageFull.into());
            }
            _ => {}
        }
        if self.faults.error_percent > 0 && self.chance.percent(self.faults.error_percent) {
            self.fault_counts.count(Mishap::CallFailed);
            return Err(io::Error::other("the disk failed"));
        }
        Ok(())
    }

    /// Returns the length of a write of this size, if it is the one that is to be short.
    pub(super) fn short_write(&mut self, bytes: usize) -> Option<usize> {
        if self.failing != Some((self.calls, Failure::Short)) {
            return None;
        }
        self.failing = Some((self.calls + 1, Failure::NoSpace));
        Some(bytes.div_ceil(2))
    }

    /// Returns the duration of a call that does not wait for the disk.
    pub(super) fn quick_us(&mut self) -> u64 {
        self.chance.between(2, 30)
    }

    /// Returns the duration of a sync, with an upper bound in milliseconds.
    pub(super) fn sync_us(&mut self, most_ms: u64) -> u64 {
        let most_ms = most_ms.min(self.faults.sync_ms);
        let takes_us = self.chance.log_uniform(100, most_ms * 1_000);
        if takes_us >= 100_000 {
            self.fault_counts.count(Mishap::SlowSync);
        }
        takes_us
    }

    /// Returns the length to which a file can grow.
    pub(super) fn max_length(&self, file: u64) -> usize {
        let Some(capacity) = self.capacity else {
            return usize::MAX;
        };
        let left = capacity.saturating_sub(self.visible.used());
        self.visible.space(file) + left / SECTOR * SECTOR
    }
}
