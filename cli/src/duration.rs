//! Durations on the command line.
use std::time::Duration;

/// Reads `1500` (milliseconds), `1500ms`, `10s`, `2m`, `1h30m`: whole milliseconds, at least one.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    const FORM: &str = "write 1500 (milliseconds), 1500ms, 10s or 2m";
    let duration = match text.parse::<u64>() {
        Ok(milliseconds) => Duration::from_millis(milliseconds),
        Err(_) => humantime::parse_duration(text).map_err(|_| format!("not a duration; {FORM}"))?,
    };
    if duration.is_zero() {
        return Err(format!("at least 1 ms is needed; {FORM}"));
    }
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err(format!("only whole milliseconds are possible; {FORM}"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn numbers_are_milliseconds_and_units_are_accepted() {
        for (text, milliseconds) in [
            ("1", 1),
            ("1500", 1500),
            ("1500ms", 1500),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
        ] {
            assert_eq!(
                parse(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn zero_fractions_and_nonsense_are_refused() {
        for text in [
            "",
            "0",
            "0s",
            "1us",
            "1.5",
            "-1",
            "ten",
            "10 parsecs",
            "99999999999999999999999",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
