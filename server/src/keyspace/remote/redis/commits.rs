//! Units in the form of the commit script, and their grouping.
use super::names::{Names, SHELVES, encode_version, shelf_of};
use crate::keyspace::RequestDigest;
use crate::keyspace::remote::{AskId, Place, Put, Record, Revision, Unit, bucket_of};
use ::redis::{Cmd, RedisWrite};
use bytes::Bytes;
use foldhash::quality;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

/// Maximum number of entries in a group: the script passes twice as many to one command.
const MOST_ENTRIES: usize = 128;

/// Maximum size of a group in bytes.
const MOST_BYTES: usize = 1_000_000;

/// Placeholder for an entry that is not changed; a record is longer.
const UNCHANGED: &[u8] = b"-";

/// An entry that is compared, changed, or both.
#[derive(Debug)]
struct Entry {
    key: Bytes,
    expected: Option<Revision>,
    change: Option<Change>,
}

#[derive(Debug)]
enum Change {
    Put(Record),
    Purge,
}

/// A floor that is compared, changed, or both.
#[derive(Debug)]
struct Floor {
    bucket: u16,
    expected: Option<Revision>,
    version: Option<String>,
}

/// A set of changes that is made atomically.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) ask: AskId,
    /// The entries. Those that are changed come first, in the order in which the changes are reported.
    entries: SmallVec<[Entry; 1]>,
    floors: Vec<Floor>,
    /// The answer to the request, to be stored unless the request was answered before.
    answer: Option<(RequestDigest, Bytes)>,
    /// The indexes of the compared entries, in the order of the unit.
    pub(super) compared: SmallVec<[usize; 1]>,
    /// Approximate size in bytes.
    pub(super) bytes: usize,
}

impl Commit {
    pub(super) fn new(ask: AskId, unit: &Unit) -> Self {
        let (mut entries, mut floors) = (SmallVec::<[Entry; 1]>::new(), Vec::new());
        for (place, revision) in &unit.compares {
            let expected = Some(*revision);
            match place {
                Place::Entry(key) => entries.push(Entry {
                    key: key.clone(),
                    expected,
                    change: None,
                }),
                Place::Floor(bucket) => floors.push(Floor {
                    bucket: *bucket,
                    expected,
                    version: None,
                }),
                // The answer has to be absent.
                Place::Answer(_) => {}
            }
        }
        let compared: SmallVec<[Bytes; 1]> = entries.iter().map(|it| it.key.clone()).collect();
        let mut answer = None;
        let mut bytes = 0;
        for (place, put) in &unit.puts {
            match (place, put) {
                (Place::Entry(key), put) => {
                    bytes += 100 + key.len();
                    let change = match put {
                        Put::Record(record) => {
                            bytes += record.encoded_len();
                            Change::Put(record.clone())
                        }
                        Put::Floor(_) | Put::Answer(_) | Put::Nothing => Change::Purge,
                    };
                    let change = Some(change);
                    match entries.iter_mut().find(|entry| entry.key == key) {
                        Some(known) => known.change = change,
                        None => entries.push(Entry {
                            key: key.clone(),
                            expected: None,
                            change,
                        }),
                    }
                }
                (Place::Floor(bucket), Put::Floor(version)) => {
                    bytes += 100;
                    let version = Some(encode_version(*version));
                    match floors.iter_mut().find(|floor| floor.bucket == *bucket) {
                        Some(known) => known.version = version,
                        None => floors.push(Floor {
                            bucket: *bucket,
                            expected: None,
                            version,
                        }),
                    }
                }
                (Place::Answer(request), Put::Answer(given)) => {
                    bytes += 100 + given.len();
                    answer = Some((*request, given.clone()));
                }
                (Place::Floor(_) | Place::Answer(_), _) => {}
            }
        }
        if entries.len() > 1 {
            let put = |key: &Bytes| {
                let mut puts = unit.puts.iter();
                puts.position(|(place, _)| matches!(place, Place::Entry(of) if of == key))
            };
            entries.sort_by_key(|entry| put(&entry.key).unwrap_or(usize::MAX));
        }
        let compared = compared.iter().filter_map(|key| {
            let mut entries = entries.iter();
            entries.position(|entry| entry.key == key)
        });
        let compared = compared.collect();
        Self {
            ask,
            entries,
            floors,
            answer,
            compared,
            bytes,
        }
    }

    /// Returns the engine keys that the commit compares or changes, and whether it changes them.
    fn places(&self) -> impl Iterator<Item = (Place, bool)> {
        let entries = self.entries.iter();
        let entries = entries.map(|it| (Place::Entry(it.key.clone()), it.change.is_some()));
        let floors = self.floors.iter();
        let floors = floors.map(|it| (Place::Floor(it.bucket), it.version.is_some()));
        let answer = self.answer.iter();
        let answer = answer.map(|(request, _)| (Place::Answer(*request), true));
        entries.chain(floors).chain(answer)
    }

    /// Returns the key, revision and record of a plain commit: one that compares one existing entry, gives it another
    /// record, and does nothing else.
    fn plain(&self) -> Option<(&Bytes, Revision, &Record)> {
        match &self.entries[..] {
            [
                Entry {
                    key,
                    expected: Some(expected),
                    change: Some(Change::Put(record)),
                },
            ] if *expected > Revision(0) && self.floors.is_empty() && self.answer.is_none() => {
                Some((key, *expected, record))
            }
            _ => None,
        }
    }

    /// Returns the changes in the form of the stream.
    pub(super) fn changes(self) -> impl Iterator<Item = (Bytes, Option<Record>)> {
        let entries = self.entries.into_iter();
        entries.filter_map(|entry| match entry.change? {
            Change::Put(record) => Some((entry.key, Some(record))),
            Change::Purge => Some((entry.key, None)),
        })
    }
}

/// The engine keys of the units in a group, and whether they are changed.
#[derive(Debug, Default)]
struct Places(HashMap<Place, bool, quality::RandomState>);

impl Places {
    /// Adds the engine keys of a unit, unless the unit and another one share a key that one of them changes.
    fn admit(&mut self, commit: &Commit) -> bool {
        let is_free = commit
            .places()
            .all(|(place, is_changed)| match self.0.get(&place) {
                None => true,
                Some(was_changed) => !is_changed && !was_changed,
            });
        if is_free {
            self.0.extend(commit.places());
        }
        is_free
    }
}

/// Takes as many units as fit one call of the script, at least one. No unit changes an engine key that another one
/// compares or changes.
pub(super) fn gather(queue: &mut VecDeque<Commit>) -> Vec<Commit> {
    let mut group = Vec::new();
    let mut places = Places::default();
    let (mut entries, mut bytes) = (0, 0);
    while let Some(next) = queue.front() {
        entries += next.entries.len();
        bytes += next.bytes;
        let is_full = entries > MOST_ENTRIES || bytes > MOST_BYTES;
        if !group.is_empty() && (is_full || !places.admit(next)) {
            break;
        }
        if group.is_empty() {
            places.admit(next);
        }
        group.extend(queue.pop_front());
    }
    group
}

/// A group in the form of the script: plain units first, by shelf.
pub(super) struct Layout<'a> {
    plain: Vec<Plain<'a>>,
    /// Other units, with their positions in the group.
    others: Vec<(usize, &'a Commit)>,
}

struct Plain<'a> {
    bucket: u16,
    /// The position in the group.
    place: usize,
    key: &'a Bytes,
    expected: Revision,
    record: &'a Record,
}

impl<'a> Layout<'a> {
    pub(super) fn of(group: &'a [Commit]) -> Self {
        let (mut plain, mut others) = (Vec::with_capacity(group.len()), Vec::new());
        for (place, commit) in group.iter().enumerate() {
            match commit.plain() {
                Some((key, expected, record)) => plain.push(Plain {
                    bucket: bucket_of(key),
                    place,
                    key,
                    expected,
                    record,
                }),
                None => others.push((place, commit)),
            }
        }
        plain.sort_by_key(|unit| shelf_of(unit.bucket));
        Self { plain, others }
    }

    /// Returns the plain units of each shelf.
    fn shelves(&self) -> impl Iterator<Item = &[Plain<'a>]> {
        let is_same =
            |one: &Plain<'_>, other: &Plain<'_>| shelf_of(one.bucket) == shelf_of(other.bucket);
        self.plain.chunk_by(is_same)
    }

    /// Returns the position of each unit in the group, in the order of the script.
    fn places(&self) -> impl Iterator<Item = usize> {
        let plain = self.plain.iter().map(|unit| unit.place);
        plain.chain(self.others.iter().map(|(place, _)| *place))
    }

    /// Returns the number of hashes, sets and answers whose names are passed to the script.
    pub(super) fn names(&self) -> usize {
        let others = self.others.iter();
        let others = others.map(|(_, it)| 2 * it.entries.len() + usize::from(it.answer.is_some()));
        self.shelves().count() + others.sum::<usize>()
    }

    /// Adds the names and the arguments of the script, of which `head` comes first.
    pub(super) fn describe(&self, call: &mut Cmd, names: &Names, head: [&[u8]; 3]) {
        let mut counts: SmallVec<[usize; SHELVES as usize]> = SmallVec::new();
        for units in self.shelves() {
            let bucket = units.first().map_or(0, |unit| unit.bucket);
            call.arg(names.entries_with(bucket));
            counts.push(units.len());
        }
        for (_, commit) in &self.others {
            for entry in &commit.entries {
                let bucket = bucket_of(&entry.key);
                call.arg(names.entries_with(bucket)).arg(names.keys(bucket));
            }
            if let Some((request, _)) = &commit.answer {
                call.arg(names.answer(*request));
            }
        }
        for argument in head {
            call.arg(argument);
        }
        call.arg(counts.len());
        // A group has fewer than 256 units.
        let places = self
            .places()
            .map(|place| u8::try_from(place).unwrap_or(u8::MAX));
        call.arg(&places.collect::<SmallVec<[u8; MOST_ENTRIES]>>()[..]);
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
        call.arg(self.others.len());
        for (_, commit) in &self.others {
            put_unit(call, commit);
        }
    }

    /// Puts outcomes in the order of the script into the order of the group.
    pub(super) fn in_order<T>(&self, outcomes: Vec<T>) -> Option<Vec<T>> {
        let count = self.plain.len() + self.others.len();
        if outcomes.len() != count {
            return None;
        }
        let mut in_order: Vec<_> = self.places().zip(outcomes).collect();
        in_order.sort_by_key(|(place, _)| *place);
        Some(in_order.into_iter().map(|(_, outcome)| outcome).collect())
    }
}

fn put_unit(call: &mut Cmd, commit: &Commit) {
    call.arg(commit.entries.len());
    for entry in &commit.entries {
        call.arg(bucket_of(&entry.key)).arg(&entry.key[..]);
        put_expectation(call, entry.expected);
        match &entry.change {
            None => call.write_arg(UNCHANGED),
            Some(Change::Purge) => call.write_arg(b""),
            Some(Change::Put(record)) => put_record(call, record),
        }
    }
    call.arg(commit.floors.len());
    for floor in &commit.floors {
        call.arg(floor.bucket);
        put_expectation(call, floor.expected);
        call.arg(floor.version.as_deref().unwrap_or_default());
    }
    let answer = commit.answer.as_ref();
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
    use crate::keyspace::remote::{Content, WriteId};

    fn record(bytes: usize) -> Record {
        Record {
            version: (1, 0),
            write: WriteId {
                process: 1,
                number: 1,
            },
            content: Content::Entry {
                value: vec![0; bytes].into(),
                token: None,
                expiry: None,
            },
        }
    }

    fn change(key: &str, bytes: usize) -> Commit {
        let place = Place::Entry(key.to_owned().into());
        let unit = Unit {
            compares: vec![(place.clone(), Revision(1)), (Place::Floor(3), Revision(1))],
            puts: vec![(place, Put::Record(record(bytes)))],
        };
        Commit::new(AskId(1), &unit)
    }

    fn purge(key: &str) -> Commit {
        let place = Place::Entry(key.to_owned().into());
        let unit = Unit {
            compares: vec![(place.clone(), Revision(1)), (Place::Floor(3), Revision(1))],
            puts: vec![(place, Put::Nothing), (Place::Floor(3), Put::Floor((1, 0)))],
        };
        Commit::new(AskId(1), &unit)
    }

    fn groups(commits: impl IntoIterator<Item = Commit>) -> Vec<usize> {
        let mut queue: VecDeque<_> = commits.into_iter().collect();
        let mut sizes = Vec::new();
        while !queue.is_empty() {
            sizes.push(gather(&mut queue).len());
        }
        sizes
    }

    #[test]
    fn a_group_has_one_at_least_and_no_more_than_fits() {
        let sized = |sizes: &[usize]| {
            let sizes = sizes.iter().enumerate();
            groups(sizes.map(|(number, bytes)| change(&number.to_string(), *bytes)))
        };
        assert_eq!(sized(&[2 * MOST_BYTES, 1]), [1, 1]);
        assert_eq!(
            sized(&[MOST_BYTES / 3, MOST_BYTES / 2, MOST_BYTES / 3]),
            [2, 1]
        );
        assert_eq!(sized(&[1; 200]), [MOST_ENTRIES, 200 - MOST_ENTRIES]);
    }

    #[test]
    fn none_of_a_group_changes_what_another_one_has() {
        assert_eq!(groups([change("a", 1), change("b", 1)]), [2]);
        assert_eq!(groups([change("a", 1), change("a", 1)]), [1, 1]);
        assert_eq!(groups([change("a", 1), purge("b")]), [1, 1]);
        assert_eq!(groups([purge("a"), purge("b"), change("c", 1)]), [1, 1, 1]);
    }

    /// Returns a commit that gives an existing entry another record.
    fn overwriting(key: &str) -> Commit {
        let place = Place::Entry(key.to_owned().into());
        let unit = Unit {
            compares: vec![(place.clone(), Revision(1))],
            puts: vec![(place, Put::Record(record(1)))],
        };
        Commit::new(AskId(1), &unit)
    }

    #[test]
    fn outcomes_are_those_of_their_units_whatever_the_script_begins_with() {
        let mut group: Vec<_> = (0..40)
            .map(|number| overwriting(&number.to_string()))
            .collect();
        group[7] = purge("7");
        group[21] = change("21", 1);
        let layout = Layout::of(&group);
        assert_eq!((layout.plain.len(), layout.others.len()), (38, 2));
        let shelves: Vec<_> = layout.shelves().map(|it| shelf_of(it[0].bucket)).collect();
        assert!(shelves.is_sorted() && shelves.len() == usize::from(SHELVES));
        let of_script = layout.places().collect::<Vec<_>>();
        assert_ne!(of_script, (0..40).collect::<Vec<_>>());
        assert_eq!(layout.in_order(of_script), Some((0..40).collect()));
        assert_eq!(layout.in_order(vec![0; 39]), None);
    }

    #[test]
    fn what_is_compared_and_changed_is_one_entry() {
        let commit = purge("a");
        assert_eq!((commit.entries.len(), commit.floors.len()), (1, 1));
        assert!(matches!(commit.entries[0].change, Some(Change::Purge)));
        assert_eq!(commit.floors[0].version.as_deref(), Some("1:0"));
        assert_eq!(commit.compared[..], [0]);
    }
}
