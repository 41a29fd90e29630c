//! The modes and the size of the terminal.
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, IsTerminal as _};

/// The keys that end standard input on a terminal.
pub(crate) const END_OF_INPUT: &str = "Ctrl-D";

/// A terminal that delivers each key at once and does not echo it; dropping it restores the former modes.
pub(crate) struct RawTerminal {
    /// `None` if standard input is no terminal.
    saved_modes: Option<Termios>,
}

impl RawTerminal {
    /// Changes the modes.
    pub(crate) fn enter() -> Self {
        let saved_modes = io::stdin()
            .is_terminal()
            .then(|| tcgetattr(io::stdin()).ok())
            .flatten();
        if let Some(saved) = &saved_modes {
            let mut modes = saved.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // Without these modes, `q` needs a newline.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        }
        Self { saved_modes }
    }

    /// Returns whether standard input delivers keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.saved_modes.is_some()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(saved) = &self.saved_modes {
            // A terminal that is gone cannot be restored.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, saved);
        }
    }
}

/// Returns the columns and rows of the terminal at standard output. `None` if it does not know its size.
pub(crate) fn terminal_size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    // A terminal that does not know its size reports zero.
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}
