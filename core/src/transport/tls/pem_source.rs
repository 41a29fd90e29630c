//! PEM texts of the settings, in files or in memory.
use crate::error::ErrorKind;
use crate::settings::PemSource;
use crate::transport::error::TransportError;
use crate::transport::file;
use std::fmt;
use zeroize::Zeroizing;

/// Reads a text that is not empty and has at most `max_bytes`. Blocks for a file. The buffer is overwritten when it is dropped:
/// it may contain a key. `description` names the file.
pub(super) fn read(
    description: &str,
    source: PemSource<'_>,
    max_bytes: usize,
) -> Result<Zeroizing<Vec<u8>>, TransportError> {
    match source {
        PemSource::File(path) => file::read(description, path, max_bytes),
        PemSource::Memory(_, pem) => match pem.bytes() {
            [] => Err(error(description, source, "is empty")),
            bytes if bytes.len() > max_bytes => {
                let problem = format!("is longer than {max_bytes} bytes");
                Err(error(description, source, problem))
            }
            bytes => Ok(Zeroizing::new(bytes.to_vec())),
        },
    }
}

/// Returns the error for an unusable text.
pub(super) fn error(
    description: &str,
    source: PemSource<'_>,
    problem: impl fmt::Display,
) -> TransportError {
    match source {
        PemSource::File(path) => TransportError::file(description, path, problem),
        PemSource::Memory(name, _) => {
            let reason = format!("the setting `{name}` {problem}");
            TransportError::new(ErrorKind::InvalidSettings, reason)
        }
    }
}

/// Returns a source of authorities for messages, such as "the CA file `path`".
pub(super) fn authorities(source: PemSource<'_>) -> String {
    match source {
        PemSource::File(path) => format!("the CA file `{}`", path.display()),
        PemSource::Memory(name, _) => format!("`{name}`"),
    }
}

/// Returns the path of the file or the name of the setting.
pub(super) fn name(source: PemSource<'_>) -> String {
    match source {
        PemSource::File(path) => path.display().to_string(),
        PemSource::Memory(name, _) => name.to_owned(),
    }
}
