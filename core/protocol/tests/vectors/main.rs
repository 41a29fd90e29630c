//! The golden vectors of `tests/vectors`, in both directions.
mod documented;
mod errors;
mod globs;
mod hlcs;
mod notifications;
mod replies;
mod requests;
mod responses;
mod topics;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error};
use statestore_protocol::{Hlc, HlcError};
use std::path::Path;

/// Reads one file; a field that this test does not know is an error.
fn load<T: DeserializeOwned>(file: &str) -> T {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    let text = std::fs::read_to_string(folder.join(file)).expect("the file is there");
    assert!(text.is_ascii(), "{file} is ASCII");
    serde_json::from_str(&text).expect("the file has the expected form")
}

/// A byte string: each character is one byte.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Raw(Bytes);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        bytes
            .map(|bytes| Self(bytes.into()))
            .map_err(|_| D::Error::custom("a character beyond U+00FF in a byte string"))
    }
}

impl Raw {
    /// The bytes as the text that they are.
    fn text(&self) -> &str {
        std::str::from_utf8(&self.0).expect("UTF-8")
    }

    fn number(&self) -> u64 {
        self.text().parse().expect("decimal digits")
    }

    fn hlc(&self) -> Hlc {
        Hlc::parse(&self.0).expect("an HLC")
    }
}

/// User properties.
#[derive(Deserialize)]
#[serde(transparent)]
struct Pairs(Vec<(Raw, Raw)>);

impl Pairs {
    fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.text(), value.text()))
    }
}

fn hlc_error_name(error: &HlcError) -> &'static str {
    match error {
        HlcError::Segments => "segments",
        HlcError::Wall => "wall",
        HlcError::Counter => "counter",
        HlcError::NodeId => "node_id",
        other => panic!("an error without a name: {other:?}"),
    }
}
