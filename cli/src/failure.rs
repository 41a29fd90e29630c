//! Why a subcommand cannot go on: one line for the user, and the exit code.
use crate::{exit::Exit, message};
use std::{io, path::Path};

/// The end of a subcommand that could not do its work.
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
    /// A failure with this exit code.
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self::Message {
            exit,
            text: text.into(),
        }
    }

    /// The arguments cannot be used.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// Input cannot be read.
    pub(crate) fn input(what: &str, error: &io::Error) -> Self {
        Self::usage(format!("cannot read {what}: {error}"))
    }

    /// A file cannot be used.
    pub(crate) fn file(verb: &str, path: &Path, error: &io::Error) -> Self {
        Self::usage(format!("cannot {verb} file '{}': {error}", path.display()))
    }

    /// Standard output cannot be written.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::usage(format!("cannot write standard output: {error}"))
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(&self) -> Exit {
        match self {
            Self::Message { exit, text } => {
                message::complain(text);
                *exit
            }
            Self::OutputClosed => Exit::Done,
        }
    }
}
