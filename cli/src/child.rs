//! A command that runs on behalf of this program, and the signals between them.
use crate::{
    attendant::{self, ASSURE, CONTINUE, END, KILL, PASS_ON},
    exit::Exit,
    failure::Failure,
    family,
    ignored::Ignored,
    message,
};
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
pub(crate) struct Child {
    attendant: tokio::process::Child,
    /// Ctrl-Z.
    stop: unix::Signal,
}

/// A signal that asks this program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Ctrl-C, which a terminal sends to the command as well.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The signals that ask this program to end.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

/// Handles these signals from now on, so that they do not end the program.
pub(crate) fn signals() -> Result<Signals, Failure> {
    Ok(Signals {
        interrupt: listen(SignalKind::interrupt())?,
        terminate: listen(SignalKind::terminate())?,
    })
}

fn listen(kind: SignalKind) -> Result<unix::Signal, Failure> {
    unix::signal(kind)
        .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))
}

impl Signals {
    /// Waits for the next signal.
    pub(crate) async fn recv(&mut self) -> Ending {
        tokio::select! {
            _ = self.interrupt.recv() => Ending::Interrupt,
            _ = self.terminate.recv() => Ending::Terminate,
        }
    }
}

impl Ending {
    /// Returns the exit code of the program if no command has to be ended first.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::Interrupted,
            Self::Terminate => Exit::Command(128 + 15),
        }
    }
}

impl Child {
    /// Starts a command with these variables in its environment; variables without a value are removed from it.
    ///
    /// Processes that the command leaves behind are asked to end, and killed after the grace period. On Linux, all of them are
    /// killed when this program is killed. The command is ended unless this program [confirms](Self::assure) in time that it
    /// holds the lock with this lease.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, Option<String>)],
        ignored: Ignored,
        grace: Duration,
        lease: Duration,
    ) -> Result<Self, Failure> {
        let cannot = |error| Failure::usage(format!("cannot start a process: {error}"));
        // The handlers are installed before a process is started.
        let stop = listen(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
        // If SIGCHLD is ignored, the exit status of a child is lost.
        let _ = listen(SignalKind::child())?;
        family::adopt();
        let mut attendant = Command::new(this_program().map_err(cannot)?);
        attendant
            .as_std_mut()
            .arg0("statestore")
            .arg(attendant::VERB)
            .args(["--parent", &getpid().as_raw_pid().to_string()])
            .args(["--grace-ms", &grace.as_millis().to_string()])
            .args(["--lease-ms", &lease.as_millis().to_string(), "--"])
            .args(command);
        for (name, value) in variables {
            match value {
                Some(value) => attendant.env(name, value),
                None => attendant.env_remove(name),
            };
        }
        ignored.hand_on(attendant.as_std_mut());
        let attendant = attendant.spawn().map_err(cannot)?;
        Ok(Self { attendant, stop })
    }

    /// Waits until the command and all processes that it has started have ended. Returns its exit code, or 128 plus the number of
    /// the signal that ended it.
    pub(crate) async fn wait(&mut self) -> Exit {
        let ended = loop {
            tokio::select! {
                ended = self.attendant.wait() => break ended,
                _ = self.stop.recv() => {
                    // A stopped `statestore` cannot keep a lock, and the command would continue before the loss is noticed.
                    message::note("statestore: a command under a lock cannot be suspended");
                    self.signal(CONTINUE);
                }
            }
        };
        match ended {
            Ok(status) => {
                if status.signal().is_some() {
                    // The attendant was killed; its children are now children of this process.
                    family::end().await;
                }
                let code = status.code().or(status.signal().map(|signal| 128 + signal));
                let code = code.and_then(|code| u8::try_from(code).ok());
                Exit::Command(code.unwrap_or(u8::MAX))
            }
            Err(error) => {
                message::complain(&format!("cannot wait for the command: {error}"));
                Exit::Usage
            }
        }
    }

    /// Confirms that the lock is held for as long as [`assured`](attendant::assured) returns.
    pub(crate) fn assure(&self) {
        self.signal(ASSURE);
    }

    /// Passes a signal on, unless the terminal sent it to the command as well.
    pub(crate) fn pass_on(&self, signal: Ending) {
        if signal == Ending::Terminate {
            self.signal(PASS_ON);
        }
    }

    /// Asks every process that the command has started to end, and has the rest killed after the grace period.
    pub(crate) async fn end(&mut self, grace: Duration) {
        self.order(END);
        if timeout(grace, self.wait()).await.is_err() {
            self.order(KILL);
            self.wait().await;
        }
    }

    /// Sends an order to the attendant, and continues it if it was stopped.
    fn order(&self, signal: Signal) {
        self.signal(signal);
        self.signal(CONTINUE);
    }

    fn signal(&self, signal: Signal) {
        let process = self.attendant.id().and_then(|id| i32::try_from(id).ok());
        if let Some(process) = process.and_then(Pid::from_raw) {
            // The process id is not reused before the process is waited for, so no other process gets the signal.
            let _ = kill_process(process, signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.order(KILL);
    }
}

/// Returns the path of the running program, also after another version was installed in its place.
fn this_program() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    env::current_exe()
}
