//! Parsing of durations in options.

/// Parses a duration from `MIN` to `MAX` seconds: a number of seconds, or a number with a unit, such as `15m`. Returns seconds.
///
/// # Errors
/// The expected form, or the bounds.
pub fn parse_seconds<const MIN: u64, const MAX: u64>(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let seconds = parse(text, &units).map_err(|InvalidForm| {
        "expected a duration such as 90 (seconds), 90s, 15m, 2h or 1d".to_owned()
    })?;
    seconds
        .filter(|seconds| (MIN..=MAX).contains(seconds))
        .ok_or_else(|| match MAX {
            u64::MAX => format!("expected at least {MIN} seconds, and less than 213503982334602d"),
            _ => format!("expected {MIN} to {MAX} seconds"),
        })
}

/// Parses a duration: a number of milliseconds, or a number with a unit, such as `50ms` or `2s`. Returns milliseconds.
///
/// # Errors
/// The expected form, or the bound.
pub fn parse_millis(text: &str) -> Result<u64, String> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000)];
    parse(text, &units)
        .map_err(|InvalidForm| "expected a duration such as 50 (milliseconds), 50ms, 2s or 1m")?
        .ok_or_else(|| "expected less than 307445734561825m".into())
}

/// The text is no number with one of the units.
struct InvalidForm;

/// Parses a number with a unit, or without one, and multiplies it; `None` if the product is too large.
fn parse(text: &str, units: &[(&str, u64)]) -> Result<Option<u64>, InvalidForm> {
    let with_unit = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim_end(), *factor)));
    let (digits, factor) = with_unit.unwrap_or((text, 1));
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(InvalidForm);
    }
    let number = digits.parse::<u64>().ok();
    Ok(number.and_then(|number| number.checked_mul(factor)))
}

#[cfg(test)]
mod tests {
    use super::{parse_millis, parse_seconds};

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

    #[test]
    fn short_durations_have_milliseconds() {
        for (text, millis) in [
            ("0", 0),
            ("50", 50),
            ("50ms", 50),
            ("2 s", 2_000),
            ("1m", 60_000),
        ] {
            assert_eq!(parse_millis(text), Ok(millis), "{text}");
        }
        for text in ["", "ms", "1h", "0.5s", "-1"] {
            let error = parse_millis(text).unwrap_err();
            assert!(error.contains("50ms, 2s or 1m"), "{text}: {error}");
        }
        let error = parse_millis("307445734561826m").unwrap_err();
        assert!(error.contains("less than"), "{error}");
    }
}
