//! Signals that the parent of this program wants to be ignored, as `nohup` does, and a shell for background jobs.
//!
//! A started program inherits ignored signals. This program handles some of them nevertheless, and a handler is not inherited. So
//! the signals are ignored again in each program that it starts.
use rustix::process::Signal;
use std::{io, os::unix::process::CommandExt as _, process::Command, ptr};

/// Signals that by default end or stop a command.
const SIGNALS: [Signal; 7] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
];

/// Signals that are ignored.
#[derive(Debug)]
pub(crate) struct IgnoredSignals(Vec<Signal>);

impl IgnoredSignals {
    /// Returns the signals that this process ignores now, before it installs handlers.
    pub(crate) fn current() -> Self {
        let ignored = SIGNALS.into_iter().filter(|signal| is_ignored(*signal));
        Self(ignored.collect())
    }

    /// Makes a command ignore these signals as well.
    #[allow(unsafe_code, reason = "only the new process itself can do this")]
    pub(crate) fn apply_to(self, command: &mut Command) {
        let ignore_all = move || self.0.iter().copied().try_for_each(ignore);
        // SAFETY: between fork and exec, the closure only makes system calls; it takes no lock and allocates no memory.
        unsafe { command.pre_exec(ignore_all) };
    }
}

#[allow(unsafe_code, reason = "the standard library has no word for this")]
fn is_ignored(signal: Signal) -> bool {
    // SAFETY: zeros are a valid value of this type, which consists of numbers, a set of signals and a pointer.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action, the call only writes the present one to `action`.
    let status = unsafe { libc::sigaction(signal.as_raw(), ptr::null(), &raw mut action) };
    status == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Ignores this signal from now on.
#[allow(unsafe_code, reason = "the standard library has no word for this")]
pub(crate) fn ignore(signal: Signal) -> io::Result<()> {
    // SAFETY: SIG_IGN is no handler, so no code runs when the signal arrives.
    match unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
