//! Limits for the keys below a prefix.
use super::table::{self, Table};
use crate::keyspace::{QuotaUsage, Size};
use bytes::Bytes;
use statestored_common::byte_size::parse_size;

/// Number of keys counted at a time, in less than half a millisecond. The last segment may exceed it.
const SLICE_KEYS: usize = 2_048;
/// Pause between two parts, in which other work is done.
const PAUSE_MS: u64 = 1;

const EMPTY: Size = Size { keys: 0, bytes: 0 };

/// A limit for the keys that begin with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixLimit {
    /// Prefix of the keys.
    pub prefix: Bytes,
    /// Maximum number of keys.
    pub max_keys: Option<u64>,
    /// Maximum bytes of memory that the entries take, without their deadlines.
    pub max_bytes: Option<u64>,
}

impl PrefixLimit {
    /// Parses a limit such as `machines/ keys=1000 bytes=1MiB`.
    ///
    /// # Errors
    /// A description of the syntax error.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected PREFIX keys=N bytes=SIZE, or one of the two";
        let mut words = text.split_whitespace();
        let prefix = words.next().ok_or(FORM)?;
        let mut limit = Self {
            prefix: Bytes::copy_from_slice(prefix.as_bytes()),
            max_keys: None,
            max_bytes: None,
        };
        for word in words {
            let (name, number) = word.split_once('=').ok_or(FORM)?;
            match name {
                "keys" => {
                    let keys = number
                        .parse()
                        .map_err(|_| format!("{word:?}: {number:?} is not a number"))?;
                    limit.max_keys = Some(keys);
                }
                "bytes" => {
                    let bytes = parse_size::<0, { u64::MAX }>(number)
                        .map_err(|problem| format!("{word:?}: {problem}"))?;
                    limit.max_bytes = Some(bytes);
                }
                _ => return Err(format!("{word:?}: {FORM}")),
            }
        }
        if limit.max_keys.is_none() && limit.max_bytes.is_none() {
            return Err(FORM.into());
        }
        Ok(limit)
    }
}

/// The limits, with the number and memory of the keys below each prefix. A key may count for several.
///
/// After a reload, the keys below new prefixes are counted a part at a time, in the order of their hashes. A change to a key
/// whose part has not been counted yet is counted with that part. Until the count is complete, the limit applies to the keys
/// counted so far.
#[derive(Debug, Clone, Default)]
pub(super) struct PrefixLimits {
    usages: Vec<PrefixUsage>,
    progress: Option<CountProgress>,
}

#[derive(Debug, Clone)]
struct PrefixUsage {
    limit: PrefixLimit,
    size: Size,
    /// Whether all keys have been counted. Every later change is counted too.
    is_counted: bool,
}

/// The progress of the shares that are not counted yet.
#[derive(Debug, Clone, Copy)]
struct CountProgress {
    /// First hash that has not been counted.
    position: u64,
    /// Time at which the next part is due, on the monotonic clock.
    next_ms: u64,
}

impl PrefixUsage {
    /// Returns whether a change to a key has to be counted.
    fn must_count(&self, key: &[u8], hash: u64, counting: Option<CountProgress>) -> bool {
        let is_before = |counting: CountProgress| hash < counting.position;
        key.starts_with(&self.limit.prefix) && (self.is_counted || counting.is_some_and(is_before))
    }

    fn change(&mut self, from: Size, to: Size) {
        self.size.keys = (self.size.keys + to.keys).saturating_sub(from.keys);
        self.size.bytes = (self.size.bytes + to.bytes).saturating_sub(from.bytes);
    }
}

impl PrefixLimits {
    /// Creates the limits of a store without keys.
    pub(super) fn new(limits: &[PrefixLimit]) -> Self {
        let mut this = Self::default();
        this.set(limits);
        this.usages.iter_mut().for_each(|it| it.is_counted = true);
        this.progress = None;
        this
    }

    /// Sets the limits. Complete counts of prefixes that stay are kept; the keys below other prefixes have to be counted.
    pub(super) fn set(&mut self, limits: &[PrefixLimit]) {
        let before = std::mem::take(&mut self.usages);
        let share = |limit: &PrefixLimit| {
            let mut counted = before.iter().filter(|it| it.is_counted);
            let known = counted.find(|it| it.limit.prefix == limit.prefix);
            PrefixUsage {
                limit: limit.clone(),
                size: known.map_or(EMPTY, |it| it.size),
                is_counted: known.is_some(),
            }
        };
        self.usages = limits.iter().map(share).collect();
        let is_whole = self.usages.iter().all(|it| it.is_counted);
        self.progress = (!is_whole).then_some(CountProgress {
            position: 0,
            next_ms: 0,
        });
    }

    /// Counts the next part, if one is due.
    pub(super) fn count(&mut self, table: &Table, now_ms: u64) {
        let Some(CountProgress { position, next_ms }) = self.progress else {
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
                // The segment may begin before `position`, if it was joined with its neighbour.
                if table.hash(entry.key()) >= position {
                    let bytes = table::entry_bytes(entry.len());
                    self.usages
                        .iter_mut()
                        .filter(|it| !it.is_counted && entry.key().starts_with(&it.limit.prefix))
                        .for_each(|it| it.change(EMPTY, Size { keys: 1, bytes }));
                }
            }
            match last.checked_add(1) {
                None => break None,
                Some(next) if keys >= SLICE_KEYS => break Some(next),
                Some(next) => position = next,
            }
        };
        self.progress = next.map(|position| CountProgress {
            position,
            next_ms: now_ms.saturating_add(PAUSE_MS),
        });
        if self.progress.is_none() {
            self.usages.iter_mut().for_each(|it| it.is_counted = true);
        }
    }

    /// Returns the time at which the next part is due; `None` if the count is complete.
    pub(super) fn next_ms(&self) -> Option<u64> {
        Some(self.progress?.next_ms)
    }

    /// Returns whether the limits equal `limits`.
    pub(super) fn equals(&self, limits: &[PrefixLimit]) -> bool {
        self.usages.iter().map(|it| &it.limit).eq(limits)
    }

    /// Counts a change of the entry of `key` that changed the size of the whole store from `from` to `to`.
    pub(super) fn record_change(&mut self, key: &[u8], hash: u64, from: Size, to: Size) {
        let counting = self.progress;
        self.usages
            .iter_mut()
            .filter(|it| it.must_count(key, hash, counting))
            .for_each(|it| it.change(from, to));
    }

    /// Returns the quotas of the prefixes whose keys are counted completely.
    pub(super) fn quotas(&self) -> Vec<QuotaUsage> {
        let counted = self.usages.iter().filter(|it| it.is_counted);
        let quotas = counted.flat_map(|PrefixUsage { limit, size, .. }| {
            let quotas = [
                ("keys", size.keys, limit.max_keys),
                ("bytes", size.bytes, limit.max_bytes),
            ];
            quotas
                .into_iter()
                .filter_map(|(quota, used, max)| Some((quota, used, max?)))
                .map(move |(quota, used, max)| QuotaUsage {
                    owner: String::from_utf8_lossy(&limit.prefix).into_owned(),
                    quota,
                    used,
                    max,
                })
        });
        quotas.collect()
    }

    /// Returns the first prefix of the key whose limit `more` would exceed.
    pub(super) fn exceeded_prefix(&self, key: &[u8], more: Size) -> Option<&Bytes> {
        let mut concerned = self
            .usages
            .iter()
            .filter(|it| key.starts_with(&it.limit.prefix));
        let full = concerned.find(|PrefixUsage { limit, size, .. }| {
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
    fn a_limit_is_parsed_from_words() {
        let limit = PrefixLimit::parse("a/ bytes=2 keys=1").unwrap();
        assert_eq!(
            (&limit.prefix[..], limit.max_keys, limit.max_bytes),
            (&b"a/"[..], Some(1), Some(2))
        );
        let limit = PrefixLimit::parse("a/ bytes=2KiB").unwrap();
        assert_eq!(limit.max_bytes, Some(2048));
        for wrong in ["", "a/", "a/ keys", "a/ keys=1KiB", "a/ entries=1"] {
            assert!(PrefixLimit::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_counts_for_each_of_its_prefixes() {
        let limits = ["a keys=2", "a/b bytes=10"].map(|it| PrefixLimit::parse(it).unwrap());
        let mut prefixes = PrefixLimits::new(&limits);
        assert!(prefixes.equals(&limits) && !prefixes.equals(&limits[..1]));
        let size = |keys, bytes| Size { keys, bytes };
        let have_room = |prefixes: &PrefixLimits, key: &[u8], more| {
            prefixes.exceeded_prefix(key, more).is_none()
        };
        prefixes.record_change(b"a/b/c", 0, size(5, 100), size(6, 108));
        assert!(
            have_room(&prefixes, b"a/b/d", size(1, 2))
                && !have_room(&prefixes, b"a/b/d", size(1, 3))
        );
        prefixes.record_change(b"a/x", 0, size(6, 108), size(7, 200));
        assert!(
            !have_room(&prefixes, b"a/y", size(1, 1)) && have_room(&prefixes, b"a/x", size(0, 999))
        );
        assert!(have_room(&prefixes, b"b", size(1, 999)));
        let quotas = prefixes.quotas();
        let quotas = quotas
            .iter()
            .map(|it| (it.owner.as_str(), it.quota, it.used, it.max));
        assert!(quotas.eq([("a", "keys", 2, 2), ("a/b", "bytes", 8, 10)]));
        prefixes.record_change(b"a/b/c", 0, size(7, 200), size(6, 192));
        assert!(have_room(&prefixes, b"a/b/c", size(1, 10)));
    }
}
