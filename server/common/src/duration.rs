//! Parsing of durations in options.

const UNITS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

/// Parses a duration from `MIN` to `MAX` seconds: a number of seconds, or a number with a unit, such as `15m`. Returns seconds.
///
/// # Errors
/// The expected form, or the bounds.
pub fn parse_seconds<const MIN: u64, const MAX: u64>(text: &str) -> Result<u64, String> {
    let with_unit = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?.trim_end(), *seconds)));
    let (digits, unit_seconds) = with_unit.unwrap_or((text, 1));
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("expected a duration such as 90 (seconds), 90s, 15m, 2h or 1d".into());
    }
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit_seconds))
        .filter(|seconds| (MIN..=MAX).contains(seconds))
        .ok_or_else(|| match MAX {
            u64::MAX => format!("expected at least {MIN} seconds, and less than 213503982334602d"),
            _ => format!("expected {MIN} to {MAX} seconds"),
        })
}

#[cfg(test)]
mod tests {
    use super::parse_seconds;

    #[test]
    fn durations_have_a_unit_or_none() {
        let parse = parse_seconds::<0, { u64::MAX }>;
        for (text, seconds) in [
            ("0", 0),
            ("90", 90),
            ("90s", 90),
            ("15 m", 900),
            ("2h", 7_200),
            ("1d", 86_400),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(seconds), "{text}");
        }
        for text in [
            "", "s", "5ms", "1.5h", "1h30m", "-1", "+1", "1S", " 1", "1 w", "٣",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("15m, 2h or 1d"), "{text}: {error}");
        }
        for text in ["213503982334602d", "18446744073709551616"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("less than"), "{text}: {error}");
        }
    }

    #[test]
    fn durations_have_bounds() {
        let parse = parse_seconds::<30, 120>;
        assert_eq!(parse("2m"), Ok(120));
        for text in ["29", "29s", "121", "3m", "1d"] {
            assert_eq!(parse(text).unwrap_err(), "expected 30 to 120 seconds");
        }
    }
}
