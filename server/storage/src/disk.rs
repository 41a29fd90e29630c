//! The file operations of the durable storage, all of which go through [`Disk`] and [`DiskFile`].
//!
//! The server has one disk, the [file system](FileSystem) of its machine. The simulation has another one, which loses
//! what was not synced.
use super::descriptor_reserve::with_reserve;
use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// Files and directories, with the guarantees of a POSIX file system and no others. Written bytes are durable after
/// [`DiskFile::sync_data`], and changes of a directory after [`sync_directory`](Self::sync_directory).
pub trait Disk: Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    /// Reads a whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Returns the status of a path, following symbolic links.
    fn status(&self, path: &Path) -> io::Result<Status>;
    /// Returns the status of a path itself, even if it is a symbolic link.
    fn own_status(&self, path: &Path) -> io::Result<Status>;
    /// Returns the names in a directory.
    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>>;
    /// Creates a directory and its missing parents, for this user only.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, and replaces a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file; fails if a file has the new name.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Adds another name to a file, on a disk where a file can have several.
    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory, which must be empty, on a disk where that is possible.
    fn remove_directory(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes the access of other users to a file.
    fn make_private(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable. Where directories cannot be opened, the file system has to do this by
    /// itself.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// An open file, with a position that reading and writing advance.
pub trait DiskFile: Debug + Read + Seek + Send + Write {
    /// Returns the status of the file.
    fn status(&self) -> io::Result<Status>;
    /// Truncates the file, or extends it with zeros.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Reserves space for these bytes, without a change of the length. Does nothing where that is not supported.
    fn reserve(&self, from: u64, to: u64) -> io::Result<()>;
    /// Makes the content durable, and the length as far as the content needs it.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes the file durable with all its metadata, except for its name.
    fn sync_all(&self) -> io::Result<()>;
    /// Locks the file until it is unlocked or closed.
    fn try_lock(&self) -> Result<(), TryLockError>;
    /// Unlocks the file, for all copies of its descriptor. Does nothing on a disk whose descriptors cannot be copied.
    fn unlock(&self) {}
}

/// Mode in which a file is opened. New files are accessible to this user only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Read an existing file.
    Read,
    /// Read and write an existing file.
    ReadWrite,
    /// Create a file and write it; fail if it exists.
    Create,
    /// Write a file, which is truncated or created.
    Truncate,
    /// Write a file, which keeps its content or is created.
    OpenOrCreate,
}

/// Status of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Whether it is a regular file.
    pub is_file: bool,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Length in bytes.
    pub length: u64,
    /// Whether other users have any access to it.
    pub is_open_to_others: bool,
}

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileSystem;

impl Disk for FileSystem {
    fn open(&self, path: &Path, access: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let file = with_reserve(|| match access {
            OpenMode::Read => File::open(path),
            OpenMode::ReadWrite => File::options().read(true).write(true).open(path),
            OpenMode::Create => private_options().create_new(true).open(path),
            OpenMode::Truncate => private_options().create(true).truncate(true).open(path),
            OpenMode::OpenOrCreate => private_options().create(true).truncate(false).open(path),
        })?;
        Ok(Box::new(file))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        with_reserve(|| fs::read(path))
    }

    fn status(&self, path: &Path) -> io::Result<Status> {
        path.metadata().map(|metadata| status_of(&metadata))
    }

    fn own_status(&self, path: &Path) -> io::Result<Status> {
        path.symlink_metadata().map(|metadata| status_of(&metadata))
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        with_reserve(|| fs::read_dir(directory))?
            .map(|entry| Ok(entry?.file_name()))
            .collect()
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            use rustix::io::Errno;
            match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
                // Some kernels and file systems do not support it.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
                result => return Ok(result?),
            }
        }
        fs::hard_link(from, to)?;
        fs::remove_file(from)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    #[cfg(unix)]
    fn make_private(&self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
    }

    #[cfg(not(unix))]
    fn make_private(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        if cfg!(not(unix)) {
            return Ok(());
        }
        with_reserve(|| File::open(path))?.sync_all()
    }
}

impl DiskFile for File {
    fn status(&self) -> io::Result<Status> {
        self.metadata().map(|metadata| status_of(&metadata))
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        loop {
            return match fallocate(self, FallocateFlags::KEEP_SIZE, from, to - from) {
                Err(Errno::INTR) => continue,
                // tmpfs refuses to reserve space beyond the file size limit (`ulimit -f`), although no byte is written there yet.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::FBIG) => Ok(()),
                result => Ok(result?),
            };
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&self, _from: u64, _to: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        File::try_lock(self)
    }

    fn unlock(&self) {
        // Closing the file unlocks it if this fails.
        let _ = File::unlock(self);
    }
}

/// Returns options that create files for this user only.
fn private_options() -> OpenOptions {
    let mut options = File::options();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn status_of(metadata: &fs::Metadata) -> Status {
    #[cfg(unix)]
    let is_open_to_others = std::os::unix::fs::MetadataExt::mode(metadata) & 0o077 != 0;
    #[cfg(not(unix))]
    let is_open_to_others = false;
    Status {
        is_file: metadata.is_file(),
        is_directory: metadata.is_dir(),
        length: metadata.len(),
        is_open_to_others,
    }
}
