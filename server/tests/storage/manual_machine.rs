//! A store whose machine and disk the test controls: clock, jobs, space and faults.
use statestored_storage::disk::{Disk, DiskFile, FileSystem, OpenMode, Status};
use statestored_storage::environment::{BackgroundJob, Environment, JobHandle};
use statestored_storage::{DurableOptions, DurableStorage, StorageError};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::TryLockError;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A job; `None` once it has ended.
type SharedJob = Arc<Mutex<Option<Box<dyn BackgroundJob>>>>;

#[derive(Default)]
struct MachineState {
    now: Duration,
    slept: Vec<Duration>,
    jobs: Vec<(&'static str, SharedJob)>,
    reserve_fails: Option<ErrorKind>,
    /// Maximum length for which space is reserved.
    max_length: Option<u64>,
    sync_fails: Option<ErrorKind>,
    zeros_fail: Option<ErrorKind>,
    /// The file that cannot be written, and how.
    writes_fail: Option<(String, ErrorKind)>,
    /// Maximum number of bytes that a write takes.
    max_write: Option<usize>,
    /// Every other write is interrupted; whether the last one was.
    interrupts: Option<bool>,
    calls: Vec<String>,
    /// How many bytes were written to which files.
    written: BTreeMap<OsString, usize>,
}

/// Machine and disk of a store.
#[derive(Clone, Default)]
pub(crate) struct ManualMachine(Arc<Mutex<MachineState>>);

impl std::fmt::Debug for ManualMachine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ManualMachine")
    }
}

impl ManualMachine {
    fn held(&self) -> MutexGuard<'_, MachineState> {
        self.0.lock().expect("nobody panicked")
    }

    /// Opens a store there, which is not loaded yet.
    pub(crate) fn open(
        &self,
        path: &Path,
        options: DurableOptions,
    ) -> Result<DurableStorage, StorageError> {
        let (machine, disk) = (Arc::new(self.clone()), Arc::new(self.clone()));
        DurableStorage::open_on(machine, disk, path, options)
    }

    /// Turns the clock on.
    pub(crate) fn advance(&self, time: Duration) {
        self.held().now += time;
    }

    /// Returns the sleeps since the last call.
    pub(crate) fn slept(&self) -> Vec<Duration> {
        std::mem::take(&mut self.held().slept)
    }

    /// How reserving space fails from now on.
    pub(crate) fn fail_to_reserve(&self, how: Option<ErrorKind>) {
        self.held().reserve_fails = how;
    }

    /// Files can grow to this length.
    pub(crate) fn limit_file_length(&self, most: u64) {
        self.held().max_length = Some(most);
    }

    /// How syncing content fails from now on.
    pub(crate) fn fail_to_sync(&self, how: Option<ErrorKind>) {
        self.held().sync_fails = how;
    }

    /// How writing nothing but zeros fails from now on.
    pub(crate) fn fail_to_write_zeros(&self, how: ErrorKind) {
        self.held().zeros_fail = Some(how);
    }

    /// How writing a file with this name fails from now on.
    pub(crate) fn fail_to_write(&self, name: &str, how: ErrorKind) {
        self.held().writes_fail = Some((name.into(), how));
    }

    /// Limits the number of bytes that a write takes.
    pub(crate) fn write_in_pieces(&self, most: usize) {
        self.held().max_write = Some(most);
    }

    /// Interrupts every other write.
    pub(crate) fn interrupt(&self) {
        self.held().interrupts = Some(false);
    }

    /// Returns the number of calls that begin like this since the last call of this function.
    pub(crate) fn count(&self, call: &str) -> usize {
        let calls = &mut self.held().calls;
        let before = calls.len();
        calls.retain(|it| !it.starts_with(call));
        before - calls.len()
    }

    /// How many bytes were written to this file since the last call.
    pub(crate) fn written(&self, name: &str) -> usize {
        let written = self.held().written.remove(OsStr::new(name));
        written.unwrap_or_default()
    }

    /// Whether a job with this name is under way.
    pub(crate) fn is_busy(&self, name: &str) -> bool {
        let jobs = self.held().jobs.clone();
        jobs.iter()
            .any(|(its, work)| *its == name && work.lock().expect("whole").is_some())
    }

    /// Does the next part of each job with this name.
    pub(crate) fn step(&self, name: &str) {
        let jobs = self.held().jobs.clone();
        for (_, work) in jobs.iter().filter(|(its, _)| *its == name) {
            step(work);
        }
    }

    /// Does all of them.
    pub(crate) fn finish(&self, name: &str) {
        while self.is_busy(name) {
            self.step(name);
        }
    }

    fn note(&self, call: &str, path: &Path) {
        let name = path.file_name().unwrap_or_default().display();
        self.held().calls.push(format!("{call} {name}"));
    }
}

fn step(work: &SharedJob) {
    let mut work = work.lock().expect("whole");
    if work.as_mut().is_some_and(|job| !job.step()) {
        *work = None;
    }
}

impl Environment for ManualMachine {
    fn now(&self) -> Duration {
        self.held().now
    }

    fn sleep(&self, time: Duration) {
        self.held().slept.push(time);
    }

    fn random(&self) -> u64 {
        7
    }

    fn start(
        &self,
        name: &'static str,
        job: Box<dyn BackgroundJob>,
    ) -> io::Result<Box<dyn JobHandle>> {
        let work: SharedJob = Arc::new(Mutex::new(Some(job)));
        self.held().jobs.push((name, Arc::clone(&work)));
        Ok(Box::new(ManualTask(work)))
    }
}

struct ManualTask(SharedJob);

impl std::fmt::Debug for ManualTask {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ManualTask")
    }
}

impl JobHandle for ManualTask {
    fn is_finished(&self) -> bool {
        self.0.lock().expect("whole").is_none()
    }

    fn finish(self: Box<Self>) {
        while !self.is_finished() {
            step(&self.0);
        }
    }
}

impl Disk for ManualMachine {
    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let file = FileSystem.open(path, access)?;
        let name = path.file_name().unwrap_or_default().into();
        Ok(Box::new(ManualFile {
            file,
            name,
            machine: self.clone(),
        }))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        FileSystem.read(path)
    }

    fn status(&self, path: &Path) -> io::Result<Status> {
        FileSystem.status(path)
    }

    fn own_status(&self, path: &Path) -> io::Result<Status> {
        FileSystem.own_status(path)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.note("names", Path::new("."));
        FileSystem.names(directory)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        FileSystem.create_directory(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        FileSystem.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        FileSystem.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        FileSystem.remove(path)
    }

    fn make_private(&self, path: &Path) -> io::Result<()> {
        FileSystem.make_private(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        FileSystem.sync_directory(path)
    }
}

#[derive(Debug)]
struct ManualFile {
    file: Box<dyn DiskFile>,
    name: OsString,
    machine: ManualMachine,
}

impl Read for ManualFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read(bytes)
    }
}

impl Seek for ManualFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Write for ManualFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self.machine.held();
        if let Some(was_interrupted) = &mut held.interrupts {
            *was_interrupted = !*was_interrupted;
            if *was_interrupted {
                return Err(ErrorKind::Interrupted.into());
            }
        }
        if let Some(how) = held.zeros_fail
            && bytes.iter().all(|byte| *byte == 0)
        {
            return Err(how.into());
        }
        if let Some((name, how)) = &held.writes_fail
            && self.name == name[..]
        {
            return Err((*how).into());
        }
        let most = held.max_write.unwrap_or(bytes.len()).min(bytes.len());
        let count = self.file.write(&bytes[..most])?;
        *held.written.entry(self.name.clone()).or_default() += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl DiskFile for ManualFile {
    fn status(&self) -> io::Result<Status> {
        self.file.status()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        self.machine.note("reserve", Path::new(&self.name));
        let held = self.machine.held();
        match held.reserve_fails {
            Some(how) => Err(how.into()),
            None if held.max_length.is_some_and(|most| to > most) => {
                Err(ErrorKind::StorageFull.into())
            }
            None => self.file.reserve(from, to),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.machine.note("sync", Path::new(&self.name));
        match self.machine.held().sync_fails {
            Some(how) => Err(how.into()),
            None => self.file.sync_data(),
        }
    }

    fn sync_all(&self) -> io::Result<()> {
        self.machine.note("keep", Path::new(&self.name));
        self.file.sync_all()
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }

    fn unlock(&self) {
        self.file.unlock();
    }
}
