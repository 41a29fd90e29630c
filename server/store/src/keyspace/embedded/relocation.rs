//! Moving entries within the heap.
//!
//! Entries that outlive their neighbours have holes between them, into which larger entries do not fit. A pass copies all entries in
//! the order of their hashes, and frees the originals of a batch together. The copies of a batch lie side by side and fill holes.
//! The freed originals join the holes around them.
use super::EmbeddedKeyspace;
use super::packed_entry::PackedEntry;
use super::table::Segment;
use hashbrown::HashTable;

/// Bytes of originals that are freed together. This has to exceed the memory that the allocator caches for allocations of one size.
const BATCH_BYTES: usize = 1 << 20;

/// Bytes copied, and segments visited, in one slice of a pass, which takes less than a millisecond.
const SLICE_BYTES: usize = 256 << 10;
const SLICE_SEGMENTS: usize = 48;

/// Size from which entries are not moved: they have pages of their own, which return to the system when an entry is freed.
const MAX_ENTRY_BYTES: usize = 1 << 20;

/// Maximum number of deadlines that are moved. All are moved together, which takes a few milliseconds at most.
const MAX_DEADLINES: usize = 64 * 1024;

/// A pass under way.
#[derive(Default)]
pub(super) struct Relocation {
    /// First hash of the next slice.
    next_hash: u64,
    originals: Vec<PackedEntry>,
    original_tables: Vec<HashTable<PackedEntry>>,
    original_bytes: usize,
}

impl Relocation {
    fn hold_original(&mut self, original: PackedEntry) {
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

    /// Moves the table of a segment and its entries. Returns the number of bytes copied.
    fn relocate_segment(
        &mut self,
        segment: &mut Segment,
        bucket_of: &dyn Fn(&PackedEntry) -> u64,
    ) -> usize {
        let mut copied = segment.table_bytes();
        let mut original = segment.replace_table();
        for packed in original.drain() {
            let bucket = bucket_of(&packed);
            if packed.len() < MAX_ENTRY_BYTES {
                segment.insert(bucket, packed.clone());
                copied += packed.len();
                self.hold_original(packed);
            } else {
                segment.insert(bucket, packed);
            }
        }
        self.original_bytes += segment.table_bytes();
        self.original_tables.push(original);
        copied
    }
}

impl EmbeddedKeyspace {
    /// Moves the next slice of entries. Returns whether the pass continues.
    pub(super) fn relocate_slice(&mut self) -> bool {
        let relocation = &mut self.relocation;
        let mut copied = 0;
        for _ in 0..SLICE_SEGMENTS {
            let from = relocation.next_hash;
            let (bytes, last) = self.table.change_segment(from, |segment, bucket_of| {
                relocation.relocate_segment(segment, bucket_of)
            });
            copied += bytes;
            let Some(next) = last.checked_add(1) else {
                *relocation = Relocation::default();
                self.expiry_index.relocate(MAX_DEADLINES);
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
