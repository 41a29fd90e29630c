//! Log and base files: a header, then frames with consecutive sequence numbers.
//!
//! Integers are little-endian. Every byte is covered by a CRC-32.
//!
//! | file header, 40 bytes | |
//! |---|---|
//! | magic `sst-log\n` or `sst-base` | 8 |
//! | format version | 4 |
//! | CRC of the three fields below | 4 |
//! | salt of the directory | 8 |
//! | file number | 8 |
//! | sequence number of the first frame | 8 |
//!
//! The salt is random per directory, so that a file of another directory is detected. `frame.rs` has the frames.
use super::file_damage::{damage_error, file_damage};
use super::manifest::{FORMAT, newer_format};
use crate::StorageError;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::frame::{FRAME_HEADER, FrameHeader, is_frame_header, u32_at, u64_at};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Length of a file header.
pub(super) const FILE_HEADER: usize = 40;
const READ_AHEAD: usize = 256 << 10;

/// Content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Commits, a frame each.
    Log,
    /// Live records, each once.
    Base,
}

/// Header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) kind: FileKind,
    pub(super) salt: u64,
    pub(super) id: u64,
    pub(super) first: u64,
}

impl FileHeader {
    pub(super) fn log(salt: u64, id: u64, first: u64) -> Self {
        Self {
            kind: FileKind::Log,
            salt,
            id,
            first,
        }
    }

    /// Returns the header of a base, whose frames are counted from 1.
    pub(super) fn base(salt: u64, id: u64) -> Self {
        Self {
            kind: FileKind::Base,
            salt,
            id,
            first: 1,
        }
    }

    fn magic(self) -> &'static [u8; 8] {
        match self.kind {
            FileKind::Log => b"sst-log\n",
            FileKind::Base => b"sst-base",
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

    /// Reads an intact header of this format.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != FILE_HEADER {
            return None;
        }
        let kind = match &bytes[..8] {
            b"sst-log\n" => FileKind::Log,
            b"sst-base" => FileKind::Base,
            _ => return None,
        };
        let header = Self {
            kind,
            salt: u64_at(bytes, 16),
            id: u64_at(bytes, 24),
            first: u64_at(bytes, 32),
        };
        (header.encode() == bytes).then_some(header)
    }

    /// Returns the format of an intact header that a later version of this program wrote.
    pub(super) fn newer_format(bytes: &[u8]) -> Option<u32> {
        let is_header = bytes.len() == FILE_HEADER
            && (bytes.starts_with(b"sst-log\n") || bytes.starts_with(b"sst-base"))
            && crc32fast::hash(&bytes[16..]) == u32_at(bytes, 12);
        is_header
            .then(|| u32_at(bytes, 8))
            .filter(|format| *format > FORMAT)
    }
}

/// Creates a file with a header and no frame, durable except for its name.
pub(super) fn create(
    disk: &dyn Disk,
    path: &Path,
    header: FileHeader,
) -> Result<Box<dyn DiskFile>, StorageError> {
    let fail = StorageError::io(|| format!("cannot create {}", path.display()));
    let make = || {
        let mut file = disk.open(path, OpenMode::Create)?;
        file.write_all(&header.encode())?;
        file.sync_all()?;
        Ok(file)
    };
    make().map_err(fail)
}

/// Result of reading at the current position.
#[derive(Debug)]
pub(super) enum FrameRead<'a> {
    /// An intact frame.
    Frame(&'a [u8]),
    /// The end, right after a frame.
    End,
    /// Bytes that are no intact frame.
    Damaged,
}

/// A reader of the frames of a file, in order.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    input: BufReader<Box<dyn DiskFile>>,
    salt: u64,
    /// Sequence number of the next frame.
    pub(super) next: u64,
    /// Position of the next frame.
    pub(super) offset: u64,
    end: u64,
    payload: Vec<u8>,
}

impl Reader {
    /// Opens the file and checks its header. `end` is the position where its frames end, by default its length.
    pub(super) fn open(
        disk: &dyn Disk,
        path: &Path,
        header: FileHeader,
        end: Option<u64>,
    ) -> Result<Self, StorageError> {
        let file = match disk.open(path, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(damage_error(path, "the file is missing"));
            }
            opened => opened.map_err(StorageError::io(|| {
                format!("cannot open {}", path.display())
            }))?,
        };
        let status = file.status().map_err(StorageError::io(|| {
            format!("cannot read {}", path.display())
        }))?;
        if !status.is_file {
            return Err(damage_error(path, "this is not a file"));
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
            return Err(damage_error(
                path,
                format_args!("the file was cut off: it is {length} bytes long"),
            ));
        }
        let mut found = [0; FILE_HEADER];
        reader.fill(&mut found)?;
        let format = u32_at(&found, 8);
        if found.starts_with(header.magic()) && format > FORMAT {
            return Err(newer_format(path, format));
        }
        if found != header.encode() {
            return Err(damage_error(
                path,
                "its header is not the one that belongs there",
            ));
        }
        Ok(reader)
    }

    /// Returns the next frame.
    pub(super) fn next_frame(&mut self) -> Result<FrameRead<'_>, StorageError> {
        let left = self.end.saturating_sub(self.offset);
        if left == 0 {
            return Ok(FrameRead::End);
        }
        if left < FRAME_HEADER as u64 {
            return Ok(FrameRead::Damaged);
        }
        let mut header = [0; FRAME_HEADER];
        self.fill(&mut header)?;
        let Some(FrameHeader {
            sequence,
            length,
            crc,
        }) = FrameHeader::decode(&header, self.salt)
        else {
            return Ok(FrameRead::Damaged);
        };
        if sequence != self.next || length > left - FRAME_HEADER as u64 {
            return Ok(FrameRead::Damaged);
        }
        let Ok(size) = usize::try_from(length) else {
            return Ok(FrameRead::Damaged);
        };
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(size, 0);
        self.fill(&mut payload)?;
        self.payload = payload;
        if crc32fast::hash(&self.payload) != crc {
            return Ok(FrameRead::Damaged);
        }
        self.offset += FRAME_HEADER as u64 + length;
        self.next += 1;
        Ok(FrameRead::Frame(&self.payload))
    }

    /// Returns whether only zeros follow the position where the reader stopped.
    pub(super) fn is_followed_by_zeros(&self, disk: &dyn Disk) -> Result<bool, StorageError> {
        let read = || {
            let mut file = disk.open(&self.path, OpenMode::Read)?;
            file.seek(SeekFrom::Start(self.offset))?;
            let mut rest = BufReader::with_capacity(READ_AHEAD, file);
            loop {
                let bytes = rest.fill_buf()?;
                if bytes.is_empty() || bytes.iter().any(|byte| *byte != 0) {
                    return Ok(bytes.is_empty());
                }
                let count = bytes.len();
                rest.consume(count);
            }
        };
        read().map_err(StorageError::io(|| {
            format!("cannot read {}", self.path.display())
        }))
    }

    /// Returns whether an intact frame header follows anywhere behind the position where the reader stopped.
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

    /// Returns the error for a frame that should be intact.
    pub(super) fn damaged_error(&self) -> StorageError {
        let what = format_args!("frame {} at byte {} is not intact", self.next, self.offset);
        file_damage(&self.path, what).at(self.offset).into()
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), StorageError> {
        self.input.read_exact(bytes).map_err(StorageError::io(|| {
            format!("cannot read {}", self.path.display())
        }))
    }
}
