//! The acknowledgement mark: the number of the last commit that was reported as durable.
//!
//! A log alone cannot distinguish a commit that was never finished from an acknowledged one that was cut off later. The mark can:
//! it is written after each commit, without waiting for the disk. It is therefore exact however the process ends; after a power
//! failure it may be some seconds old.
//!
//! The mark has two slots of 512 bytes (one disk sector each), written alternately; the newest intact one counts. A power failure
//! damages one of them at most.
use super::file_damage::damage_error;
use crate::StorageError;
use crate::disk::{Disk, DiskFile, OpenMode};
use std::io::{self, Read, SeekFrom};
use std::path::{Path, PathBuf};

/// The file name.
pub(super) const NAME: &str = "acknowledged";
const MAGIC: &[u8; 8] = b"sst-mark";
const SLOT_BYTES: usize = 512;

/// Content of the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AcknowledgedCommit {
    /// Number of the last acknowledged commit.
    pub(super) sequence: u64,
    /// Whether the store was closed after that commit, so that no commit may follow.
    pub(super) is_closed: bool,
}

/// The open mark file.
#[derive(Debug)]
pub(super) struct AcknowledgementMark {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    salt: u64,
    generation: u64,
}

impl AcknowledgementMark {
    /// Writes the mark of an empty store, durable except for its name.
    pub(super) fn create(disk: &dyn Disk, directory: &Path, salt: u64) -> Result<(), StorageError> {
        let path = directory.join(NAME);
        let opened = disk.open(&path, OpenMode::Truncate);
        let file = opened.map_err(StorageError::io(|| {
            format!("cannot create {}", path.display())
        }))?;
        let mut mark = Self {
            path,
            file,
            salt,
            generation: 0,
        };
        for _ in 0..2 {
            mark.write(AcknowledgedCommit {
                sequence: 0,
                is_closed: false,
            })?;
        }
        mark.sync()
    }

    /// Opens and reads the mark.
    pub(super) fn open(
        disk: &dyn Disk,
        directory: &Path,
        salt: u64,
    ) -> Result<(Self, AcknowledgedCommit), StorageError> {
        let path = directory.join(NAME);
        let (file, turn, acknowledged) = read(disk, &path, OpenMode::ReadWrite, salt)?;
        let mark = Self {
            path,
            file,
            salt,
            generation: turn + 1,
        };
        Ok((mark, acknowledged))
    }

    /// Reads the mark without opening it for writing.
    pub(super) fn read(
        disk: &dyn Disk,
        directory: &Path,
        salt: u64,
    ) -> Result<AcknowledgedCommit, StorageError> {
        read(disk, &directory.join(NAME), OpenMode::Read, salt)
            .map(|(_, _, acknowledged)| acknowledged)
    }

    /// Returns the salt of the store that an intact slot of the mark names.
    pub(super) fn read_salt(disk: &dyn Disk, directory: &Path) -> Option<u64> {
        let bytes = disk.read(&directory.join(NAME)).ok()?;
        bytes.chunks(SLOT_BYTES).take(2).find_map(|slot| {
            let salt = u64::from_le_bytes(slot.get(12..20)?.try_into().ok()?);
            decode(slot, salt).map(|_| salt)
        })
    }

    /// Writes the mark. It survives the end of the process, but not yet a power failure.
    pub(super) fn write(&mut self, acknowledged: AcknowledgedCommit) -> Result<(), StorageError> {
        let slot = encode(self.generation, acknowledged, self.salt);
        let at = (self.generation % 2) * SLOT_BYTES as u64;
        self.generation += 1;
        let pieces = self
            .file
            .seek(SeekFrom::Start(at))
            .and_then(|_| write_all_counting(&mut *self.file, &slot))
            .map_err(StorageError::io(|| {
                format!("cannot write {}", self.path.display())
            }))?;
        if pieces > 1 {
            // A part of the write may be on the disk without the rest. The other slot must not be written before that is synced.
            self.sync()?;
        }
        Ok(())
    }

    /// Waits until the written bytes are on the disk.
    pub(super) fn sync(&mut self) -> Result<(), StorageError> {
        self.file.sync_all().map_err(StorageError::io(|| {
            format!("cannot sync {}", self.path.display())
        }))
    }
}

/// Writes all bytes, and returns how many writes that took.
fn write_all_counting(file: &mut dyn DiskFile, mut rest: &[u8]) -> io::Result<usize> {
    let mut pieces = 0;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                rest = &rest[count..];
                pieces += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pieces)
}

fn read(
    disk: &dyn Disk,
    path: &Path,
    access: OpenMode,
    salt: u64,
) -> Result<(Box<dyn DiskFile>, u64, AcknowledgedCommit), StorageError> {
    let mut file = match disk.open(path, access) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(damage_error(path, "the file is missing"));
        }
        opened => opened.map_err(StorageError::io(|| {
            format!("cannot open {}", path.display())
        }))?,
    };
    let mut bytes = Vec::with_capacity(2 * SLOT_BYTES);
    (&mut file)
        .take(2 * SLOT_BYTES as u64)
        .read_to_end(&mut bytes)
        .map_err(StorageError::io(|| {
            format!("cannot read {}", path.display())
        }))?;
    let newest = bytes
        .chunks(SLOT_BYTES)
        .filter_map(|slot| decode(slot, salt))
        .max_by_key(|(turn, _)| *turn);
    match newest {
        Some((turn, acknowledged)) => Ok((file, turn, acknowledged)),
        None => Err(damage_error(path, "it holds no acknowledgement mark")),
    }
}

fn encode(turn: u64, acknowledged: AcknowledgedCommit, salt: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(MAGIC);
    slot[12..20].copy_from_slice(&salt.to_le_bytes());
    slot[20..28].copy_from_slice(&turn.to_le_bytes());
    slot[28..36].copy_from_slice(&acknowledged.sequence.to_le_bytes());
    slot[36] = u8::from(acknowledged.is_closed);
    let crc = crc32fast::hash(&slot[12..]);
    slot[8..12].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn decode(slot: &[u8], salt: u64) -> Option<(u64, AcknowledgedCommit)> {
    let integer = |at: usize| Some(u64::from_le_bytes(slot.get(at..at + 8)?.try_into().ok()?));
    let turn = integer(20)?;
    let acknowledged = AcknowledgedCommit {
        sequence: integer(28)?,
        is_closed: slot.get(36)? == &1,
    };
    (encode(turn, acknowledged, salt) == slot).then_some((turn, acknowledged))
}
