//! Fields of the server's answers, as text for people.
use crate::{escape::escape, units};
use serde_json::{Map, Number, Value};

/// Session expiry that means "never" (MQTT 5, section 3.1.2.11.2).
const NEVER_EXPIRES_S: u64 = 0xffff_ffff;

/// Returns the text of a value. The name of its field says its unit.
pub(super) fn text(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Number(number) => number_text(name, number),
        Value::String(text) => escape(text.as_bytes()),
        Value::Array(items) if items.is_empty() => "-".into(),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(|item| text(name, item)).collect();
            texts.join(", ")
        }
        Value::Object(fields) => match bytes(value) {
            Some(bytes) => escape(&bytes),
            None => pairs(fields),
        },
    }
}

/// Returns the bytes of a key, value or topic; `None` if the value is something else.
pub(super) fn bytes(value: &Value) -> Option<Vec<u8>> {
    let digits = value.get("hex")?.as_str()?.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

fn number_text(name: &str, number: &Number) -> String {
    let Some(whole) = number.as_u64() else {
        let fraction = number.as_f64().filter(|_| number.is_f64());
        return fraction.map_or_else(|| number.to_string(), |fraction| format!("{fraction:.1}"));
    };
    if name == "at_ms" {
        return units::precise_time(whole);
    }
    match name.rsplit_once('_') {
        Some((_, "bytes")) => units::bytes(number.as_f64().unwrap_or_default()),
        Some((_, "us")) => units::duration(whole),
        Some(("duration", "ms")) => units::duration(whole.saturating_mul(1000)),
        Some((rest, "ms")) if rest.ends_with("_in") => units::duration(whole.saturating_mul(1000)),
        Some((_, "ms")) => units::time(whole),
        Some((rest, "s")) if rest.ends_with("expiry") && whole == NEVER_EXPIRES_S => "never".into(),
        Some((rest, "s")) if !rest.ends_with("_per") => {
            units::duration(whole.saturating_mul(1_000_000))
        }
        _ => whole.to_string(),
    }
}

/// Returns names and values in one line.
fn pairs(fields: &Map<String, Value>) -> String {
    let pairs = fields.iter().map(|(name, value)| {
        let text = text(name, value);
        let name = escape(name.as_bytes());
        if text.is_empty() || text.contains(' ') {
            format!("{name}=\"{}\"", text.replace('"', "\\\""))
        } else {
            format!("{name}={text}")
        }
    });
    pairs.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::text;
    use serde_json::json;

    #[test]
    fn the_name_of_a_field_is_its_unit() {
        for (name, value, expected) in [
            ("held_bytes", json!(2048), "2.0 KiB"),
            ("expires_in_ms", json!(1500), "1.5 s"),
            ("expires_in_ms", json!(null), "-"),
            ("duration_us", json!(250), "250 µs"),
            (
                "since_ms",
                json!(1_763_632_800_123_u64),
                "2025-11-20T10:00:00Z",
            ),
            (
                "at_ms",
                json!(1_763_632_800_123_u64),
                "2025-11-20T10:00:00.123Z",
            ),
            ("expiry_s", json!(3600), "1h 0m"),
            ("expiry_s", json!(0xffff_ffff_u64), "never"),
            ("requests_per_s", json!(12.34), "12.3"),
            ("requests_per_s", json!(12), "12"),
            ("offset", json!(-1), "-1"),
            ("is_connected", json!(true), "yes"),
        ] {
            assert_eq!(text(name, &value), expected, "{name}");
        }
    }

    #[test]
    fn bytes_are_escaped_and_objects_are_pairs() {
        assert_eq!(
            text("key", &json!({"hex": "6b0aff", "text": null})),
            r"k\n\xff"
        );
        assert_eq!(text("client", &json!("a\u{1b}[2J")), r"a\x1b[2J");
        let fields = json!({"client": "a", "held_bytes": 5, "why": "no \"rights\""});
        assert_eq!(
            text("fields", &fields),
            r#"client=a held_bytes="5 B" why="no \"rights\"""#
        );
        assert_eq!(text("topics", &json!(["a/#", "b"])), "a/#, b");
    }
}
