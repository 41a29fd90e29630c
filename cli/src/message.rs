//! Lines on standard error.
use crate::escape::steers_terminal;
use std::io::{self, Write as _};

/// Prints a line after the program's name: the failure and the remedy.
pub(crate) fn complain(text: &str) {
    note(&format!("statestore: {text}"));
}

/// Prints a single line. Characters of the text that control the terminal are replaced.
pub(crate) fn note(text: &str) {
    let text = text.replace(steers_terminal, " ");
    // standard error may be closed; then there is no place for the message
    let _ = writeln!(io::stderr().lock(), "{text}");
}
