//! The modes and the size of the console.
use std::{
    io::{self, IsTerminal as _},
    os::windows::io::{AsRawHandle as _, RawHandle},
};
use windows_sys::Win32::System::Console::{
    CONSOLE_MODE, CONSOLE_SCREEN_BUFFER_INFO, ENABLE_ECHO_INPUT, ENABLE_LINE_INPUT,
    ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, GetConsoleScreenBufferInfo, SetConsoleMode,
};

/// The keys that end standard input on a terminal.
pub(crate) const END_OF_INPUT: &str = "Ctrl-Z and Enter";

/// A console that delivers each key at once, does not echo it, and understands escape sequences; dropping it restores the former
/// modes.
pub(crate) struct RawTerminal {
    /// Former modes of standard input. `None` if it is no console.
    input: Option<CONSOLE_MODE>,
    /// Former modes of standard output. `None` if it is no console.
    output: Option<CONSOLE_MODE>,
}

impl RawTerminal {
    /// Changes the modes.
    pub(crate) fn enter() -> Self {
        let input = if io::stdin().is_terminal() {
            mode(io::stdin().as_raw_handle())
        } else {
            None
        };
        if let Some(input) = input {
            let raw = input & !(ENABLE_LINE_INPUT | ENABLE_ECHO_INPUT);
            set_mode(io::stdin().as_raw_handle(), raw);
        }
        let output = mode(io::stdout().as_raw_handle());
        if let Some(output) = output {
            let escapes = output | ENABLE_VIRTUAL_TERMINAL_PROCESSING;
            set_mode(io::stdout().as_raw_handle(), escapes);
        }
        Self { input, output }
    }

    /// Returns whether standard input delivers keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.input.is_some()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(input) = self.input {
            set_mode(io::stdin().as_raw_handle(), input);
        }
        if let Some(output) = self.output {
            set_mode(io::stdout().as_raw_handle(), output);
        }
    }
}

#[allow(unsafe_code, reason = "the standard library has no console modes")]
fn mode(console: RawHandle) -> Option<CONSOLE_MODE> {
    let mut mode = 0;
    // SAFETY: the call only writes the number. It fails for a handle that is no console.
    (unsafe { GetConsoleMode(console, &raw mut mode) } != 0).then_some(mode)
}

#[allow(unsafe_code, reason = "the standard library has no console modes")]
fn set_mode(console: RawHandle, mode: CONSOLE_MODE) {
    // SAFETY: the call takes a handle and a number. A console that is gone cannot be restored.
    let _ = unsafe { SetConsoleMode(console, mode) };
}

/// Returns the columns and rows of the console window at standard output. `None` if it is no console.
#[allow(unsafe_code, reason = "the standard library has no size of a console")]
pub(crate) fn terminal_size() -> Option<(u16, u16)> {
    let mut info = CONSOLE_SCREEN_BUFFER_INFO::default();
    // SAFETY: the call only writes the structure. It fails for a handle that is no console.
    let status = unsafe { GetConsoleScreenBufferInfo(io::stdout().as_raw_handle(), &raw mut info) };
    let window = info.srWindow;
    let columns = u16::try_from(i32::from(window.Right) - i32::from(window.Left) + 1).ok()?;
    let rows = u16::try_from(i32::from(window.Bottom) - i32::from(window.Top) + 1).ok()?;
    (status != 0 && columns > 0 && rows > 0).then_some((columns, rows))
}
