//! Files of users, and of one password.
use super::AccessFileError;
use statestored_access::{Users, UsersError};
use statestored_common::read_tracker;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use zeroize::Zeroizing;

/// Permission bits of a file that others may read or write.
const OTHERS_READ_OR_WRITE: u32 = 0o006;

/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads a file of [users](Users::parse). Logs a warning about passwords in plain text, and about salts of SCRAM that change at each
/// start.
///
/// # Errors
/// The file cannot be read, a line is invalid, or there are no users.
pub fn read_users(path: &Path) -> Result<Users, AccessFileError> {
    let users = Users::parse(&read_text(path)?).map_err(|error| content_error(path, error))?;
    let plain = users.plain_passwords();
    if plain > 0 {
        tracing::warn!(
            plain,
            "{path} has passwords in plain text: `statestored passwd {path} NAME` replaces one by a hash",
            path = path.display()
        );
    }
    if users.has_temporary_decoy_salts() {
        tracing::warn!(
            "the salt that SCRAM sends for unknown users changes at each start, which reveals the names of users: {path} has no \
             key for these salts, which `statestored passwd --scram {path} NAME` writes",
            path = path.display()
        );
    }
    Ok(users)
}

/// Reads the file of the password of one user.
///
/// # Errors
/// The file cannot be read, is empty, or has a hash instead of a password.
pub fn read_single_user(name: &str, path: &Path) -> Result<Users, AccessFileError> {
    let password = read_password(path)?;
    Users::single(name, &password).map_err(|error| content_error(path, error))
}

/// Reads a file that has one password, without the line end.
///
/// # Errors
/// The file cannot be read, or is empty.
pub fn read_password(path: &Path) -> Result<Zeroizing<String>, AccessFileError> {
    let mut text = read_text(path)?;
    if text.ends_with('\n') {
        text.pop();
    }
    if text.ends_with('\r') {
        text.pop();
    }
    if text.is_empty() {
        return Err(content_error(path, UsersError::Empty));
    }
    Ok(text)
}

fn content_error(path: &Path, source: UsersError) -> AccessFileError {
    AccessFileError::Users {
        path: path.into(),
        source,
    }
}

/// Reads a file of passwords. Logs a warning if others may read or change it.
fn read_text(path: &Path) -> Result<Zeroizing<String>, AccessFileError> {
    read_tracker::record_path(path);
    let read = || {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.permissions().mode() & OTHERS_READ_OR_WRITE != 0 {
            tracing::warn!(
                "every user of this machine may read or change the passwords in {path}: chmod o-rw {path}",
                path = path.display()
            );
        }
        // Room for the whole file: a buffer that grows leaves copies behind.
        let capacity = usize::try_from(metadata.len()).unwrap_or(0) + 64;
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        file.read_to_end(&mut bytes)?;
        // Some editors begin UTF-8 text with a byte order mark.
        if bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        String::from_utf8(std::mem::take(&mut *bytes)).map_err(|error| {
            drop(Zeroizing::new(error.into_bytes()));
            io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text")
        })
    };
    read()
        .map(Zeroizing::new)
        .map_err(|source| AccessFileError::Read {
            path: path.into(),
            source,
        })
}
