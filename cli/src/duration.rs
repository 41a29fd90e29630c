//! Durations on the command line.
use std::time::Duration;

/// The longest expiry that the protocol can express.
const LONGEST: Duration = Duration::from_millis(u64::MAX);

/// Help for the form of a duration.
const FORM: &str = "write 1500 (milliseconds), 1500ms, 10s or 2m";

/// Reads `1500` (milliseconds), `1500ms`, `10s`, `2m`, `1h30m`: whole milliseconds, at least one.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    match parse_any(text)? {
        Duration::ZERO => Err(format!("at least 1 ms is needed; {FORM}")),
        duration => Ok(duration),
    }
}

/// Reads a time to wait: as [`parse`] does, at most a day.
pub(crate) fn parse_wait(text: &str) -> Result<Duration, String> {
    parse(text).and_then(at_most_a_day)
}

/// Reads an optional time to wait: as [`parse_wait`] does, or zero.
pub(crate) fn parse_wait_or_zero(text: &str) -> Result<Duration, String> {
    parse_any(text).and_then(at_most_a_day)
}

fn parse_any(text: &str) -> Result<Duration, String> {
    let duration = match text.parse::<u64>() {
        Ok(milliseconds) => Duration::from_millis(milliseconds),
        Err(_) => humantime::parse_duration(text).map_err(|_| format!("not a duration; {FORM}"))?,
    };
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err(format!("only whole milliseconds are possible; {FORM}"));
    }
    if duration > LONGEST {
        return Err("too long; the state store counts milliseconds in 64 bits".to_owned());
    }
    Ok(duration)
}

fn at_most_a_day(duration: Duration) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    if duration > DAY {
        return Err("too long; at most 24h is possible".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_wait, parse_wait_or_zero};
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

    #[test]
    fn what_cannot_be_counted_or_waited_for_is_refused() {
        let most = u64::MAX.to_string();
        assert_eq!(parse(&most), Ok(Duration::from_millis(u64::MAX)));
        assert!(parse(&format!("{most}s")).is_err());
        assert_eq!(parse_wait("24h"), Ok(Duration::from_secs(86_400)));
        assert!(parse_wait(&most).is_err());
        assert!(parse_wait("0").is_err());
        assert_eq!(parse_wait_or_zero("0s"), Ok(Duration::ZERO));
        assert!(parse_wait_or_zero("25h").is_err());
    }
}
