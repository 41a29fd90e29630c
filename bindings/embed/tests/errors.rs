//! The kinds of errors, as every language with a binding knows them, and the page about them.
#![allow(clippy::unwrap_used)]

use serde::Deserialize;
use statestore_embed::ErrorKind;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{read_to_string, write};
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kinds: Vec<Kind>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    name: String,
    code: u16,
    retryable: bool,
    outcome: Certainty,
    when: String,
    #[serde(rename = "do")]
    remedy: String,
}

/// Which outcomes an error of a kind may have.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Certainty {
    NotDone,
    Unknown,
    Either,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn table() -> Vec<Kind> {
    let path = root().join("tests/vectors/error_kinds.json");
    let table: Table = serde_json::from_str(&read_to_string(path).unwrap()).unwrap();
    table.kinds
}

#[test]
fn the_error_kinds_match_the_vectors() {
    let mut here: Vec<_> = ErrorKind::ALL
        .iter()
        .map(|kind| (kind.code(), format!("{kind:?}"), kind.is_retryable()))
        .collect();
    here.sort_unstable();
    let there: Vec<_> = table()
        .into_iter()
        .map(|kind| (kind.code, kind.name, kind.retryable))
        .collect();
    assert_eq!(here, there);
}

#[test]
fn client_kinds_keep_their_code_and_name() {
    for kind in statestore::ErrorKind::ALL.iter().copied() {
        let here = ErrorKind::from(kind);
        assert_eq!(
            (here.code(), format!("{here:?}"), here.is_retryable()),
            (kind.code(), format!("{kind:?}"), kind.is_retryable())
        );
    }
}

/// The page, with the table in place of what stands between its two marks.
fn page(text: &str) -> String {
    const BEGIN: &str = "<!-- made from tests/vectors/error_kinds.json by scripts/errors -->\n";
    const END: &str = "<!-- end -->\n";
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let mut page = format!("{before}{BEGIN}");
    page.push_str("| kind | | when | outcome | again? | what to do |\n|---|---|---|---|---|---|\n");
    for kind in table() {
        let outcome = match kind.outcome {
            Certainty::NotDone => "not done",
            Certainty::Unknown => "unknown",
            Certainty::Either => "either",
        };
        let again = if kind.retryable { "yes" } else { "no" };
        let Kind {
            name,
            code,
            when,
            remedy,
            ..
        } = kind;
        writeln!(
            page,
            "| `{name}` | {code} | {when} | {outcome} | {again} | {remedy} |"
        )
        .unwrap();
    }
    page + END + after
}

/// `scripts/errors` writes it.
#[test]
fn the_error_page_matches_the_vectors() {
    let path = root().join("docs/errors.md");
    let committed = read_to_string(&path).unwrap();
    let made = page(&committed);
    if std::env::var_os("STATESTORE_WRITE_PAGES").is_some() {
        write(&path, made).unwrap();
    } else {
        assert!(
            committed == made,
            "run scripts/errors: docs/errors.md is not what tests/vectors/error_kinds.json says"
        );
    }
}

#[test]
fn every_kind_has_its_own_description() {
    let mut told = HashSet::new();
    for Kind {
        name, when, remedy, ..
    } in table()
    {
        for text in [&when, &remedy] {
            assert!(text.ends_with('.') && !text.contains(['|', '\n']), "{name}");
        }
        assert!(told.insert(when), "{name} is told as another kind is");
    }
}
