//! One file of a damaged store: its intact frames, and its losses.
use super::Loss;
use super::scanner::{FrameScanner, Gap, Piece, ReadCounter};
use crate::StorageError;
use crate::disk::Disk;
use crate::durable::log::{FILE_HEADER, FileHeader, FileKind};
use crate::record::{ChangeDecoder, LogChange};
use std::ops::Range;
use std::path::PathBuf;

/// A file that belongs to the store.
#[derive(Debug)]
pub(super) struct PlannedFile {
    pub(super) path: PathBuf,
    /// The header that the file should have.
    pub(super) header: FileHeader,
    /// Number of the last commit that the log must have, if it is known.
    pub(super) last: Option<u64>,
    /// The length that the file should have, if it is known.
    pub(super) length: Option<u64>,
    /// Whether the log was being written, so that it may end with an unfinished commit.
    pub(super) is_current: bool,
}

/// A visitor of intact frames: their sequence numbers and payloads.
pub(super) type FrameVisitor<'a> = dyn FnMut(u64, &[u8]) -> Result<(), StorageError> + 'a;

/// Result of a scan.
#[derive(Debug, Default)]
pub(super) struct FileScan {
    pub(super) losses: Vec<Loss>,
    /// Number of commits that are lost.
    pub(super) lost_commits: u64,
    /// Number of the last commit that is lost.
    pub(super) last_lost: Option<u64>,
    /// Number of the frames that were visited.
    pub(super) frames: u64,
    /// Whether the log ends with an unfinished commit.
    pub(super) is_torn: bool,
}

impl FileScan {
    /// Reads a file, and visits its intact frames in order.
    pub(super) fn run(
        disk: &dyn Disk,
        file: &PlannedFile,
        read: &mut ReadCounter<'_>,
        visit: &mut FrameVisitor<'_>,
    ) -> Result<Self, StorageError> {
        let mut scan = Self::default();
        let first = file.header.first;
        match FrameScanner::open(disk, &file.path, file.header.salt, file.length) {
            Ok(mut scanner) => {
                if scan.check_header(file, &mut scanner) {
                    scan.read(file, &mut scanner, read, visit)?;
                } else {
                    scan.lose(file, None, "is another file", first, file.last);
                }
            }
            Err(StorageError::Damaged(damage)) => {
                scan.lose(file, None, damage.problem(), first, file.last);
            }
            Err(error) => return Err(error),
        }
        Ok(scan)
    }

    /// Checks the header and the length. Returns `false` if the file is not the planned one.
    fn check_header(&mut self, file: &PlannedFile, scanner: &mut FrameScanner) -> bool {
        let bytes = scanner.file_header();
        let found = FileHeader::decode(bytes);
        let header_bytes = bytes.len() as u64;
        if found.is_some_and(|found| found != file.header) {
            return false;
        }
        if found.is_none() {
            let whole = header_bytes == FILE_HEADER as u64;
            self.losses.push(Loss {
                path: file.path.clone(),
                bytes: Some(0..header_bytes),
                problem: if whole {
                    "has a damaged header".into()
                } else {
                    "has no header, it was cut off".into()
                },
            });
        }
        if let Some(length) = file.length.filter(|length| scanner.length > *length) {
            self.losses.push(Loss {
                path: file.path.clone(),
                bytes: Some(length..scanner.length),
                problem: format!("is longer than the {length} bytes that were written"),
            });
        }
        true
    }

    fn read(
        &mut self,
        file: &PlannedFile,
        scanner: &mut FrameScanner,
        read: &mut ReadCounter<'_>,
        visit: &mut FrameVisitor<'_>,
    ) -> Result<(), StorageError> {
        let is_base = file.header.kind == FileKind::Base;
        let mut next = file.header.first;
        let mut gap: Option<Gap> = None;
        let mut begin = scanner.position;
        while let Some(piece) = scanner.next(read)? {
            let sequence = match piece {
                Piece::Gap(more) => {
                    extend(&mut gap, more);
                    begin = scanner.position;
                    continue;
                }
                Piece::Frame(sequence) => sequence,
            };
            let frame = begin..scanner.position;
            begin = scanner.position;
            let is_expected = sequence >= next
                && (file.is_current || file.last.is_none_or(|last| sequence <= last));
            if !is_expected || !is_well_formed(scanner.payload(), is_base) {
                let highest_header = is_expected.then_some(sequence);
                extend(
                    &mut gap,
                    Gap {
                        bytes: frame,
                        highest_header,
                    },
                );
                continue;
            }
            if gap.is_some() || sequence > next {
                let gap = gap.take().map_or(frame.start..frame.start, |gap| gap.bytes);
                let last = sequence.saturating_sub(1);
                self.lose(file, Some(gap), NOT_INTACT, next, Some(last));
            }
            visit(sequence, scanner.payload())?;
            self.frames += 1;
            next = sequence + 1;
        }
        self.end(file, scanner, gap.as_ref(), next);
        Ok(())
    }

    /// Judges the bytes behind the last intact frame.
    fn end(
        &mut self,
        file: &PlannedFile,
        scanner: &mut FrameScanner,
        gap: Option<&Gap>,
        next: u64,
    ) {
        let end = scanner.end;
        let bytes = gap.map_or(end..end, |gap| gap.bytes.clone());
        if file.header.kind == FileKind::Base {
            let is_cut_off = file.length.is_some_and(|length| end < length);
            if gap.is_some() || is_cut_off || next == file.header.first {
                let bytes = bytes.start..bytes.end.max(file.length.unwrap_or_default());
                self.lose(file, Some(bytes), NOT_INTACT, next, None);
            }
            return;
        }
        let mut last = file.last;
        if file.is_current {
            // Only the last commit can be unfinished: all before a later frame were finished.
            let later = gap.and_then(|gap| gap.highest_header);
            last = last.max(later);
        }
        if last.is_some_and(|last| last >= next) {
            self.lose(file, Some(bytes), NOT_INTACT, next, last);
        } else if !bytes.is_empty() {
            if file.is_current {
                self.is_torn = !scanner.is_zero(&bytes);
            } else {
                let last = next.saturating_sub(1);
                self.lose(file, Some(bytes), NOT_INTACT, next, Some(last));
            }
        }
    }

    /// Records the loss of the frames from `first` to `last`; it is unknown how many if there is no `last`.
    fn lose(
        &mut self,
        file: &PlannedFile,
        bytes: Option<Range<u64>>,
        what: &str,
        first: u64,
        last: Option<u64>,
    ) {
        let count = last.map(|last| last.saturating_add(1).saturating_sub(first));
        let is_base = file.header.kind == FileKind::Base;
        let consequence = match (is_base, count) {
            (_, Some(0)) => "no record is lost".into(),
            (true, Some(1)) => format!("all records of block {first} are lost"),
            (true, Some(_)) => {
                let last = last.unwrap_or(first);
                format!("all records of blocks {first} to {last} are lost")
            }
            (true, None) => format!("all records from block {first} on are lost"),
            (false, Some(1)) => format!("commit {first} is lost"),
            (false, Some(_)) => {
                let last = last.unwrap_or(first);
                format!("commits {first} to {last} are lost")
            }
            (false, None) => format!("all commits from {first} on are lost"),
        };
        if !is_base && count != Some(0) {
            self.lost_commits += count.unwrap_or(0);
            self.last_lost = self.last_lost.max(Some(last.unwrap_or(u64::MAX)));
        }
        self.losses.push(Loss {
            path: file.path.clone(),
            bytes,
            problem: format!("{what}; {consequence}"),
        });
    }
}

const NOT_INTACT: &str = "is damaged";

/// Adds bytes to the gap before them.
fn extend(gap: &mut Option<Gap>, more: Gap) {
    match gap {
        Some(gap) => {
            gap.bytes.end = more.bytes.end;
            gap.highest_header = gap.highest_header.max(more.highest_header);
        }
        None => *gap = Some(more),
    }
}

/// Returns whether a payload consists of changes that the server writes.
fn is_well_formed(payload: &[u8], is_base: bool) -> bool {
    let mut changes = ChangeDecoder::new(payload);
    loop {
        match changes.next() {
            Ok(None) => return true,
            Ok(Some(LogChange::Clock(_))) => {}
            Ok(Some(LogChange::Put(put))) if !put.record.key.is_empty() => {}
            Ok(Some(LogChange::Delete(key))) if !is_base && !key.is_empty() => {}
            Ok(Some(_)) | Err(_) => return false,
        }
    }
}
