//! The folder of the socket: a user that may rename files in it decides which process daprd reaches.
use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, open, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum time that another process holds the lock on a folder.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Permission to write for group and others.
const SHARED: u32 = 0o022;

/// Files can be removed and renamed only by their owners.
const STICKY: u32 = 0o1000;

/// An open folder in which no other user can replace the socket.
#[derive(Debug)]
pub(crate) struct SocketFolder(File);

impl SocketFolder {
    /// Opens a folder, and creates it if it is absent. The empty path is the current folder.
    ///
    /// # Errors
    /// A sentence that names the folder, if it cannot be opened, is a symbolic link, belongs to another user than root, or may be
    /// written by other users.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let shown = path.display();
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            .map_err(|error| format!("cannot make the folder {shown}: {error}"))?;
        let open = |access| {
            let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            open(path, flags, Mode::empty())
        };
        // A folder that cannot be read can be used without its lock.
        let opened = match open(OFlags::RDONLY) {
            Err(Errno::ACCESS) => open(OFlags::PATH),
            opened => opened,
        };
        let folder = opened.map_err(|error| {
            if path.is_symlink() {
                format!("the folder {shown} is a symbolic link; name the folder that it leads to")
            } else {
                format!("cannot open the folder {shown}: {error}")
            }
        })?;
        let status = fstat(&folder)
            .map_err(|error| format!("cannot look at the folder {shown}: {error}"))?;
        check(path, &status)?;
        Ok(Self(folder.into()))
    }

    /// Keeps other processes of this program from looking at sockets of the folder until the result is dropped. Without the lock,
    /// each of two starting processes could find the socket on which the other is about to listen, and replace it.
    ///
    /// Returns `None` if the lock cannot be taken in time: any user with read access to the folder can hold it.
    pub(crate) fn lock(&self) -> Option<File> {
        // A separate open file, so that closing it releases the lock.
        let folder = rustix::fs::openat(
            &self.0,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let folder = File::from(folder.ok()?);
        let until = Instant::now() + LOCK_TIMEOUT;
        while folder.try_lock().is_err() {
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(LOCK_TIMEOUT / 100);
        }
        Some(folder)
    }

    /// Returns the status of a file, or of the symbolic link itself.
    pub(crate) fn stat(&self, name: &OsStr) -> Result<Stat, Errno> {
        statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &OsStr) -> Result<(), Errno> {
        unlinkat(&self.0, name, AtFlags::empty())
    }
}

impl AsFd for SocketFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn check(path: &Path, status: &Stat) -> Result<(), String> {
    let shown = path.display();
    let own = rustix::process::geteuid().as_raw();
    let owner = status.st_uid;
    if owner != own && owner != 0 {
        return Err(format!(
            "the folder {shown} belongs to user {owner}, who could replace the socket; take another --folder or --socket, or \
             start statestore-dapr as that user"
        ));
    }
    if status.st_mode & SHARED != 0 && status.st_mode & STICKY == 0 {
        if owner == own {
            return Err(format!(
                "other users may write in the folder {shown} and could replace the socket; run `chmod go-w {shown}`, or take \
                 another --folder or --socket"
            ));
        }
        // A volume of Kubernetes, for example: root has decided which users share it.
        tracing::warn!(
            folder = %shown,
            "other users may write in the folder of the socket, which belongs to root, and could replace the socket"
        );
    }
    Ok(())
}
