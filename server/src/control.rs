//! Asking a running server something, and telling it, from wherever.
//!
//! A command goes through a channel to the thread that serves the clients, and is answered there between two turns. So
//! nothing on the way of a request takes a lock for the sake of those who ask. What may block, like reading a file, is done
//! by those who ask.
//!
//! ```text
//!   Control (any thread) ──Command──▶ serve_all ──▶ Driver::obey ──▶ hub, service
//!          ◀────────────── answer, through a channel of its own ──────────┘
//! ```
use crate::access::{Users, UsersError, UsersSource};
use crate::hub::Statistics;
use crate::storage::StorageError;
use crate::storage::group_commit::CopyOrder;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, oneshot};

/// How many commands wait before whoever comes with the next one waits, too.
const WAITING: usize = 16;

/// What can be asked, with the way back.
#[derive(Debug)]
pub(crate) enum Command {
    /// Counters and gauges.
    Statistics(oneshot::Sender<Statistics>),
    /// A copy of the store is to be made.
    Snapshot(CopyOrder),
    /// These are the users from now on. The answer is how many clients were disconnected.
    Users(Users, oneshot::Sender<usize>),
}

/// The server has stopped, or is about to: nothing is answered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server has stopped and does not answer any more")]
pub struct Stopped;

/// What was read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// How many users there are now; `None` if none were read from a file, so that there was nothing to read.
    pub users: Option<usize>,
    /// How many clients were disconnected, since their user is gone or has another password.
    pub disconnected: usize,
}

/// Why nothing was read again. What was in force before still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The users cannot be read.
    #[error("{0}; the users of before stay in force")]
    Users(#[from] UsersError),
    /// The server has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Why no copy was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The storage could not do it; the directory is no store.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The server has stopped before.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Asks a running server; may be cloned and sent to other threads, and outlives the server.
#[derive(Debug, Clone)]
pub struct Control {
    commands: mpsc::Sender<Command>,
    /// Where the users come from. Held by whoever reads them, so that nobody undoes what somebody has read later.
    users: Arc<Mutex<Option<UsersSource>>>,
}

/// The two ends of the way on which a server is asked whose users come from there.
pub(crate) fn channel(users: Option<UsersSource>) -> (Control, mpsc::Receiver<Command>) {
    let (commands, receiver) = mpsc::channel(WAITING);
    let users = Arc::new(Mutex::new(users));
    (Control { commands, users }, receiver)
}

impl Control {
    /// Counters since the start, and gauges of now.
    ///
    /// # Errors
    /// The server has stopped.
    pub async fn statistics(&self) -> Result<Statistics, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Statistics(reply), answer).await
    }

    /// The same for a thread that has no runtime; it blocks until the answer is there.
    ///
    /// # Errors
    /// The server has stopped.
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn statistics_blocking(&self) -> Result<Statistics, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.tell_blocking(Command::Statistics(reply), answer)
    }

    /// Reads the file of the users again, if there is one, on a thread that may block. They count for everybody who connects
    /// from then on; clients whose user is gone, or has another password, are disconnected.
    ///
    /// # Errors
    /// The file cannot be read or used, or the server has stopped: the users of before stay in force.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let users = Arc::clone(&self.users).lock_owned().await;
        let Some(source) = users.clone() else {
            return Ok(Reloaded::nothing());
        };
        let read = tokio::task::spawn_blocking(move || source.read()).await;
        // It is only cancelled with the runtime.
        let new = read.map_err(|_| Stopped)??;
        let count = new.len();
        let (reply, answer) = oneshot::channel();
        let disconnected = self.tell(Command::Users(new, reply), answer).await?;
        Ok(Reloaded::users(count, disconnected))
    }

    /// The same for a thread that has no runtime; it blocks until the new users are in force.
    ///
    /// # Errors
    /// As with [`reload`](Self::reload).
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn reload_blocking(&self) -> Result<Reloaded, ReloadError> {
        let users = self.users.blocking_lock();
        let Some(source) = &*users else {
            return Ok(Reloaded::nothing());
        };
        let new = source.read()?;
        let count = new.len();
        let (reply, answer) = oneshot::channel();
        let disconnected = self.tell_blocking(Command::Users(new, reply), answer)?;
        Ok(Reloaded::users(count, disconnected))
    }

    /// Copies the store to the directory `to`, which is missing or empty, on the file system of the data: a data directory from
    /// which another server can start, with everything that was acknowledged before. Requests go on meanwhile; writes wait
    /// while the current log is copied. The copy shares files with the store until these are replaced, so that it takes
    /// little space; it is safe from what happens to the store later, but not from what happens to its disk.
    ///
    /// # Errors
    /// The directory cannot be written, is not empty or on another file system, the store is in memory, or the server has stopped:
    /// the directory is no store.
    pub async fn snapshot(&self, to: &Path) -> Result<(), SnapshotError> {
        let (reply, answer) = oneshot::channel();
        let order = CopyOrder {
            to: to.into(),
            reply,
        };
        Ok(self.tell(Command::Snapshot(order), answer).await??)
    }

    /// The same for a thread that has no runtime; it blocks until the copy is made.
    ///
    /// # Errors
    /// As with [`snapshot`](Self::snapshot).
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn snapshot_blocking(&self, to: &Path) -> Result<(), SnapshotError> {
        let (reply, answer) = oneshot::channel();
        let order = CopyOrder {
            to: to.into(),
            reply,
        };
        Ok(self.tell_blocking(Command::Snapshot(order), answer)??)
    }

    async fn tell<T>(&self, command: Command, answer: oneshot::Receiver<T>) -> Result<T, Stopped> {
        self.commands.send(command).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    fn tell_blocking<T>(
        &self,
        command: Command,
        answer: oneshot::Receiver<T>,
    ) -> Result<T, Stopped> {
        self.commands.blocking_send(command).map_err(|_| Stopped)?;
        answer.blocking_recv().map_err(|_| Stopped)
    }
}

impl Reloaded {
    fn nothing() -> Self {
        Self {
            users: None,
            disconnected: 0,
        }
    }

    fn users(count: usize, disconnected: usize) -> Self {
        Self {
            users: Some(count),
            disconnected,
        }
    }
}
