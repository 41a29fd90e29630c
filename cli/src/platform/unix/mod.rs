//! Unix: signals, an attendant for commands, and terminals by termios.
mod descendants;
mod file;
mod ignored_signals;
mod supervised_command;
mod supervisor;
mod terminal;

pub(crate) use file::{create_private, sync_folder};
pub(crate) use ignored_signals::IgnoredSignals;
pub(crate) use supervised_command::{SupervisedCommand, TerminationSignals, signals};
pub(crate) use supervisor::{SUPERVISE_VERB, Supervise};
pub(crate) use terminal::{END_OF_INPUT, RawTerminal, terminal_size};

use crate::exit::Exit;
use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus};

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
