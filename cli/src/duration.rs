//! Durations on the command line.
use std::time::Duration;

/// The longest expiry that the protocol can express.
const MAX_DURATION: Duration = Duration::from_millis(u64::MAX);

/// Help for the form of a duration.
const EXPECTED_FORM: &str = "write 1500 (milliseconds), 1500ms, 10s or 2m";

/// Reads `1500` (milliseconds), `1500ms`, `10s`, `2m`, `1h30m`: whole milliseconds, at least one.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    match parse_any(text)? {
        Duration::ZERO => Err(format!("at least 1 ms is needed; {EXPECTED_FORM}")),
        duration => Ok(duration),
    }
}

/// Reads a time to wait: as [`parse`] does, at most a day.
pub(crate) fn parse_wait(text: &str) -> Result<Duration, String> {
    parse(text).and_then(check_max_day)
}

/// Reads an optional time to wait: as [`parse_wait`] does, or zero.
pub(crate) fn parse_wait_or_zero(text: &str) -> Result<Duration, String> {
    parse_any(text).and_then(check_max_day)
}

/// Reads `30` (seconds), `30s`, `2m`: whole seconds, from one to a day.
pub(crate) fn parse_seconds(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "write 30 (seconds), 30s or 2m; from 1s to 24h";
    let duration = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(text).map_err(|_| EXPECTED)?,
    };
    match duration.as_secs() {
        seconds @ 1..=86_400 if duration.subsec_nanos() == 0 => Ok(seconds),
        _ => Err(EXPECTED.to_owned()),
    }
}

fn parse_any(text: &str) -> Result<Duration, String> {
    let duration = match text.parse::<u64>() {
        Ok(milliseconds) => Duration::from_millis(milliseconds),
        Err(_) => humantime::parse_duration(text)
            .map_err(|_| format!("not a duration; {EXPECTED_FORM}"))?,
    };
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err(format!(
            "only whole milliseconds are possible; {EXPECTED_FORM}"
        ));
    }
    if duration > MAX_DURATION {
        return Err("too long; the state store counts milliseconds in 64 bits".to_owned());
    }
    Ok(duration)
}

fn check_max_day(duration: Duration) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    if duration > DAY {
        return Err("too long; at most 24h is possible".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_seconds, parse_wait, parse_wait_or_zero};
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
    fn zero_fractions_and_malformed_durations_are_rejected() {
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

    #[test]
    fn numbers_of_seconds_accept_units() {
        for (text, seconds) in [("1", 1), ("30s", 30), ("2m", 120), ("24h", 86_400)] {
            assert_eq!(parse_seconds(text), Ok(seconds), "{text}");
        }
        for text in ["", "0", "1500ms", "86401", "25h", "ten"] {
            let error = parse_seconds(text).unwrap_err();
            assert!(error.contains("30s or 2m"), "{text}: {error}");
        }
    }

    #[test]
    fn overflowing_and_too_long_durations_are_rejected() {
        let max = u64::MAX.to_string();
        assert_eq!(parse(&max), Ok(Duration::from_millis(u64::MAX)));
        assert!(parse(&format!("{max}s")).is_err());
        assert_eq!(parse_wait("24h"), Ok(Duration::from_secs(86_400)));
        assert!(parse_wait(&max).is_err());
        assert!(parse_wait("0").is_err());
        assert_eq!(parse_wait_or_zero("0s"), Ok(Duration::ZERO));
        assert!(parse_wait_or_zero("25h").is_err());
    }
}
