//! Backups: all records of a store as they were at one moment, in one file.
//!
//! | part | content |
//! |---|---|
//! | [header](Header) | lines of text, with their checksum |
//! | frames | as in a log, numbered from 1, of about 256 KiB: each record once, then the clock |
//! | trailer | 40 bytes; without it the backup is not whole |
//!
//! | trailer | bytes |
//! |---|---|
//! | magic `sst-end\n` | 8 |
//! | CRC of the fields below | 4 |
//! | CRC of everything before the trailer | 4 |
//! | number of frames | 8 |
//! | number of records | 8 |
//! | length of everything before the trailer | 8 |
//!
//! A backup is written and read sequentially, so that it can go through a pipe or a network.
mod header;
mod new_file;
mod reader;
mod writer;

pub use header::Header;
pub(super) use header::format_now;
pub use new_file::NewFile;
pub use reader::BackupReader;
pub use writer::write;

use super::frame::{u32_at, u64_at};

/// Version of the format of backups.
pub const FORMAT: u32 = 1;

const TRAILER: usize = 40;
const TRAILER_MAGIC: &[u8; 8] = b"sst-end\n";

/// Totals of everything before the trailer, as the trailer of a backup states them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Trailer {
    crc: u32,
    frames: u64,
    records: u64,
    length: u64,
}

impl Trailer {
    fn encode(self) -> [u8; TRAILER] {
        let mut bytes = [0; TRAILER];
        bytes[..8].copy_from_slice(TRAILER_MAGIC);
        bytes[12..16].copy_from_slice(&self.crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.frames.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.records.to_le_bytes());
        bytes[32..].copy_from_slice(&self.length.to_le_bytes());
        let crc = crc32fast::hash(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; TRAILER]) -> Option<Self> {
        let trailer = Self {
            crc: u32_at(bytes, 12),
            frames: u64_at(bytes, 16),
            records: u64_at(bytes, 24),
            length: u64_at(bytes, 32),
        };
        (trailer.encode() == *bytes).then_some(trailer)
    }
}
