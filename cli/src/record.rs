//! The JSON that `--json` prints: an object per line, with the same fields in every subcommand. It has no character that would
//! control a terminal.
use crate::escape::steers_terminal;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Serializer, ser::Formatter};
use statestore::Expiry;
use std::{borrow::Cow, fmt, io};

/// A line of `--json` output. `docs/cli.md` describes the fields.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Record<'a> {
    /// The result of a request: `found`, `applied`, `deleted`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'static str>,
    /// The event of a watched key.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in: Option<RemainingTime>,
    /// Number of the operation within its transaction, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<usize>,
    /// Whether the entries of all requested keys are a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<bool>,
}

/// The remaining time of a key in its printed form.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(crate) enum RemainingTime {
    Milliseconds(u128),
    Word(&'static str),
}

impl From<Expiry> for RemainingTime {
    fn from(expiry: Expiry) -> Self {
        match expiry {
            Expiry::Never => Self::Word("never"),
            Expiry::After(time) => Self::Milliseconds(time.as_millis()),
            _ => Self::Word("unknown"),
        }
    }
}

impl fmt::Display for RemainingTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Milliseconds(ms) => ms.fmt(f),
            Self::Word(word) => f.write_str(word),
        }
    }
}

impl<'a> Record<'a> {
    /// Creates a line about this key.
    pub(crate) fn of_key(key: &'a [u8]) -> Self {
        let (key, key_encoding) = text_or_base64(key);
        Self {
            key,
            key_encoding,
            ..Self::default()
        }
    }

    /// Adds the result of a request.
    pub(crate) fn result(self, result: &'static str) -> Self {
        Self {
            result: Some(result),
            ..self
        }
    }

    /// Adds the event of a watched key.
    pub(crate) fn event(self, event: &'static str) -> Self {
        Self {
            event: Some(event),
            ..self
        }
    }

    /// Adds a value.
    pub(crate) fn value(self, value: &'a [u8]) -> Self {
        let (value, encoding) = text_or_base64(value);
        Self {
            value: Some(value),
            encoding,
            ..self
        }
    }

    /// Adds the holder of a lease; the name is text.
    pub(crate) fn holder(self, name: &'a [u8]) -> Self {
        Self {
            holder: Some(String::from_utf8_lossy(name)),
            ..self
        }
    }

    /// Adds a version, if there is one.
    pub(crate) fn version(self, version: Option<&impl ToString>) -> Self {
        Self {
            version: version.map(ToString::to_string),
            ..self
        }
    }

    /// Adds the number of changes that were not seen.
    pub(crate) fn missed(self, missed: u64) -> Self {
        Self {
            missed: Some(missed),
            ..self
        }
    }

    /// Adds the remaining time of the key.
    pub(crate) fn expires_in(self, expires_in: RemainingTime) -> Self {
        Self {
            expires_in: Some(expires_in),
            ..self
        }
    }

    /// Adds the number of the operation within its transaction.
    pub(crate) fn operation(self, operation: usize) -> Self {
        Self {
            operation: Some(operation),
            ..self
        }
    }

    /// Adds whether the entries of all requested keys are a snapshot.
    pub(crate) fn snapshot(self, is_snapshot: bool) -> Self {
        Self {
            snapshot: Some(is_snapshot),
            ..self
        }
    }

    /// Returns the line, with its newline.
    pub(crate) fn line(&self) -> Vec<u8> {
        json_line(self)
    }
}

/// Returns a document as one line of JSON, with its newline. It has no character that would control a terminal.
pub(crate) fn json_line(document: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    document
        .serialize(&mut Serializer::with_formatter(
            &mut line,
            TerminalSafeFormatter,
        ))
        .expect("strings, numbers and lists of them are always JSON");
    line.push(b'\n');
    line
}

/// A compact JSON format that escapes characters which JSON leaves as they are: DEL, C1, and those that reorder text.
struct TerminalSafeFormatter;

impl Formatter for TerminalSafeFormatter {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(found) = rest.find(steers_terminal) {
            let (plain, tail) = rest.split_at(found);
            writer.write_all(plain.as_bytes())?;
            let mut characters = tail.chars();
            for unit in characters.next().into_iter().flat_map(|character| {
                let mut units = [0; 2];
                character.encode_utf16(&mut units).to_vec()
            }) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Returns UTF-8 as text, and other bytes as base64 with the name of the encoding.
fn text_or_base64(bytes: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), None),
        Err(_) => (STANDARD.encode(bytes).into(), Some("base64")),
    }
}

#[cfg(test)]
mod tests {
    use super::Record;

    fn line(record: &Record<'_>) -> String {
        String::from_utf8(record.line()).unwrap()
    }

    #[test]
    fn text_is_text_even_with_control_characters() {
        let record = Record::of_key(b"k\n")
            .result("found")
            .value(b"a\0b")
            .version(Some(&"v"));
        assert_eq!(
            line(&record),
            "{\"result\":\"found\",\"key\":\"k\\n\",\"value\":\"a\\u0000b\",\"version\":\"v\"}\n"
        );
    }

    #[test]
    fn json_contains_no_terminal_controls() {
        let text = "a\u{7f}\u{9b}2J\u{202e}\u{e0041}é";
        let record = Record::of_key(b"k").value(text.as_bytes());
        let line = line(&record);
        assert_eq!(
            line,
            "{\"key\":\"k\",\"value\":\"a\\u007f\\u009b2J\\u202e\\udb40\\udc41é\"}\n"
        );
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["value"], text);
    }

    #[test]
    fn invalid_utf8_is_base64_with_its_encoding() {
        let record = Record::of_key(b"\xff").value(b"\x00\xfe");
        assert_eq!(
            line(&record),
            "{\"key\":\"/w==\",\"key_encoding\":\"base64\",\"value\":\"AP4=\",\"encoding\":\"base64\"}\n"
        );
    }
}
