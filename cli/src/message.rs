//! Lines on standard error.
use crate::escape::steers_terminal;
use std::io::{self, Write as _};

/// Returns a number and a noun, in the singular or with an `s`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Prints a line after the program's name: the failure and the remedy.
pub(crate) fn print_error(text: &str) {
    print_line(&format!("statestore: {text}"));
}

/// Prints a single line. Characters of the text that control the terminal are replaced.
pub(crate) fn print_line(text: &str) {
    let text = text.replace(steers_terminal, " ");
    // standard error may be closed; then there is no place for the message
    let _ = writeln!(io::stderr().lock(), "{text}");
}
