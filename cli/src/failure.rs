//! Failures of subcommands: a line for the user, and the exit code.
use crate::{exit::Exit, message};
use std::{io, path::Path};

/// `ERROR_PIPE_NOT_CONNECTED` of Windows, which the standard library does not count as a broken pipe.
const PIPE_NOT_CONNECTED: i32 = 233;

/// The failure of a subcommand.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error message of one line, with the remedy, and the exit code.
    Message {
        /// The exit code.
        exit: Exit,
        /// The line.
        text: String,
    },
    /// The reader of standard output has closed it: the program ends without a message.
    OutputClosed,
}

impl Failure {
    /// Creates a failure with this exit code.
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self::Message {
            exit,
            text: text.into(),
        }
    }

    /// Creates a failure for unusable arguments.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// Creates a failure for unreadable input.
    pub(crate) fn input(what: &str, error: &io::Error) -> Self {
        Self::usage(format!("cannot read {what}: {error}"))
    }

    /// Creates a failure for an unusable file.
    pub(crate) fn file(verb: &str, path: &Path, error: &io::Error) -> Self {
        Self::usage(format!("cannot {verb} file '{}': {error}", path.display()))
    }

    /// Creates a failure for a failed write to standard output.
    pub(crate) fn output(error: &io::Error) -> Self {
        let is_disconnected = cfg!(windows) && error.raw_os_error() == Some(PIPE_NOT_CONNECTED);
        if error.kind() == io::ErrorKind::BrokenPipe || is_disconnected {
            return Self::OutputClosed;
        }
        Self::usage(format!("cannot write standard output: {error}"))
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(&self) -> Exit {
        match self {
            Self::Message { exit, text } => {
                message::print_error(text);
                *exit
            }
            Self::OutputClosed => Exit::Done,
        }
    }
}
