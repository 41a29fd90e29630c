//! Why things end, as every language says it.
#![allow(clippy::unwrap_used)]

use serde::Deserialize;
use statestore::LostReason;
use std::collections::HashSet;

#[derive(Deserialize)]
struct ReasonTable {
    reasons: Vec<ReasonRow>,
}

#[derive(Deserialize)]
struct ReasonRow {
    name: String,
    code: u16,
    word: String,
}

#[test]
fn the_reasons_are_those_of_the_table() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/vectors/lost_reasons.json"
    );
    let table: ReasonTable = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let here: Vec<_> = LostReason::ALL
        .iter()
        .map(|reason| (format!("{reason:?}"), reason.code(), reason.to_string()))
        .collect();
    let there: Vec<_> = table
        .reasons
        .into_iter()
        .map(|reason| (reason.name, reason.code, reason.word))
        .collect();
    assert_eq!(here, there);
    let codes: HashSet<_> = LostReason::ALL.iter().map(|reason| reason.code()).collect();
    assert_eq!(
        codes.len(),
        LostReason::ALL.len(),
        "no number is used twice"
    );
}
