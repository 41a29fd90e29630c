//! The process at the other end of a connection.
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;

/// Number of the field `starttime` in `/proc/PID/stat`, counted from the one behind the name of the program (`proc_pid_stat(5)`).
const START_TIME: usize = 19;

/// Identity of a process that connects. The kernel reports it, not the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// A process by its id, and by its start in clock ticks since boot: a reused id is another process.
    Process {
        /// Process id.
        id: i32,
        /// Start time.
        started: u64,
    },
    /// Any process of a user, if processes cannot be distinguished, as in another PID namespace.
    Unidentified {
        /// User id.
        user: u32,
    },
}

impl Peer {
    /// Returns the process that made a connection.
    pub(crate) fn from_socket(socket: &UnixStream) -> io::Result<Self> {
        let credentials = socket.peer_cred()?;
        let process = || {
            let id = credentials.pid().filter(|id| *id > 0)?;
            open(id).ok()?;
            let started = start_time(id)?;
            Some(Self::Process { id, started })
        };
        let user = credentials.uid();
        Ok(process().unwrap_or(Self::Unidentified { user }))
    }

    /// Waits until the process has ended. The wait for an unidentified process never ends.
    pub(crate) async fn ended(self) {
        let Self::Process { id, started } = self else {
            return std::future::pending().await;
        };
        // If the process id can be opened and still belongs to the same process, the opened handle belongs to it too.
        let Ok(process) = open(id) else { return };
        if self::start_time(id) != Some(started) {
            return;
        }
        // tokio's end of a pipe works for any descriptor that can be polled.
        match Receiver::from_owned_fd_unchecked(process) {
            Ok(process) => {
                let _ = process.readable().await;
            }
            Err(error) => {
                tracing::warn!(%error, process = id, "cannot wait for the end of a process");
                std::future::pending::<()>().await;
            }
        }
    }
}

fn open(id: i32) -> io::Result<OwnedFd> {
    let id = Pid::from_raw(id).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(id, PidfdFlags::empty())?)
}

/// Returns when a process started.
fn start_time(id: i32) -> Option<u64> {
    let fields = std::fs::read(format!("/proc/{id}/stat")).ok()?;
    // The name of the program may contain anything.
    let name_end = fields.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&fields[name_end + 1..]).ok()?;
    fields
        .split_ascii_whitespace()
        .nth(START_TIME)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    #[tokio::test]
    async fn a_process_is_identified_by_its_start_time() {
        let mut child = Command::new("sleep");
        // A name that looks like the end of the name.
        let mut child = child.arg0(") S 1").arg("600").spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let started = start_time(id).unwrap();
        let own = self::start_time(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(started >= own);
        let peer = Peer::Process { id, started };
        let waits = tokio::time::timeout(std::time::Duration::from_millis(50), peer.ended());
        assert!(waits.await.is_err(), "it runs");
        let expected = Peer::Process {
            id,
            started: started - 1,
        };
        expected.ended().await;
        child.kill().unwrap();
        peer.ended().await;
        child.wait().unwrap();
        peer.ended().await;
    }

    #[tokio::test]
    async fn both_ends_of_a_socket_pair_are_this_process() {
        let (near, _peer) = UnixStream::pair().unwrap();
        let id = i32::try_from(std::process::id()).unwrap();
        let peer = Peer::from_socket(&near).unwrap();
        assert!(
            matches!(peer, Peer::Process { id: it, .. } if it == id),
            "{peer:?}"
        );
    }
}
