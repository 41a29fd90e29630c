//! A command that runs on behalf of this program.
use super::{
    super::{confirmation::confirmation_timeout, termination_signal::TerminationSignal},
    job::Job,
};
use crate::{exit::Exit, failure::Failure, message};
use std::{
    ffi::OsString,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::{
    process::{Child, Command},
    time::sleep,
};
use windows_sys::Win32::System::Threading::CREATE_SUSPENDED;

/// Interval of the checks for processes that the command has left behind.
const TICK: Duration = Duration::from_millis(10);

/// Signals that a started program inherits as ignored: none on Windows.
#[derive(Debug)]
pub(crate) struct IgnoredSignals;

impl IgnoredSignals {
    /// Returns the signals that this process ignores.
    pub(crate) fn current() -> Self {
        Self
    }
}

/// A running command. Dropping it kills every process that the command has started.
#[derive(Debug)]
pub(crate) struct SupervisedCommand {
    child: Child,
    job: Arc<Job>,
    /// Confirmations for the watchdog, which ends when this is dropped.
    confirmations: mpsc::Sender<()>,
    /// Whether the watchdog has ended the command.
    is_lost: Arc<AtomicBool>,
    grace: Duration,
    /// When the command has ended.
    ended_at: Option<Instant>,
    is_killed: bool,
}

impl SupervisedCommand {
    /// Starts a command with these variables in its environment; variables without a value are removed from it.
    ///
    /// Processes that the command leaves behind are killed after the grace period, and all of them when this program ends. The
    /// command is killed unless this program [confirms](Self::confirm_lock) in time that it holds the lock with this lease.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, Option<String>)],
        _: IgnoredSignals,
        grace: Duration,
        lease: Duration,
    ) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::usage("there is no command to run"));
        };
        let cannot = |error: io::Error| {
            let code = match error.kind() {
                io::ErrorKind::NotFound => 127,
                _ => 126,
            };
            let text = format!("cannot run '{}': {error}", program.display());
            Failure::new(Exit::CommandCode(code), text)
        };
        let job = Arc::new(Job::new().map_err(cannot)?);
        let mut command = Command::new(program);
        command
            .args(arguments)
            // It enters the job before it can start a process.
            .creation_flags(CREATE_SUSPENDED)
            .kill_on_drop(true);
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command.spawn().map_err(cannot)?;
        job.start(&child).map_err(cannot)?;
        let is_lost = Arc::new(AtomicBool::new(false));
        let (confirmations, confirmed) = mpsc::channel();
        let timeout = confirmation_timeout(lease);
        let (watched, lost) = (Arc::clone(&job), Arc::clone(&is_lost));
        thread::spawn(move || watch(&confirmed, timeout, &watched, &lost));
        Ok(Self {
            child,
            job,
            confirmations,
            is_lost,
            grace,
            ended_at: None,
            is_killed: false,
        })
    }

    /// Waits until the command and all processes that it has started have ended. Returns its exit code.
    pub(crate) async fn wait(&mut self) -> Exit {
        let status = match self.child.wait().await {
            Ok(status) => status,
            Err(error) => {
                message::print_error(&format!("cannot wait for the command: {error}"));
                return Exit::Usage;
            }
        };
        let ended_at = *self.ended_at.get_or_insert_with(Instant::now);
        while self.job.has_processes() {
            if !self.is_killed && ended_at.elapsed() >= self.grace {
                message::print_error("processes of the command did not end in time; killing them");
                self.kill();
            }
            sleep(TICK).await;
        }
        if self.is_lost.load(Ordering::Acquire) {
            return Exit::NoResponse;
        }
        status.into()
    }

    /// Confirms that the lock is held for as long as [`confirmed_duration`](crate::platform::confirmed_duration) returns.
    pub(crate) fn confirm_lock(&self) {
        // The watchdog has ended if it has killed the command.
        let _ = self.confirmations.send(());
    }

    /// Does nothing: the console sends its events to the command as well.
    #[allow(clippy::unused_self, reason = "other systems need the command")]
    pub(crate) fn forward_signal(&self, _: TerminationSignal) {}

    /// Kills every process that the command has started. No grace period precedes: Windows has no signal that asks for an end.
    pub(crate) async fn terminate(&mut self, _: Duration) {
        self.kill();
        self.wait().await;
    }

    fn kill(&mut self) {
        self.is_killed = true;
        self.job.terminate();
    }
}

impl Drop for SupervisedCommand {
    fn drop(&mut self) {
        self.job.terminate();
    }
}

/// Kills the command if a confirmation does not arrive in time: a program that hangs cannot report a lost lock.
fn watch(confirmed: &mpsc::Receiver<()>, timeout: Duration, job: &Job, is_lost: &AtomicBool) {
    loop {
        match confirmed.recv_timeout(timeout) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                message::print_error(
                    "statestore does not say that it still has the lock; ending the command",
                );
                is_lost.store(true, Ordering::Release);
                job.terminate();
                return;
            }
        }
    }
}
