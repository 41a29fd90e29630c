//! Sizes on the command line.

const UNITS: [(&str, u32); 3] = [("KiB", 10), ("MiB", 20), ("GiB", 30)];

/// Reads `4096` (bytes), `4KiB`, `1MiB`: at most `MAX` bytes.
pub(crate) fn parse<const MAX: u32>(text: &str) -> Result<u32, String> {
    let with_unit = UNITS
        .iter()
        .find_map(|(unit, bits)| Some((text.strip_suffix(unit)?.trim_end(), *bits)));
    let (digits, bits) = with_unit.unwrap_or((text, 0));
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("not a size; write 4096 (bytes), 4KiB or 1MiB".to_owned());
    }
    digits
        .parse::<u32>()
        .ok()
        .and_then(|number| number.checked_mul(1 << bits))
        .filter(|bytes| *bytes <= MAX)
        .ok_or_else(|| format!("too large; at most {MAX} bytes are possible"))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_are_bytes_and_units_are_accepted() {
        let parse = parse::<{ 1 << 20 }>;
        for (text, bytes) in [("0", 0), ("100", 100), ("4KiB", 4096), ("1 MiB", 1 << 20)] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "KiB", "4kB", "1.5MiB", "-1", "+1"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("4KiB or 1MiB"), "{text}: {error}");
        }
        for text in ["1048577", "2MiB", "4GiB", "99999999999999"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("at most 1048576 bytes"), "{text}: {error}");
        }
    }
}
