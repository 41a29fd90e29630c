//! Unsigned decimal numbers, the only ones that the protocol writes.
use std::fmt;

/// Most digits that a `u64` has.
pub(super) const MAX_DIGITS: usize = 20;

/// Reads digits and nothing else: no sign, no space, at least one digit, at most `u64::MAX`.
///
/// Leading zeros are accepted, because the padded text form of a timestamp needs them.
pub(super) fn parse(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    // So few digits cannot overflow; the usual number needs no check.
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

/// Returns the value of eight digits, or `None` if a byte is no digit.
pub(super) fn eight_digits(digits: [u8; 8]) -> Option<u64> {
    const ZEROS: u64 = u64::from_ne_bytes(*b"00000000");
    const HIGH_HALVES: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    let text = u64::from_le_bytes(digits);
    // Neither a character before '0' or far behind '9', nor one just behind it.
    let just_behind = text.wrapping_add(0x0606_0606_0606_0606);
    if (text ^ ZEROS | just_behind ^ ZEROS) & HIGH_HALVES != 0 {
        return None;
    }
    let ones = text ^ ZEROS;
    let pairs = (ones.wrapping_mul(10) + (ones >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    Some((fours.wrapping_mul(10_000) + (fours >> 32)) & 0xFFFF_FFFF)
}

/// Returns whether `digits` digits are a number that fits 64 bits, whatever the digits are.
pub(super) fn fits_u64(digits: usize) -> bool {
    (1..MAX_DIGITS).contains(&digits)
}

/// Returns the value of a digit, or `None` if the byte is no digit.
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

/// Returns the number of digits of `value` without padding.
pub(super) fn len(value: u64) -> usize {
    match value {
        // Lengths of keys and values, mostly.
        0..=9 => 1,
        10..=99 => 2,
        100..=999 => 3,
        1000..=9999 => 4,
        _ => value.ilog10() as usize + 1,
    }
}

/// Returns the last eight digits of `value`: the inverse of [`eight_digits`].
fn last_eight_digits(value: u64) -> [u8; 8] {
    const ZEROS: u64 = u64::from_ne_bytes(*b"00000000");
    let value = value % 100_000_000;
    let fours = (value / 10_000) | (value % 10_000) << 32;
    // A hundredth and a tenth, rounded down: right for numbers of up to four digits, and two.
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let pairs = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000F_000F_000F_000F;
    let digits = tens | (pairs - 10 * tens) << 8;
    (digits + ZEROS).to_le_bytes()
}

/// Writes the last digits of `value` to all of `out`, with leading zeros.
#[inline]
pub(super) fn fill<const WIDTH: usize>(out: &mut [u8; WIDTH], mut value: u64) {
    let (rest, eights) = out.as_rchunks_mut();
    for eight in eights.iter_mut().rev() {
        *eight = last_eight_digits(value);
        value /= 100_000_000;
    }
    let digits = last_eight_digits(value);
    rest.copy_from_slice(&digits[digits.len() - rest.len()..]);
}

/// A number as text on the stack.
pub(super) struct DecimalText {
    buffer: [u8; MAX_DIGITS],
    start: usize,
}

impl DecimalText {
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

    /// Returns the digits.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}

impl fmt::Display for DecimalText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(self.as_bytes()).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{DecimalText, eight_digits, fill, len, parse};

    #[test]
    fn parse_accepts_only_digits_that_fit_u64() {
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
    fn eight_digits_rejects_other_bytes() {
        assert_eq!(eight_digits(*b"01234567"), Some(1_234_567));
        assert_eq!(eight_digits(*b"99999999"), Some(99_999_999));
        for at in 0..8 {
            for byte in 0..=u8::MAX {
                let mut text = *b"98765432";
                text[at] = byte;
                assert_eq!(eight_digits(text), parse(&text), "{text:?}");
            }
        }
    }

    #[test]
    fn fill_pads_numbers_to_the_width() {
        fn filled<const WIDTH: usize>(value: u64) {
            let mut text = [b'x'; WIDTH];
            fill(&mut text, value);
            assert_eq!(text, DecimalText::padded(value, WIDTH).as_bytes());
        }
        filled::<1>(0);
        filled::<2>(7);
        filled::<7>(1_234_567);
        filled::<15>(42);
        filled::<15>(999_999_999_999_999);
        filled::<20>(u64::MAX);
        for value in 0..100_000 {
            filled::<5>(value);
            filled::<15>(value * 10_000_000_019 % 1_000_000_000_000_000);
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
            assert_eq!(DecimalText::new(value).to_string(), value.to_string());
            assert_eq!(len(value), value.to_string().len());
            assert_eq!(
                DecimalText::padded(value, 15).to_string(),
                format!("{value:015}")
            );
        }
    }
}
