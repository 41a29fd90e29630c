//! Frames: the units of logs, bases and backups.
//!
//! Integers are little-endian. Every byte is covered by a CRC-32.
//!
//! | frame header, 28 bytes | |
//! |---|---|
//! | magic | 4 |
//! | CRC of salt and the three fields below | 4 |
//! | sequence number | 8 |
//! | payload length | 8 |
//! | CRC of the payload | 4 |
//!
//! The salt is random per store: a frame of another store is detected, and bytes inside a client's value cannot pass
//! for a frame.

/// Length of a frame header.
pub(super) const FRAME_HEADER: usize = 28;
/// Approximate size of the payload of a frame that holds many records.
pub(super) const FRAME_BYTES: usize = 256 << 10;
const FRAME_MAGIC: [u8; 4] = *b"\x93SSF";

/// Header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Sequence number of the frame.
    pub(super) sequence: u64,
    /// Length of the payload in bytes.
    pub(super) length: u64,
    /// Checksum of the payload.
    pub(super) crc: u32,
}

impl FrameHeader {
    /// Reads an intact header of this store, of at least [`FRAME_HEADER`] bytes.
    pub(super) fn decode(bytes: &[u8], salt: u64) -> Option<Self> {
        is_frame_header(bytes, salt).then(|| Self {
            sequence: u64_at(bytes, 8),
            length: u64_at(bytes, 16),
            crc: u32_at(bytes, 24),
        })
    }
}

/// Fills in the header of a frame. The payload follows the first [`FRAME_HEADER`] bytes.
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

/// Returns whether these bytes begin with an intact frame header of this store.
pub(super) fn is_frame_header(bytes: &[u8], salt: u64) -> bool {
    bytes.len() >= FRAME_HEADER
        && bytes.starts_with(&FRAME_MAGIC)
        && u32_at(bytes, 4) == frame_header_crc(bytes, salt)
}

/// Returns the 32-bit integer at the position `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

/// Returns the 64-bit integer at the position `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}
