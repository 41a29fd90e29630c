//! A process's view of the disk and of its machine: every call fails once the process has ended.
use super::device::{CallTarget, Device, JobState};
use super::file_tree::{DiskChange, Entry, NameChange};
use crate::faults::Mishap;
use statestored_storage::disk::{Disk, DiskFile, OpenMode, Status};
use statestored_storage::environment::{self, BackgroundJob, Environment};
use std::ffi::OsString;
use std::fmt;
use std::fs::TryLockError;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Maximum duration of a sync that is not part of each commit.
const MAX_RARE_SYNC_MS: u64 = 100;

/// The disk and the machine of one process.
#[derive(Clone)]
pub(super) struct ProcessDisk {
    pub(super) device: Arc<Mutex<Device>>,
    pub(super) process: u64,
}

impl fmt::Debug for ProcessDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Port({})", self.process)
    }
}

impl ProcessDisk {
    fn device(&self) -> io::Result<MutexGuard<'_, Device>> {
        let device = self.device.lock().unwrap();
        if device.process != self.process {
            return Err(io::Error::other("this process is gone"));
        }
        Ok(device)
    }

    fn change_name(&self, change: NameChange) -> io::Result<()> {
        let mut device = self.device()?;
        device.call()?;
        let takes_us = device.quick_us();
        device.perform(CallTarget::Names, takes_us, DiskChange::Name(change));
        Ok(())
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.device()?.visible.entry(path) {
            Some(Entry::File(file)) => Ok(file),
            Some(Entry::Directory) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

impl Disk for ProcessDisk {
    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        self.device()?.read_only_call()?;
        let found = self.file(path);
        let file = match (access, found) {
            (OpenMode::Create, Ok(_)) => return Err(ErrorKind::AlreadyExists.into()),
            (OpenMode::Create | OpenMode::Truncate | OpenMode::OpenOrCreate, Err(error))
                if error.kind() == ErrorKind::NotFound =>
            {
                let file = self.device()?.new_file();
                self.change_name(NameChange::Create {
                    path: path.to_path_buf(),
                    entry: Entry::File(file),
                })?;
                file
            }
            (_, found) => found?,
        };
        let opened = OpenFile {
            port: self.clone(),
            file,
            position: 0,
        };
        if access == OpenMode::Truncate && opened.status()?.length > 0 {
            opened.set_length(0)?;
        }
        Ok(Box::new(opened))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.file(path)?;
        let mut device = self.device()?;
        device.call()?;
        Ok(device.visible.content(file).to_vec())
    }

    fn status(&self, path: &Path) -> io::Result<Status> {
        let mut device = self.device()?;
        device.read_only_call()?;
        let (is_directory, length) = match device.visible.entry(path) {
            Some(Entry::File(file)) => (false, device.visible.content(file).len()),
            Some(Entry::Directory) => (true, 0),
            None if path.parent().is_none() => (true, 0),
            None => return Err(ErrorKind::NotFound.into()),
        };
        Ok(Status {
            is_file: !is_directory,
            is_directory,
            length: length as u64,
            is_open_to_others: false,
        })
    }

    fn own_status(&self, path: &Path) -> io::Result<Status> {
        self.status(path)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut device = self.device()?;
        device.read_only_call()?;
        let inside = |path: &&Path| path.parent() == Some(directory);
        let names = device.visible.names().filter(inside);
        Ok(names
            .filter_map(|path| Some(path.file_name()?.into()))
            .collect())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.change_name(NameChange::Create {
            path: path.to_path_buf(),
            entry: Entry::Directory,
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.file(from)?;
        self.change_name(NameChange::Rename {
            from: from.to_path_buf(),
            to: to.to_path_buf(),
            entry: Entry::File(file),
        })
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.file(to) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.rename(from, to),
            _ => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.file(from)?;
        self.change_name(NameChange::Link {
            path: to.to_path_buf(),
            entry: Entry::File(file),
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        self.change_name(NameChange::Remove {
            path: path.to_path_buf(),
        })
    }

    fn make_private(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut device = self.device()?;
        let takes_us = device.sync_us(MAX_RARE_SYNC_MS);
        if let Err(error) = device.call() {
            device.wait(CallTarget::Names, takes_us);
            return Err(error);
        }
        let directory = path.to_path_buf();
        device.perform(
            CallTarget::Names,
            takes_us,
            DiskChange::SyncNames { directory },
        );
        Ok(())
    }
}

/// An open file of a process.
#[derive(Debug)]
struct OpenFile {
    port: ProcessDisk,
    file: u64,
    position: usize,
}

impl OpenFile {
    fn sync(&self, most_ms: u64) -> io::Result<()> {
        let mut device = self.port.device()?;
        let file = self.file;
        let takes_us = device.sync_us(most_ms);
        let result = device.call();
        let change = if result.is_ok() {
            DiskChange::Sync { file }
        } else {
            device.fault_counts.count(Mishap::SyncFailed);
            DiskChange::FailSync { file }
        };
        device.perform(CallTarget::File(file), takes_us, change);
        result
    }
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut device = self.port.device()?;
        device.call()?;
        let rest = device.visible.content(self.file).get(self.position..);
        let rest = rest.unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.position += count;
        Ok(count)
    }
}

impl Write for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut device = self.port.device()?;
        device.call()?;
        let most = device.max_length(self.file).saturating_sub(self.position);
        if most == 0 {
            device.fault_counts.count(Mishap::NoSpace);
            return Err(ErrorKind::StorageFull.into());
        }
        let mut count = bytes.len().min(most).min(device.faults.max_write);
        if count > 1 && !device.faults.writes_fully && device.chance.percent(5) {
            count = 1 + device.chance.index(count);
        }
        if let Some(short) = device.short_write(bytes.len()) {
            count = short;
        }
        if count < bytes.len() {
            device.fault_counts.count(Mishap::ShortWrite);
        }
        let takes_us = device.quick_us();
        let (file, at) = (self.file, self.position);
        let bytes = bytes[..count].to_vec();
        let change = DiskChange::Write { file, at, bytes };
        device.perform(CallTarget::File(file), takes_us, change);
        self.position += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for OpenFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut device = self.port.device()?;
        device.read_only_call()?;
        let length = device.visible.content(self.file).len() as u64;
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(offset) => length.checked_add_signed(offset),
            SeekFrom::Current(offset) => (self.position as u64).checked_add_signed(offset),
        };
        let to = to.ok_or(ErrorKind::InvalidInput)?;
        self.position = usize::try_from(to).map_err(|_| ErrorKind::InvalidInput)?;
        Ok(to)
    }
}

impl DiskFile for OpenFile {
    fn status(&self) -> io::Result<Status> {
        let mut device = self.port.device()?;
        device.read_only_call()?;
        let length = device.visible.content(self.file).len();
        Ok(Status {
            is_file: true,
            is_directory: false,
            length: length as u64,
            is_open_to_others: false,
        })
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(|_| ErrorKind::InvalidInput)?;
        let mut device = self.port.device()?;
        device.call()?;
        let takes_us = device.quick_us();
        let file = self.file;
        let change = DiskChange::SetLength { file, length };
        device.perform(CallTarget::File(file), takes_us, change);
        Ok(())
    }

    fn reserve(&self, _from: u64, to: u64) -> io::Result<()> {
        let to = usize::try_from(to).map_err(|_| ErrorKind::InvalidInput)?;
        let mut device = self.port.device()?;
        if !device.faults.can_reserve {
            device.fault_counts.count(Mishap::CannotReserve);
            return Ok(());
        }
        device.call()?;
        if device.max_length(self.file) < to {
            device.fault_counts.count(Mishap::NoSpace);
            return Err(ErrorKind::StorageFull.into());
        }
        let takes_us = device.quick_us();
        let file = self.file;
        device.perform(
            CallTarget::File(file),
            takes_us,
            DiskChange::Reserve { file, to },
        );
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(u64::MAX)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(MAX_RARE_SYNC_MS)
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        let mut device = self.port.device().map_err(TryLockError::Error)?;
        device.read_only_call().map_err(TryLockError::Error)?;
        if std::mem::replace(&mut device.is_locked, true) {
            return Err(TryLockError::WouldBlock);
        }
        Ok(())
    }
}

impl Environment for ProcessDisk {
    fn now(&self) -> Duration {
        Duration::from_micros(self.device.lock().unwrap().clock_us)
    }

    fn sleep(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.device.lock().unwrap().clock_us += micros;
    }

    fn random(&self) -> u64 {
        self.device.lock().unwrap().chance.u64()
    }

    fn start(
        &self,
        name: &'static str,
        job: Box<dyn BackgroundJob>,
    ) -> io::Result<Box<dyn environment::JobHandle>> {
        let mut device = self.device()?;
        let number = device.jobs.len() as u64;
        let running = JobState {
            job: Some(job),
            name,
            ended_us: None,
        };
        device.jobs.insert(number, running);
        device.started_jobs.push(number);
        Ok(Box::new(SimulatedJob {
            port: self.clone(),
            number,
        }))
    }
}

/// A job that has begun.
#[derive(Debug)]
pub(super) struct SimulatedJob {
    pub(super) port: ProcessDisk,
    pub(super) number: u64,
}

impl SimulatedJob {
    /// Runs the next part of the job. Returns whether there is another one.
    pub(super) fn step(&self) -> bool {
        let job = self.with(|running| running.job.take()).flatten();
        let Some(mut job) = job else {
            return false;
        };
        // The step uses the device.
        let has_more = job.step();
        let clock_us = self.port.device.lock().unwrap().clock_us;
        self.with(|running| {
            if has_more {
                running.job = Some(job);
            } else {
                running.ended_us = Some(clock_us);
            }
        });
        has_more
    }

    fn with<T>(&self, act: impl FnOnce(&mut JobState) -> T) -> Option<T> {
        let mut device = self.port.device().ok()?;
        device.jobs.get_mut(&self.number).map(act)
    }
}

impl environment::JobHandle for SimulatedJob {
    fn is_finished(&self) -> bool {
        let now_us = self.port.device.lock().unwrap().clock_us;
        let ended_us = self.with(|running| running.ended_us).flatten();
        ended_us.is_some_and(|ended_us| ended_us <= now_us)
    }

    fn finish(self: Box<Self>) {
        while self.step() {}
        let ended_us = self.with(|running| running.ended_us).flatten();
        if let (Some(ended_us), Ok(mut device)) = (ended_us, self.port.device()) {
            device.clock_us = device.clock_us.max(ended_us);
        }
    }
}
