//! Units in the form of the commit script, and their grouping.
use super::key_names::{KeyNames, SHELVES, encode_version, shelf_of};
use ::redis::{Cmd, RedisWrite};
use bytes::Bytes;
use foldhash::quality;
use smallvec::SmallVec;
use statestored_shared::{
    EngineCommit, EngineKey, EngineRequestId, EngineValue, Record, Revision, bucket_of,
};
use statestored_store::keyspace::RequestDigest;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

/// Maximum number of entries in a group: the script passes twice as many to one command.
const MAX_ENTRIES: usize = 128;

/// Maximum size of a group in bytes.
const MAX_BYTES: usize = 1_000_000;

/// Placeholder for an entry that is not changed; a record is longer.
const UNCHANGED: &[u8] = b"-";

/// An entry that is compared, changed, or both.
#[derive(Debug)]
struct CommitEntry {
    key: Bytes,
    expected: Option<Revision>,
    change: Option<EntryUpdate>,
}

#[derive(Debug)]
enum EntryUpdate {
    Put(Record),
    Purge,
}

/// A floor that is compared, changed, or both.
#[derive(Debug)]
struct CommitFloor {
    bucket: u16,
    expected: Option<Revision>,
    version: Option<String>,
}

/// A set of changes that is made atomically.
#[derive(Debug)]
pub(super) struct ScriptCommit {
    pub(super) request_id: EngineRequestId,
    /// The entries. Those that are changed come first, in the order in which the changes are reported.
    entries: SmallVec<[CommitEntry; 1]>,
    floors: Vec<CommitFloor>,
    /// The answer to the request, to be stored unless the request was answered before.
    reply: Option<(RequestDigest, Bytes)>,
    /// The indexes of the compared entries, in the order of the unit.
    pub(super) compared: SmallVec<[usize; 1]>,
    /// Approximate size in bytes.
    pub(super) bytes: usize,
}

impl ScriptCommit {
    pub(super) fn new(id: EngineRequestId, unit: &EngineCommit) -> Self {
        let (mut entries, mut floors) = (SmallVec::<[CommitEntry; 1]>::new(), Vec::new());
        for (place, revision) in &unit.compares {
            let expected = Some(*revision);
            match place {
                EngineKey::Entry(key) => entries.push(CommitEntry {
                    key: key.clone(),
                    expected,
                    change: None,
                }),
                EngineKey::Floor(bucket) => floors.push(CommitFloor {
                    bucket: *bucket,
                    expected,
                    version: None,
                }),
                // The answer has to be absent.
                EngineKey::Reply(_) => {}
            }
        }
        let compared: SmallVec<[Bytes; 1]> = entries.iter().map(|it| it.key.clone()).collect();
        let mut answer = None;
        let mut bytes = 0;
        for (place, put) in &unit.puts {
            match (place, put) {
                (EngineKey::Entry(key), put) => {
                    bytes += 100 + key.len();
                    let change = match put {
                        EngineValue::Record(record) => {
                            bytes += record.encoded_len();
                            EntryUpdate::Put(record.clone())
                        }
                        EngineValue::Floor(_) | EngineValue::Reply(_) | EngineValue::Absent => {
                            EntryUpdate::Purge
                        }
                    };
                    let change = Some(change);
                    match entries.iter_mut().find(|entry| entry.key == key) {
                        Some(known) => known.change = change,
                        None => entries.push(CommitEntry {
                            key: key.clone(),
                            expected: None,
                            change,
                        }),
                    }
                }
                (EngineKey::Floor(bucket), EngineValue::Floor(version)) => {
                    bytes += 100;
                    let version = Some(encode_version(*version));
                    match floors.iter_mut().find(|floor| floor.bucket == *bucket) {
                        Some(known) => known.version = version,
                        None => floors.push(CommitFloor {
                            bucket: *bucket,
                            expected: None,
                            version,
                        }),
                    }
                }
                (EngineKey::Reply(request), EngineValue::Reply(given)) => {
                    bytes += 100 + given.len();
                    answer = Some((*request, given.clone()));
                }
                (EngineKey::Floor(_) | EngineKey::Reply(_), _) => {}
            }
        }
        if entries.len() > 1 {
            let put = |key: &Bytes| {
                let mut puts = unit.puts.iter();
                puts.position(|(place, _)| matches!(place, EngineKey::Entry(of) if of == key))
            };
            entries.sort_by_key(|entry| put(&entry.key).unwrap_or(usize::MAX));
        }
        let compared = compared.iter().filter_map(|key| {
            let mut entries = entries.iter();
            entries.position(|entry| entry.key == key)
        });
        let compared = compared.collect();
        Self {
            request_id: id,
            entries,
            floors,
            reply: answer,
            compared,
            bytes,
        }
    }

    /// Returns the engine keys that the commit compares or changes, and whether it changes them.
    fn engine_keys(&self) -> impl Iterator<Item = (EngineKey, bool)> {
        let entries = self.entries.iter();
        let entries = entries.map(|it| (EngineKey::Entry(it.key.clone()), it.change.is_some()));
        let floors = self.floors.iter();
        let floors = floors.map(|it| (EngineKey::Floor(it.bucket), it.version.is_some()));
        let answer = self.reply.iter();
        let answer = answer.map(|(request, _)| (EngineKey::Reply(*request), true));
        entries.chain(floors).chain(answer)
    }

    /// Returns the key, revision and record of a plain commit: one that compares one existing entry, gives it another
    /// record, and does nothing else.
    fn as_plain(&self) -> Option<(&Bytes, Revision, &Record)> {
        match &self.entries[..] {
            [
                CommitEntry {
                    key,
                    expected: Some(expected),
                    change: Some(EntryUpdate::Put(record)),
                },
            ] if *expected > Revision(0) && self.floors.is_empty() && self.reply.is_none() => {
                Some((key, *expected, record))
            }
            _ => None,
        }
    }

    /// Returns the changes in the form of the stream.
    pub(super) fn changes(self) -> impl Iterator<Item = (Bytes, Option<Record>)> {
        let entries = self.entries.into_iter();
        entries.filter_map(|entry| match entry.change? {
            EntryUpdate::Put(record) => Some((entry.key, Some(record))),
            EntryUpdate::Purge => Some((entry.key, None)),
        })
    }
}

/// The engine keys of the units in a group, and whether they are changed.
#[derive(Debug, Default)]
struct GroupKeys(HashMap<EngineKey, bool, quality::RandomState>);

impl GroupKeys {
    /// Adds the engine keys of a unit, unless the unit and another one share a key that one of them changes.
    fn try_add(&mut self, commit: &ScriptCommit) -> bool {
        let is_free = commit
            .engine_keys()
            .all(|(place, is_changed)| match self.0.get(&place) {
                None => true,
                Some(was_changed) => !is_changed && !was_changed,
            });
        if is_free {
            self.0.extend(commit.engine_keys());
        }
        is_free
    }
}

/// Takes as many units as fit one call of the script, at least one. No unit changes an engine key that another one
/// compares or changes.
pub(super) fn gather(queue: &mut VecDeque<ScriptCommit>) -> Vec<ScriptCommit> {
    let mut group = Vec::new();
    let mut places = GroupKeys::default();
    let (mut entries, mut bytes) = (0, 0);
    while let Some(next) = queue.front() {
        entries += next.entries.len();
        bytes += next.bytes;
        let is_full = entries > MAX_ENTRIES || bytes > MAX_BYTES;
        if !group.is_empty() && (is_full || !places.try_add(next)) {
            break;
        }
        if group.is_empty() {
            places.try_add(next);
        }
        group.extend(queue.pop_front());
    }
    group
}

/// A group in the form of the script: plain units first, by shelf.
pub(super) struct ScriptLayout<'a> {
    plain: Vec<PlainCommit<'a>>,
    /// Other units, with their positions in the group.
    other_commits: Vec<(usize, &'a ScriptCommit)>,
}

struct PlainCommit<'a> {
    bucket: u16,
    /// The position in the group.
    index: usize,
    key: &'a Bytes,
    expected: Revision,
    record: &'a Record,
}

impl<'a> ScriptLayout<'a> {
    pub(super) fn of(group: &'a [ScriptCommit]) -> Self {
        let (mut plain, mut others) = (Vec::with_capacity(group.len()), Vec::new());
        for (place, commit) in group.iter().enumerate() {
            match commit.as_plain() {
                Some((key, expected, record)) => plain.push(PlainCommit {
                    bucket: bucket_of(key),
                    index: place,
                    key,
                    expected,
                    record,
                }),
                None => others.push((place, commit)),
            }
        }
        plain.sort_by_key(|unit| shelf_of(unit.bucket));
        Self {
            plain,
            other_commits: others,
        }
    }

    /// Returns the plain units of each shelf.
    fn shelves(&self) -> impl Iterator<Item = &[PlainCommit<'a>]> {
        let is_same = |one: &PlainCommit<'_>, other: &PlainCommit<'_>| {
            shelf_of(one.bucket) == shelf_of(other.bucket)
        };
        self.plain.chunk_by(is_same)
    }

    /// Returns the position of each unit in the group, in the order of the script.
    fn indices(&self) -> impl Iterator<Item = usize> {
        let plain = self.plain.iter().map(|unit| unit.index);
        plain.chain(self.other_commits.iter().map(|(place, _)| *place))
    }

    /// Returns the number of hashes, sets and answers whose names are passed to the script.
    pub(super) fn names(&self) -> usize {
        let others = self.other_commits.iter();
        let others = others.map(|(_, it)| 2 * it.entries.len() + usize::from(it.reply.is_some()));
        self.shelves().count() + others.sum::<usize>()
    }

    /// Adds the names and the arguments of the script, of which `head` comes first.
    pub(super) fn write_to(&self, call: &mut Cmd, names: &KeyNames, head: [&[u8]; 3]) {
        let mut counts: SmallVec<[usize; SHELVES as usize]> = SmallVec::new();
        for units in self.shelves() {
            let bucket = units.first().map_or(0, |unit| unit.bucket);
            call.arg(names.entries_of_bucket(bucket));
            counts.push(units.len());
        }
        for (_, commit) in &self.other_commits {
            for entry in &commit.entries {
                let bucket = bucket_of(&entry.key);
                call.arg(names.entries_of_bucket(bucket))
                    .arg(names.keys(bucket));
            }
            if let Some((request, _)) = &commit.reply {
                call.arg(names.reply(*request));
            }
        }
        for argument in head {
            call.arg(argument);
        }
        call.arg(counts.len());
        // A group has fewer than 256 units.
        let places = self
            .indices()
            .map(|place| u8::try_from(place).unwrap_or(u8::MAX));
        call.arg(&places.collect::<SmallVec<[u8; MAX_ENTRIES]>>()[..]);
        let mut buckets = String::with_capacity(4 * self.plain.len());
        for unit in &self.plain {
            // Writing to a string never fails.
            let _ = write!(buckets, "{:04x}", unit.bucket);
        }
        call.arg(buckets);
        for count in counts {
            call.arg(count);
        }
        for unit in &self.plain {
            call.arg(&unit.key[..]);
        }
        for unit in &self.plain {
            put_expectation(call, Some(unit.expected));
        }
        for unit in &self.plain {
            call.arg(&unit.key[..]);
            put_record(call, unit.record);
        }
        call.arg(self.other_commits.len());
        for (_, commit) in &self.other_commits {
            write_commit(call, commit);
        }
    }

    /// Puts outcomes in the order of the script into the order of the group.
    pub(super) fn in_order<T>(&self, outcomes: Vec<T>) -> Option<Vec<T>> {
        let count = self.plain.len() + self.other_commits.len();
        if outcomes.len() != count {
            return None;
        }
        let mut in_order: Vec<_> = self.indices().zip(outcomes).collect();
        in_order.sort_by_key(|(place, _)| *place);
        Some(in_order.into_iter().map(|(_, outcome)| outcome).collect())
    }
}

fn write_commit(call: &mut Cmd, commit: &ScriptCommit) {
    call.arg(commit.entries.len());
    for entry in &commit.entries {
        call.arg(bucket_of(&entry.key)).arg(&entry.key[..]);
        put_expectation(call, entry.expected);
        match &entry.change {
            None => call.write_arg(UNCHANGED),
            Some(EntryUpdate::Purge) => call.write_arg(b""),
            Some(EntryUpdate::Put(record)) => put_record(call, record),
        }
    }
    call.arg(commit.floors.len());
    for floor in &commit.floors {
        call.arg(floor.bucket);
        put_expectation(call, floor.expected);
        call.arg(floor.version.as_deref().unwrap_or_default());
    }
    let answer = commit.reply.as_ref();
    call.arg(answer.map_or(&[][..], |(_, given)| given));
}

fn put_expectation(call: &mut Cmd, expected: Option<Revision>) {
    match expected {
        Some(Revision(revision)) => call.write_arg_fmt(format_args!("{revision}:")),
        None => call.write_arg(b""),
    }
}

fn put_record(call: &mut Cmd, record: &Record) {
    record.encode_to(&mut call.bufmut_for_next_arg(record.encoded_len()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestored_shared::{RecordContent, WriteId};

    fn record(bytes: usize) -> Record {
        Record {
            version: (1, 0),
            write: WriteId {
                process: 1,
                number: 1,
            },
            content: RecordContent::Entry {
                value: vec![0; bytes].into(),
                token: None,
                expiry: None,
            },
        }
    }

    fn change(key: &str, bytes: usize) -> ScriptCommit {
        let place = EngineKey::Entry(key.to_owned().into());
        let unit = EngineCommit {
            compares: vec![
                (place.clone(), Revision(1)),
                (EngineKey::Floor(3), Revision(1)),
            ],
            puts: vec![(place, EngineValue::Record(record(bytes)))],
        };
        ScriptCommit::new(EngineRequestId(1), &unit)
    }

    fn purge(key: &str) -> ScriptCommit {
        let place = EngineKey::Entry(key.to_owned().into());
        let unit = EngineCommit {
            compares: vec![
                (place.clone(), Revision(1)),
                (EngineKey::Floor(3), Revision(1)),
            ],
            puts: vec![
                (place, EngineValue::Absent),
                (EngineKey::Floor(3), EngineValue::Floor((1, 0))),
            ],
        };
        ScriptCommit::new(EngineRequestId(1), &unit)
    }

    fn groups(commits: impl IntoIterator<Item = ScriptCommit>) -> Vec<usize> {
        let mut queue: VecDeque<_> = commits.into_iter().collect();
        let mut sizes = Vec::new();
        while !queue.is_empty() {
            sizes.push(gather(&mut queue).len());
        }
        sizes
    }

    #[test]
    fn a_group_has_at_least_one_commit_and_is_bounded() {
        let sized = |sizes: &[usize]| {
            let sizes = sizes.iter().enumerate();
            groups(sizes.map(|(number, bytes)| change(&number.to_string(), *bytes)))
        };
        assert_eq!(sized(&[2 * MAX_BYTES, 1]), [1, 1]);
        assert_eq!(
            sized(&[MAX_BYTES / 3, MAX_BYTES / 2, MAX_BYTES / 3]),
            [2, 1]
        );
        assert_eq!(sized(&[1; 200]), [MAX_ENTRIES, 200 - MAX_ENTRIES]);
    }

    #[test]
    fn commits_of_a_group_share_no_changed_key() {
        assert_eq!(groups([change("a", 1), change("b", 1)]), [2]);
        assert_eq!(groups([change("a", 1), change("a", 1)]), [1, 1]);
        assert_eq!(groups([change("a", 1), purge("b")]), [1, 1]);
        assert_eq!(groups([purge("a"), purge("b"), change("c", 1)]), [1, 1, 1]);
    }

    /// Returns a commit that gives an existing entry another record.
    fn overwriting(key: &str) -> ScriptCommit {
        let place = EngineKey::Entry(key.to_owned().into());
        let unit = EngineCommit {
            compares: vec![(place.clone(), Revision(1))],
            puts: vec![(place, EngineValue::Record(record(1)))],
        };
        ScriptCommit::new(EngineRequestId(1), &unit)
    }

    #[test]
    fn outcomes_are_returned_in_the_order_of_the_group() {
        let mut group: Vec<_> = (0..40)
            .map(|number| overwriting(&number.to_string()))
            .collect();
        group[7] = purge("7");
        group[21] = change("21", 1);
        let layout = ScriptLayout::of(&group);
        assert_eq!((layout.plain.len(), layout.other_commits.len()), (38, 2));
        let shelves: Vec<_> = layout.shelves().map(|it| shelf_of(it[0].bucket)).collect();
        assert!(shelves.is_sorted() && shelves.len() == usize::from(SHELVES));
        let of_script = layout.indices().collect::<Vec<_>>();
        assert_ne!(of_script, (0..40).collect::<Vec<_>>());
        assert_eq!(layout.in_order(of_script), Some((0..40).collect()));
        assert_eq!(layout.in_order(vec![0; 39]), None);
    }

    #[test]
    fn a_key_that_is_compared_and_changed_takes_one_entry() {
        let commit = purge("a");
        assert_eq!((commit.entries.len(), commit.floors.len()), (1, 1));
        assert!(matches!(commit.entries[0].change, Some(EntryUpdate::Purge)));
        assert_eq!(commit.floors[0].version.as_deref(), Some("1:0"));
        assert_eq!(commit.compared[..], [0]);
    }
}
