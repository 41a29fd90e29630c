//! Unix domain sockets.
use super::stream::Transport;
use super::tcp::{ACCEPT_PAUSE, BACKLOG};
use super::{AcceptResult, AcceptedConnection, ConnectionLimiter, Stream};
use socket2::{Domain, SockAddr, Socket, Type};
use statestored_access::{Peer, UnixPeer};
use std::fs::Permissions;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::net::UnixListener;
use tokio::sync::mpsc;

/// The file of a socket. It is removed when this is dropped, unless another file has replaced it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    id: FileId,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if file_id(&self.path).is_ok_and(|id| id == self.id)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove a socket");
        }
    }
}

/// Device, inode and creation time: inode numbers are reused.
type FileId = (u64, u64, Option<SystemTime>);

/// Returns the identity of the file at a path.
fn file_id(path: &Path) -> io::Result<FileId> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino(), metadata.created().ok()))
}

/// Creates a socket with these permissions. Replaces the socket file of a former process that no longer listens.
pub(crate) fn bind(path: &Path, mode: u32) -> io::Result<(Socket, SocketFile)> {
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // Linux gives the socket file these permissions, restricted by the umask.
    #[cfg(target_os = "linux")]
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(mode))?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(error);
        }
        remove_stale(path)?;
        socket.bind(&address)?;
    }
    let file = SocketFile {
        path: path.into(),
        id: file_id(path)?,
    };
    // No client can connect before the socket listens.
    set_mode(path, mode)?;
    Ok((socket, file))
}

/// Sets the permissions of the socket file. A symbolic link that has replaced it is not followed.
#[cfg(target_os = "linux")]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use rustix::fs::{FileType, Mode, OFlags};
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let status = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
        return Err(io::Error::other("another file has taken its place"));
    }
    if status.st_mode & 0o777 == mode {
        return Ok(());
    }
    // `fchmod` refuses a descriptor of `O_PATH`; its entry in /proc leads to the inode itself.
    let entry = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::set_permissions(entry, Permissions::from_mode(mode))
}

#[cfg(not(target_os = "linux"))]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

fn remove_stale(path: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        let problem = "there is a file of this name that is not a socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        // This includes a full queue and missing permissions.
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

pub(super) fn listen(socket: &Socket) -> io::Result<UnixListener> {
    socket.listen(i32::try_from(BACKLOG).unwrap_or(i32::MAX))?;
    UnixListener::from_std(socket.try_clone()?.into())
}

/// Accepts connections until their receiver is dropped.
pub(super) async fn accept(
    listener: UnixListener,
    file: SocketFile,
    limiter: ConnectionLimiter,
    accepted: mpsc::Sender<AcceptResult<Stream>>,
) {
    let name: Arc<str> = format!("unix://{}", file.path.display()).into();
    loop {
        let arrival = match listener.accept().await {
            Ok((stream, _)) => {
                let local = UnixPeer {
                    user_id: stream.peer_cred().ok().map(|user| user.uid()),
                };
                let peer = Peer {
                    listener: Arc::clone(&name),
                    ..local.into()
                };
                match limiter.try_acquire() {
                    Some(permit) => Ok(AcceptedConnection {
                        stream: Stream::plain(Transport::Unix(stream)),
                        peer,
                        permit,
                    }),
                    None => Err(peer),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if accepted.send(arrival).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_socket_without_a_listener_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (socket, file) = bind(&path, 0o600).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let listener = listen(&socket).unwrap();
        let taken = bind(&path, 0o600).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop((socket, listener));
        let (_socket, other) = bind(&path, 0o666).unwrap();
        // The path now belongs to another socket.
        drop(file);
        assert!(path.exists());
        drop(other);
        assert!(!path.exists());
    }

    #[test]
    fn permissions_do_not_reach_the_target_of_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        let _bound = bind(&target, 0o600).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let error = set_mode(&link, 0o666).unwrap_err();
        assert!(error.to_string().contains("taken its place"), "{error}");
        let mode = std::fs::metadata(&target).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        assert!(bind(&path, 0o600).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
