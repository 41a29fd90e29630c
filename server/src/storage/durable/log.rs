//! Log and base files: a header, then frames with consecutive sequence numbers.
//!
//! Integers are little-endian. Every byte is covered by a CRC-32.
//!
//! | file header, 40 bytes | | frame header, 28 bytes | |
//! |---|---|---|---|
//! | magic `sst-log\n` or `sst-base` | 8 | magic | 4 |
//! | format version | 4 | CRC of salt and the three fields below | 4 |
//! | CRC of the three fields below | 4 | sequence number | 8 |
//! | salt of the directory | 8 | payload length | 8 |
//! | file number | 8 | CRC of the payload | 4 |
//! | sequence number of the first frame | 8 | | |
//!
//! The salt is random per directory: a file of another directory is told apart, and bytes inside a
//! client's value cannot pass for a frame.
use super::manifest::FORMAT;
use crate::storage::StorageError;
use crate::storage::disk::{Access, Disk, DiskFile};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Length of a file header.
pub(super) const FILE_HEADER: usize = 40;
/// Length of a frame header.
pub(super) const FRAME_HEADER: usize = 28;
const FRAME_MAGIC: [u8; 4] = *b"\x93SSF";
const READ_AHEAD: usize = 256 << 10;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One frame per commit.
    Log,
    /// Each live record once.
    Base,
}

/// What a file says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) kind: Kind,
    pub(super) salt: u64,
    pub(super) id: u64,
    pub(super) first: u64,
}

impl FileHeader {
    pub(super) fn log(salt: u64, id: u64, first: u64) -> Self {
        Self {
            kind: Kind::Log,
            salt,
            id,
            first,
        }
    }

    /// Frames of a base are counted from 1.
    pub(super) fn base(salt: u64, id: u64) -> Self {
        Self {
            kind: Kind::Base,
            salt,
            id,
            first: 1,
        }
    }

    fn magic(self) -> &'static [u8; 8] {
        match self.kind {
            Kind::Log => b"sst-log\n",
            Kind::Base => b"sst-base",
        }
    }

    pub(super) fn encode(self) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        bytes[..8].copy_from_slice(self.magic());
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.salt.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.id.to_le_bytes());
        bytes[32..].copy_from_slice(&self.first.to_le_bytes());
        let crc = crc32fast::hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// Makes a file that has a header and no frame yet, durable except for its name.
pub(super) fn create(
    disk: &dyn Disk,
    path: &Path,
    header: FileHeader,
) -> Result<Box<dyn DiskFile>, StorageError> {
    let fail = StorageError::io(|| format!("cannot create {}", path.display()));
    let make = || {
        let mut file = disk.open(path, Access::Create)?;
        file.write_all(&header.encode())?;
        file.sync_all()?;
        Ok(file)
    };
    make().map_err(fail)
}

/// Fills in the header of the frame whose payload follows the first [`FRAME_HEADER`] bytes.
pub(super) fn seal_frame(frame: &mut [u8], salt: u64, sequence: u64) {
    let (header, payload) = frame.split_at_mut(FRAME_HEADER);
    header[..4].copy_from_slice(&FRAME_MAGIC);
    header[8..16].copy_from_slice(&sequence.to_le_bytes());
    header[16..24].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    header[24..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let crc = frame_header_crc(header, salt);
    header[4..8].copy_from_slice(&crc.to_le_bytes());
}

fn frame_header_crc(header: &[u8], salt: u64) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&salt.to_le_bytes());
    crc.update(&header[8..FRAME_HEADER]);
    crc.finalize()
}

/// Whether these bytes begin with an intact frame header of this directory.
fn is_frame_header(bytes: &[u8], salt: u64) -> bool {
    bytes.len() >= FRAME_HEADER
        && bytes.starts_with(&FRAME_MAGIC)
        && u32_at(bytes, 4) == frame_header_crc(bytes, salt)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

/// What the reader found at its position.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// An intact frame.
    Frame(&'a [u8]),
    /// The end, right after a frame.
    End,
    /// No intact frame here.
    Broken,
}

/// Reads the frames of one file in order.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    input: BufReader<Box<dyn DiskFile>>,
    salt: u64,
    /// Sequence number of the next frame.
    pub(super) next: u64,
    /// Where the next frame begins.
    pub(super) offset: u64,
    end: u64,
    payload: Vec<u8>,
}

impl Reader {
    /// Opens the file and checks its header; `end` is where its frames end, by default its length.
    pub(super) fn open(
        disk: &dyn Disk,
        path: &Path,
        header: FileHeader,
        end: Option<u64>,
    ) -> Result<Self, StorageError> {
        let file = match disk.open(path, Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(damaged(path, "the file is missing"));
            }
            opened => opened.map_err(StorageError::io(|| {
                format!("cannot open {}", path.display())
            }))?,
        };
        let status = file.status().map_err(StorageError::io(|| {
            format!("cannot read {}", path.display())
        }))?;
        if !status.is_file {
            return Err(damaged(path, "this is not a file"));
        }
        let length = status.length;
        let mut reader = Self {
            path: path.to_path_buf(),
            input: BufReader::with_capacity(READ_AHEAD, file),
            salt: header.salt,
            next: header.first,
            offset: FILE_HEADER as u64,
            end: end.unwrap_or(length),
            payload: Vec::new(),
        };
        if length < reader.end.max(FILE_HEADER as u64) {
            return Err(damaged(
                path,
                format_args!("the file was cut off: it is {length} bytes long"),
            ));
        }
        let mut found = [0; FILE_HEADER];
        reader.fill(&mut found)?;
        let format = u32_at(&found, 8);
        if found.starts_with(header.magic()) && format > FORMAT {
            return Err(super::manifest::newer_format(path, format));
        }
        if found != header.encode() {
            return Err(damaged(
                path,
                "its header is not the one that belongs there",
            ));
        }
        Ok(reader)
    }

    /// The next frame.
    pub(super) fn step(&mut self) -> Result<Step<'_>, StorageError> {
        let left = self.end.saturating_sub(self.offset);
        if left == 0 {
            return Ok(Step::End);
        }
        if left < FRAME_HEADER as u64 {
            return Ok(Step::Broken);
        }
        let mut header = [0; FRAME_HEADER];
        self.fill(&mut header)?;
        let length = u64_at(&header, 16);
        if !is_frame_header(&header, self.salt)
            || u64_at(&header, 8) != self.next
            || length > left - FRAME_HEADER as u64
        {
            return Ok(Step::Broken);
        }
        let Ok(size) = usize::try_from(length) else {
            return Ok(Step::Broken);
        };
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(size, 0);
        self.fill(&mut payload)?;
        self.payload = payload;
        if crc32fast::hash(&self.payload) != u32_at(&header, 24) {
            return Ok(Step::Broken);
        }
        self.offset += FRAME_HEADER as u64 + length;
        self.next += 1;
        Ok(Step::Frame(&self.payload))
    }

    /// Whether an intact frame header follows anywhere behind the place where the reader stopped.
    pub(super) fn is_followed_by_frame(&self, disk: &dyn Disk) -> Result<bool, StorageError> {
        let rest = disk.read(&self.path).map_err(StorageError::io(|| {
            format!("cannot read {}", self.path.display())
        }))?;
        let begin = usize::try_from(self.offset)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let rest = rest.get(begin..).unwrap_or_default();
        Ok((0..rest.len()).any(|at| is_frame_header(&rest[at..], self.salt)))
    }

    /// The error for a frame that ought to be intact.
    pub(super) fn broken(&self) -> StorageError {
        damaged(
            &self.path,
            format_args!("frame {} at byte {} is not intact", self.next, self.offset),
        )
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), StorageError> {
        self.input.read_exact(bytes).map_err(StorageError::io(|| {
            format!("cannot read {}", self.path.display())
        }))
    }
}

/// The error for a file that is not as it was written.
pub(super) fn damaged(path: &Path, what: impl std::fmt::Display) -> StorageError {
    StorageError::Damaged(format!(
        "{} is damaged: {what}; nothing was changed, restore the directory from a copy",
        path.display()
    ))
}
