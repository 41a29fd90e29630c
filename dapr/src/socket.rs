//! The file of the socket that daprd connects to.
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::UnixListener;

const BACKLOG: i32 = 1024;

/// How long others may look at sockets of the same folder, which takes no time.
const ALONE: Duration = Duration::from_secs(1);

/// A socket that somebody listens on. Its file is gone when this is dropped, unless another one has taken its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: Id,
}

/// Device, inode, and since when it is: numbers of inodes are used again.
type Id = (u64, u64, Option<SystemTime>);

impl SocketFile {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if id(&self.path).is_ok_and(|id| id == self.id)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}

/// Listens at a path, with these permissions. A socket of a former process that nobody listens on any more is replaced.
///
/// # Errors
/// A sentence that names the path.
pub(crate) fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), String> {
    let failed = |error: io::Error| format!("cannot listen on {}: {error}", path.display());
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    }
    let _alone = alone(path);
    let address = SockAddr::unix(path).map_err(failed)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(failed(error));
        }
        remove_stale(path)?;
        socket.bind(&address).map_err(failed)?;
    }
    let begin = || {
        let id = id(path)?;
        let file = SocketFile {
            path: path.into(),
            id,
        };
        // In time: nobody can connect before somebody listens.
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok((UnixListener::from_std(socket.into())?, file))
    };
    begin().map_err(failed)
}

/// Keeps others of these processes from looking at sockets of a folder for as long as what this gives is there: of two that begin at
/// once, each could find the socket that the other one is about to listen on, and replace it.
fn alone(path: &Path) -> Option<File> {
    let folder = path.parent()?;
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let folder = File::open(folder).ok()?;
    // Whoever may read the folder may keep it, too. That is to keep nobody from beginning.
    let until = Instant::now() + ALONE;
    while folder.try_lock().is_err() {
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(ALONE / 100);
    }
    Some(folder)
}

/// Removes the socket of a process that is gone, and nothing else.
fn remove_stale(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let metadata = std::fs::symlink_metadata(path)
        .map_err(|error| format!("cannot look at {shown}: {error}"))?;
    if !metadata.file_type().is_socket() {
        return Err(format!(
            "{shown} is there already and is no socket; move it away, or take another --name or --socket"
        ));
    }
    let owner = metadata.uid();
    match probe(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| {
                format!(
                    "{shown} is left from a process of user {owner} that is gone, and cannot be removed: {error}"
                )
            })
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(format!(
            "{shown} belongs to user {owner}, and cannot be tried: {error}; take another --name or --socket"
        )),
        // Also a queue that is full.
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

/// Which file a path leads to.
fn id(path: &Path) -> io::Result<Id> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino(), metadata.created().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Which is not its own any more.
        drop(file);
        assert!(path.exists());
        drop(other);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn of_several_that_begin_at_once_one_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let before = alone(&path).unwrap();
        let other = path.clone();
        let other = tokio::task::spawn_blocking(move || listen(&other, 0o600).map(drop));
        // Time to look at what is there.
        std::thread::sleep(ALONE / 10);
        std::fs::remove_file(&path).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(before);
        let error = other.await.unwrap().unwrap_err();
        assert!(error.starts_with("another process, of user "), "{error}");
    }

    #[test]
    fn a_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        let error = listen(&path, 0o600).unwrap_err();
        assert!(error.contains("is no socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_path_that_cannot_be_is_named() {
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
