//! The process between `statestore lock` and its command, which ends every process that the command has started.
//!
//! `statestore` may be killed at any time, also with its whole process group. The attendant outlives it: it is a separate process
//! in a process group of its own. It only waits. The command stays in the group in which `statestore` was started: to the
//! terminal and the shell they are one job.
//!
//! The attendant also ends the command when `statestore` does not confirm in time that it still holds the lock. A `statestore`
//! that hangs, or that a signal or a debugger has stopped, cannot report a lost lock.
use super::{
    super::confirmation::confirmation_timeout,
    descendants::{self, ReapResult},
    ignored_signals::{IgnoredSignals, ignore},
};
use crate::{exit::Exit, failure::Failure, message};
use clap::Args;
use rustix::process::{Pid, Signal, getppid, kill_process, setpgid};
use std::{
    ffi::OsString, io, os::unix::process::CommandExt as _, process::Command, time::Duration,
};
use tokio::{
    signal::unix::{self, SignalKind},
    time::{Instant, sleep, sleep_until},
};

/// The subcommand, which is for `statestore lock` alone.
pub(crate) const SUPERVISE_VERB: &str = "lock-attendant";

/// Asks the command alone to end, as `kill` does.
pub(crate) const FORWARD_TERM: Signal = Signal::TERM;
/// Continues stopped processes.
pub(crate) const CONTINUE: Signal = Signal::CONT;
/// Asks every process that the command has started to end.
pub(crate) const TERMINATE_ALL: Signal = Signal::USR1;
/// Kills everything that the command has started, and prints a message.
pub(crate) const KILL_ALL: Signal = Signal::USR2;
/// `statestore` holds the lock for [at least this long](crate::platform::confirmed_duration). A process that does not listen for the signal yet ignores it.
pub(crate) const CONFIRM: Signal = Signal::URG;
/// `statestore` has ended.
#[cfg(target_os = "linux")]
const ORPHANED: Signal = Signal::HUP;

/// Run a command, and end with it what it has started
#[derive(Debug, Args)]
pub(crate) struct Supervise {
    /// The process whose command it is
    #[arg(long)]
    parent: i32,
    /// How long what the command leaves behind may take to end, in milliseconds
    #[arg(long)]
    grace_ms: u64,
    /// How long the lease of the lock lasts, in milliseconds
    #[arg(long)]
    lease_ms: u64,
    /// The command with its arguments
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

impl Supervise {
    /// Runs the attendant; the exit code is that of the command.
    pub(crate) async fn run(self) -> Result<Exit, Failure> {
        let ignored = IgnoredSignals::current();
        let mut orders = SupervisorSignals::listen()
            .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))?;
        descendants::become_subreaper();
        #[cfg(target_os = "linux")]
        // Every Linux that Rust supports has this call.
        let _ = rustix::process::set_parent_process_death_signal(Some(ORPHANED));
        if getppid() != Pid::from_raw(self.parent) {
            // `statestore` was killed before the request reached the kernel. The command has not started yet.
            return Ok(Exit::NoResponse);
        }
        // Signals to the group do not reach this process once it has left. It leaves before the command starts, which may start
        // further processes at once. A group from outside the PID namespace has no number, so the command could not enter it.
        let group = process_group();
        if group.is_some() {
            let _ = setpgid(None, None);
        }
        let child = match start(&self.command, ignored, group) {
            Ok(child) => child,
            Err(exit) => return Ok(exit),
        };
        if group.is_none() {
            let _ = setpgid(None, None);
        }
        let grace = Duration::from_millis(self.grace_ms);
        let lock_timeout = confirmation_timeout(Duration::from_millis(self.lease_ms));
        Ok(supervise(child, grace, lock_timeout, &mut orders).await)
    }
}

/// Waits until all processes of the command have ended.
async fn supervise(
    child: Pid,
    grace: Duration,
    lock_timeout: Duration,
    orders: &mut SupervisorSignals,
) -> Exit {
    let mut running = Some(child);
    let mut exit = Exit::NoResponse;
    // When the lock counts as lost; never once the command is being ended.
    let mut lost_at = Instant::now().checked_add(lock_timeout);
    let mut is_lost = false;
    // When every remaining process is killed, and whether that is done without a message.
    let mut kill_at = None;
    let mut is_secret = false;
    loop {
        loop {
            match descendants::reap() {
                ReapResult::Ended(process, status) if process == child => {
                    running = None;
                    exit = status.into();
                    kill_at = kill_at.or_else(|| Instant::now().checked_add(grace));
                    terminate(None);
                }
                ReapResult::Ended(..) => {}
                ReapResult::Running => break,
                ReapResult::NoChild if is_lost => return Exit::NoResponse,
                ReapResult::NoChild => return exit,
            }
        }
        let is_killing = kill_at.is_some_and(|at| at <= Instant::now());
        if is_killing && !std::mem::replace(&mut is_secret, true) {
            message::print_error("processes of the command did not end in time; killing them");
        }
        if is_killing && !descendants::signal(running, Signal::KILL) {
            // The remaining processes belong to other users.
            return exit;
        }
        tokio::select! {
            order = orders.recv() => match order {
                SupervisorSignal::ChildChanged => {}
                SupervisorSignal::Forward => if let Some(child) = running {
                    // The child has not been waited for, so its process id is still its own.
                    let _ = kill_process(child, Signal::TERM);
                }
                SupervisorSignal::Continue => _ = descendants::signal(running, Signal::CONT),
                SupervisorSignal::Confirm => lost_at = lost_at.and_then(|_| Instant::now().checked_add(lock_timeout)),
                SupervisorSignal::Terminate => {
                    lost_at = None;
                    terminate(running);
                }
                SupervisorSignal::Kill => {
                    lost_at = None;
                    kill_at = Some(Instant::now());
                }
                SupervisorSignal::Orphaned => {
                    lost_at = None;
                    kill_at = Some(Instant::now());
                    is_secret = true;
                }
            },
            () = sleep_until(lost_at.unwrap_or_else(Instant::now)), if lost_at.is_some() => {
                message::print_error("statestore does not say that it still has the lock; ending the command");
                (lost_at, is_lost) = (None, true);
                kill_at = kill_at.or_else(|| Instant::now().checked_add(grace));
                terminate(running);
            }
            () = sleep(descendants::TICK), if is_killing => {}
            () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() && !is_killing => {}
        }
    }
}

/// Asks all processes to end. Stopped processes are continued, so that they receive the signal too.
fn terminate(running: Option<Pid>) {
    descendants::signal(running, Signal::TERM);
    descendants::signal(running, Signal::CONT);
}

/// Returns the process group of this process, if it has a number in this PID namespace.
#[allow(unsafe_code, reason = "rustix returns no group without a number")]
fn process_group() -> Option<Pid> {
    // SAFETY: the call has no arguments and always succeeds.
    Pid::from_raw(unsafe { libc::getpgrp() })
}

/// Starts a command in a process group, or in that of this process. On Linux it is killed when this process is killed. If it
/// cannot be started, returns the exit code that shells use for that.
fn start(command: &[OsString], ignored: IgnoredSignals, group: Option<Pid>) -> Result<Pid, Exit> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Exit::Usage);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(group) = group {
        command.process_group(group.as_raw_pid());
    }
    ignored.apply_to(&mut command);
    #[cfg(target_os = "linux")]
    kill_on_parent_death(&mut command);
    let started = command.spawn();
    // This process is in a background group, and a terminal may stop such a process when it writes to the terminal. The command
    // does not inherit this.
    let _ = ignore(Signal::TTOU);
    match started {
        Ok(child) => Ok(Pid::from_child(&child)),
        Err(error) => {
            message::print_error(&format!("cannot run '{}': {error}", program.display()));
            Err(Exit::CommandCode(match error.kind() {
                io::ErrorKind::NotFound => 127,
                _ => 126,
            }))
        }
    }
}

/// Makes the kernel kill a command when this process is killed, because this process can then no longer end it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "only the new process itself can ask for this")]
fn kill_on_parent_death(command: &mut Command) {
    use rustix::process::{getpid, set_parent_process_death_signal};
    let parent = getpid();
    let set_death_signal = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have been killed before the request reached the kernel.
        match getppid() {
            Some(id) if id == parent => Ok(()),
            _ => Err(io::ErrorKind::Interrupted.into()),
        }
    };
    // SAFETY: between fork and exec, the closure only makes system calls; it takes no lock and allocates no memory.
    unsafe { command.pre_exec(set_death_signal) };
}

/// Request that a signal carries.
#[derive(Debug, Clone, Copy)]
enum SupervisorSignal {
    /// A child has changed its state.
    ChildChanged,
    Forward,
    Continue,
    /// The lock is held for some time to come.
    Confirm,
    Terminate,
    Kill,
    /// `statestore` has ended.
    Orphaned,
}

#[derive(Debug)]
struct SupervisorSignals(Vec<(unix::Signal, SupervisorSignal)>);

impl SupervisorSignals {
    /// Installs handlers, so that none of these signals ends this process.
    fn listen() -> io::Result<Self> {
        let number = |signal: Signal| SignalKind::from_raw(signal.as_raw());
        let orders = [
            (SignalKind::child(), SupervisorSignal::ChildChanged),
            (number(FORWARD_TERM), SupervisorSignal::Forward),
            (number(CONTINUE), SupervisorSignal::Continue),
            (number(CONFIRM), SupervisorSignal::Confirm),
            (number(TERMINATE_ALL), SupervisorSignal::Terminate),
            (number(KILL_ALL), SupervisorSignal::Kill),
            (SignalKind::hangup(), SupervisorSignal::Orphaned),
            // The terminal may send these signals before this process has left the group; the command gets them as well.
            (SignalKind::interrupt(), SupervisorSignal::ChildChanged),
            (SignalKind::quit(), SupervisorSignal::ChildChanged),
            (number(Signal::TSTP), SupervisorSignal::ChildChanged),
        ];
        let listen = |(kind, order)| Ok((unix::signal(kind)?, order));
        orders
            .into_iter()
            .map(listen)
            .collect::<io::Result<_>>()
            .map(Self)
    }

    async fn recv(&mut self) -> SupervisorSignal {
        std::future::poll_fn(|context| {
            for (signal, order) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*order);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
