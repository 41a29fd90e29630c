//! A terminal that shows one screenful, and reads keys without a newline.
use crate::{
    failure::Failure,
    platform::{RawTerminal, terminal_size},
};
use std::io::{self, Write as _};
use tokio::io::AsyncReadExt as _;

/// Switches to the alternate screen, without a cursor.
const ENTER_SEQUENCE: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// Switches back.
const LEAVE_SEQUENCE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// The screen; dropping it restores the terminal.
pub(super) struct TerminalScreen {
    /// Held for its drop, which follows that of the screen.
    _terminal: RawTerminal,
    keys: tokio::io::Stdin,
    has_keys: bool,
}

impl TerminalScreen {
    pub(super) fn enter() -> Result<Self, Failure> {
        let terminal = RawTerminal::enter();
        let screen = Self {
            has_keys: terminal.has_keys(),
            _terminal: terminal,
            keys: tokio::io::stdin(),
        };
        write(ENTER_SEQUENCE)?;
        Ok(screen)
    }

    /// Shows these lines, cut off at the edges of the screen.
    pub(super) fn show(lines: &[String]) -> Result<(), Failure> {
        let (columns, rows) = terminal_size().unwrap_or((80, 24));
        let mut text = String::from("\x1b[H");
        for line in lines.iter().take(usize::from(rows) - 1) {
            text.extend(line.chars().take(usize::from(columns)));
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        write(text.as_bytes())
    }

    /// Waits until the user presses `q`.
    pub(super) async fn wait_for_quit(&mut self) {
        while self.has_keys {
            match self.keys.read_u8().await {
                Ok(b'q' | b'Q') => return,
                Ok(_) => {}
                Err(_) => self.has_keys = false,
            }
        }
        std::future::pending::<()>().await;
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        // A terminal that is gone cannot be restored.
        let _ = write(LEAVE_SEQUENCE);
    }
}

fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output(&error))
}
