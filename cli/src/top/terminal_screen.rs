//! A terminal that shows one screenful, and reads keys without a newline.
use crate::failure::Failure;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, IsTerminal as _, Write as _};
use tokio::io::AsyncReadExt as _;

/// Switches to the alternate screen, without a cursor.
const ENTER_SEQUENCE: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// Switches back.
const LEAVE_SEQUENCE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// The screen; dropping it restores the terminal.
pub(super) struct TerminalScreen {
    /// Former modes of the terminal; `None` if standard input is no terminal.
    saved_modes: Option<Termios>,
    keys: tokio::io::Stdin,
    has_keys: bool,
}

impl TerminalScreen {
    pub(super) fn enter() -> Result<Self, Failure> {
        let before = io::stdin()
            .is_terminal()
            .then(|| tcgetattr(io::stdin()).ok())
            .flatten();
        if let Some(before) = &before {
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // Without these modes, `q` needs a newline.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        }
        let screen = Self {
            has_keys: before.is_some(),
            saved_modes: before,
            keys: tokio::io::stdin(),
        };
        write(ENTER_SEQUENCE)?;
        Ok(screen)
    }

    /// Shows these lines, cut off at the edges of the screen.
    pub(super) fn show(lines: &[String]) -> Result<(), Failure> {
        // A terminal that does not know its size reports zero.
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (columns, rows) = size.map_or((80, 24), |size| (size.ws_col, size.ws_row));
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
        if let Some(before) = &self.saved_modes {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output(&error))
}
