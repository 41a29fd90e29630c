//! The differences between operating systems: signals, commands, terminals and files.
//!
//! Each system has a module with the same names. Only Unix has the subcommand [`Supervise`].
mod confirmation;
mod termination_signal;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub(crate) use confirmation::{confirmation_interval, confirmed_duration};
pub(crate) use termination_signal::TerminationSignal;
#[cfg(unix)]
pub(crate) use unix::{
    END_OF_INPUT, IgnoredSignals, RawTerminal, SUPERVISE_VERB, Supervise, SupervisedCommand,
    TerminationSignals, create_private, signals, sync_folder, terminal_size,
};
#[cfg(windows)]
pub(crate) use windows::{
    END_OF_INPUT, IgnoredSignals, RawTerminal, SupervisedCommand, TerminationSignals,
    create_private, signals, sync_folder, terminal_size,
};
