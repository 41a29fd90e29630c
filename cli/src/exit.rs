//! Exit codes: the part of the interface that scripts rely on.
use std::process::ExitCode;

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
