//! Bytes as one line of readable text, and back.
//!
//! Printable UTF-8 stays as it is. A backslash becomes `\\`. Characters that could break the line or control a terminal become
//! `\n`, `\r`, `\t` or, byte by byte, `\xNN`. [`unescape`] is the exact inverse.
use std::{borrow::Cow, fmt::Write as _};

/// Returns the escaped form of `bytes`: always one line without control characters.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                _ if steers_terminal(character) => {
                    push_hex(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => text.push(character),
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

/// Returns the form of bytes for a terminal: the text with its lines, or the escaped form if it contains characters that control
/// the terminal. Backslashes stay as they are, because this form is never read back.
pub(crate) fn displayed(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_harmless = |character| matches!(character, '\n' | '\t') || !steers_terminal(character);
    if std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_harmless)) {
        return bytes.into();
    }
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_harmless(character) {
                shown.push(character);
            } else {
                push_hex(&mut shown, character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        push_hex(&mut shown, chunk.invalid());
    }
    shown.into_bytes().into()
}

/// Returns the bytes that an escaped text represents; `None` if it ends within an escape or has an unknown one.
pub(crate) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&escape, after) = rest.split_first()?;
        rest = after;
        bytes.push(match escape {
            b'\\' => b'\\',
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let (&[high, low], after) = rest.split_first_chunk()?;
                rest = after;
                hex_digit(high)? << 4 | hex_digit(low)?
            }
            _ => return None,
        });
    }
    Some(bytes)
}

/// Control characters (C0, DEL, C1), and the invisible ones that reorder or hide the text around them.
pub(crate) fn steers_terminal(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02x}");
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn printable_text_is_unchanged() {
        assert_eq!(escape("Füllstand 3 €".as_bytes()), "Füllstand 3 €");
    }

    #[test]
    fn byte_strings_round_trip() {
        let every_byte: Vec<u8> = (0..=u8::MAX).collect();
        let texts = ["\\x41", "a\u{202e}b", "\u{1b}[2J", "line\r\nline\t", "\\"];
        for bytes in texts
            .iter()
            .map(|text| text.as_bytes())
            .chain([every_byte.as_slice()])
        {
            let escaped = escape(bytes);
            assert!(!escaped.chars().any(char::is_control), "{escaped:?}");
            assert_eq!(unescape(escaped.as_bytes()).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn escapes_are_the_documented_ones() {
        assert_eq!(escape(b"\0\x1b\n\r\t\\\xff"), r"\x00\x1b\n\r\t\\\xff");
        assert_eq!(escape("\u{202e}".as_bytes()), r"\xe2\x80\xae");
    }

    #[test]
    fn unfinished_and_unknown_escapes_are_refused() {
        for text in [r"\", r"\x", r"\x4", r"\xg0", r"\q"] {
            assert_eq!(unescape(text.as_bytes()), None, "{text}");
        }
    }
}
