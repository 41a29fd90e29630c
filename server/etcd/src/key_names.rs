//! Names of engine keys in etcd.
use bytes::Bytes;
use statestored_shared::{EngineKey, bucket_of};
use statestored_store::keyspace::rules::Version;

/// Number of hexadecimal digits of a bucket.
const BUCKET_DIGITS: usize = 4;

/// The names of engine keys below a prefix.
#[derive(Debug)]
pub(super) struct KeyNames {
    prefix: Vec<u8>,
}

impl KeyNames {
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

    /// Returns the name of the store's secret.
    pub(super) fn secret(&self) -> Vec<u8> {
        self.below(b"/k")
    }

    /// Returns the name of the mark of a server that found another store in place of its own.
    pub(super) fn mark(&self) -> Vec<u8> {
        self.below(b"/x")
    }

    /// Returns the prefix of all names.
    pub(super) fn all(&self) -> Vec<u8> {
        self.below(b"/")
    }

    /// Returns the prefix of the names of all records.
    pub(super) fn entries(&self) -> Vec<u8> {
        self.below(b"/e/")
    }

    /// Returns the prefix of the names of all floors.
    pub(super) fn floors(&self) -> Vec<u8> {
        self.below(b"/f/")
    }

    /// Returns the prefix of the names of all answers.
    pub(super) fn replies(&self) -> Vec<u8> {
        self.below(b"/r/")
    }

    /// Returns the name of the revision up to which etcd may be compacted.
    pub(super) fn compaction(&self) -> Vec<u8> {
        self.below(b"/c")
    }

    /// Returns the prefix of the names of all clocks.
    pub(super) fn clocks(&self) -> Vec<u8> {
        self.below(b"/n/")
    }

    /// Returns the range of all entries, from the first name to the one behind the last.
    pub(super) fn entries_range(&self) -> (Vec<u8>, Vec<u8>) {
        (self.entries(), self.below(b"/e0"))
    }

    /// Returns all ranges below the prefix in which no server ever puts a key.
    pub(super) fn unused_ranges(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        // Each kind of name begins with the first string and ends before the second; `0` follows `/`.
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

    /// Returns the names of the manifests of stores whose prefixes contain this one.
    pub(super) fn manifests_above(&self) -> Vec<Vec<u8>> {
        let slashes = self.prefix.iter().enumerate();
        let slashes = slashes.filter(|(_, byte)| **byte == b'/');
        let above = slashes.map(|(at, _)| [&self.prefix[..at], b"/m"].concat());
        above.collect()
    }

    /// Returns the name of a node's clock.
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

    pub(super) fn engine_key(&self, key: &EngineKey) -> Vec<u8> {
        match key {
            EngineKey::Entry(key) => self.entry(bucket_of(key), key),
            EngineKey::Floor(bucket) => self.floor(*bucket),
            EngineKey::Reply(request) => {
                let mut name = self.replies();
                name.extend_from_slice(request.to_string().as_bytes());
                name
            }
        }
    }

    /// Returns the key whose record has this name; `None` if it is no name of a record.
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
    fn key_names_are_parsed_back_unchanged() {
        let names = KeyNames::new("a/b/");
        for key in [&b"k"[..], b"a/b", b"\0\xff", b"/"] {
            let key = Bytes::copy_from_slice(key);
            let name = names.engine_key(&EngineKey::Entry(key.clone()));
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
    fn a_floor_is_decoded_as_it_was_encoded() {
        assert_eq!(decode_floor(&encode_floor((7, 9))), Some((7, 9)));
        assert_eq!(decode_floor(b"short"), None);
        assert_eq!(decode_floor(&[0; 17]), None);
    }
}
