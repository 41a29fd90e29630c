//! An extendible hash table of the entries, with lookup by key and iteration in the order of hashes.
//!
//! A directory, indexed by the top bits of a key's hash, points to segments of a few dozen entries. A full segment is split in two
//! by one more bit, and two sparse neighbours are joined again. An insertion moves the entries of one segment at most, even in a
//! large table. Each segment holds one contiguous range of hashes, so the segments in order yield the hashes in order. A position
//! in that order stays valid while segments are split and joined.
//!
//! The hash is keyed with a secret, so that clients cannot choose keys that all fall into one segment.
use super::packed_entry::{EntryFields, PackedEntry};
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;

/// Number of entries at which a segment is split before the next insertion. A `HashTable` of 64 buckets holds this many.
const SEGMENT_FULL: usize = 56;

/// Maximum number of entries of two neighbours together that are joined. It is half a segment, so that as many insertions precede
/// the next split.
const SEGMENTS_SPARSE: usize = SEGMENT_FULL / 2;

/// Number of directory slots per segment from which the directory does not double any more. Random hashes stay far below it. If
/// keys collide nevertheless, a segment grows instead of splitting again and again.
const MAX_SLOTS_PER_SEGMENT: usize = 64;

/// Binary logarithm of the maximum number of directory slots.
const MAX_DEPTH: u32 = 30;

/// Entries by key.
pub(super) struct Table {
    /// Index of the segment that holds the hashes whose top `depth` bits are the position here.
    directory: Vec<u32>,
    depth: u32,
    segments: Vec<Segment>,
    /// Unused indices of `segments`.
    free: Vec<u32>,
    /// Number of segments of each depth.
    segments_by_depth: [u32; MAX_DEPTH as usize + 1],
    len: u64,
    /// Bytes of memory of the entries.
    bytes: u64,
    /// Total length of all keys.
    key_bytes: u64,
    hasher: SipHasher13,
    /// Mask of the hash, with which tests make keys collide.
    #[cfg(test)]
    hash_mask: u64,
}

/// The entries whose hashes have the same top `depth` bits.
#[derive(Default)]
pub(super) struct Segment {
    depth: u32,
    entries: HashTable<PackedEntry>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.len)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

impl Table {
    pub(super) fn new(hash_key: [u64; 2]) -> Self {
        let mut of_depth = [0; MAX_DEPTH as usize + 1];
        of_depth[0] = 1;
        Self {
            directory: vec![0],
            depth: 0,
            segments: vec![Segment::default()],
            free: Vec::new(),
            segments_by_depth: of_depth,
            len: 0,
            bytes: 0,
            key_bytes: 0,
            hasher: SipHasher13::new_with_keys(hash_key[0], hash_key[1]),
            #[cfg(test)]
            hash_mask: u64::MAX,
        }
    }

    #[cfg(test)]
    pub(super) fn collide_hashes(&mut self) {
        self.hash_mask = 0;
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the bytes of memory that the entries take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the total length of all keys.
    pub(super) fn key_bytes(&self) -> u64 {
        self.key_bytes
    }

    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        let hash = self.hasher.hash(bytes);
        #[cfg(test)]
        let hash = hash & self.hash_mask;
        hash
    }

    pub(super) fn get(&self, hash: u64, key: &[u8]) -> Option<&PackedEntry> {
        let segment = &self.segments[self.segment_of(hash)];
        segment.entries.find(bucket(hash), |it| it.key() == key)
    }

    /// Prefetches the memory of these hashes. Reads one level for all hashes before the next level, so that the cache misses overlap.
    /// Within an insertion, each read would wait for the one before.
    pub(super) fn prefetch(&self, hashes: &[u64]) {
        let mut found = 0;
        for hash in hashes {
            found ^= self.segments[self.segment_of(*hash)].entries.len();
        }
        for hash in hashes {
            let entries = &self.segments[self.segment_of(*hash)].entries;
            found ^= usize::from(entries.find(bucket(*hash), |_| false).is_some());
        }
        std::hint::black_box(found);
    }

    /// Inserts the entry, or replaces the one with its key.
    pub(super) fn put(&mut self, hash: u64, fields: &EntryFields<'_>) {
        let mut index = self.segment_of(hash);
        let entries = &mut self.segments[index].entries;
        if let Some(packed) = entries.find_mut(bucket(hash), |it| it.key() == fields.key) {
            self.bytes -= entry_bytes(packed.len());
            packed.replace(fields);
            self.bytes += entry_bytes(packed.len());
            return;
        }
        while self.segments[index].entries.len() >= SEGMENT_FULL && self.may_split(index) {
            self.split(index, hash);
            index = self.segment_of(hash);
        }
        let mut entries = std::mem::take(&mut self.segments[index].entries);
        let packed = PackedEntry::new(fields);
        self.bytes += entry_bytes(packed.len());
        entries.insert_unique(bucket(hash), packed, |it| self.bucket_of(it));
        self.segments[index].entries = entries;
        self.len += 1;
        self.key_bytes += fields.key.len() as u64;
    }

    /// Removes the entry with this key. Returns whether there was one.
    pub(super) fn remove(&mut self, hash: u64, key: &[u8]) -> bool {
        let index = self.segment_of(hash);
        let entries = &mut self.segments[index].entries;
        let Ok(found) = entries.find_entry(bucket(hash), |it| it.key() == key) else {
            return false;
        };
        let (packed, _) = found.remove();
        self.len -= 1;
        self.key_bytes -= key.len() as u64;
        self.bytes -= entry_bytes(packed.len());
        while self.join(hash) {}
        true
    }

    /// Returns the entries with exactly this hash.
    pub(super) fn with_hash(&self, hash: u64) -> impl Iterator<Item = &PackedEntry> {
        self.segments[self.segment_of(hash)]
            .entries
            .iter_hash(bucket(hash))
            .filter(move |it| self.hash(it.key()) == hash)
    }

    /// Returns the entries of the segment that holds `hash`, in no order, and the last hash that the segment can hold.
    pub(super) fn segment_at(&self, hash: u64) -> (impl Iterator<Item = &PackedEntry>, u64) {
        let segment = &self.segments[self.segment_of(hash)];
        let last = hash | u64::MAX.checked_shr(segment.depth).unwrap_or(0);
        (segment.entries.iter(), last)
    }

    /// Changes the segment that holds `hash` without changing the set of its entries. `change` gets the segment, and a function that
    /// returns the bucket of an entry. Returns the result of `change`, and the last hash that the segment can hold.
    pub(super) fn change_segment<R>(
        &mut self,
        hash: u64,
        change: impl FnOnce(&mut Segment, &dyn Fn(&PackedEntry) -> u64) -> R,
    ) -> (R, u64) {
        let index = self.segment_of(hash);
        let mut segment = std::mem::take(&mut self.segments[index]);
        let result = change(&mut segment, &|packed| self.bucket_of(packed));
        let last = hash | u64::MAX.checked_shr(segment.depth).unwrap_or(0);
        self.segments[index] = segment;
        (result, last)
    }

    fn segment_of(&self, hash: u64) -> usize {
        self.directory[top_bits(hash, self.depth)] as usize
    }

    fn bucket_of(&self, packed: &PackedEntry) -> u64 {
        bucket(self.hash(packed.key()))
    }

    fn may_split(&self, index: usize) -> bool {
        let segments = self.segments.len() - self.free.len();
        self.segments[index].depth < self.depth
            || (self.depth < MAX_DEPTH && self.directory.len() < segments * MAX_SLOTS_PER_SEGMENT)
    }

    /// Splits the segment at `index`, which holds `hash`, by the next bit.
    fn split(&mut self, index: usize, hash: u64) {
        let depth = self.segments[index].depth;
        if depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&it| [it, it]).collect();
            self.depth += 1;
        }
        let bit = 1 << (63 - depth);
        let entries = std::mem::take(&mut self.segments[index].entries);
        // The entries lie anywhere in memory. These reads are independent, so they overlap; the reads for hashing would not.
        std::hint::black_box(entries.iter().fold(0, |sum, it| sum ^ it.first_byte()));
        let (low, high): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .map(|packed| (self.hash(packed.key()), packed))
            .partition(|(hash, _)| hash & bit == 0);
        // The capacity lasts until the next split. Growing before that would hash all entries again.
        self.segments[index] = Segment::of(depth + 1, SEGMENT_FULL, low);
        let new = self.add_segment(Segment::of(depth + 1, SEGMENT_FULL, high));
        self.segments_by_depth[depth as usize] -= 1;
        self.segments_by_depth[depth as usize + 1] += 2;
        self.set_slots(hash | bit, depth + 1, new);
    }

    /// Joins the segment that holds `hash` with its neighbour, if both together are sparse. Returns whether it did.
    fn join(&mut self, hash: u64) -> bool {
        let index = self.segment_of(hash);
        let Segment { depth, entries } = &self.segments[index];
        let depth = *depth;
        if depth == 0 || entries.len() > SEGMENTS_SPARSE {
            return false;
        }
        let bit = 1 << (64 - depth);
        let neighbour = self.segment_of(hash ^ bit);
        let other = &self.segments[neighbour];
        if other.depth != depth || entries.len() + other.entries.len() > SEGMENTS_SPARSE {
            return false;
        }
        let mut hashed = Vec::with_capacity(SEGMENTS_SPARSE);
        for half in [index, neighbour] {
            let half = std::mem::take(&mut self.segments[half].entries);
            hashed.extend(half.into_iter().map(|it| (self.hash(it.key()), it)));
        }
        self.segments[index] = Segment::of(depth - 1, hashed.len(), hashed);
        self.free.push(segment_index(neighbour));
        self.segments_by_depth[depth as usize] -= 2;
        self.segments_by_depth[depth as usize - 1] += 1;
        self.set_slots(hash, depth - 1, index);
        while self.depth > 0 && self.segments_by_depth[self.depth as usize] == 0 {
            self.directory = self.directory.iter().copied().step_by(2).collect();
            self.depth -= 1;
        }
        true
    }

    /// Points all directory slots that share the top `depth` bits of `hash` to one segment.
    fn set_slots(&mut self, hash: u64, depth: u32, segment: usize) {
        let width = self.depth - depth;
        let first = top_bits(hash, depth) << width;
        self.directory[first..first + (1 << width)].fill(segment_index(segment));
    }

    fn add_segment(&mut self, segment: Segment) -> usize {
        if let Some(index) = self.free.pop() {
            self.segments[index as usize] = segment;
            index as usize
        } else {
            self.segments.push(segment);
            self.segments.len() - 1
        }
    }
}

impl Segment {
    fn of(depth: u32, capacity: usize, hashed: Vec<(u64, PackedEntry)>) -> Self {
        let entries = HashTable::with_capacity(capacity.max(hashed.len()));
        let mut segment = Self { depth, entries };
        for (hash, packed) in hashed {
            segment.insert(bucket(hash), packed);
        }
        segment
    }

    /// Returns the bytes of the allocation of the hash table. The packed entries have allocations of their own.
    pub(super) fn table_bytes(&self) -> usize {
        self.entries.allocation_size()
    }

    /// Replaces the hash table with an empty one of the same capacity, and returns the former one.
    pub(super) fn replace_table(&mut self) -> HashTable<PackedEntry> {
        let empty = HashTable::with_capacity(self.entries.capacity());
        std::mem::replace(&mut self.entries, empty)
    }

    /// Inserts an entry with a new key. The segment must have the capacity for it.
    pub(super) fn insert(&mut self, bucket: u64, packed: PackedEntry) {
        self.entries.insert_unique(bucket, packed, |_| {
            unreachable!("the capacity suffices, nothing is moved")
        });
    }
}

/// Returns the top `depth` bits of a hash as an index.
// At most MAX_DEPTH bits fit an index.
#[allow(clippy::cast_possible_truncation)]
fn top_bits(hash: u64, depth: u32) -> usize {
    hash.checked_shr(64 - depth).unwrap_or(0) as usize
}

/// Converts the index of a segment to the type of the directory.
fn segment_index(segment: usize) -> u32 {
    u32::try_from(segment).expect("there are at most 2^MAX_DEPTH segments")
}

/// Returns the bytes of memory of an entry with this packed length. They include the allocator's header and rounding, and the
/// entry's part of the segment and the directory.
pub(super) fn entry_bytes(packed_len: usize) -> u64 {
    const PLACE_BYTES: usize = 40;
    ((packed_len + 8).next_multiple_of(16).max(32) + PLACE_BYTES) as u64
}

/// Returns the hash by which a segment distributes its entries. The top bits, which all entries of a segment share, must not be the
/// bits that distinguish its buckets.
fn bucket(hash: u64) -> u64 {
    hash.rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn fields<'a>(key: &'a [u8], value: &'a [u8]) -> EntryFields<'a> {
        EntryFields {
            key,
            value,
            version: (1, 0),
            token: None,
            expiry: None,
        }
    }

    fn walk(table: &Table) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        let mut position = 0;
        loop {
            let (entries, last) = table.segment_at(position);
            for entry in entries {
                let hash = table.hash(entry.key());
                assert!((position..=last).contains(&hash));
                found.push((hash, entry.key().to_vec()));
            }
            match last.checked_add(1) {
                Some(next) => position = next,
                None => return found,
            }
        }
    }

    #[test]
    fn every_entry_is_found_and_iterated_while_the_table_grows_and_shrinks() {
        let mut table = Table::new([1, 2]);
        let mut model = BTreeSet::new();
        let keys: Vec<_> = (0..20_000u32).map(|i| i.to_string()).collect();
        for key in &keys {
            let hash = table.hash(key.as_bytes());
            table.put(hash, &fields(key.as_bytes(), b"old"));
            table.put(hash, &fields(key.as_bytes(), b"value"));
            model.insert(key.clone().into_bytes());
        }
        let grown = (table.segments.len(), table.depth);
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(table.len(), model.len() as u64);
            if i % 1000 == 0 {
                let walked = walk(&table);
                assert_eq!(walked.len(), model.len());
                assert!(walked.iter().all(|(_, key)| model.contains(key)));
            }
            let hash = table.hash(key.as_bytes());
            let found = table.get(hash, key.as_bytes()).map(|it| it.fields());
            assert_eq!(found, Some(fields(key.as_bytes(), b"value")));
            assert!(table.remove(hash, key.as_bytes()));
            assert!(!table.remove(hash, key.as_bytes()));
            assert!(table.get(hash, key.as_bytes()).is_none());
            model.remove(key.as_bytes());
        }
        assert!(grown.0 > 300 && grown.1 > 8, "{grown:?}");
        assert_eq!(
            (table.bytes, table.segments.len() - table.free.len()),
            (0, 1)
        );
        assert_eq!((table.depth, table.directory.len()), (0, 1));
    }

    #[test]
    fn colliding_keys_are_slow_but_correct_and_take_no_more_memory() {
        for hash_mask in [0, 0xff, u64::MAX << 60] {
            let mut table = Table::new([5, 6]);
            table.hash_mask = hash_mask;
            for i in 0..2_000u32 {
                let key = i.to_be_bytes();
                table.put(table.hash(&key), &fields(&key, b"v"));
            }
            assert!(table.directory.len() <= 64 * 2 * table.segments.len());
            assert_eq!(walk(&table).len(), 2_000);
            for i in 0..2_000u32 {
                let key = i.to_be_bytes();
                assert!(table.get(table.hash(&key), &key).is_some());
                assert!(table.remove(table.hash(&key), &key));
                assert!(table.get(table.hash(&key), &key).is_none());
            }
            assert_eq!((table.len(), table.depth), (0, 0));
        }
    }

    #[test]
    fn entries_with_a_given_hash_are_found() {
        let mut table = Table::new([3, 4]);
        for i in 0..1000u32 {
            let key = i.to_be_bytes();
            table.put(table.hash(&key), &fields(&key, b""));
        }
        let key = 7u32.to_be_bytes();
        let found: Vec<_> = table
            .with_hash(table.hash(&key))
            .map(PackedEntry::key)
            .collect();
        assert_eq!(found, [&key[..]]);
        assert_eq!(table.with_hash(!table.hash(&key)).count(), 0);
    }
}
