//! Numbers with their units, for people.
use std::time::{Duration, UNIX_EPOCH};

/// The first second of the year 10000: later times have no form in RFC 3339.
const END_OF_TIMES_S: u64 = 253_402_300_800;

/// Returns a number of bytes in the largest unit that fits.
pub(crate) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut bytes = bytes;
    let mut unit = 0;
    while bytes >= 1024.0 && unit + 1 < UNITS.len() {
        bytes /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes:.0} B")
    } else {
        format!("{bytes:.1} {}", UNITS[unit])
    }
}

/// Returns a duration in at most two units.
pub(crate) fn duration(microseconds: u64) -> String {
    const SECOND: u64 = 1_000_000;
    let seconds = microseconds / SECOND;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if microseconds < 1000 {
        format!("{microseconds} µs")
    } else if microseconds < SECOND {
        tenths(microseconds, 1000, "ms")
    } else if minutes == 0 {
        tenths(microseconds, SECOND, "s")
    } else if hours == 0 {
        format!("{minutes}m {}s", seconds % 60)
    } else if days == 0 {
        format!("{hours}h {}m", minutes % 60)
    } else {
        format!("{days}d {}h", hours % 24)
    }
}

/// Returns a quotient with at most one digit after the point.
fn tenths(amount: u64, unit: u64, name: &str) -> String {
    let whole = amount / unit;
    match amount % unit * 10 / unit {
        0 => format!("{whole} {name}"),
        tenth => format!("{whole}.{tenth} {name}"),
    }
}

/// Returns a time in UTC, to the second.
pub(crate) fn time(unix_ms: u64) -> String {
    if unix_ms / 1000 >= END_OF_TIMES_S {
        return unix_ms.to_string();
    }
    let time = UNIX_EPOCH + Duration::from_millis(unix_ms);
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Returns a time in UTC, to the millisecond.
pub(crate) fn precise_time(unix_ms: u64) -> String {
    if unix_ms / 1000 >= END_OF_TIMES_S {
        return unix_ms.to_string();
    }
    let time = UNIX_EPOCH + Duration::from_millis(unix_ms);
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::{bytes, duration, precise_time, time};

    #[test]
    fn sizes_are_printed_in_the_largest_fitting_unit() {
        assert_eq!(bytes(1023.0), "1023 B");
        assert_eq!(bytes(1536.0), "1.5 KiB");
        assert_eq!(bytes(3.0 * 1024f64.powi(3)), "3.0 GiB");
    }

    #[test]
    fn durations_have_at_most_two_units() {
        for (microseconds, text) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1000, "1 ms"),
            (12_345, "12.3 ms"),
            (59_990_000, "59.9 s"),
            (310_000_000, "5m 10s"),
            (10_920_000_000, "3h 2m"),
            (370_800_000_000, "4d 7h"),
        ] {
            assert_eq!(duration(microseconds), text);
        }
        assert!(duration(u64::MAX).ends_with('h'));
    }

    #[test]
    fn times_are_utc_also_beyond_the_calendar() {
        assert_eq!(time(1_763_632_800_123), "2025-11-20T10:00:00Z");
        assert_eq!(precise_time(1_763_632_800_123), "2025-11-20T10:00:00.123Z");
        assert_eq!(time(u64::MAX), u64::MAX.to_string());
        assert_eq!(precise_time(u64::MAX), u64::MAX.to_string());
    }
}
