//! The disk device: its changes, their times, and their fate.
use super::files::{Change, Files, SECTOR};
use crate::chance::Chance;
use crate::mishaps::{Mishap, Mishaps};
use statestored::storage::machine::Job;
use std::collections::BTreeMap;
use std::io;

/// The current faults of a disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    /// Maximum duration of a sync.
    pub(crate) sync_ms: u64,
    /// Share of the calls that read, write or sync and fail.
    pub(crate) error_percent: u64,
    /// Free space in bytes beyond the present size of the files.
    pub(crate) room: Option<usize>,
    /// Whether space can be reserved.
    pub(crate) can_reserve: bool,
    /// Whether writes are short only on a full disk.
    pub(crate) is_steady: bool,
    /// Maximum number of bytes that a single write takes.
    pub(crate) most_written: usize,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            sync_ms: 1,
            error_percent: 0,
            room: None,
            can_reserve: true,
            is_steady: false,
            most_written: usize::MAX,
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
    Look,
}

impl Failure {
    /// All kinds.
    pub(crate) const ALL: [Self; 4] = [Self::Error, Self::NoSpace, Self::Short, Self::Look];
}

/// The object of a call. Calls on the same object run one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Names,
    File(u64),
}

/// A job that runs beside its owner.
pub(super) struct Running {
    /// The job; `None` while it runs.
    pub(super) job: Option<Box<dyn Job>>,
    pub(super) name: &'static str,
    /// Time at which the job ended.
    pub(super) ended_us: Option<u64>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.name, self.ended_us)
    }
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) chance: Chance,
    pub(super) faults: Faults,
    /// Maximum size of all files together.
    capacity: Option<usize>,
    /// The clock of the running work.
    pub(super) clock_us: u64,
    /// Number of the current process; earlier ones have ended.
    pub(super) process: u64,
    pub(super) is_locked: bool,
    next_file: u64,
    /// Files as the process sees them.
    pub(super) seen: Files,
    /// Files without the changes in the journal.
    happened: Files,
    /// Changes by the time at which they complete, in the order in which they were entered.
    journal: BTreeMap<(u64, u64), Change>,
    entered: u64,
    /// Number of changes that were entered before the current work began.
    begun_at: u64,
    busy: BTreeMap<Object, u64>,
    pub(super) jobs: BTreeMap<u64, Running>,
    /// Jobs that have begun and have not been reported yet.
    pub(super) begun: Vec<u64>,
    /// Faults that have happened so far.
    pub(super) mishaps: Mishaps,
    /// All changes, if they are recorded.
    pub(super) record: Option<Vec<Change>>,
    /// Number of calls so far that can fail.
    pub(super) calls: u64,
    /// Number of read-only calls so far.
    pub(super) looks: u64,
    /// Number of the call that is to fail, and how it fails.
    pub(super) failing: Option<(u64, Failure)>,
}

impl Device {
    pub(super) fn new(chance: Chance, files: Files, next_file: u64) -> Self {
        Self {
            chance,
            faults: Faults::default(),
            capacity: None,
            clock_us: 0,
            process: 0,
            is_locked: false,
            next_file,
            seen: files.clone(),
            happened: files,
            journal: BTreeMap::new(),
            entered: 0,
            begun_at: 0,
            busy: BTreeMap::new(),
            jobs: BTreeMap::new(),
            begun: Vec::new(),
            mishaps: Mishaps::default(),
            record: None,
            calls: 0,
            looks: 0,
            failing: None,
        }
    }

    pub(super) fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
        self.capacity = faults.room.map(|room| self.seen.used() + room);
    }

    /// Starts work at this time.
    pub(super) fn begin(&mut self, now_us: u64) {
        self.clock_us = now_us;
        self.begun_at = self.entered;
    }

    /// Returns a time during the last work: in the middle of a call, or after one.
    pub(super) fn moment(&mut self) -> Option<u64> {
        let begun_at = self.begun_at;
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
    pub(super) fn files_at(&self, cut_us: u64) -> Files {
        let mut files = self.happened.clone();
        for change in self.journal.range(..=(cut_us, u64::MAX)).map(|(_, it)| it) {
            files.apply(change);
        }
        files
    }

    /// Ends the process. Changes that it had not completed are dropped.
    pub(super) fn end_process(&mut self, mut files: Files, survive: fn(&mut Files, &mut Chance)) {
        let before = files.clone();
        survive(&mut files, &mut self.chance);
        files.count_losses(&before, &mut self.mishaps);
        self.seen = files.clone();
        self.happened = files;
        self.journal.clear();
        self.busy.clear();
        self.jobs.clear();
        self.begun.clear();
        self.is_locked = false;
        self.process += 1;
    }

    /// Returns a copy in the state that the next process would find.
    pub(super) fn fork(&mut self, mut files: Files, survive: fn(&mut Files, &mut Chance)) -> Self {
        survive(&mut files, &mut self.chance);
        Self::new(self.chance.fork(), files, self.next_file)
    }

    pub(super) fn new_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }

    /// Enters a call with its duration.
    pub(super) fn perform(&mut self, object: Object, takes_us: u64, change: Change) {
        self.wait(object, takes_us);
        self.seen.apply(&change);
        if let Some(record) = &mut self.record {
            record.push(change.clone());
        }
        self.journal.insert((self.clock_us, self.entered), change);
        self.entered += 1;
    }

    /// Advances the clock by the duration of a call.
    pub(super) fn wait(&mut self, object: Object, takes_us: u64) {
        let free_us = self.busy.get(&object).copied().unwrap_or(0);
        self.clock_us = self.clock_us.max(free_us) + takes_us;
        self.busy.insert(object, self.clock_us);
    }

    /// Applies the changes that are complete by this time; only a power failure can undo them.
    pub(super) fn settle(&mut self, now_us: u64) {
        let later = self.journal.split_off(&(now_us, 0));
        for change in std::mem::replace(&mut self.journal, later).into_values() {
            self.happened.apply(&change);
        }
    }

    /// Fails if this is the read-only call that is to fail.
    pub(super) fn look(&mut self) -> io::Result<()> {
        self.looks += 1;
        if self.failing == Some((self.looks, Failure::Look)) {
            return Err(io::Error::other("the disk failed"));
        }
        Ok(())
    }

    /// Fails if this is the call that is to fail, and at random.
    pub(super) fn strike(&mut self) -> io::Result<()> {
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
            self.mishaps.count(Mishap::CallFailed);
            return Err(io::Error::other("the disk failed"));
        }
        Ok(())
    }

    /// Returns the length of a write of this size, if it is the one that is to be short.
    pub(super) fn shortened(&mut self, bytes: usize) -> Option<usize> {
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
        let takes_us = self.chance.spread(100, most_ms * 1_000);
        if takes_us >= 100_000 {
            self.mishaps.count(Mishap::SlowSync);
        }
        takes_us
    }

    /// Returns the length to which a file can grow.
    pub(super) fn most(&self, file: u64) -> usize {
        let Some(capacity) = self.capacity else {
            return usize::MAX;
        };
        let left = capacity.saturating_sub(self.seen.used());
        self.seen.space(file) + left / SECTOR * SECTOR
    }
}
