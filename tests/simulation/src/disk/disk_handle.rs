//! The simulation's handle of the disk.
use super::device::{Device, DiskFaults, Failure};
use super::file_tree::{DiskChange, FileTree};
use super::process_disk::{ProcessDisk, SimulatedJob};
use crate::faults::FaultCounts;
use crate::seeded_rng::SeededRng;
use statestored_storage::disk::Disk;
use statestored_storage::{DurableOptions, DurableStorage, StorageError};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

/// Folder of the server's data.
pub(crate) const DATA: &str = "/data";

/// Kind of end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    /// The process is killed, or ends by itself.
    Killed,
    /// The power fails.
    PowerFailure,
}

impl ProcessEnd {
    fn survivor(self) -> fn(&mut FileTree, &mut SeededRng) {
        match self {
            Self::Killed => FileTree::survive_process,
            Self::PowerFailure => FileTree::survive_power,
        }
    }
}

/// A disk.
#[derive(Debug, Clone)]
pub(crate) struct DiskHandle(Arc<Mutex<Device>>);

impl DiskHandle {
    pub(crate) fn new(chance: SeededRng) -> Self {
        Self(Arc::new(Mutex::new(Device::new(
            chance,
            FileTree::default(),
            0,
        ))))
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        self.0.lock().unwrap()
    }

    /// Creates a disk with these files that draws nothing at random, and records all changes.
    pub(crate) fn recording(files: FileTree) -> Self {
        let last_file = files.last_file();
        let mut device = Device::new(SeededRng::new(0), files, last_file);
        device.faults.writes_fully = true;
        device.record = Some(Vec::new());
        Self(Arc::new(Mutex::new(device)))
    }

    /// Returns the number of recorded changes.
    pub(crate) fn recorded(&self) -> usize {
        self.device().record.as_ref().map_or(0, Vec::len)
    }

    /// Takes the recorded changes.
    pub(crate) fn take_record(&self) -> Vec<DiskChange> {
        self.device().record.take().unwrap_or_default()
    }

    /// Returns the number of calls so far that can fail in this way.
    pub(crate) fn calls(&self, how: Failure) -> u64 {
        let device = self.device();
        match how {
            Failure::Error | Failure::NoSpace | Failure::Short => device.calls,
            Failure::ReadOnlyCall => device.read_only_calls,
        }
    }

    /// Makes the call with this number fail.
    pub(crate) fn fail(&self, call: u64, how: Failure) {
        self.device().failing = Some((call, how));
    }

    /// Returns the files as processes see them.
    pub(crate) fn files(&self) -> FileTree {
        self.device().visible.clone()
    }

    /// Returns the faults that have happened so far.
    pub(crate) fn fault_counts(&self) -> FaultCounts {
        self.device().fault_counts
    }

    fn port(&self) -> ProcessDisk {
        let process = self.device().process;
        ProcessDisk {
            device: self.0.clone(),
            process,
        }
    }

    /// Returns the disk as the running process sees it.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.port())
    }

    /// Opens the server's data for the running process.
    pub(crate) fn open(&self, log_bytes: u64) -> Result<DurableStorage, StorageError> {
        self.open_in(Path::new(DATA), log_bytes)
    }

    /// Opens a storage in another folder.
    pub(crate) fn open_in(
        &self,
        path: &Path,
        log_bytes: u64,
    ) -> Result<DurableStorage, StorageError> {
        let port = Arc::new(self.port());
        let options = DurableOptions { log_bytes };
        DurableStorage::open_on(port.clone(), port, path, options)
    }

    pub(crate) fn set_faults(&self, faults: DiskFaults) {
        self.device().set_faults(faults);
    }

    /// Returns the number of the running process.
    pub(crate) fn process(&self) -> u64 {
        self.device().process
    }

    /// Starts work at this time.
    pub(crate) fn begin(&self, now_ms: u64) {
        let mut device = self.device();
        device.settle(now_ms * 1_000);
        device.begin(now_ms * 1_000);
    }

    /// Returns the time at which that work ends.
    pub(crate) fn end_us(&self) -> u64 {
        self.device().clock_us
    }

    /// Returns a time in the middle of that work.
    pub(crate) fn random_time(&self) -> Option<u64> {
        self.device().random_time()
    }

    /// Returns the jobs that have begun since the last call.
    pub(crate) fn take_started_jobs(&self) -> Vec<u64> {
        std::mem::take(&mut self.device().started_jobs)
    }

    /// Runs a part of a job. Returns whether there is more, and its name.
    pub(crate) fn step(&self, number: u64) -> (bool, &'static str) {
        let name = match self.device().jobs.get(&number) {
            Some(running) => running.name,
            None => "",
        };
        let port = self.port();
        (SimulatedJob { port, number }.step(), name)
    }

    /// Ends the process, and drops all its changes after this time.
    pub(crate) fn end(&self, how: ProcessEnd, cut_us: u64) {
        let mut device = self.device();
        let files = device.files_at(cut_us);
        device.end_process(files, how.survivor());
    }

    /// Returns the disk as the next process would find it, if this one ended at that time.
    pub(crate) fn after_end(&self, how: ProcessEnd, cut_us: u64) -> Self {
        let mut device = self.device();
        let files = device.files_at(cut_us);
        let copy = device.fork(files, how.survivor());
        Self(Arc::new(Mutex::new(copy)))
    }
}
