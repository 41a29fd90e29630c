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
use crate::access::{AccessError, Authenticator, Policy, Users};
use crate::admin::Token;
use crate::backup::Backup;
use crate::clock::Now;
use crate::config::{ConfigError, Options, Source};
use crate::hub::{Hub, HubLimits, Statistics};
use crate::listeners::Tls;
use crate::reading::Reading;
use crate::service::ServiceConfig;
use crate::storage::backup::{self, Header, NewFile};
use crate::storage::group_commit::ImageOrder;
use crate::storage::{Image, StorageError};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

/// How many commands wait before whoever comes with the next one waits, too.
const WAITING: usize = 16;

/// After so long the log says which file a reload waits for.
const TELL_AFTER: Duration = Duration::from_secs(5);
/// So much longer a reload waits then. Whoever asks over HTTP is answered before the connection is given up.
const PATIENCE: Duration = Duration::from_secs(15);
/// So many reloads may wait for files that never come, each with a thread. More are refused.
const MOST_HANGING: usize = 4;

/// What can be asked, with the way back.
#[derive(Debug)]
pub(crate) enum Command {
    /// Counters and gauges.
    Statistics(oneshot::Sender<Statistics>),
    /// An image of the store is to be taken.
    Image(ImageOrder),
    /// This holds from now on. The answer is how many clients were disconnected.
    Change(Box<Change>, oneshot::Sender<usize>),
    /// This is to be looked up or done.
    Inspect(Inspection),
}

/// A question about the clients and entries, or something small to be done with them. Everybody waits meanwhile.
pub(crate) struct Inspection(pub(crate) Ask);

type Ask = Box<dyn FnOnce(&mut Hub, Now) + Send>;

impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inspection")
    }
}

/// What can change while the server runs.
#[derive(Debug)]
pub(crate) struct Change {
    /// Who may connect.
    pub(crate) authenticator: Authenticator,
    /// What they may do; `None` is everything.
    pub(crate) policy: Option<Arc<Policy>>,
    /// With which certificates TLS is spoken; `None` if nothing changes.
    pub(crate) tls: Option<Tls>,
    /// How much there may be; `None` if nothing changes.
    pub(crate) limits: Option<(HubLimits, ServiceConfig)>,
    /// Names of options that were changed and need a restart.
    pub(crate) needs_restart: Vec<String>,
}

/// Where that comes from.
#[derive(Debug)]
pub(crate) enum Origin {
    /// Nowhere: it does not change.
    Nowhere,
    /// Only who may connect changes, what they may do does not.
    Access(Box<Authenticator>, Option<Arc<Policy>>),
    /// The whole configuration is read again. The server runs with these options and this token of its HTTP port.
    Config(Source, Box<(Options, Option<Token>)>),
}

impl Origin {
    /// Reads it as it is now; `None` if there is nothing to read. Blocks as long as the files take.
    fn read(&self) -> Result<Option<Change>, ReloadError> {
        Ok(match self {
            Self::Nowhere => None,
            Self::Access(authenticator, policy) => Some(Change {
                authenticator: authenticator.read_again()?,
                policy: policy.clone(),
                limits: None,
                needs_restart: Vec::new(),
                tls: None,
            }),
            Self::Config(source, started) => {
                let config = source.read()?;
                config.check()?;
                let (options, token) = &**started;
                let mut needs_restart = options.needing_restart(&config.options);
                let is_same_token = match (token, config.admin.and_then(|admin| admin.token)) {
                    (Some(token), Some(other)) => token.is_same(&other),
                    (None, None) => true,
                    _ => false,
                };
                let name = "http-token-file";
                if !is_same_token && !needs_restart.iter().any(|it| it == name) {
                    needs_restart.push(name.into());
                }
                Some(Change {
                    authenticator: config.authenticator,
                    policy: config.policy,
                    limits: Some((config.limits, config.service)),
                    needs_restart,
                    tls: config.doors.tls,
                })
            }
        })
    }
}

/// The server has stopped, or is about to: nothing is answered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server has stopped and does not answer any more")]
pub struct Stopped;

/// What was read again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// How many users there are now; `None` if there are none, or they come from no file.
    pub users: Option<usize>,
    /// How many clients were disconnected, since their user is gone or has another password, or the policy does not allow what they
    /// have any more.
    pub disconnected: usize,
    /// Names of options that were changed since the start and take effect at the next start only.
    pub needs_restart: Vec<String>,
}

/// Why nothing was read again. What was in force before still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The users, or the keys of tokens, cannot be read.
    #[error("{0}; the users of before stay in force")]
    Access(#[from] AccessError),
    /// The configuration, or a file that it names, cannot be read.
    #[error("{0}; what was in force before stays so")]
    Config(#[from] ConfigError),
    /// A file can be read, but does not come to its end: it is a pipe, or lies where nobody answers. What it may give later does
    /// not count.
    #[error("{0} does not come to its end; what was in force before stays so")]
    Hangs(String),
    /// There is no thread for it, or former reloads have several of them that still wait for files.
    #[error("cannot read files: {0}; what was in force before stays so")]
    Thread(io::Error),
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
    /// Where changes come from.
    origin: Arc<Origin>,
    /// Held by whoever reads them, so that nobody undoes what somebody has read later.
    turn: Arc<Mutex<()>>,
    /// Reloads whose files may never come.
    hanging: Arc<Semaphore>,
}

/// The two ends of the way on which a server is asked whose changes come from there.
pub(crate) fn channel(origin: Origin) -> (Control, mpsc::Receiver<Command>) {
    let (commands, receiver) = mpsc::channel(WAITING);
    let control = Control {
        commands,
        origin: Arc::new(origin),
        turn: Arc::default(),
        hanging: Arc::new(Semaphore::new(MOST_HANGING)),
    };
    (control, receiver)
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

    /// Reads the configuration again with all files that it names, or where it came from no file, the file of the users, on a
    /// thread that may block, for 20 seconds at most. What is read counts for everybody who connects from then on; clients whose
    /// user is gone, or has another password, are disconnected.
    ///
    /// # Errors
    /// Something cannot be read or used, or the server has stopped: what was in force before stays so.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        // Held until the change is in force.
        let _turn = self.turn.lock().await;
        let (report, mut read) = oneshot::channel();
        let reading = self.read(|read| drop(report.send(read)))?;
        let read = if let Ok(read) = timeout(TELL_AFTER, &mut read).await {
            read
        } else {
            tell_of_wait(&reading);
            let late = timeout(PATIENCE, read).await;
            late.map_err(|_| ReloadError::Hangs(reading.to_string()))?
        };
        let Some(change) = read.map_err(|_| Stopped)?? else {
            return Ok(Reloaded::default());
        };
        let (users, needs_restart) = (change.users(), change.needs_restart.clone());
        warn_of_restart(&needs_restart);
        let (reply, answer) = oneshot::channel();
        let command = Command::Change(Box::new(change), reply);
        let disconnected = self.tell(command, answer).await?;
        Ok(Reloaded {
            users,
            disconnected,
            needs_restart,
        })
    }

    /// The same for a thread that has no runtime; it blocks until what was read is in force.
    ///
    /// # Errors
    /// As with [`reload`](Self::reload).
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn reload_blocking(&self) -> Result<Reloaded, ReloadError> {
        let _turn = self.turn.blocking_lock();
        let (report, read) = std_mpsc::channel();
        let reading = self.read(move |read| drop(report.send(read)))?;
        let read = match read.recv_timeout(TELL_AFTER) {
            Err(std_mpsc::RecvTimeoutError::Timeout) => {
                tell_of_wait(&reading);
                match read.recv_timeout(PATIENCE) {
                    Err(std_mpsc::RecvTimeoutError::Timeout) => {
                        return Err(ReloadError::Hangs(reading.to_string()));
                    }
                    read => read,
                }
            }
            read => read,
        };
        let Some(change) = read.map_err(|_| Stopped)?? else {
            return Ok(Reloaded::default());
        };
        let (users, needs_restart) = (change.users(), change.needs_restart.clone());
        warn_of_restart(&needs_restart);
        let (reply, answer) = oneshot::channel();
        let command = Command::Change(Box::new(change), reply);
        let disconnected = self.tell_blocking(command, answer)?;
        Ok(Reloaded {
            users,
            disconnected,
            needs_restart,
        })
    }

    /// Reads on a thread of its own, which goes on if nobody waits for it any more.
    fn read(
        &self,
        report: impl FnOnce(Result<Option<Change>, ReloadError>) + Send + 'static,
    ) -> Result<Reading, ReloadError> {
        let place = Arc::clone(&self.hanging).try_acquire_owned();
        let place = place.map_err(|_| {
            let why = "files of former reloads have not come to their end yet";
            ReloadError::Thread(io::Error::other(why))
        })?;
        let reading = Reading::default();
        let (origin, observed) = (Arc::clone(&self.origin), reading.clone());
        let work = move || {
            let read = observed.during(|| origin.read());
            drop(place);
            report(read);
        };
        let thread = std::thread::Builder::new()
            .name("reload".into())
            .spawn(work);
        thread.map_err(ReloadError::Thread)?;
        Ok(reading)
    }

    /// Copies the store to the directory `to`, which is missing or empty, on the file system of the data: a data directory from
    /// which another server can start, with everything that was acknowledged before. Nobody waits for it meanwhile. The
    /// copy shares files with the store until these are replaced, so that it takes
    /// little space; it is safe from what happens to the store later, but not from what happens to its disk.
    ///
    /// # Errors
    /// The directory cannot be written, is not empty or on another file system, the store is in memory, or the server has stopped:
    /// the directory is no store.
    pub async fn snapshot(&self, to: &Path) -> Result<(), SnapshotError> {
        let image = self.image().await?;
        let to = to.to_path_buf();
        let copied = tokio::task::spawn_blocking(move || image.copy_to(&to));
        // It is only cancelled with the runtime.
        Ok(copied.await.map_err(|_| Stopped)??)
    }

    /// The same for a thread that has no runtime; it blocks until the copy is made.
    ///
    /// # Errors
    /// As with [`snapshot`](Self::snapshot).
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn snapshot_blocking(&self, to: &Path) -> Result<(), SnapshotError> {
        Ok(self.image_blocking()?.copy_to(to)?)
    }

    /// Begins a [backup](crate::storage::backup) of the store, with everything that was acknowledged before: who takes its pieces
    /// one after the other has the file. Nobody waits for it meanwhile. As long as it goes on, the files that it reads stay on the
    /// disk, also those that the store replaces.
    ///
    /// Of a store that servers share, it is a snapshot of the engine at one revision after this call. The first piece comes when that
    /// is complete, or an error if the engine does not answer.
    ///
    /// # Errors
    /// The store is in memory, or the server has stopped.
    pub async fn backup(&self) -> Result<Backup, SnapshotError> {
        Ok(Backup::start(self.image().await?)?)
    }

    /// Writes a backup; blocks until it is written. Returns what the backup says of itself.
    ///
    /// # Errors
    /// As with [`backup`](Self::backup), or it cannot be written: what was written is no backup.
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn backup_blocking(&self, to: &mut dyn io::Write) -> Result<Header, SnapshotError> {
        let mut image = self.image_blocking()?;
        Ok(backup::write(&mut *image, to, &|| true)?)
    }

    /// Writes a backup to a file, which is there as a whole or not at all; blocks until it is durable.
    ///
    /// # Errors
    /// As with [`backup_blocking`](Self::backup_blocking), or the file is there already and not to be replaced.
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn backup_to_file_blocking(
        &self,
        path: &Path,
        replaces: bool,
    ) -> Result<Header, SnapshotError> {
        let mut file = NewFile::create(path, replaces)?;
        let header = self.backup_blocking(&mut file)?;
        file.keep()?;
        Ok(header)
    }

    async fn image(&self) -> Result<Box<dyn Image>, SnapshotError> {
        let (reply, answer) = oneshot::channel();
        Ok(self.tell(Command::Image(reply), answer).await??)
    }

    fn image_blocking(&self) -> Result<Box<dyn Image>, SnapshotError> {
        let (reply, answer) = oneshot::channel();
        Ok(self.tell_blocking(Command::Image(reply), answer)??)
    }

    /// Has this looked up or done between two turns; what it takes is bounded, since everybody waits for it.
    pub(crate) async fn inspect<T: Send + 'static>(
        &self,
        inspection: impl FnOnce(&mut Hub, Now) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        let inspection = Inspection(Box::new(move |hub, now| {
            // Who asked may have given up.
            let _ = reply.send(inspection(hub, now));
        }));
        self.tell(Command::Inspect(inspection), answer).await
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

fn tell_of_wait(reading: &Reading) {
    tracing::warn!(
        "a reload waits for {reading}, which does not come to its end; it is given up after {} s more",
        PATIENCE.as_secs()
    );
}

/// Warns of options that take effect at the next start only.
fn warn_of_restart(options: &[String]) {
    if !options.is_empty() {
        let options = options.join(", ");
        tracing::warn!(
            "options were changed that need a restart: {options}; all others are in force"
        );
    }
}

impl Change {
    /// How many users there are, if any are known.
    fn users(&self) -> Option<usize> {
        self.authenticator.users().map(Users::len)
    }
}
