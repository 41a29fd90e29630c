//! Names of engine keys in Redis, and the encoding of their content.
use bytes::{Buf, Bytes};
use statestored_shared::{BUCKETS, Record, Revision};
use statestored_store::keyspace::RequestDigest;
use statestored_store::keyspace::rules::Version;

/// The names below a prefix. The braces put all of them into one slot of a cluster, which scripts and transactions need.
#[derive(Debug)]
pub(super) struct KeyNames {
    prefix: String,
    /// The hash of each shelf.
    entries: Vec<String>,
    /// The set of each bucket.
    keys: Vec<String>,
}

/// Number of hashes into which the entries are divided. Commands determine the cost of a script, and all entries of one shelf take a single
/// command. On the other hand, a member of a cluster stands still while it migrates a hash.
pub(super) const SHELVES: u16 = 8;

/// Returns the shelf of a bucket.
pub(super) fn shelf_of(bucket: u16) -> u16 {
    bucket % BUCKETS / (BUCKETS / SHELVES)
}

impl KeyNames {
    pub(super) fn new(prefix: &str) -> Self {
        let prefix = format!("{{{prefix}}}");
        let entries = (0..SHELVES).map(|shelf| format!("{prefix}:entries:{shelf:x}"));
        let keys = (0..BUCKETS).map(|bucket| format!("{prefix}:keys:{bucket:04x}"));
        Self {
            entries: entries.collect(),
            keys: keys.collect(),
            prefix,
        }
    }

    fn below(&self, kind: &str) -> String {
        format!("{}:{kind}", self.prefix)
    }

    pub(super) fn manifest(&self) -> String {
        self.below("manifest")
    }

    /// Returns the name of the last revision.
    pub(super) fn counter(&self) -> String {
        self.below("revision")
    }

    pub(super) fn floors(&self) -> String {
        self.below("floors")
    }

    /// Returns the name of the nodes' clocks.
    pub(super) fn clocks(&self) -> String {
        self.below("clocks")
    }

    pub(super) fn stream(&self) -> String {
        self.below("changes")
    }

    /// Returns the name of the mark that is written so that replicas have something to confirm.
    pub(super) fn mark(&self) -> String {
        self.below("mark")
    }

    pub(super) fn reply(&self, request: RequestDigest) -> String {
        self.below(&format!("answer:{request}"))
    }

    /// Returns all names of a store, the manifest first, except those of answers.
    pub(super) fn all(&self) -> Vec<String> {
        let mut all = vec![
            self.manifest(),
            self.counter(),
            self.floors(),
            self.stream(),
            self.clocks(),
            self.mark(),
        ];
        all.extend(self.entries.iter().chain(&self.keys).cloned());
        all
    }

    /// Returns the hash of the shelf with this number.
    pub(super) fn entries(&self, number: u16) -> &str {
        &self.entries[usize::from(number % SHELVES)]
    }

    /// Returns the hash that contains a bucket, with others.
    pub(super) fn entries_of_bucket(&self, bucket: u16) -> &str {
        self.entries(shelf_of(bucket))
    }

    /// Returns the set of the keys of a bucket.
    pub(super) fn keys(&self, bucket: u16) -> &str {
        &self.keys[usize::from(bucket % BUCKETS)]
    }
}

/// Splits the value of a hash into its revision and its content.
fn split(value: &[u8]) -> Option<(Revision, &[u8])> {
    let colon = value.iter().position(|byte| *byte == b':')?;
    let (revision, rest) = value.split_at(colon);
    Some((Revision(number(revision)?), rest.split_first()?.1))
}

pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Decodes a record with its revision.
pub(super) fn decode_entry(mut value: Bytes) -> Result<(Record, Revision), String> {
    let (revision, record) = split(&value).ok_or("an entry has no revision")?;
    let record_at = value.len() - record.len();
    value.advance(record_at);
    let record = Record::decode(value).map_err(|error| error.to_string())?;
    Ok((record, revision))
}

pub(super) fn encode_version((wall_ms, counter): Version) -> String {
    format!("{wall_ms}:{counter}")
}

pub(super) fn decode_floor(value: &[u8]) -> Option<(Version, Revision)> {
    let (revision, version) = split(value)?;
    let (wall_ms, counter) = std::str::from_utf8(version).ok()?.split_once(':')?;
    let version = (wall_ms.parse().ok()?, counter.parse().ok()?);
    Some((version, revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_are_in_one_slot() {
        let names = KeyNames::new("plant7");
        assert_eq!(names.manifest(), "{plant7}:manifest");
        assert_eq!(names.entries(7), "{plant7}:entries:7");
        assert_eq!(names.keys(10), "{plant7}:keys:000a");
    }

    #[test]
    fn every_shelf_has_the_same_number_of_buckets() {
        for shelf in 0..SHELVES {
            let buckets = (0..BUCKETS).filter(|bucket| shelf_of(*bucket) == shelf);
            assert_eq!(buckets.count(), 128, "{shelf}");
        }
    }

    #[test]
    fn a_floor_is_decoded_as_it_was_encoded() {
        let version = (7, u64::MAX);
        let value = format!("12:{}", encode_version(version));
        assert_eq!(
            decode_floor(value.as_bytes()),
            Some((version, Revision(12)))
        );
        for foreign in [&b""[..], b"1", b"1:2", b"x:1:2", b"1:2:x", b"1:2:3:4"] {
            assert_eq!(decode_floor(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn an_entry_without_revision_is_foreign() {
        assert!(decode_entry(Bytes::from_static(b"value")).is_err());
        assert!(decode_entry(Bytes::from_static(b"7:value")).is_err());
    }
}
