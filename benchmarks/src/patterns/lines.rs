//! Lines of the text protocols of Redis and NATS.

/// Returns the line at the start of the input, and the position behind it; `None` if it is not complete.
pub fn first_line(input: &[u8]) -> Option<(&[u8], usize)> {
    let len = input.iter().position(|byte| *byte == b'\r')?;
    let end = len + 2;
    (end <= input.len()).then(|| (&input[..len], end))
}

/// Returns the number that a text names.
pub fn number(text: &[u8]) -> usize {
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("no number: {:?}", String::from_utf8_lossy(text)))
}
