//! Documents of a server on standard output.
use super::field;
use crate::{
    escape::escape, failure::Failure, global_options::GlobalOptions, output::Output,
    record::json_line,
};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Prints a document as JSON, or this text for people.
pub(super) async fn print(
    document: &Value,
    text: &str,
    global: &GlobalOptions,
) -> Result<(), Failure> {
    let line = if global.json {
        json_line(document)
    } else {
        text.as_bytes().to_vec()
    };
    Output::stdout().print(&line).await
}

/// Returns a document as lines of names and values. Lines of its parts are indented.
pub(super) fn lines(document: &Value) -> String {
    let mut lines = String::new();
    match document {
        Value::Object(fields) => push_fields(&mut lines, fields, 0),
        other => lines = field::text("", other) + "\n",
    }
    lines
}

fn push_fields(lines: &mut String, fields: &Map<String, Value>, indent: usize) {
    let is_line = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => field::bytes(value).is_some(),
        _ => true,
    };
    let names = fields.iter().filter(|(_, value)| is_line(value));
    let width = names.map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or_default();
    let margin = " ".repeat(indent);
    for (name, value) in fields {
        let shown = escape(name.as_bytes());
        if is_line(value) {
            let text = field::text(name, value);
            let _ = writeln!(lines, "{margin}{shown:<width$}  {text}");
            continue;
        }
        let _ = writeln!(lines, "{margin}{shown}:");
        match value {
            Value::Object(fields) => push_fields(lines, fields, indent + 2),
            Value::Array(items) => {
                for item in items {
                    let _ = writeln!(lines, "{margin}  {}", field::text(name, item));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lines;
    use serde_json::json;

    #[test]
    fn parts_are_indented_below_their_names() {
        let document = json!({
            "client": "a\u{1b}",
            "session": {"expiry_s": 60, "held_bytes": 2048},
            "subscriptions": ["a/#", "b"],
            "user": null,
            "watches": [{"hex": "6bff"}],
        });
        let expected = r"client  a\x1b
session:
  expiry_s    1m 0s
  held_bytes  2.0 KiB
subscriptions:
  a/#
  b
user    -
watches:
  k\xff
";
        assert_eq!(lines(&document), expected);
    }
}
