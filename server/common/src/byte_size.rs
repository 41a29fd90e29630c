//! Parsing of sizes in options.

const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

/// Parses a size from `MIN` to `MAX` bytes: a number of bytes, or a number with a unit, such as `512MiB`.
///
/// # Errors
/// The expected form, or the bounds.
pub fn parse_size<const MIN: u64, const MAX: u64>(text: &str) -> Result<u64, String> {
    let with_unit = UNITS
        .iter()
        .find_map(|(unit, bits)| Some((text.strip_suffix(unit)?.trim_end(), *bits)));
    let (digits, bits) = with_unit.unwrap_or((text, 0));
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("expected a size such as 1073741824, 512MiB or 2GiB".into());
    }
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << bits))
        .filter(|bytes| (MIN..=MAX).contains(bytes))
        .ok_or_else(|| match MAX {
            u64::MAX => format!("expected at least {MIN} bytes, and less than 16777216TiB"),
            _ => format!("expected {MIN} to {MAX} bytes"),
        })
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_have_a_unit_or_none() {
        let parse = parse_size::<0, { u64::MAX }>;
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("1KiB", 1 << 10),
            ("512 MiB", 512 << 20),
            ("2GiB", 2 << 30),
            ("16777215TiB", 16_777_215 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in [
            "", "KiB", "1GB", "1 k", "1.5GiB", "-1", "+1", "1GiBKiB", " 1", "٣",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("512MiB"), "{text}: {error}");
        }
        for text in ["16777216TiB", "18446744073709551616"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("less than"), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_have_bounds() {
        let parse = parse_size::<1024, 2048>;
        assert_eq!(parse("2KiB"), Ok(2048));
        for text in ["1023", "2049", "3KiB"] {
            assert_eq!(parse(text).unwrap_err(), "expected 1024 to 2048 bytes");
        }
    }
}
