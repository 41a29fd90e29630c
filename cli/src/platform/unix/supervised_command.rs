//! A command that runs on behalf of this program, and the signals between them.
use super::{
    super::termination_signal::TerminationSignal,
    descendants,
    ignored_signals::IgnoredSignals,
    supervisor::{self, CONFIRM, CONTINUE, FORWARD_TERM, KILL_ALL, TERMINATE_ALL},
};
use crate::{exit::Exit, failure::Failure, message};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::{
    env,
    ffi::OsString,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::PathBuf,
    time::Duration,
};
use tokio::{
    process::Command,
    signal::unix::{self, SignalKind},
    time::timeout,
};

/// A running command with its attendant. Dropping it ends every process that the command has started.
#[derive(Debug)]
pub(crate) struct SupervisedCommand {
    supervisor: tokio::process::Child,
    /// Ctrl-Z.
    stop: unix::Signal,
}

/// The signals that ask this program to end.
#[derive(Debug)]
pub(crate) struct TerminationSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

/// Handles these signals from now on, so that they do not end the program.
pub(crate) fn signals() -> Result<TerminationSignals, Failure> {
    Ok(TerminationSignals {
        interrupt: listen(SignalKind::interrupt())?,
        terminate: listen(SignalKind::terminate())?,
    })
}

fn listen(kind: SignalKind) -> Result<unix::Signal, Failure> {
    unix::signal(kind)
        .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))
}

impl TerminationSignals {
    /// Waits for the next signal.
    pub(crate) async fn recv(&mut self) -> TerminationSignal {
        tokio::select! {
            _ = self.interrupt.recv() => TerminationSignal::Interrupt,
            _ = self.terminate.recv() => TerminationSignal::Terminate,
        }
    }
}

impl SupervisedCommand {
    /// Starts a command with these variables in its environment; variables without a value are removed from it.
    ///
    /// Processes that the command leaves behind are asked to end, and killed after the grace period. On Linux, all of them are
    /// killed when this program is killed. The command is ended unless this program [confirms](Self::confirm_lock) in time that it
    /// holds the lock with this lease.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, Option<String>)],
        ignored: IgnoredSignals,
        grace: Duration,
        lease: Duration,
    ) -> Result<Self, Failure> {
        let cannot = |error| Failure::usage(format!("cannot start a process: {error}"));
        // The handlers are installed before a process is started.
        let stop = listen(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
        // If SIGCHLD is ignored, the exit status of a child is lost.
        let _ = listen(SignalKind::child())?;
        descendants::become_subreaper();
        let mut supervisor = Command::new(current_program().map_err(cannot)?);
        supervisor
            .as_std_mut()
            .arg0("statestore")
            .arg(supervisor::SUPERVISE_VERB)
            .args(["--parent", &getpid().as_raw_pid().to_string()])
            .args(["--grace-ms", &grace.as_millis().to_string()])
            .args(["--lease-ms", &lease.as_millis().to_string(), "--"])
            .args(command);
        for (name, value) in variables {
            match value {
                Some(value) => supervisor.env(name, value),
                None => supervisor.env_remove(name),
            };
        }
        ignored.apply_to(supervisor.as_std_mut());
        let supervisor = supervisor.spawn().map_err(cannot)?;
        Ok(Self { supervisor, stop })
    }

    /// Waits until the command and all processes that it has started have ended. Returns its exit code, or 128 plus the number of
    /// the signal that ended it.
    pub(crate) async fn wait(&mut self) -> Exit {
        let ended = loop {
            tokio::select! {
                ended = self.supervisor.wait() => break ended,
                _ = self.stop.recv() => {
                    // A stopped `statestore` cannot keep a lock, and the command would continue before the loss is noticed.
                    message::print_line("statestore: a command under a lock cannot be suspended");
                    self.signal(CONTINUE);
                }
            }
        };
        match ended {
            Ok(status) => {
                if status.signal().is_some() {
                    // The attendant was killed; its children are now children of this process.
                    descendants::kill_all().await;
                }
                status.into()
            }
            Err(error) => {
                message::print_error(&format!("cannot wait for the command: {error}"));
                Exit::Usage
            }
        }
    }

    /// Confirms that the lock is held for as long as [`confirmed_duration`](crate::platform::confirmed_duration) returns.
    pub(crate) fn confirm_lock(&self) {
        self.signal(CONFIRM);
    }

    /// Passes a signal on, unless the terminal sent it to the command as well.
    pub(crate) fn forward_signal(&self, signal: TerminationSignal) {
        if signal == TerminationSignal::Terminate {
            self.signal(FORWARD_TERM);
        }
    }

    /// Asks every process that the command has started to end, and has the rest killed after the grace period.
    pub(crate) async fn terminate(&mut self, grace: Duration) {
        self.send_and_resume(TERMINATE_ALL);
        if timeout(grace, self.wait()).await.is_err() {
            self.send_and_resume(KILL_ALL);
            self.wait().await;
        }
    }

    /// Sends an order to the attendant, and continues it if it was stopped.
    fn send_and_resume(&self, signal: Signal) {
        self.signal(signal);
        self.signal(CONTINUE);
    }

    fn signal(&self, signal: Signal) {
        let process = self.supervisor.id().and_then(|id| i32::try_from(id).ok());
        if let Some(process) = process.and_then(Pid::from_raw) {
            // The process id is not reused before the process is waited for, so no other process gets the signal.
            let _ = kill_process(process, signal);
        }
    }
}

impl Drop for SupervisedCommand {
    fn drop(&mut self) {
        self.send_and_resume(KILL_ALL);
    }
}

/// Returns the path of the running program, also after another version was installed in its place.
fn current_program() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    env::current_exe()
}
