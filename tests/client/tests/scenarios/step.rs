//! The files of scenarios.
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) scenarios: Vec<Scenario>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) call: String,
    #[serde(default = "first")]
    pub(crate) client: String,
    pub(crate) on: Option<String>,
    #[serde(default)]
    pub(crate) args: Vec<Value>,
    #[serde(default)]
    pub(crate) options: Map<String, Value>,
    /// `Some(Value::Null)` if it is there and `null`.
    #[serde(default, deserialize_with = "there")]
    pub(crate) result: Option<Value>,
    pub(crate) error: Option<Failure>,
    pub(crate) save: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failure {
    pub(crate) kind: String,
    pub(crate) outcome: Option<String>,
    pub(crate) operation: Option<usize>,
}

fn first() -> String {
    "a".into()
}

fn there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The bytes of a string in which each character is one.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    text.chars()
        .map(|character| u8::try_from(u32::from(character)).expect("ISO 8859-1"))
        .collect()
}

/// The reverse.
pub(crate) fn text(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}
