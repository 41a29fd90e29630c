//! Queries and commands to a running server, from any thread.
//!
//! A command goes through a channel to the thread that serves the clients, and is answered there between two turns. No lock is
//! therefore needed on the path of a request. Blocking work, like reading a file, is done by the caller.
//!
//! ```text
//!   Control (any thread) ──Command──▶ serve_all ──▶ Driver::obey ──▶ hub, service
//!          ◀────────────── answer, through a channel of its own ──────────┘
//! ```
use crate::config::{ConfigSource, EffectiveOptions};
use crate::config_error::ConfigError;
use crate::running_config::{ReloadedConfig, RunningConfig};
use statestored_admin::{
    Backup, InspectFn, ReloadReport, ReloadStatus, ServerStopped, SnapshotError,
};
use statestored_broker::hub::{Hub, HubMetrics};
use statestored_common::ClockReading;
use statestored_common::read_tracker::ReadTracker;
use statestored_storage::StorageImage;
use statestored_storage::backup::{self, Header, NewFile};
use statestored_storage::group_commit::ImageOrder;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{self, Arc, PoisonError};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

/// Capacity of the queue of commands. Callers wait while it is full.
const COMMAND_CAPACITY: usize = 16;

/// Time after which the log names the file that a reload waits for.
const SLOW_RELOAD_AFTER: Duration = Duration::from_secs(5);
/// Time that a reload waits after that message. A caller over HTTP is answered before its connection is closed.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of reloads that wait for files that never end, each with a thread. Further reloads are rejected.
const MAX_STALLED_RELOADS: usize = 4;

/// A command to the server, with the sender of its answer.
#[derive(Debug)]
pub(crate) enum Command {
    /// Returns counters and gauges.
    Metrics(oneshot::Sender<HubMetrics>),
    /// Takes an image of the store.
    Image(ImageOrder),
    /// Applies a change. The answer is the number of disconnected clients.
    Reconfigure(Box<ReloadedConfig>, oneshot::Sender<usize>),
    /// Runs an inspection.
    Inspect(InspectRequest),
}

/// A query of clients and entries, or a small operation on them. All clients wait meanwhile.
pub(crate) struct InspectRequest(pub(crate) InspectFn);

impl fmt::Debug for InspectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InspectRequest")
    }
}

/// Source of the settings of a reload.
#[derive(Debug)]
pub(crate) enum ReloadSource {
    /// No source: the settings do not change.
    None,
    /// The whole configuration is read again, and compared with the one that the server runs with.
    Config(ConfigSource, Box<RunningConfig>),
}

impl ReloadSource {
    /// Reads the settings as they are now; `None` if there is nothing to read. Blocks until the files are read.
    fn read(&self) -> Result<Option<ReloadedConfig>, ReloadError> {
        Ok(match self {
            Self::None => None,
            Self::Config(source, running) => Some(running.change_to(source.read()?)?),
        })
    }
}

/// Reason why a reload failed. The former configuration stays in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The configuration, or a file that it names, cannot be read.
    #[error("{0}; the former configuration stays in force")]
    Config(#[from] ConfigError),
    /// A file can be opened but never ends: it is a pipe, or a file on a network that does not respond. Its content is ignored if it
    /// arrives later.
    #[error(
        "cannot read {0}: it has no end, or its file system does not answer; the former configuration stays in force"
    )]
    Stalled(String),
    /// No thread is available, or several former reloads still wait for files.
    #[error("cannot read files: {0}; the former configuration stays in force")]
    Thread(io::Error),
    /// The server has stopped.
    #[error(transparent)]
    Stopped(#[from] ServerStopped),
}

/// A handle to a running server. It can be cloned and sent to other threads, and outlives the server.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    commands: mpsc::Sender<Command>,
    /// Source of changes.
    reload_source: Arc<ReloadSource>,
    /// Options in force.
    options: Arc<sync::Mutex<EffectiveOptions>>,
    /// Lock of a reload, so that an earlier reading does not undo a later one.
    reload_lock: Arc<Mutex<()>>,
    /// Permits of reloads whose files may never end.
    stalled_reloads: Arc<Semaphore>,
    reload_status: Arc<ReloadStatus>,
}

/// Creates a handle that reloads from `origin`, and the receiver of its commands.
pub(crate) fn channel(
    origin: ReloadSource,
    options: EffectiveOptions,
) -> (ServerHandle, mpsc::Receiver<Command>) {
    let (commands, receiver) = mpsc::channel(COMMAND_CAPACITY);
    let control = ServerHandle {
        commands,
        reload_source: Arc::new(origin),
        options: Arc::new(sync::Mutex::new(options)),
        reload_lock: Arc::default(),
        stalled_reloads: Arc::new(Semaphore::new(MAX_STALLED_RELOADS)),
        reload_status: Arc::new(ReloadStatus::started()),
    };
    (control, receiver)
}

impl ServerHandle {
    /// Returns counters since the start, and current gauges.
    ///
    /// # Errors
    /// The server has stopped.
    pub async fn metrics(&self) -> Result<HubMetrics, ServerStopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Metrics(reply), answer).await
    }

    /// Returns counters and gauges to a thread that has no runtime; blocks until they arrive.
    ///
    /// # Errors
    /// The server has stopped.
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn metrics_blocking(&self) -> Result<HubMetrics, ServerStopped> {
        let (reply, answer) = oneshot::channel();
        self.send_blocking(Command::Metrics(reply), answer)
    }

    /// Reads the configuration again, on a thread that may block.
    ///
    /// This includes all files that the configuration names. If the configuration has no [source](crate::config::Config::source),
    /// nothing is read and nothing changes. The call takes 20 seconds at most.
    ///
    /// The new configuration applies to all later connections. Clients are disconnected if their user was removed or has another
    /// password, or if the key of their token was removed. They are also disconnected if the policy no longer allows their
    /// subscriptions or watches.
    ///
    /// # Errors
    /// A file cannot be read or used, or the server has stopped. The former configuration stays in force.
    pub async fn reload(&self) -> Result<ReloadReport, ReloadError> {
        // Held until the change is in force.
        let _turn = self.reload_lock.lock().await;
        let result = self.read_and_apply().await;
        self.reload_status.record(result.is_ok());
        result
    }

    /// Returns the outcome of the last reload.
    pub(crate) fn reload_status(&self) -> &ReloadStatus {
        &self.reload_status
    }

    /// Reads the configuration and applies it.
    async fn read_and_apply(&self) -> Result<ReloadReport, ReloadError> {
        let (report, mut read) = oneshot::channel();
        let reading = self.spawn_read(report)?;
        let read = if let Ok(read) = timeout(SLOW_RELOAD_AFTER, &mut read).await {
            read
        } else {
            tracing::warn!(
                "a reload waits for {reading}, which has no end or whose file system does not answer; the reload fails after {} s more",
                RELOAD_TIMEOUT.as_secs()
            );
            let late = timeout(RELOAD_TIMEOUT, read).await;
            late.map_err(|_| ReloadError::Stalled(reading.to_string()))?
        };
        let Some(change) = read.map_err(|_| ServerStopped)?? else {
            return Ok(ReloadReport::default());
        };
        let (users, needs_restart) = (change.users(), change.needs_restart.clone());
        let options = change.options.clone();
        let (reply, answer) = oneshot::channel();
        let command = Command::Reconfigure(Box::new(change), reply);
        let disconnected = self.send(command, answer).await?;
        self.lock_options().apply(&options, &needs_restart);
        if !needs_restart.is_empty() {
            let options = needs_restart.join(", ");
            tracing::warn!(
                "options were changed that need a restart: {options}; all others are in force"
            );
        }
        let mut report = ReloadReport::default();
        report.users = users;
        report.disconnected = disconnected;
        report.needs_restart = needs_restart;
        Ok(report)
    }

    /// Returns the options in force.
    pub(crate) fn options(&self) -> EffectiveOptions {
        self.lock_options().clone()
    }

    fn lock_options(&self) -> sync::MutexGuard<'_, EffectiveOptions> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reloads on a thread that has no runtime; blocks until the new configuration is in force.
    ///
    /// # Errors
    /// As with [`reload`](Self::reload).
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn reload_blocking(&self) -> Result<ReloadReport, ReloadError> {
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime
            .map_err(ReloadError::Thread)?
            .block_on(self.reload())
    }

    /// Reads on a thread of its own, which continues if the caller gives up. The result arrives through `report`.
    fn spawn_read(
        &self,
        report: oneshot::Sender<Result<Option<ReloadedConfig>, ReloadError>>,
    ) -> Result<ReadTracker, ReloadError> {
        let place = Arc::clone(&self.stalled_reloads).try_acquire_owned();
        let place = place.map_err(|_| {
            let why = "files of former reloads have not come to their end yet";
            ReloadError::Thread(io::Error::other(why))
        })?;
        let reading = ReadTracker::default();
        let (origin, observed) = (Arc::clone(&self.reload_source), reading.clone());
        let work = move || {
            let read = observed.track(|| origin.read());
            drop(place);
            // The caller may have given up.
            let _ = report.send(read);
        };
        let thread = std::thread::Builder::new()
            .name("reload".into())
            .spawn(work);
        thread.map_err(ReloadError::Thread)?;
        Ok(reading)
    }

    /// Copies the store to the directory `to`, without delaying any client.
    ///
    /// The directory must be missing or empty, and on the file system of the data. It becomes a data directory from which another
    /// server can start, with everything that was acknowledged before the call.
    ///
    /// The copy shares files with the store until the store replaces them, so that it takes little space. Later changes of the store
    /// do not affect it, but a failure of the disk affects both.
    ///
    /// # Errors
    /// The directory cannot be written, is not empty or on another file system, the store is in memory, or the server has stopped.
    /// The directory is no store then.
    pub async fn snapshot(&self, to: &Path) -> Result<(), SnapshotError> {
        let image = self.image().await?;
        let to = to.to_path_buf();
        let copied = tokio::task::spawn_blocking(move || image.copy_to(&to));
        // The task is cancelled only with the runtime.
        Ok(copied.await.map_err(|_| ServerStopped)??)
    }

    /// Copies the store from a thread that has no runtime; blocks until the copy is complete.
    ///
    /// # Errors
    /// As with [`snapshot`](Self::snapshot).
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn snapshot_blocking(&self, to: &Path) -> Result<(), SnapshotError> {
        Ok(self.image_blocking()?.copy_to(to)?)
    }

    /// Begins a backup of the store, without delaying any client.
    ///
    /// It contains everything that was acknowledged before the call. Its pieces, in order, are the file. Until it ends, the files
    /// that it reads stay on the disk, even if the store replaces them.
    ///
    /// For a shared store, it is a snapshot of the engine at one revision after this call. The first piece arrives when the snapshot
    /// is complete, or an error if the engine does not answer.
    ///
    /// # Errors
    /// The store is in memory, or the server has stopped.
    pub async fn backup(&self) -> Result<Backup, SnapshotError> {
        Ok(Backup::start(self.image().await?)?)
    }

    /// Writes a backup; blocks until it is written. Returns the header of the backup.
    ///
    /// # Errors
    /// As with [`backup`](Self::backup), or it cannot be written. The bytes written are no backup then.
    ///
    /// # Panics
    /// In a task of a tokio runtime, which must not block.
    pub fn backup_blocking(&self, to: &mut dyn io::Write) -> Result<Header, SnapshotError> {
        let mut image = self.image_blocking()?;
        Ok(backup::write(&mut *image, to, &|| true)?)
    }

    /// Writes a backup to a file, which is created as a whole or not at all; blocks until it is durable.
    ///
    /// # Errors
    /// As with [`backup_blocking`](Self::backup_blocking), or the file exists already and should not be replaced.
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
        file.persist()?;
        Ok(header)
    }

    async fn image(&self) -> Result<Box<dyn StorageImage>, SnapshotError> {
        let (reply, answer) = oneshot::channel();
        Ok(self.send(Command::Image(reply), answer).await??)
    }

    fn image_blocking(&self) -> Result<Box<dyn StorageImage>, SnapshotError> {
        let (reply, answer) = oneshot::channel();
        Ok(self.send_blocking(Command::Image(reply), answer)??)
    }

    /// Runs an inspection between two turns. Its time must be bounded, since all clients wait meanwhile.
    pub(crate) async fn inspect<T: Send + 'static>(
        &self,
        inspection: impl FnOnce(&mut Hub, ClockReading) -> T + Send + 'static,
    ) -> Result<T, ServerStopped> {
        let (reply, answer) = oneshot::channel();
        let inspection = InspectRequest(Box::new(move |hub, now| {
            // The caller may have given up.
            let _ = reply.send(inspection(hub, now));
        }));
        self.send(Command::Inspect(inspection), answer).await
    }

    async fn send<T>(
        &self,
        command: Command,
        answer: oneshot::Receiver<T>,
    ) -> Result<T, ServerStopped> {
        self.commands
            .send(command)
            .await
            .map_err(|_| ServerStopped)?;
        answer.await.map_err(|_| ServerStopped)
    }

    fn send_blocking<T>(
        &self,
        command: Command,
        answer: oneshot::Receiver<T>,
    ) -> Result<T, ServerStopped> {
        self.commands
            .blocking_send(command)
            .map_err(|_| ServerStopped)?;
        answer.blocking_recv().map_err(|_| ServerStopped)
    }
}
