//! Files of the settings: certificates, keys, passwords, tokens.
use super::error::TransportError;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use zeroize::Zeroizing;

/// Reads a file that is not empty and has at most `max_bytes`.
///
/// Blocks. A pipe or a device is rejected, because reading it may never end. The buffer is overwritten when it is dropped: it
/// may contain a secret.
pub(crate) fn read(
    description: &str,
    path: &Path,
    max_bytes: usize,
) -> Result<Zeroizing<Vec<u8>>, TransportError> {
    let refused = |error: io::Error| {
        TransportError::file(description, path, problem(&error)).with_source(error)
    };
    let metadata = fs::metadata(path).map_err(refused)?;
    if !metadata.is_file() {
        return Err(TransportError::file(description, path, "is not a file"));
    }
    let limit = u64::try_from(max_bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    // A growing buffer would leave copies behind.
    let expected = metadata.len().saturating_add(1).min(limit);
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(expected).unwrap_or(0)));
    let file = File::open(path).map_err(refused)?;
    file.take(limit).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.is_empty() {
        return Err(TransportError::file(description, path, "is empty"));
    }
    if bytes.len() > max_bytes {
        let problem = format!("is longer than {max_bytes} bytes");
        return Err(TransportError::file(description, path, problem));
    }
    Ok(bytes)
}

/// Reads a secret of one line, without the one line end that an editor or `echo` adds. All other bytes, including spaces and
/// inner line ends, are part of the secret.
pub(crate) fn read_secret(
    description: &str,
    path: &Path,
    max_bytes: usize,
) -> Result<Zeroizing<Vec<u8>>, TransportError> {
    const LINE_END_BYTES: usize = 2;
    let mut bytes = read(description, path, max_bytes + LINE_END_BYTES)?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    if bytes.is_empty() {
        return Err(TransportError::file(
            description,
            path,
            "holds an empty line only",
        ));
    }
    if bytes.len() > max_bytes {
        let problem = format!("is longer than {max_bytes} bytes");
        return Err(TransportError::file(description, path, problem));
    }
    Ok(bytes)
}

fn problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "may not be read by this process; see its permissions and those of its directories"
                .to_owned()
        }
        _ => format!("cannot be read: {error}"),
    }
}
