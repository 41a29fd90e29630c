//! A token that authorizes requests over HTTP.
use super::AdminConfigError;
use statestored_common::read_tracker;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Minimum length; shorter tokens can be guessed.
const MIN_CHARS: usize = 16;
/// Maximum length of the file.
const MAX_FILE_BYTES: u64 = 4096;
/// Permissions of other users to read or write a file.
const OTHERS_READ_OR_WRITE: u32 = 0o006;

/// A secret that is sent as `Authorization: Bearer TOKEN`.
#[derive(Clone)]
pub struct Token(Arc<Zeroizing<String>>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Creates a token of at least 16 visible ASCII characters, without spaces.
    ///
    /// # Errors
    /// The text has fewer or other characters. The error does not contain the text.
    pub fn new(text: &str) -> Result<Self, AdminConfigError> {
        let problem = if text.len() < MIN_CHARS {
            "it has fewer than 16 characters"
        } else if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            "it has other characters than the visible ones of ASCII"
        } else {
            return Ok(Self(Arc::new(Zeroizing::new(text.into()))));
        };
        Err(AdminConfigError::Options(format!(
            "the token cannot be used: {problem}"
        )))
    }

    /// Reads a token from a file, without surrounding white space.
    ///
    /// # Errors
    /// The file cannot be read, or its text is no token. The error does not contain the text.
    pub fn read(path: &Path) -> Result<Self, AdminConfigError> {
        read_tracker::record_path(path);
        let read = || {
            let file = File::open(path)?;
            if file.metadata()?.permissions().mode() & OTHERS_READ_OR_WRITE != 0 {
                tracing::warn!(
                    "every user of this machine may read or change the token in {path}: chmod o-rw {path}",
                    path = path.display()
                );
            }
            // The buffer has room for the whole file: a growing buffer would leave copies behind.
            let mut text = Zeroizing::new(String::with_capacity(8 * 1024));
            file.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(|source| AdminConfigError::Read {
            path: path.into(),
            source,
        })?;
        Self::new(text.trim())
            .map_err(|error| AdminConfigError::Options(format!("{}: {error}", path.display())))
    }

    /// Returns whether another token is equal.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.matches(other.0.as_bytes())
    }

    /// Returns whether `given` is the token, in a time that depends only on the lengths.
    pub(crate) fn matches(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_complete_token_matches_and_it_is_never_printed() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        for other in [
            "0123456789abcdeF",
            "0123456789abcde",
            "0123456789abcdef0",
            "",
        ] {
            assert!(!token.matches(other.as_bytes()), "{other}");
        }
        assert!(!format!("{token:?}").contains("0123"));
        for bad in ["short", "0123456789abcdef x", "0123456789abcdef\n"] {
            let error = Token::new(bad).unwrap_err().to_string();
            assert!(!error.contains(bad), "{error}");
        }
    }

    #[test]
    fn a_file_holds_one_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(Token::read(&path).unwrap().matches(b"0123456789abcdef"));
        std::fs::write(&path, "secretsecret").unwrap();
        let error = Token::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("token") && !error.contains("secretsecret"),
            "{error}"
        );
        assert!(Token::read(&folder.path().join("none")).is_err());
    }
}
