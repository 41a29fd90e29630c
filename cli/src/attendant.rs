//! The process between `statestore lock` and its command, which ends every process that the command has started.
//!
//! `statestore` may be killed at any time, also with its whole process group. The attendant outlives it: it is a separate process
//! in a process group of its own. It only waits. The command stays in the group in which `statestore` was started: to the
//! terminal and the shell they are one job.
//!
//! The attendant also ends the command when `statestore` does not confirm in time that it still holds the lock. A `statestore`
//! that hangs, or that a signal or a debugger has stopped, cannot report a lost lock.
use crate::{
    exit::Exit,
    failure::Failure,
    family::{self, Reaped},
    ignored::{Ignored, ignore},
    message,
};
use clap::Args;
use rustix::process::{Pid, Signal, getppid, kill_process, setpgid};
use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt as _,
    process::{Command, ExitStatus},
    time::Duration,
};
use tokio::{
    signal::unix::{self, SignalKind},
    time::{Instant, sleep, sleep_until},
};

/// The subcommand, which is for `statestore lock` alone.
pub(crate) const VERB: &str = "lock-attendant";

/// Asks the command alone to end, as `kill` does.
pub(crate) const PASS_ON: Signal = Signal::TERM;
/// Continues stopped processes.
pub(crate) const CONTINUE: Signal = Signal::CONT;
/// Asks every process that the command has started to end.
pub(crate) const END: Signal = Signal::USR1;
/// Kills everything that the command has started, and prints a message.
pub(crate) const KILL: Signal = Signal::USR2;
/// `statestore` holds the lock for [at least this long](assured). A process that does not listen for the signal yet ignores it.
pub(crate) const ASSURE: Signal = Signal::URG;
/// `statestore` has ended.
#[cfg(target_os = "linux")]
const ORPHANED: Signal = Signal::HUP;

/// Run a command, and end with it what it has started
#[derive(Debug, Args)]
pub(crate) struct Attendant {
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

/// Returns the part of a lease that each [`ASSURE`] confirms. It is sent only while at least that much is left, which is more
/// than a third less than when the lease is renewed.
pub(crate) fn assured(lease: Duration) -> Duration {
    lease / 2
}

/// The time from one [`ASSURE`] to the next.
pub(crate) fn assured_every(lease: Duration) -> Duration {
    lease / 20
}

/// How long after the last confirmation the lock counts as lost. `statestore` itself, as long as it runs, reports the loss
/// earlier.
fn patience(lease: Duration) -> Duration {
    assured(lease) + 2 * assured_every(lease)
}

impl Attendant {
    /// Runs the attendant; the exit code is that of the command.
    pub(crate) async fn run(self) -> Result<Exit, Failure> {
        let ignored = Ignored::now();
        let mut orders = Orders::listen()
            .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))?;
        family::adopt();
        #[cfg(target_os = "linux")]
        // Every Linux that Rust supports has this call.
        let _ = rustix::process::set_parent_process_death_signal(Some(ORPHANED));
        if getppid() != Pid::from_raw(self.parent) {
            // `statestore` was killed before the request reached the kernel. The command has not started yet.
            return Ok(Exit::NoAnswer);
        }
        let child = match start(&self.command, ignored) {
            Ok(child) => child,
            Err(exit) => return Ok(exit),
        };
        // From now on, signals to the group do not reach this process.
        let _ = setpgid(None, None);
        // The process is now in a background group, and a terminal may stop such a process when it writes to the terminal.
        let _ = ignore(Signal::TTOU);
        let grace = Duration::from_millis(self.grace_ms);
        let patience = patience(Duration::from_millis(self.lease_ms));
        Ok(attend(child, grace, patience, &mut orders).await)
    }
}

/// Waits until all processes of the command have ended.
async fn attend(child: Pid, grace: Duration, patience: Duration, orders: &mut Orders) -> Exit {
    let mut running = Some(child);
    let mut exit = Exit::NoAnswer;
    // When the lock counts as lost; never once the command is being ended.
    let mut lost_at = Instant::now().checked_add(patience);
    let mut is_lost = false;
    // When every remaining process is killed, and whether that is done without a message.
    let mut kill_at = None;
    let mut is_secret = false;
    loop {
        loop {
            match family::reap() {
                Reaped::Ended(process, status) if process == child => {
                    running = None;
                    exit = code(status);
                    kill_at = kill_at.or_else(|| Instant::now().checked_add(grace));
                    ask_to_end(None);
                }
                Reaped::Ended(..) => {}
                Reaped::Running => break,
                Reaped::Nobody if is_lost => return Exit::NoAnswer,
                Reaped::Nobody => return exit,
            }
        }
        let is_killing = kill_at.is_some_and(|at| at <= Instant::now());
        if is_killing && !std::mem::replace(&mut is_secret, true) {
            message::complain("what the command has started did not end in time; killing it");
        }
        if is_killing && !family::signal(running, Signal::KILL) {
            // The remaining processes belong to other users.
            return exit;
        }
        tokio::select! {
            order = orders.recv() => match order {
                Order::Look => {}
                Order::PassOn => if let Some(child) = running {
                    // The child has not been waited for, so its process id is still its own.
                    let _ = kill_process(child, Signal::TERM);
                }
                Order::Continue => _ = family::signal(running, Signal::CONT),
                Order::Assure => lost_at = lost_at.and_then(|_| Instant::now().checked_add(patience)),
                Order::End => {
                    lost_at = None;
                    ask_to_end(running);
                }
                Order::Kill => {
                    lost_at = None;
                    kill_at = Some(Instant::now());
                }
                Order::Orphaned => {
                    lost_at = None;
                    kill_at = Some(Instant::now());
                    is_secret = true;
                }
            },
            () = sleep_until(lost_at.unwrap_or_else(Instant::now)), if lost_at.is_some() => {
                message::complain("statestore does not say that it still has the lock; ending the command");
                (lost_at, is_lost) = (None, true);
                kill_at = kill_at.or_else(|| Instant::now().checked_add(grace));
                ask_to_end(running);
            }
            () = sleep(family::TICK), if is_killing => {}
            () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() && !is_killing => {}
        }
    }
}

/// Asks all processes to end. Stopped processes are continued, so that they receive the signal too.
fn ask_to_end(running: Option<Pid>) {
    family::signal(running, Signal::TERM);
    family::signal(running, Signal::CONT);
}

/// Returns the exit code as shells report it: 128 plus the number of the signal that ended the command.
fn code(status: ExitStatus) -> Exit {
    let code = status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .and_then(|code| u8::try_from(code).ok());
    Exit::Command(code.unwrap_or(u8::MAX))
}

/// Starts a command, which on Linux is killed when this process is killed. If it cannot be started, returns the exit code that
/// shells use for that.
fn start(command: &[OsString], ignored: Ignored) -> Result<Pid, Exit> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Exit::Usage);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    ignored.hand_on(&mut command);
    #[cfg(target_os = "linux")]
    end_with_this_process(&mut command);
    match command.spawn() {
        Ok(child) => Ok(Pid::from_child(&child)),
        Err(error) => {
            message::complain(&format!("cannot run '{}': {error}", program.display()));
            Err(Exit::Command(match error.kind() {
                io::ErrorKind::NotFound => 127,
                _ => 126,
            }))
        }
    }
}

/// Makes the kernel kill a command when this process is killed, because this process can then no longer end it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "only the new process itself can ask for this")]
fn end_with_this_process(command: &mut Command) {
    use rustix::process::{getpid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt as _;
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have been killed before the request reached the kernel.
        match getppid() {
            Some(id) if id == parent => Ok(()),
            _ => Err(io::ErrorKind::Interrupted.into()),
        }
    };
    // SAFETY: between fork and exec, the closure only makes system calls; it takes no lock and allocates no memory.
    unsafe { command.pre_exec(ask) };
}

/// Request that a signal carries.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// A child has changed its state.
    Look,
    PassOn,
    Continue,
    /// The lock is held for some time to come.
    Assure,
    End,
    Kill,
    /// `statestore` has ended.
    Orphaned,
}

#[derive(Debug)]
struct Orders(Vec<(unix::Signal, Order)>);

impl Orders {
    /// Installs handlers, so that none of these signals ends this process.
    fn listen() -> io::Result<Self> {
        let number = |signal: Signal| SignalKind::from_raw(signal.as_raw());
        let orders = [
            (SignalKind::child(), Order::Look),
            (number(PASS_ON), Order::PassOn),
            (number(CONTINUE), Order::Continue),
            (number(ASSURE), Order::Assure),
            (number(END), Order::End),
            (number(KILL), Order::Kill),
            (SignalKind::hangup(), Order::Orphaned),
            // The terminal may send these signals before this process has left the group; the command gets them as well.
            (SignalKind::interrupt(), Order::Look),
            (SignalKind::quit(), Order::Look),
            (number(Signal::TSTP), Order::Look),
        ];
        let listen = |(kind, order)| Ok((unix::signal(kind)?, order));
        orders
            .into_iter()
            .map(listen)
            .collect::<io::Result<_>>()
            .map(Self)
    }

    async fn recv(&mut self) -> Order {
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
