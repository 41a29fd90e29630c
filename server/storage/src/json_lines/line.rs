//! Format of a line.
use crate::{Expiry, Record, RecordView};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use statestore_protocol::Hlc;
use statestore_protocol::hlc::STORE_NODE_ID;
use std::borrow::Cow;

/// The header, which is the first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderLine {
    pub(super) statestore_export: u32,
    pub(super) made: String,
    pub(super) records: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) floor: Option<String>,
}

/// The format number alone, for lines of a later version.
#[derive(Debug, Deserialize)]
pub(super) struct AnyHeaderLine {
    pub(super) statestore_export: u32,
}

/// A record, which is any other line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordLine<'a> {
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiry: Option<ExpiryField>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fence: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpiryField {
    at_ms: u64,
    ttl_ms: u64,
}

impl<'a> RecordLine<'a> {
    pub(super) fn of(record: &RecordView<'a>) -> Self {
        let (key, key_base64) = encode_bytes(record.key);
        let (value, value_base64) = encode_bytes(record.value);
        Self {
            key,
            key_base64,
            value,
            value_base64,
            version: Hlc::store_version(record.version).to_string(),
            expiry: record.expiry.map(|expiry| ExpiryField {
                at_ms: expiry.at_wall_ms,
                ttl_ms: expiry.ttl_ms,
            }),
            fence: record.fence.as_ref().map(ToString::to_string),
        }
    }

    /// Returns the record, or the problem of the line.
    pub(super) fn into_record(self) -> Result<Record, String> {
        let key = decode_bytes("key", self.key, self.key_base64)?;
        if key.is_empty() {
            return Err("the key is empty".into());
        }
        let fence = self.fence.map(|fence| hlc("fence", &fence)).transpose()?;
        Ok(Record {
            key: key.into(),
            value: decode_bytes("value", self.value, self.value_base64)?.into(),
            version: version("version", &self.version)?,
            fence,
            expiry: self.expiry.map(|expiry| Expiry {
                at_wall_ms: expiry.at_ms,
                ttl_ms: expiry.ttl_ms,
            }),
        })
    }
}

fn encode_bytes(bytes: &[u8]) -> (Option<Cow<'_, str>>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.into()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

fn decode_bytes(
    name: &str,
    text: Option<Cow<'_, str>>,
    base64: Option<String>,
) -> Result<Vec<u8>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_owned().into_bytes()),
        (None, Some(base64)) => STANDARD
            .decode(base64)
            .map_err(|error| format!("`{name}_base64` is not base64: {error}")),
        _ => Err(format!("it has either `{name}` or `{name}_base64`")),
    }
}

/// Reads a version that a store has issued.
pub(super) fn version(name: &str, text: &str) -> Result<(u64, u64), String> {
    let version = hlc(name, text)?;
    if version.node_id() != STORE_NODE_ID {
        return Err(format!("the node of `{name}` is not `{STORE_NODE_ID}`"));
    }
    Ok((version.wall_ms(), version.counter()))
}

fn hlc(name: &str, text: &str) -> Result<Hlc, String> {
    Hlc::parse(text.as_bytes()).map_err(|error| format!("`{name}`: {error}"))
}
