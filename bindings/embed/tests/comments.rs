//! Comments about the kinds of error and the reasons in the sources of each language: they match the tables.
//!
//! `scripts/errors` writes the comments of the kinds and of the enums.
#![allow(clippy::unwrap_used)]

use serde::Deserialize;
use std::fs::{read_to_string, write};
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Kinds {
    kinds: Vec<DocumentedCode>,
}

#[derive(Deserialize)]
struct Reasons {
    reasons: Vec<DocumentedCode>,
}

/// A kind or a reason.
#[derive(Deserialize)]
struct DocumentedCode {
    name: String,
    code: u16,
    #[serde(default)]
    word: String,
    when: String,
}

impl DocumentedCode {
    /// As a part of a constant of C.
    fn constant(&self) -> String {
        let mut constant = String::new();
        for character in self.name.chars() {
            if character.is_uppercase() && !constant.is_empty() {
                constant.push('_');
            }
            constant.push(character.to_ascii_uppercase());
        }
        constant
    }

    /// The class in JavaScript, which has a `SyntaxError` of its own.
    fn node_class(&self) -> String {
        match self.name.as_str() {
            "Syntax" => "RequestSyntaxError".to_owned(),
            name => format!("{name}Error"),
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    read_to_string(root().join(path)).unwrap()
}

fn kinds() -> Vec<DocumentedCode> {
    let table: Kinds = serde_json::from_str(&read("tests/vectors/error_kinds.json")).unwrap();
    table.kinds
}

fn reasons() -> Vec<DocumentedCode> {
    let table: Reasons = serde_json::from_str(&read("tests/vectors/lost_reasons.json")).unwrap();
    table.reasons
}

/// Wraps the text to lines of at most `width` characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Where the comment of an item stands, and how it is written.
#[derive(Clone, Copy)]
enum Style {
    /// `///` above the line of the item.
    Rust,
    /// `/** */` above the line of the item.
    Node,
    /// A docstring below it.
    Python,
}

impl Style {
    fn comment(self, when: &str) -> Vec<String> {
        match self {
            Self::Rust => wrap(when, 112)
                .iter()
                .map(|line| format!("    /// {line}"))
                .collect(),
            Self::Node if when.len() <= 112 => vec![format!("/** {when} */")],
            Self::Node => {
                let text = wrap(when, 115);
                let lines = text.iter().map(|line| format!(" * {line}"));
                let begin = std::iter::once("/**".to_owned());
                begin.chain(lines).chain([" */".to_owned()]).collect()
            }
            Self::Python if when.len() <= 110 => vec![format!("    \"\"\"{when}\"\"\"")],
            Self::Python => {
                let text = wrap(when, 112).join("\n    ");
                vec![format!("    \"\"\"{text}\n    \"\"\"")]
            }
        }
    }

    /// The lines with another comment of the item at `item`.
    fn rewrite(self, lines: &[&str], item: usize, when: &str) -> Vec<String> {
        let (mut begin, mut end) = (item, item);
        match self {
            Self::Rust => {
                while lines[begin - 1].trim_start().starts_with("///") {
                    begin -= 1;
                }
            }
            Self::Node => {
                begin -= 1;
                while !lines[begin].starts_with("/**") {
                    begin -= 1;
                }
            }
            Self::Python => {
                (begin, end) = (item + 1, item + 1);
                let is_over = |line: &str| line.len() > 8 && line.ends_with("\"\"\"");
                while !is_over(lines[end]) && lines[end].trim() != "\"\"\"" {
                    end += 1;
                }
                end += 1;
            }
        }
        let indent = lines[item].len() - lines[item].trim_start().len();
        let comment = self.comment(when);
        let comment = comment.iter().map(|line| match self {
            Self::Rust => format!("{:indent$}{}", "", line.trim_start()),
            _ => line.clone(),
        });
        let before = lines[..begin].iter().map(ToString::to_string);
        let after = lines[end..].iter().map(ToString::to_string);
        before.chain(comment).chain(after).collect()
    }
}

/// The file, with what the table says above each item. `item` is how the line of one begins.
fn check_comments(
    path: &str,
    style: Style,
    table: &[DocumentedCode],
    item: impl Fn(&DocumentedCode) -> String,
) -> usize {
    let committed = read(path);
    let mut text = committed.clone();
    let mut found = 0;
    for told in table {
        let lines: Vec<_> = text.lines().collect();
        let begin = item(told);
        let Some(at) = lines
            .iter()
            .position(|line| line.trim_start().starts_with(&begin))
        else {
            continue;
        };
        found += 1;
        text = style.rewrite(&lines, at, &told.when).join("\n") + "\n";
    }
    if std::env::var_os("STATESTORE_WRITE_PAGES").is_some() {
        write(root().join(path), text).unwrap();
    } else {
        assert!(
            committed == text,
            "run scripts/errors: {path} does not say what the table in tests/vectors says"
        );
    }
    found
}

#[test]
fn every_kind_has_the_same_description_in_every_language() {
    let kinds = kinds();
    let name = |kind: &DocumentedCode| format!("{} = {},", kind.name, kind.code);
    let in_rust = check_comments("core/src/error.rs", Style::Rust, &kinds, name)
        + check_comments("bindings/embed/src/error.rs", Style::Rust, &kinds, name);
    let constant = |kind: &DocumentedCode| format!("SST_{} = {},", kind.constant(), kind.code);
    let in_c = check_comments("ffi/src/status.rs", Style::Rust, &kinds, constant);
    let class = |kind: &DocumentedCode| format!("class {}Error(", kind.name);
    let file = "bindings/python/python/statestore/_errors.py";
    let in_python = check_comments(file, Style::Python, &kinds, class);
    let class = |kind: &DocumentedCode| format!("export class {} extends", kind.node_class());
    let in_node = check_comments("bindings/node/errors.d.ts", Style::Node, &kinds, class);
    assert_eq!([in_rust, in_c, in_python, in_node], [kinds.len(); 4]);
}

#[test]
fn every_reason_has_the_same_description_in_every_language() {
    let reasons = reasons();
    let name = |reason: &DocumentedCode| format!("{} = {} ", reason.name, reason.code);
    let in_rust = check_comments("core/src/lost_reason.rs", Style::Rust, &reasons, name);
    let constant =
        |reason: &DocumentedCode| format!("SST_LOST_{} = {},", reason.constant(), reason.code);
    let in_c = check_comments("ffi/src/lost_reason.rs", Style::Rust, &reasons, constant);
    assert_eq!([in_rust, in_c], [reasons.len(); 2]);
    let lists = [
        ("docs/api.md", "| WHEN |"),
        (
            "bindings/python/python/statestore/_results.py",
            "``\"WORD\"``: WHEN",
        ),
        ("bindings/node/index.d.ts", "`WORD`: WHEN"),
    ];
    for (path, form) in lists {
        let text = read(path).replace("\n *", "\n");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for DocumentedCode { word, when, .. } in &reasons {
            let wanted = form.replace("WORD", word).replace("WHEN", when);
            assert!(text.contains(&wanted), "{path} does not say: {wanted}");
        }
    }
}
