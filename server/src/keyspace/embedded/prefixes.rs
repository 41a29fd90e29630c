//! Shares of the store: how much there may be below a prefix of keys.
use super::table::{self, Table};
use crate::keyspace::Size;
use bytes::Bytes;

/// How many keys are counted at a time, in less than half a millisecond; those of one segment may be more ...
const PART_KEYS: usize = 2_048;
/// ... and how long others have their turn then.
const PAUSE_MS: u64 = 1;

const NOTHING: Size = Size { keys: 0, bytes: 0 };

/// How much there may be of the keys that begin with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixLimit {
    /// What the keys begin with.
    pub prefix: Bytes,
    /// Most keys.
    pub max_keys: Option<u64>,
    /// Most bytes of memory that the entries take, without their deadlines.
    pub max_bytes: Option<u64>,
}

impl PrefixLimit {
    /// Reads words like `machines/ keys=1000 bytes=1000000`.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected PREFIX keys=N bytes=N, or one of the two";
        let mut words = text.split_whitespace();
        let prefix = words.next().ok_or(FORM)?;
        let mut limit = Self {
            prefix: Bytes::copy_from_slice(prefix.as_bytes()),
            max_keys: None,
            max_bytes: None,
        };
        for word in words {
            let (name, number) = word.split_once('=').ok_or(FORM)?;
            let number = number
                .parse()
                .map_err(|_| format!("{word:?}: {number:?} is no number"))?;
            match name {
                "keys" => limit.max_keys = Some(number),
                "bytes" => limit.max_bytes = Some(number),
                _ => return Err(format!("{word:?}: {FORM}")),
            }
        }
        if limit.max_keys.is_none() && limit.max_bytes.is_none() {
            return Err(FORM.into());
        }
        Ok(limit)
    }
}

/// The limits, with how much there is of each. A key may count for several.
///
/// What is new among them after a reload is counted a part at a time, in the order of the hashes of keys: a change to a key
/// whose part was not counted yet is counted with that part. Meanwhile what was counted so far counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Prefixes {
    shares: Vec<Share>,
    counting: Option<Counting>,
}

#[derive(Debug, Clone)]
struct Share {
    limit: PrefixLimit,
    size: Size,
    /// All keys were counted, and every change since.
    is_counted: bool,
}

/// How far the shares are that are not counted.
#[derive(Debug, Clone, Copy)]
struct Counting {
    /// The first hash of which nothing was counted.
    position: u64,
    /// When the next part is due.
    next_ms: u64,
}

impl Share {
    /// Whether a change to a key is to be counted.
    fn counts(&self, key: &[u8], hash: u64, counting: Option<Counting>) -> bool {
        let is_before = |counting: Counting| hash < counting.position;
        key.starts_with(&self.limit.prefix) && (self.is_counted || counting.is_some_and(is_before))
    }

    fn change(&mut self, from: Size, to: Size) {
        self.size.keys = (self.size.keys + to.keys).saturating_sub(from.keys);
        self.size.bytes = (self.size.bytes + to.bytes).saturating_sub(from.bytes);
    }
}

impl Prefixes {
    /// Of a store without keys.
    pub(super) fn new(limits: &[PrefixLimit]) -> Self {
        let mut this = Self::default();
        this.set(limits);
        this.shares.iter_mut().for_each(|it| it.is_counted = true);
        this.counting = None;
        this
    }

    /// These are the limits from now on. What is counted of a prefix that stays is kept; the others are to be counted.
    pub(super) fn set(&mut self, limits: &[PrefixLimit]) {
        let before = std::mem::take(&mut self.shares);
        let share = |limit: &PrefixLimit| {
            let mut counted = before.iter().filter(|it| it.is_counted);
            let known = counted.find(|it| it.limit.prefix == limit.prefix);
            Share {
                limit: limit.clone(),
                size: known.map_or(NOTHING, |it| it.size),
                is_counted: known.is_some(),
            }
        };
        self.shares = limits.iter().map(share).collect();
        let is_whole = self.shares.iter().all(|it| it.is_counted);
        self.counting = (!is_whole).then_some(Counting {
            position: 0,
            next_ms: 0,
        });
    }

    /// Counts the next part of what is to be counted.
    pub(super) fn count(&mut self, table: &Table, now_ms: u64) {
        let Some(Counting { position, next_ms }) = self.counting else {
            return;
        };
        if now_ms < next_ms {
            return;
        }
        let (mut position, mut keys) = (position, 0);
        let next = loop {
            let (entries, last) = table.segment_at(position);
            for entry in entries {
                keys += 1;
                // The segment may have begun before, if it was joined with another one.
                if table.hash(entry.key()) >= position {
                    let bytes = table::entry_bytes(entry.len());
                    self.shares
                        .iter_mut()
                        .filter(|it| !it.is_counted && entry.key().starts_with(&it.limit.prefix))
                        .for_each(|it| it.change(NOTHING, Size { keys: 1, bytes }));
                }
            }
            match last.checked_add(1) {
                None => break None,
                Some(next) if keys >= PART_KEYS => break Some(next),
                Some(next) => position = next,
            }
        };
        self.counting = next.map(|position| Counting {
            position,
            next_ms: now_ms.saturating_add(PAUSE_MS),
        });
        if self.counting.is_none() {
            self.shares.iter_mut().for_each(|it| it.is_counted = true);
        }
    }

    /// When the next part is to be counted.
    pub(super) fn next_ms(&self) -> Option<u64> {
        Some(self.counting?.next_ms)
    }

    /// Whether these are the limits.
    pub(super) fn are(&self, limits: &[PrefixLimit]) -> bool {
        self.shares.iter().map(|it| &it.limit).eq(limits)
    }

    /// The whole store was of one size, and is of another one since the entry of this key has changed.
    pub(super) fn changed(&mut self, key: &[u8], hash: u64, from: Size, to: Size) {
        let counting = self.counting;
        self.shares
            .iter_mut()
            .filter(|it| it.counts(key, hash, counting))
            .for_each(|it| it.change(from, to));
    }

    /// Returns a prefix of the key below which so much more does not fit.
    pub(super) fn full(&self, key: &[u8], more: Size) -> Option<&Bytes> {
        let mut concerned = self
            .shares
            .iter()
            .filter(|it| key.starts_with(&it.limit.prefix));
        let full = concerned.find(|Share { limit, size, .. }| {
            let fits = |has: u64, more: u64, most: Option<u64>| {
                more == 0 || most.is_none_or(|most| has.saturating_add(more) <= most)
            };
            !fits(size.keys, more.keys, limit.max_keys)
                || !fits(size.bytes, more.bytes, limit.max_bytes)
        });
        full.map(|share| &share.limit.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_words() {
        let limit = PrefixLimit::parse("a/ bytes=2 keys=1").unwrap();
        assert_eq!(
            (&limit.prefix[..], limit.max_keys, limit.max_bytes),
            (&b"a/"[..], Some(1), Some(2))
        );
        for wrong in ["", "a/", "a/ keys", "a/ keys=x", "a/ entries=1"] {
            assert!(PrefixLimit::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_counts_for_each_of_its_prefixes() {
        let limits = ["a keys=2", "a/b bytes=10"].map(|it| PrefixLimit::parse(it).unwrap());
        let mut prefixes = Prefixes::new(&limits);
        assert!(prefixes.are(&limits) && !prefixes.are(&limits[..1]));
        let size = |keys, bytes| Size { keys, bytes };
        let have_room = |prefixes: &Prefixes, key: &[u8], more| prefixes.full(key, more).is_none();
        prefixes.changed(b"a/b/c", 0, size(5, 100), size(6, 108));
        assert!(
            have_room(&prefixes, b"a/b/d", size(1, 2))
                && !have_room(&prefixes, b"a/b/d", size(1, 3))
        );
        prefixes.changed(b"a/x", 0, size(6, 108), size(7, 200));
        assert!(
            !have_room(&prefixes, b"a/y", size(1, 1)) && have_room(&prefixes, b"a/x", size(0, 999))
        );
        assert!(have_room(&prefixes, b"b", size(1, 999)));
        prefixes.changed(b"a/b/c", 0, size(7, 200), size(6, 192));
        assert!(have_room(&prefixes, b"a/b/c", size(1, 10)));
    }
}
