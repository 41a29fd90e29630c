//! Moving entries within the heap.
//!
//! Entries that outlive their neighbours leave holes between them, and larger entries fit into none of these. A pass copies all entries
//! in the order of their hashes, and frees the originals of a batch together: the copies of a batch lie side by side, in holes that
//! they fill, and where the originals were the holes grow together.
use super::Embedded;
use super::packed::Packed;
use super::table::Segment;
use hashbrown::HashTable;

/// Bytes of originals that are freed together. It has to be more than the allocator keeps at hand for the next allocations of a size.
const BATCH_BYTES: usize = 1 << 20;

/// Bytes copied, and segments, in one slice of a pass: less than a millisecond.
const SLICE_BYTES: usize = 256 << 10;
const SLICE_SEGMENTS: usize = 48;

/// Entries of this size and more have pages of their own, which go back to the system with them.
const MOST_ENTRY_BYTES: usize = 1 << 20;

/// Up to this number the deadlines are moved as a whole, which takes less than some milliseconds.
const MOST_DEADLINES: usize = 64 * 1024;

/// A pass under way.
#[derive(Default)]
pub(super) struct Relocation {
    /// Where it continues.
    next_hash: u64,
    originals: Vec<Packed>,
    original_tables: Vec<HashTable<Packed>>,
    original_bytes: usize,
}

impl Relocation {
    fn keep(&mut self, original: Packed) {
        self.original_bytes += original.len();
        self.originals.push(original);
        self.free_batch(BATCH_BYTES);
    }

    fn free_batch(&mut self, from_bytes: usize) {
        if self.original_bytes >= from_bytes {
            self.originals.clear();
            self.original_tables.clear();
            self.original_bytes = 0;
        }
    }

    /// Moves the entries of a segment, and the segment. Returns the number of bytes copied.
    fn relocate(&mut self, segment: &mut Segment, bucket_of: &dyn Fn(&Packed) -> u64) -> usize {
        let mut copied = segment.table_bytes();
        let mut original = segment.replace_table();
        for packed in original.drain() {
            let bucket = bucket_of(&packed);
            if packed.len() < MOST_ENTRY_BYTES {
                segment.insert(bucket, packed.clone());
                copied += packed.len();
                self.keep(packed);
            } else {
                segment.insert(bucket, packed);
            }
        }
        self.original_bytes += segment.table_bytes();
        self.original_tables.push(original);
        copied
    }
}

impl Embedded {
    /// Moves the next slice of entries. Returns whether the pass goes on.
    pub(super) fn relocate_slice(&mut self) -> bool {
        let relocation = &mut self.relocation;
        let mut copied = 0;
        for _ in 0..SLICE_SEGMENTS {
            let from = relocation.next_hash;
            let (bytes, last) = self.table.change_segment(from, |segment, bucket_of| {
                relocation.relocate(segment, bucket_of)
            });
            copied += bytes;
            let Some(next) = last.checked_add(1) else {
                *relocation = Relocation::default();
                self.deadlines.relocate(MOST_DEADLINES);
                return false;
            };
            relocation.next_hash = next;
            if copied >= SLICE_BYTES {
                break;
            }
        }
        true
    }
}
