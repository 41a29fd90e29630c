//! Windows: console events, job objects for commands, and terminals by console modes.
mod file;
mod job;
mod supervised_command;
mod terminal;
mod termination_signals;

pub(crate) use file::{create_private, sync_folder};
pub(crate) use supervised_command::{IgnoredSignals, SupervisedCommand};
pub(crate) use terminal::{END_OF_INPUT, RawTerminal, terminal_size};
pub(crate) use termination_signals::{TerminationSignals, signals};

use crate::exit::Exit;
use std::process::ExitStatus;

/// Returns the exit code, or 255 for a greater one.
impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Self::CommandCode(code.unwrap_or(u8::MAX))
    }
}
