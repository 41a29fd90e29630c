//! Exit codes: the part of the interface that scripts rely on.
use std::{
    os::unix::process::ExitStatusExt as _,
    process::{ExitCode, ExitStatus},
};

/// The result of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// Absent, condition not met, value mismatch, or held by another client: a result, not an error.
    NegativeResult,
    /// The arguments or a local file are not usable.
    Usage,
    /// No answer: connecting failed, the time was up, or the connection or the lock was lost.
    NoResponse,
    /// The store rejected the request.
    Rejected,
    /// Ctrl-C: 128 + SIGINT, as a shell reports it.
    Interrupted,
    /// Exit code of a command that this program ran.
    CommandCode(u8),
}

/// Returns the exit code as shells report it: 128 plus the number of the signal that ended the command.
impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        let code = status
            .code()
            .or(status.signal().map(|signal| 128 + signal))
            .and_then(|code| u8::try_from(code).ok());
        Self::CommandCode(code.unwrap_or(u8::MAX))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::NegativeResult => 1,
            Exit::Usage => 2,
            Exit::NoResponse => 3,
            Exit::Rejected => 4,
            Exit::Interrupted => 130,
            Exit::CommandCode(code) => code,
        })
    }
}
