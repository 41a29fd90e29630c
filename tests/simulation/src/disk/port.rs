//! A process's view of the disk and of its machine: every call fails once the process has ended.
use super::device::{Device, Object, Running};
use super::files::{Change, Entry, NameChange};
use crate::mishaps::Mishap;
use statestored::storage::disk::{Access, Disk, DiskFile, Status};
use statestored::storage::machine::{self, Job, Machine};
use std::ffi::OsString;
use std::fmt;
use std::fs::TryLockError;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Maximum duration of a sync that is not part of each commit.
const MOST_RARE_SYNC_MS: u64 = 100;

/// The disk and the machine of one process.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) device: Arc<Mutex<Device>>,
    pub(super) process: u64,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Port({})", self.process)
    }
}

impl Port {
    fn device(&self) -> io::Result<MutexGuard<'_, Device>> {
        let device = self.device.lock().unwrap();
        if device.process != self.process {
            return Err(io::Error::other("this process is gone"));
        }
        Ok(device)
    }

    fn change_name(&self, change: NameChange) -> io::Result<()> {
        let mut device = self.device()?;
        device.strike()?;
        let takes_us = device.quick_us();
        device.perform(Object::Names, takes_us, Change::Name(change));
        Ok(())
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.device()?.seen.entry(path) {
            Some(Entry::File(file)) => Ok(file),
            Some(Entry::Directory) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }
}

impl Disk for Port {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.device()?.look()?;
        let found = self.file(path);
        let file = match (access, found) {
            (Access::Create, Ok(_)) => return Err(ErrorKind::AlreadyExists.into()),
            (Access::Create | Access::Replace | Access::Keep, Err(error))
                if error.kind() == ErrorKind::NotFound =>
            {
                let file = self.device()?.new_file();
                self.change_name(NameChange::Make {
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
            at: 0,
        };
        if access == Access::Replace && opened.status()?.length > 0 {
            opened.set_length(0)?;
        }
        Ok(Box::new(opened))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.file(path)?;
        let mut device = self.device()?;
        device.strike()?;
        Ok(device.seen.content(file).to_vec())
    }

    fn status(&self, path: &Path) -> io::Result<Status> {
        let mut device = self.device()?;
        device.look()?;
        let (is_directory, length) = match device.seen.entry(path) {
            Some(Entry::File(file)) => (false, device.seen.content(file).len()),
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
        device.look()?;
        let inside = |path: &&Path| path.parent() == Some(directory);
        let names = device.seen.names().filter(inside);
        Ok(names
            .filter_map(|path| Some(path.file_name()?.into()))
            .collect())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.change_name(NameChange::Make {
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
        let takes_us = device.sync_us(MOST_RARE_SYNC_MS);
        if let Err(error) = device.strike() {
            device.wait(Object::Names, takes_us);
            return Err(error);
        }
        let directory = path.to_path_buf();
        device.perform(Object::Names, takes_us, Change::SyncNames { directory });
        Ok(())
    }
}

/// An open file of a process.
#[derive(Debug)]
struct OpenFile {
    port: Port,
    file: u64,
    at: usize,
}

impl OpenFile {
    fn sync(&self, most_ms: u64) -> io::Result<()> {
        let mut device = self.port.device()?;
        let file = self.file;
        let takes_us = device.sync_us(most_ms);
        let result = device.strike();
        let change = if result.is_ok() {
            Change::Sync { file }
        } else {
            device.mishaps.count(Mishap::SyncFailed);
            Change::GiveUp { file }
        };
        device.perform(Object::File(file), takes_us, change);
        result
    }
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut device = self.port.device()?;
        device.strike()?;
        let rest = device.seen.content(self.file).get(self.at..);
        let rest = rest.unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

impl Write for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut device = self.port.device()?;
        device.strike()?;
        let most = device.most(self.file).saturating_sub(self.at);
        if most == 0 {
            device.mishaps.count(Mishap::NoSpace);
            return Err(ErrorKind::StorageFull.into());
        }
        let mut count = bytes.len().min(most).min(device.faults.most_written);
        if count > 1 && !device.faults.is_steady && device.chance.percent(5) {
            count = 1 + device.chance.index(count);
        }
        if let Some(short) = device.shortened(bytes.len()) {
            count = short;
        }
        if count < bytes.len() {
            device.mishaps.count(Mishap::ShortWrite);
        }
        let takes_us = device.quick_us();
        let (file, at) = (self.file, self.at);
        let bytes = bytes[..count].to_vec();
        let change = Change::Write { file, at, bytes };
        device.perform(Object::File(file), takes_us, change);
        self.at += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for OpenFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut device = self.port.device()?;
        device.look()?;
        let length = device.seen.content(self.file).len() as u64;
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(offset) => length.checked_add_signed(offset),
            SeekFrom::Current(offset) => (self.at as u64).checked_add_signed(offset),
        };
        let to = to.ok_or(ErrorKind::InvalidInput)?;
        self.at = usize::try_from(to).map_err(|_| ErrorKind::InvalidInput)?;
        Ok(to)
    }
}

impl DiskFile for OpenFile {
    fn status(&self) -> io::Result<Status> {
        let mut device = self.port.device()?;
        device.look()?;
        let length = device.seen.content(self.file).len();
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
        device.strike()?;
        let takes_us = device.quick_us();
        let file = self.file;
        let change = Change::SetLength { file, length };
        device.perform(Object::File(file), takes_us, change);
        Ok(())
    }

    fn reserve(&self, _from: u64, to: u64) -> io::Result<()> {
        let to = usize::try_from(to).map_err(|_| ErrorKind::InvalidInput)?;
        let mut device = self.port.device()?;
        if !device.faults.can_reserve {
            device.mishaps.count(Mishap::CannotReserve);
            return Ok(());
        }
        device.strike()?;
        if device.most(self.file) < to {
            device.mishaps.count(Mishap::NoSpace);
            return Err(ErrorKind::StorageFull.into());
        }
        let takes_us = device.quick_us();
        let file = self.file;
        device.perform(Object::File(file), takes_us, Change::Reserve { file, to });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(u64::MAX)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(MOST_RARE_SYNC_MS)
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        let mut device = self.port.device().map_err(TryLockError::Error)?;
        device.look().map_err(TryLockError::Error)?;
        if std::mem::replace(&mut device.is_locked, true) {
            return Err(TryLockError::WouldBlock);
        }
        Ok(())
    }
}

impl Machine for Port {
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
        job: Box<dyn Job>,
    ) -> io::Result<Box<dyn machine::Running>> {
        let mut device = self.device()?;
        let number = device.jobs.len() as u64;
        let running = Running {
            job: Some(job),
            name,
            ended_us: None,
        };
        device.jobs.insert(number, running);
        device.begun.push(number);
        Ok(Box::new(Begun {
            port: self.clone(),
            number,
        }))
    }
}

/// A job that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) port: Port,
    pub(super) number: u64,
}

impl Begun {
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

    fn with<T>(&self, act: impl FnOnce(&mut Running) -> T) -> Option<T> {
        let mut device = self.port.device().ok()?;
        device.jobs.get_mut(&self.number).map(act)
    }
}

impl machine::Running for Begun {
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
