//! Lines on standard error.
use crate::escape::steers_terminal;
use std::io::{self, Write as _};

/// One line under the program's name: what went wrong and what to do.
pub(crate) fn complain(text: &str) {
    note(&format!("statestore: {text}"));
}

/// One line, whatever characters the text has that steer a terminal.
pub(crate) fn note(text: &str) {
    let text = text.replace(steers_terminal, " ");
    // nobody is left to be told when standard error is closed
    let _ = writeln!(io::stderr().lock(), "{text}");
}
