//! Requests of the system or the user that this program ends.
use crate::exit::Exit;

/// A signal that asks this program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminationSignal {
    /// Ctrl-C, which a terminal sends to the command as well.
    Interrupt,
    /// SIGTERM; on Windows Ctrl-Break, a closed console, or the end of the session.
    Terminate,
}

impl TerminationSignal {
    /// Returns the exit code of the program if no command has to be ended first.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::Interrupted,
            Self::Terminate => Exit::CommandCode(128 + 15),
        }
    }
}
