//! A command that runs on behalf of this program, and the signals between them.
use crate::{exit::Exit, failure::Failure, message};
use rustix::process::{Pid, Signal, kill_process};
use std::{ffi::OsString, io, os::unix::process::ExitStatusExt as _, time::Duration};
use tokio::{
    process::Command,
    signal::unix::{self, SignalKind},
    time::timeout,
};

/// A running command. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Child {
    inner: tokio::process::Child,
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

/// From now on these signals do not end the program by themselves.
pub(crate) fn signals() -> Result<Signals, Failure> {
    let listen = |kind| {
        unix::signal(kind)
            .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))
    };
    Ok(Signals {
        interrupt: listen(SignalKind::interrupt())?,
        terminate: listen(SignalKind::terminate())?,
    })
}

impl Signals {
    /// The next one.
    pub(crate) async fn recv(&mut self) -> Ending {
        tokio::select! {
            _ = self.interrupt.recv() => Ending::Interrupt,
            _ = self.terminate.recv() => Ending::Terminate,
        }
    }
}

impl Ending {
    /// How the program ends if there is nothing to end before.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::Interrupted,
            Self::Terminate => Exit::Command(128 + 15),
        }
    }
}

impl Child {
    /// Starts a command with one more variable in its environment. On Linux it is killed when this program is killed. If it
    /// cannot be started: the exit code that shells use for that.
    pub(crate) fn start(command: &[OsString], variable: &str, value: &str) -> Result<Self, Exit> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Exit::Usage);
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env(variable, value)
            .kill_on_drop(true);
        #[cfg(target_os = "linux")]
        end_with_this_process(&mut command);
        match command.spawn() {
            Ok(inner) => Ok(Self { inner }),
            Err(error) => {
                message::complain(&format!("cannot run '{}': {error}", program.display()));
                Err(Exit::Command(match error.kind() {
                    io::ErrorKind::NotFound => 127,
                    _ => 126,
                }))
            }
        }
    }

    /// Waits for its end: its exit code, or 128 and the number of the signal that ended it.
    pub(crate) async fn wait(&mut self) -> Exit {
        match self.inner.wait().await {
            Ok(status) => {
                let code = status
                    .code()
                    .or(status.signal().map(|signal| 128 + signal))
                    .and_then(|code| u8::try_from(code).ok());
                Exit::Command(code.unwrap_or(u8::MAX))
            }
            Err(error) => {
                message::complain(&format!("cannot wait for the command: {error}"));
                Exit::Usage
            }
        }
    }

    /// Hands a signal on, unless the terminal sent it to the command as well.
    pub(crate) fn pass_on(&self, signal: Ending) {
        if signal == Ending::Terminate {
            self.signal(Signal::TERM);
        }
    }

    /// Asks it to end, and kills it after the time of grace.
    pub(crate) async fn end(&mut self, grace: Duration) {
        self.signal(Signal::TERM);
        if timeout(grace, self.inner.wait()).await.is_err() {
            message::complain("the command did not end in time; killing it");
            // It may have ended just now.
            let _ = self.inner.kill().await;
        }
    }

    fn signal(&self, signal: Signal) {
        let process = self.inner.id().and_then(|id| i32::try_from(id).ok());
        if let Some(process) = process.and_then(Pid::from_raw) {
            // Its number is not used again before it is waited for, so nobody else gets the signal.
            let _ = kill_process(process, signal);
        }
    }
}

/// Lets the kernel kill a command when this program, which cannot end it any more then, was killed.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "only the new process itself can ask for this")]
fn end_with_this_process(command: &mut Command) {
    use rustix::process::{getpid, getppid, set_parent_process_death_signal};
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have been killed before the kernel was asked.
        match getppid() {
            Some(id) if id == parent => Ok(()),
            _ => Err(io::ErrorKind::Interrupted.into()),
        }
    };
    // SAFETY: between fork and exec, the closure makes system calls and nothing else; it takes no lock and no memory.
    unsafe { command.pre_exec(ask) };
}
