//! The file of the socket that daprd connects to.
use crate::socket_folder::SocketFolder;
use rustix::fs::{FileType, Mode, OFlags, fchmod, openat};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

const BACKLOG: i32 = 1024;

/// The file of a listening socket. Dropping this removes the file, unless another one has taken its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    folder: SocketFolder,
    name: OsString,
    /// Keeps the inode, so that its number is not reused.
    inode: OwnedFd,
}

impl SocketFile {
    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn is_in_place(&self) -> Result<bool, Errno> {
        let own = rustix::fs::fstat(&self.inode)?;
        let found = self.folder.stat(&self.name)?;
        Ok((own.st_dev, own.st_ino) == (found.st_dev, found.st_ino))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_in_place() == Ok(true)
            && let Err(error) = self.folder.remove(&self.name)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}

/// Listens at a path, with these permissions. A socket that a former process left behind is replaced.
///
/// # Errors
/// A sentence that names the path.
pub(crate) fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), String> {
    let failed = |error: io::Error| format!("cannot listen on {}: {error}", path.display());
    let Some(name) = path.file_name() else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    let folder = SocketFolder::open(path.parent().unwrap_or(Path::new("")))?;
    let lock = folder.lock();
    let address = SockAddr::unix(path).map_err(failed)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    // The file starts with at most these permissions.
    fchmod(&socket, Mode::from_raw_mode(mode)).map_err(|error| failed(error.into()))?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(failed(error));
        }
        remove_stale(path, &folder, name)?;
        socket.bind(&address).map_err(failed)?;
    }
    drop(lock);
    let begin = || {
        let file = SocketFile {
            path: path.into(),
            inode: open_with_mode(&folder, name, mode)?,
            folder,
            name: name.into(),
        };
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok((UnixListener::from_std(socket.into())?, file))
    };
    begin().map_err(failed)
}

/// Opens the file of a socket and gives it these permissions. A symbolic link that has taken its place is not followed.
fn open_with_mode(folder: &SocketFolder, name: &OsStr, mode: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    let status = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
        return Err(io::Error::other("another file has taken its place"));
    }
    // The file lacks the bits that the umask cleared.
    if status.st_mode & 0o777 != mode {
        // `fchmod` rejects such a descriptor; its entry in /proc refers to the inode itself.
        let entry = format!("/proc/self/fd/{}", file.as_raw_fd());
        std::fs::set_permissions(entry, Permissions::from_mode(mode))?;
    }
    Ok(file)
}

/// Removes a socket file whose process has ended; other files stay.
fn remove_stale(path: &Path, folder: &SocketFolder, name: &OsStr) -> Result<(), String> {
    let shown = path.display();
    let status = folder
        .stat(name)
        .map_err(|error| format!("cannot look at {shown}: {error}"))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
        return Err(format!(
            "{shown} is there already and is not a socket; move it away, or take another --name or --socket"
        ));
    }
    let owner = status.st_uid;
    match probe(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            folder.remove(name).map_err(|error| {
                format!(
                    "{shown} is left from a process of user {owner} that has ended, and cannot be removed: {error}"
                )
            })
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(format!(
            "{shown} belongs to user {owner}, and cannot be tried: {error}; take another --name or --socket"
        )),
        // Includes a full queue.
        _ => Err(format!(
            "another process, of user {owner}, listens on {shown}; end it, or take another --name or --socket"
        )),
    }
}

fn probe(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    #[tokio::test]
    async fn only_a_socket_without_a_listener_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/here/socket");
        let (listener, file) = listen(&path, 0o600).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = listen(&path, 0o600).unwrap_err();
        assert!(error.starts_with("another process, of user "), "{error}");
        drop(listener);
        let (_listener, other) = listen(&path, 0o666).unwrap();
        // The path has another file by now.
        drop(file);
        assert!(path.exists());
        drop(other);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn only_one_of_several_concurrent_processes_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let folder = SocketFolder::open(folder.path()).unwrap();
        let before = folder.lock().unwrap();
        let other = path.clone();
        let other = tokio::task::spawn_blocking(move || listen(&other, 0o600).map(drop));
        // Time to look at the existing files.
        std::thread::sleep(Duration::from_millis(100));
        std::fs::remove_file(&path).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(before);
        let error = other.await.unwrap().unwrap_err();
        assert!(error.starts_with("another process, of user "), "{error}");
    }

    #[test]
    fn permissions_do_not_reach_the_target_of_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let _listener = std::os::unix::net::UnixListener::bind(&target).unwrap();
        std::fs::set_permissions(&target, Permissions::from_mode(0o600)).unwrap();
        symlink(&target, folder.path().join("link")).unwrap();
        let folder = SocketFolder::open(folder.path()).unwrap();
        let error = open_with_mode(&folder, OsStr::new("link"), 0o666).unwrap_err();
        assert!(error.to_string().contains("taken its place"), "{error}");
        let mode = std::fs::metadata(&target).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        let error = listen(&path, 0o600).unwrap_err();
        assert!(error.contains("is not a socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn an_invalid_path_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("n".repeat(200));
        let error = listen(&long, 0o600).unwrap_err();
        assert!(error.contains("nnn"), "{error}");
        let below = folder.path().join("file");
        std::fs::write(&below, "").unwrap();
        let error = listen(&below.join("socket"), 0o600).unwrap_err();
        assert!(error.starts_with("cannot make the folder"), "{error}");
    }
}
