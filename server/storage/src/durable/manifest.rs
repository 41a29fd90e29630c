//! The manifest: the list of the files of a store. It also marks a data directory.
//!
//! A text file, replaced as a whole by rename:
//! ```text
//! statestore data directory
//! format 1
//! salt 9f3c…
//! base 7 length 73400344 through 5120
//! log 8 length 33554500 first 5121 last 6400
//! log 9 first 6401
//! checksum 1c291ca3
//! ```
//! The last log is the one being written; the manifest does not have its length.
use super::file_damage::damage_error;
use crate::{Damage, StorageError};
use std::fmt::Write as _;
use std::path::Path;

/// Version of the format of data directories.
pub(super) const FORMAT: u32 = 1;
/// The file name.
pub(super) const NAME: &str = "statestore.manifest";
const TITLE: &str = "statestore data directory";

/// A base: all live records up to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BaseFile {
    pub(super) id: u64,
    pub(super) length: u64,
    /// Number of the last commit in the base.
    pub(super) last: u64,
}

/// A sealed log, which is not written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SealedLog {
    pub(super) id: u64,
    pub(super) length: u64,
    /// Number of the first commit in the log.
    pub(super) first: u64,
    /// Number of the last commit in the log.
    pub(super) last: u64,
}

/// The files of a store, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) salt: u64,
    pub(super) base: Option<BaseFile>,
    pub(super) sealed: Vec<SealedLog>,
    /// Number of the log being written.
    pub(super) active: u64,
    /// Number of the first commit in the current log.
    pub(super) first: u64,
}

impl Manifest {
    /// Returns the manifest of a store without any commit.
    pub(super) fn new(salt: u64) -> Self {
        Self {
            salt,
            base: None,
            sealed: Vec::new(),
            active: 1,
            first: 1,
        }
    }

    /// Returns the file's content.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{TITLE}\nformat {FORMAT}\nsalt {:016x}\n", self.salt);
        // Writing to a String cannot fail.
        if let Some(BaseFile {
            id,
            length,
            last: through,
        }) = self.base
        {
            let _ = writeln!(text, "base {id} length {length} through {through}");
        }
        for SealedLog {
            id,
            length,
            first,
            last,
        } in &self.sealed
        {
            let _ = writeln!(text, "log {id} length {length} first {first} last {last}");
        }
        let _ = writeln!(text, "log {} first {}", self.active, self.first);
        let checksum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "checksum {checksum:08x}");
        text
    }

    /// Parses the content of a file.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, StorageError> {
        let not_ours = || {
            damage_error(
                path,
                "it is not the manifest of a statestore data directory",
            )
        };
        let text = std::str::from_utf8(bytes).map_err(|_| not_ours())?;
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(not_ours());
        }
        let format = lines
            .next()
            .and_then(|line| line.strip_prefix("format ")?.parse().ok());
        match format {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => return Err(newer_format(path, newer)),
            _ => return Err(not_ours()),
        }
        let manifest = Self::parse_files(lines).filter(|manifest| manifest.to_text() == text);
        manifest.ok_or_else(|| damage_error(path, "its content does not fit its checksum"))
    }

    fn parse_files<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let salt = u64::from_str_radix(lines.next()?.strip_prefix("salt ")?, 16).ok()?;
        let mut manifest = Self::new(salt);
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["base", id, "length", length, "through", through] => {
                    manifest.base = Some(BaseFile {
                        id: id.parse().ok()?,
                        length: length.parse().ok()?,
                        last: through.parse().ok()?,
                    });
                }
                ["log", id, "length", length, "first", first, "last", last] => {
                    manifest.sealed.push(SealedLog {
                        id: id.parse().ok()?,
                        length: length.parse().ok()?,
                        first: first.parse().ok()?,
                        last: last.parse().ok()?,
                    });
                }
                ["log", id, "first", first] => {
                    manifest.active = id.parse().ok()?;
                    manifest.first = first.parse().ok()?;
                }
                ["checksum", _] => return Some(manifest),
                _ => return None,
            }
        }
        None
    }
}

/// Returns whether the content fits its checksum, in any format.
pub(super) fn is_as_written(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let Some((content, checksum)) = text
        .rfind("checksum ")
        .and_then(|at| text.split_at_checked(at))
    else {
        return false;
    };
    checksum == format!("checksum {:08x}\n", crc32fast::hash(content.as_bytes()))
}

/// Returns the error for files of a later version of this program.
pub(super) fn newer_format(path: &Path, format: u32) -> StorageError {
    let what = format!("has format {format}, this program reads up to format {FORMAT}");
    Damage::new(path, what, "use a newer program").into()
}
