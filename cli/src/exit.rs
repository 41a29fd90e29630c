//! Exit codes: the part of the interface that scripts rely on.
use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Absent, condition not met, or value mismatch: an answer, not an error.
    Negative = 1,
    /// The arguments, or a local file, cannot be used.
    Usage = 2,
    /// No answer: could not connect, timed out, connection lost.
    NoAnswer = 3,
    /// The store refused.
    Refused = 4,
    /// Ctrl-C: 128 + SIGINT, as a shell reports it.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
