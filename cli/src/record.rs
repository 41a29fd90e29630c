//! The JSON that `--json` prints: one object per line, the same fields in every subcommand.
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use std::borrow::Cow;

/// One line of `--json` output. `docs/cli.md` describes the fields.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Record<'a> {
    /// What came of a request: `found`, `applied`, `deleted`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'static str>,
    /// What happened to a watched key.
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
}

impl<'a> Record<'a> {
    /// A line about this key.
    pub(crate) fn of_key(key: &'a [u8]) -> Self {
        let (key, key_encoding) = text_or_base64(key);
        Self {
            key,
            key_encoding,
            ..Self::default()
        }
    }

    /// With the outcome of a request.
    pub(crate) fn result(self, result: &'static str) -> Self {
        Self {
            result: Some(result),
            ..self
        }
    }

    /// With what happened to a watched key.
    pub(crate) fn event(self, event: &'static str) -> Self {
        Self {
            event: Some(event),
            ..self
        }
    }

    /// With a value.
    pub(crate) fn value(self, value: &'a [u8]) -> Self {
        let (value, encoding) = text_or_base64(value);
        Self {
            value: Some(value),
            encoding,
            ..self
        }
    }

    /// With the holder of a lease, whose name is text.
    pub(crate) fn holder(self, name: &'a [u8]) -> Self {
        Self {
            holder: Some(String::from_utf8_lossy(name)),
            ..self
        }
    }

    /// With a version, if there is one.
    pub(crate) fn version(self, version: Option<&impl ToString>) -> Self {
        Self {
            version: version.map(ToString::to_string),
            ..self
        }
    }

    /// With the number of changes that were not seen.
    pub(crate) fn missed(self, missed: u64) -> Self {
        Self {
            missed: Some(missed),
            ..self
        }
    }

    /// The line, newline included.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line =
            serde_json::to_vec(self).expect("a record of strings and numbers is always JSON");
        line.push(b'\n');
        line
    }
}

/// UTF-8 stays text; anything else is base64 and says so.
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
    fn what_is_not_utf8_is_base64_and_says_so() {
        let record = Record::of_key(b"\xff").value(b"\x00\xfe");
        assert_eq!(
            line(&record),
            "{\"key\":\"/w==\",\"key_encoding\":\"base64\",\"value\":\"AP4=\",\"encoding\":\"base64\"}\n"
        );
    }
}
