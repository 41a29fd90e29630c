//! A reader of the intact frames of a file that may be damaged.
use crate::StorageError;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::durable::file_damage::damage_error;
use crate::durable::log::FILE_HEADER;
use crate::frame::{FRAME_HEADER, FrameHeader, is_frame_header};
use std::io::{self, ErrorKind, SeekFrom};
use std::ops::Range;
use std::path::Path;

/// Number of bytes read at a time.
const WINDOW_BYTES: usize = 1 << 20;
/// Number of bytes that are given up together where the disk cannot read.
const PAGE_BYTES: usize = 4096;

/// Receives the number of bytes read since the last call; an error stops the operation.
pub(super) type ReadCounter<'a> = dyn FnMut(u64) -> Result<(), StorageError> + 'a;

/// A reader of the frames of a file, which finds the next intact frame behind damage.
#[derive(Debug)]
pub(super) struct FrameScanner {
    file: Box<dyn DiskFile>,
    salt: u64,
    /// Length of the file.
    pub(super) length: u64,
    /// Position where the frames end.
    pub(super) end: u64,
    /// Position behind the last piece.
    pub(super) position: u64,
    /// Position that was reported last.
    reported: u64,
    /// The frame behind a gap, which is the next piece.
    found: Option<u64>,
    /// Position of the payload of the last frame.
    payload: Range<u64>,
    window: Vec<u8>,
    window_start: u64,
}

/// The next part of a file.
#[derive(Debug)]
pub(super) enum Piece {
    /// An intact frame with this sequence number.
    Frame(u64),
    /// Bytes without an intact frame.
    Gap(Gap),
}

/// Bytes without an intact frame.
#[derive(Debug, Clone)]
pub(super) struct Gap {
    pub(super) bytes: Range<u64>,
    /// Highest sequence number of the intact headers in the bytes, except for a header at their begin.
    pub(super) highest_header: Option<u64>,
}

/// Result of reading a frame.
enum Attempt {
    Intact(u64),
    /// The header is intact, the payload is not.
    DamagedPayload(u64),
    NoHeader,
}

impl FrameScanner {
    /// Opens a file. `end` is the position where its frames end, by default its length.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if there is no such file.
    pub(super) fn open(
        disk: &dyn Disk,
        path: &Path,
        salt: u64,
        end: Option<u64>,
    ) -> Result<Self, StorageError> {
        let file = match disk.open(path, OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
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
        let end = end.unwrap_or(u64::MAX).min(status.length);
        let begin = (FILE_HEADER as u64).min(end);
        Ok(Self {
            file,
            salt,
            length: status.length,
            end,
            position: begin,
            reported: begin,
            found: None,
            payload: begin..begin,
            window: Vec::new(),
            window_start: 0,
        })
    }

    /// Returns the header of the file, shorter if the file is.
    pub(super) fn file_header(&mut self) -> &[u8] {
        self.bytes(0, FILE_HEADER)
    }

    /// Returns the payload of the last frame.
    pub(super) fn payload(&mut self) -> &[u8] {
        let Range { start, end } = self.payload;
        self.bytes(start, usize::try_from(end - start).unwrap_or(usize::MAX))
    }

    /// Returns the next piece; `None` at the end.
    pub(super) fn next(
        &mut self,
        read: &mut ReadCounter<'_>,
    ) -> Result<Option<Piece>, StorageError> {
        self.report(read)?;
        if let Some(sequence) = self.found.take() {
            self.position = self.payload.end;
            return Ok(Some(Piece::Frame(sequence)));
        }
        let begin = self.position;
        let mut gap = Gap {
            bytes: begin..begin,
            highest_header: None,
        };
        while self.position < self.end {
            match self.try_frame() {
                Attempt::Intact(sequence) if self.position == begin => {
                    self.position = self.payload.end;
                    return Ok(Some(Piece::Frame(sequence)));
                }
                Attempt::Intact(sequence) => {
                    self.found = Some(sequence);
                    break;
                }
                Attempt::DamagedPayload(sequence) => {
                    if self.position > begin {
                        gap.highest_header = gap.highest_header.max(Some(sequence));
                    }
                    self.position = self.payload.end;
                }
                Attempt::NoHeader => self.find_header(read)?,
            }
        }
        gap.bytes.end = self.position;
        Ok((!gap.bytes.is_empty()).then_some(Piece::Gap(gap)))
    }

    /// Returns whether these bytes are zeros.
    pub(super) fn is_zero(&mut self, bytes: &Range<u64>) -> bool {
        let mut at = bytes.start;
        while at < bytes.end {
            let left = usize::try_from(bytes.end - at).unwrap_or(usize::MAX);
            let part = self.bytes(at, left.min(WINDOW_BYTES));
            if part.is_empty() || part.iter().any(|byte| *byte != 0) {
                return false;
            }
            at += part.len() as u64;
        }
        true
    }

    /// Reads the frame at the position.
    fn try_frame(&mut self) -> Attempt {
        let salt = self.salt;
        let Some(header) = FrameHeader::decode(self.bytes(self.position, FRAME_HEADER), salt)
        else {
            return Attempt::NoHeader;
        };
        let begin = self.position + FRAME_HEADER as u64;
        let is_cut_off = header.length > self.end - begin;
        self.payload = begin..begin + header.length.min(self.end - begin);
        if !is_cut_off && crc32fast::hash(self.payload()) == header.crc {
            Attempt::Intact(header.sequence)
        } else {
            Attempt::DamagedPayload(header.sequence)
        }
    }

    /// Moves to the next intact frame header behind the position, or to the end.
    fn find_header(&mut self, read: &mut ReadCounter<'_>) -> Result<(), StorageError> {
        let salt = self.salt;
        self.position += 1;
        while self.position < self.end {
            let window = self.bytes(self.position, WINDOW_BYTES);
            let Some(last) = window.len().checked_sub(FRAME_HEADER) else {
                break;
            };
            let found = (0..=last).find(|at| is_frame_header(&window[*at..], salt));
            self.position += found.unwrap_or(last + 1) as u64;
            if found.is_some() {
                return Ok(());
            }
            self.report(read)?;
        }
        self.position = self.end;
        Ok(())
    }

    fn report(&mut self, read: &mut ReadCounter<'_>) -> Result<(), StorageError> {
        let bytes = self.position.saturating_sub(self.reported);
        self.reported = self.position;
        read(bytes)
    }

    /// Returns `count` bytes from the position `at`, fewer at the end.
    fn bytes(&mut self, at: u64, count: usize) -> &[u8] {
        let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        let count = count.min(left);
        let window_end = self.window_start + self.window.len() as u64;
        if at < self.window_start || at + count as u64 > window_end {
            let length = count.max(WINDOW_BYTES).min(left);
            read_range(&mut *self.file, at, length, &mut self.window);
            self.window_start = at;
        }
        let begin = usize::try_from(at - self.window_start).unwrap_or(usize::MAX);
        &self.window[begin..begin + count]
    }
}

/// Reads these bytes. Pages that the disk cannot read become zeros.
fn read_range(file: &mut dyn DiskFile, at: u64, length: usize, into: &mut Vec<u8>) {
    into.clear();
    into.resize(length, 0);
    if read_at(file, at, into).is_ok() {
        return;
    }
    let mut at = at;
    for page in into.chunks_mut(PAGE_BYTES) {
        if read_at(file, at, page).is_err() {
            page.fill(0);
        }
        at += page.len() as u64;
    }
}

fn read_at(file: &mut dyn DiskFile, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(bytes)
}
