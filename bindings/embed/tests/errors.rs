//! The kinds of errors, as every language with a binding knows them.
#![allow(clippy::unwrap_used)]

use serde::Deserialize;
use statestore_embed::ErrorKind;

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
        "/../../tests/vectors/error_kinds.json"
    );
    let table: Table = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut here: Vec<_> = ErrorKind::ALL
        .iter()
        .map(|kind| (kind.code(), format!("{kind:?}"), kind.is_retryable()))
        .collect();
    here.sort_unstable();
    let there: Vec<_> = table
        .kinds
        .into_iter()
        .map(|kind| (kind.code, kind.name, kind.retryable))
        .collect();
    assert_eq!(here, there);
}

#[test]
fn a_kind_of_the_client_keeps_its_number_and_its_name() {
    for kind in statestore::ErrorKind::ALL.iter().copied() {
        let here = ErrorKind::from(kind);
        assert_eq!(
            (here.code(), format!("{here:?}"), here.is_retryable()),
            (kind.code(), format!("{kind:?}"), kind.is_retryable())
        );
    }
}
