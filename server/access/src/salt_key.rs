//! The key of the salts that SCRAM shows for unknown users, as a line in the file of users.
//!
//! The line is a comment for programs that do not know it. It is as readable as the hashes of the passwords.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{HMAC_SHA256, Key};
use zeroize::Zeroizing;

const PREFIX: &str = "#scram-salts:";
const KEY_BYTES: usize = 32;

/// Returns a line with a new key; `None` if the system has no random bytes.
pub fn generate_line() -> Option<String> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(&mut *key).ok()?;
    Some(format!("{PREFIX}{}", STANDARD.encode(*key)))
}

/// Returns whether a line of the file is meant to have the key.
pub fn is_line(line: &str) -> bool {
    line.starts_with(PREFIX)
}

/// Reads the key from its line.
pub(super) fn parse_line(line: &str) -> Result<Key, &'static str> {
    let text = line.strip_prefix(PREFIX).unwrap_or(line);
    let key = STANDARD.decode(text.trim_end()).map(Zeroizing::new);
    let key = key.ok().filter(|key| key.len() >= KEY_BYTES);
    let key = key.ok_or("expected #scram-salts:KEY, where KEY has 32 bytes or more in base64")?;
    Ok(Key::new(HMAC_SHA256, &key))
}
