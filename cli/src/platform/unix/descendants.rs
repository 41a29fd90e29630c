//! All descendants of this process, at any depth.
//!
//! On Linux, a process whose parent ends becomes a child of the nearest ancestor that asked for it (a "subreaper"). Processes
//! that fork twice or start a session of their own are therefore found too. On other systems only the children are known.
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, wait},
};
use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

/// Interval of the checks for killed processes; further ones may have been started meanwhile.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Result of waiting for the children.
#[derive(Debug)]
pub(crate) enum ReapResult {
    /// A child that has ended, and its exit status.
    Ended(Pid, ExitStatus),
    /// Children exist, and all of them run.
    Running,
    /// No child exists.
    NoChild,
}

/// Makes descendants that lose their parent children of this process from now on.
pub(crate) fn become_subreaper() {
    #[cfg(target_os = "linux")]
    // Every Linux that Rust supports has this call.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Collects a child that has ended.
pub(crate) fn reap() -> ReapResult {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((child, status))) => {
                return ReapResult::Ended(child, ExitStatus::from_raw(status.as_raw()));
            }
            Ok(None) => return ReapResult::Running,
            Err(Errno::INTR) => {}
            Err(_) => return ReapResult::NoChild,
        }
    }
}

/// Sends a signal to all descendants, including `child`. Returns whether any of them could be reached. A process that is started
/// meanwhile gets no signal: to end them all, repeat the call until there are none.
pub(crate) fn signal(child: Option<Pid>, signal: Signal) -> bool {
    let mut reached = false;
    for (process, parent) in descendants(child) {
        // Processes of other users cannot be reached.
        reached |= send(process, parent, signal) != Err(Errno::PERM);
    }
    reached
}

/// Kills all descendants, and waits until there are none that can be killed.
pub(crate) async fn kill_all() {
    loop {
        match reap() {
            ReapResult::Ended(..) => {}
            ReapResult::Running if signal(None, Signal::KILL) => tokio::time::sleep(TICK).await,
            ReapResult::Running | ReapResult::NoChild => return,
        }
    }
}

/// Sends a signal to a child. Only this thread waits for it, so the process id is still its own.
#[cfg(not(target_os = "linux"))]
fn send(process: Pid, _: Pid, signal: Signal) -> rustix::io::Result<()> {
    rustix::process::kill_process(process, signal)
}

/// Sends a signal to the process that had this parent. If it has ended, its process id may belong to another process by now.
#[cfg(target_os = "linux")]
fn send(process: Pid, parent: Pid, signal: Signal) -> rustix::io::Result<()> {
    use rustix::process::{PidfdFlags, getpid, kill_process, pidfd_open, pidfd_send_signal};
    let handle = match pidfd_open(process, PidfdFlags::empty()) {
        // Before Linux 5.3 there is no such handle.
        Err(Errno::NOSYS) => return kill_process(process, signal),
        handle => handle?,
    };
    // The process is still the intended one, or it has lost its parent meanwhile and is a child of this process.
    match parent_of(process) {
        Some(now) if now == parent || now == getpid() => pidfd_send_signal(handle, signal),
        _ => Err(Errno::SRCH),
    }
}

/// Returns the current descendants with their parents.
#[cfg(not(target_os = "linux"))]
fn descendants(child: Option<Pid>) -> Vec<(Pid, Pid)> {
    child
        .into_iter()
        .map(|child| (child, rustix::process::getpid()))
        .collect()
}

/// Returns the current descendants with their parents.
#[cfg(target_os = "linux")]
fn descendants(_: Option<Pid>) -> Vec<(Pid, Pid)> {
    let processes: Vec<(Pid, Pid)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let process = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let process = Pid::from_raw(process)?;
            Some((process, parent_of(process)?))
        })
        .collect();
    let children_of = |ancestor| {
        processes
            .iter()
            .filter(move |(_, parent)| *parent == ancestor)
    };
    let mut family: Vec<_> = children_of(rustix::process::getpid()).copied().collect();
    let mut next = 0;
    while let Some(&(ancestor, _)) = family.get(next) {
        family.extend(children_of(ancestor));
        next += 1;
    }
    family
}

/// The parent of a process (`proc_pid_stat(5)`). The name before it may hold anything.
#[cfg(target_os = "linux")]
fn parent_of(process: Pid) -> Option<Pid> {
    let stat = std::fs::read(format!("/proc/{}/stat", process.as_raw_pid())).ok()?;
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    Pid::from_raw(fields.split_whitespace().nth(1)?.parse().ok()?)
}
