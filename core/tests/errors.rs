//! The kinds of errors, as every language knows them, and what an error tells.
#![allow(clippy::unwrap_used)]

use serde::Deserialize;
use statestore::{ErrorKind, Settings};
use std::collections::HashSet;

#[derive(Deserialize)]
struct Table {
    kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    name: String,
    code: u16,
    retryable: bool,
}

#[test]
fn the_kinds_are_those_of_the_table() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/vectors/error_kinds.json"
    );
    let table: Table = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
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
