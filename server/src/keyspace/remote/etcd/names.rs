//! How places are called in etcd.
use crate::keyspace::remote::{Place, bucket_of};
use crate::keyspace::rules::Version;
use bytes::Bytes;

/// Hexadecimal digits of a bucket.
const BUCKET_DIGITS: usize = 4;

/// The names of places below a prefix.
#[derive(Debug)]
pub(super) struct Names {
    prefix: Vec<u8>,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.trim_end_matches('/').as_bytes().to_vec(),
        }
    }

    fn below(&self, kind: &[u8]) -> Vec<u8> {
        [&self.prefix, kind].concat()
    }

    pub(super) fn manifest(&self) -> Vec<u8> {
        self.below(b"/m")
    }

    /// The secret of the store.
    pub(super) fn secret(&self) -> Vec<u8> {
        self.below(b"/k")
    }

    /// What a server leaves that found another store where its own was.
    pub(super) fn mark(&self) -> Vec<u8> {
        self.below(b"/x")
    }

    /// What all names begin with.
    pub(super) fn all(&self) -> Vec<u8> {
        self.below(b"/")
    }

    /// What the names of all records begin with.
    pub(super) fn entries(&self) -> Vec<u8> {
        self.below(b"/e/")
    }

    /// What the names of all floors begin with.
    pub(super) fn floors(&self) -> Vec<u8> {
        self.below(b"/f/")
    }

    /// What the names of all answers begin with.
    pub(super) fn answers(&self) -> Vec<u8> {
        self.below(b"/r/")
    }

    /// Up to where etcd may be compacted.
    pub(super) fn compaction(&self) -> Vec<u8> {
        self.below(b"/c")
    }

    /// What the names of all clocks begin with.
    pub(super) fn clocks(&self) -> Vec<u8> {
        self.below(b"/n/")
    }

    /// All entries, from one name to the one behind the last.
    pub(super) fn entries_range(&self) -> (Vec<u8>, Vec<u8>) {
        (self.entries(), self.below(b"/e0"))
    }

    /// Everything below the prefix that no server ever puts there, as such ranges.
    pub(super) fn gaps(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        // What begins with the first and ends before the second is a kind's; `0` comes behind `/`.
        let kinds: [(&[u8], &[u8]); 8] = [
            (b"/c", b"/c\0"),
            (b"/e/", b"/e0"),
            (b"/f/", b"/f0"),
            (b"/k", b"/k\0"),
            (b"/m", b"/m\0"),
            (b"/n/", b"/n0"),
            (b"/r/", b"/r0"),
            (b"/x", b"/x\0"),
        ];
        let mut from: &[u8] = b"/";
        let mut gaps = Vec::with_capacity(kinds.len() + 1);
        for (first, behind) in kinds {
            gaps.push((self.below(from), self.below(first)));
            from = behind;
        }
        gaps.push((self.below(from), self.below(b"0")));
        gaps
    }

    /// The manifests of the stores within whose prefixes this one is, if there are any.
    pub(super) fn manifests_above(&self) -> Vec<Vec<u8>> {
        let slashes = self.prefix.iter().enumerate();
        let slashes = slashes.filter(|(_, byte)| **byte == b'/');
        let above = slashes.map(|(at, _)| [&self.prefix[..at], b"/m"].concat());
        above.collect()
    }

    /// What a node tells of its clock.
    pub(super) fn clock(&self, process: u128) -> Vec<u8> {
        self.below(format!("/n/{process:032x}").as_bytes())
    }

    pub(super) fn entry(&self, bucket: u16, key: &[u8]) -> Vec<u8> {
        let digits = digits(bucket);
        [&self.prefix[..], b"/e/", &digits, b"/", key].concat()
    }

    pub(super) fn floor(&self, bucket: u16) -> Vec<u8> {
        let digits = digits(bucket);
        [&self.prefix[..], b"/f/", &digits].concat()
    }

    pub(super) fn of(&self, place: &Place) -> Vec<u8> {
        match place {
            Place::Entry(key) => self.entry(bucket_of(key), key),
            Place::Floor(bucket) => self.floor(*bucket),
            Place::Answer(request) => {
                let mut name = self.answers();
                name.extend_from_slice(request.to_string().as_bytes());
                name
            }
        }
    }

    /// The key whose record is called so; `None` if no record of this program is.
    pub(super) fn key(&self, name: &[u8]) -> Option<Bytes> {
        let rest = name.strip_prefix(&self.entries()[..])?;
        let (bucket, key) = rest.split_at_checked(BUCKET_DIGITS)?;
        let key = key.strip_prefix(b"/")?;
        let bucket = u16::from_str_radix(std::str::from_utf8(bucket).ok()?, 16).ok()?;
        (!key.is_empty() && bucket == bucket_of(key)).then(|| Bytes::copy_from_slice(key))
    }
}

fn digits(bucket: u16) -> [u8; BUCKET_DIGITS] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [12, 8, 4, 0].map(|shift| DIGITS[usize::from(bucket >> shift & 0xF)])
}

pub(super) fn encode_floor((wall_ms, counter): Version) -> Vec<u8> {
    [wall_ms.to_be_bytes(), counter.to_be_bytes()].concat()
}

pub(super) fn decode_floor(bytes: &[u8]) -> Option<Version> {
    let (wall_ms, counter) = bytes.split_first_chunk()?;
    let counter = counter.try_into().ok()?;
    Some((u64::from_be_bytes(*wall_ms), u64::from_be_bytes(counter)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let names = Names::new("a/b/");
        for key in [&b"k"[..], b"a/b", b"\0\xff", b"/"] {
            let key = Bytes::copy_from_slice(key);
            let name = names.of(&Place::Entry(key.clone()));
            assert!(name.starts_with(b"a/b/e/"));
            assert_eq!(names.key(&name), Some(key));
        }
        assert_eq!(names.floor(10), b"a/b/f/000a");
        for foreign in [
            &b"a/b/e/"[..],
            b"a/b/e/0000/",
            b"a/b/e/zzzz/k",
            b"a/b/e/0001/k",
            b"x",
        ] {
            assert_eq!(names.key(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn a_floor_is_a_version() {
        assert_eq!(decode_floor(&encode_floor((7, 9))), Some((7, 9)));
        assert_eq!(decode_floor(b"short"), None);
        assert_eq!(decode_floor(&[0; 17]), None);
    }
}
