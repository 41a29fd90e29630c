//! Unsigned decimal numbers, the only ones that the protocol writes.
use std::fmt;

/// Most digits that a `u64` has.
const MAX_DIGITS: usize = 20;

/// Reads digits and nothing else: no sign, no space, at least one digit, at most `u64::MAX`.
///
/// Leading zeros are accepted, because the padded text form of a timestamp needs them.
pub(super) fn parse(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    // This many digits cannot overflow; the usual number needs no check.
    let (safe, rest) = digits.split_at(digits.len().min(MAX_DIGITS - 1));
    let mut value = 0;
    for &byte in safe {
        value = value * 10 + digit(byte)?;
    }
    for &byte in rest {
        value = value.checked_mul(10)?.checked_add(digit(byte)?)?;
    }
    Some(value)
}

/// Whether so many digits are a number, whatever they are.
pub(super) fn fits(digits: usize) -> bool {
    (1..MAX_DIGITS).contains(&digits)
}

/// What a digit stands for.
pub(super) fn digit(byte: u8) -> Option<u64> {
    let digit = byte.wrapping_sub(b'0');
    (digit <= 9).then_some(u64::from(digit))
}

/// The numbers below a hundred.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// How many digits `value` has without padding.
pub(super) fn len(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// A number as text on the stack.
pub(super) struct Decimal {
    buffer: [u8; MAX_DIGITS],
    start: usize,
}

impl Decimal {
    /// Writes `value` without padding.
    pub(super) fn new(value: u64) -> Self {
        Self::padded(value, 1)
    }

    /// Writes `value` with leading zeros up to `width` digits (at most 20).
    pub(super) fn padded(mut value: u64, width: usize) -> Self {
        let mut buffer = [b'0'; MAX_DIGITS];
        let mut start = MAX_DIGITS;
        while value >= 10 {
            let pair = PAIRS[(value % 100) as usize];
            value /= 100;
            start -= 2;
            buffer[start..start + 2].copy_from_slice(&pair);
        }
        if value > 0 {
            start -= 1;
            buffer[start] = b'0' + (value % 10) as u8;
        }
        Self {
            buffer,
            start: start.min(MAX_DIGITS - width),
        }
    }

    /// The digits.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(self.as_bytes()).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{Decimal, len, parse};

    #[test]
    fn only_digits_that_fit_are_numbers() {
        assert_eq!(parse(b"0"), Some(0));
        assert_eq!(parse(b"007"), Some(7));
        assert_eq!(parse(b"18446744073709551615"), Some(u64::MAX));
        for bad in [
            "",
            "18446744073709551616",
            "+1",
            "-1",
            " 1",
            "1 ",
            "0x1",
            "1.0",
            "٣",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn text_and_length_agree_with_the_standard_library() {
        for value in [
            0,
            1,
            9,
            10,
            99,
            100,
            99_999,
            100_000,
            u64::MAX - 1,
            u64::MAX,
        ] {
            assert_eq!(Decimal::new(value).to_string(), value.to_string());
            assert_eq!(len(value), value.to_string().len());
            assert_eq!(
                Decimal::padded(value, 15).to_string(),
                format!("{value:015}")
            );
        }
    }
}
