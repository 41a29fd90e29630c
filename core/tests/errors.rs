//! The kinds of errors, as every language has them, and the contents of an error.
#![allow(clippy::unwrap_used)]

use serde::Deserialize;
use serde::de::DeserializeOwned;
use statestore::{ErrorKind, ServiceError, Settings};
use std::collections::HashSet;

#[derive(Deserialize)]
struct ErrorTable {
    kinds: Vec<KindRow>,
}

#[derive(Debug, Deserialize)]
struct KindRow {
    name: String,
    code: u16,
    retryable: bool,
}

/// Kinds of the table that a client in Rust does not know: `statestore_embed` has them for all other languages.
const BINDING_KINDS: [&str; 5] = [
    "InvalidHandle",
    "WrongThread",
    "Internal",
    "Forked",
    "Cancelled",
];

fn read<T: DeserializeOwned>(file: &str) -> T {
    let path = format!("{}/../tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_error_kinds_match_the_vectors() {
    let mut table: ErrorTable = read("error_kinds.json");
    let of_bindings: Vec<_> = table
        .kinds
        .extract_if(.., |kind| BINDING_KINDS.contains(&&*kind.name))
        .collect();
    assert_eq!(of_bindings.len(), BINDING_KINDS.len(), "{of_bindings:?}");
    let here: Vec<_> = ErrorKind::ALL
        .iter()
        .map(|kind| (format!("{kind:?}"), kind.code(), kind.is_retryable()))
        .collect();
    let there: Vec<_> = table
        .kinds
        .into_iter()
        .map(|kind| (kind.name, kind.code, kind.retryable))
        .collect();
    assert_eq!(here, there);
    let codes: HashSet<_> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(codes.len(), ErrorKind::ALL.len(), "no number is used twice");
}

#[derive(Deserialize)]
struct Refusals {
    service_errors: Vec<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    name: String,
    text: String,
}

#[test]
fn each_refusal_of_the_store_has_a_kind_of_its_name() {
    let refusals: Refusals = read("errors.json");
    for Refusal { name, text } in refusals.service_errors {
        let kind = ErrorKind::from(&ServiceError::from_text(&text.into()));
        let kind = format!("{kind:?}").to_lowercase();
        assert_eq!(kind, name.replace('_', ""));
    }
    let unknown = ServiceError::from_text(&"out of cheese".into());
    assert_eq!(ErrorKind::from(&unknown), ErrorKind::OtherRefusal);
}

#[test]
fn no_error_and_no_debug_output_shows_a_password() {
    let url = "mqtt://user:hush%40@host:1883";
    let settings = Settings::from_url(url).unwrap();
    assert!(!format!("{settings:?}").contains("hush"));
    for broken in [
        "mqtt://user:hush@host:port",
        "mqtt://user:hush@host:1883/path",
        "http://user:hush@host",
        "mqtt://user:hush@host?x=1",
        "mqtt://user:hush@ho st",
    ] {
        let error = Settings::from_url(broken).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSettings);
        assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
    }
}
