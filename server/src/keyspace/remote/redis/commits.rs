//! Units as the script that commits is told of them, and which of them go together.
use super::names::{Names, encode_version};
use crate::keyspace::RequestDigest;
use crate::keyspace::remote::{AskId, Place, Put, Revision, Unit, bucket_of};
use ::redis::Cmd;
use bytes::Bytes;
use foldhash::quality;
use std::collections::{HashMap, VecDeque};

/// Most entries of a group: the script passes twice as many to one command.
const MOST_ENTRIES: usize = 128;

/// Most bytes of a group.
const MOST_BYTES: usize = 1_000_000;

/// What is said of an entry that is not changed; a record is longer.
const UNCHANGED: &[u8] = b"-";

/// An entry that is compared, changed, or both.
#[derive(Debug)]
struct Entry {
    key: Bytes,
    expected: Option<Revision>,
    /// Nothing if it is purged.
    record: Option<Bytes>,
}

/// The same for a floor.
#[derive(Debug)]
struct Floor {
    bucket: u16,
    expected: Option<Revision>,
    version: Option<String>,
}

/// Changes to be made together, or not at all.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) ask: AskId,
    /// Those that are compared come first.
    entries: Vec<Entry>,
    floors: Vec<Floor>,
    /// What the request is answered, unless it was answered before.
    answer: Option<(RequestDigest, Bytes)>,
    /// How many entries are compared.
    pub(super) compared: usize,
    /// Roughly how many bytes it has.
    pub(super) bytes: usize,
}

impl Commit {
    pub(super) fn new(ask: AskId, unit: &Unit) -> Self {
        let (mut entries, mut floors) = (Vec::new(), Vec::new());
        for (place, revision) in &unit.compares {
            let expected = Some(*revision);
            match place {
                Place::Entry(key) => entries.push(Entry {
                    key: key.clone(),
                    expected,
                    record: None,
                }),
                Place::Floor(bucket) => floors.push(Floor {
                    bucket: *bucket,
                    expected,
                    version: None,
                }),
                // It has to be absent.
                Place::Answer(_) => {}
            }
        }
        let compared = entries.len();
        let mut answer = None;
        let mut bytes = 0;
        for (place, put) in &unit.puts {
            match (place, put) {
                (Place::Entry(key), put) => {
                    let record = match put {
                        Put::Record(record) => record.encode(),
                        Put::Floor(_) | Put::Answer(_) | Put::Nothing => Bytes::new(),
                    };
                    bytes += 100 + key.len() + record.len();
                    let record = Some(record);
                    match entries.iter_mut().find(|entry| entry.key == key) {
                        Some(known) => known.record = record,
                        None => entries.push(Entry {
                            key: key.clone(),
                            expected: None,
                            record,
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
        Self {
            ask,
            entries,
            floors,
            answer,
            compared,
            bytes,
        }
    }

    /// What it compares or changes, and whether it changes it.
    fn places(&self) -> impl Iterator<Item = (Place, bool)> {
        let entries = self.entries.iter();
        let entries = entries.map(|it| (Place::Entry(it.key.clone()), it.record.is_some()));
        let floors = self.floors.iter();
        let floors = floors.map(|it| (Place::Floor(it.bucket), it.version.is_some()));
        let answer = self.answer.iter();
        let answer = answer.map(|(request, _)| (Place::Answer(*request), true));
        entries.chain(floors).chain(answer)
    }
}

/// The places that the units of a group have, and which of them are changed.
#[derive(Debug, Default)]
struct Places(HashMap<Place, bool, quality::RandomState>);

impl Places {
    /// Adds those of a unit, unless one of them changes what another one has as well.
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

/// So many units as fit one call of the script, of which none changes what another one compares or changes; one at least.
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

/// Puts the names of the hashes and answers, and then what the script is told: this first.
pub(super) fn describe(call: &mut Cmd, group: &[Commit], names: &Names, head: [&[u8]; 3]) {
    for commit in group {
        for entry in &commit.entries {
            call.arg(names.entries(bucket_of(&entry.key)));
        }
        if let Some((request, _)) = &commit.answer {
            call.arg(names.answer(*request));
        }
    }
    for argument in head {
        call.arg(argument);
    }
    call.arg(group.len());
    for Commit {
        entries,
        floors,
        answer,
        ..
    } in group
    {
        call.arg(entries.len());
        for entry in entries {
            call.arg(&entry.key[..]).arg(expectation(entry.expected));
            call.arg(entry.record.as_deref().unwrap_or(UNCHANGED));
        }
        call.arg(floors.len());
        for floor in floors {
            call.arg(floor.bucket).arg(expectation(floor.expected));
            call.arg(floor.version.as_deref().unwrap_or_default());
        }
        call.arg(answer.as_ref().map_or(&[][..], |(_, given)| given));
    }
}

/// How many hashes and answers the units of a group name.
pub(super) fn names_of(group: &[Commit]) -> usize {
    let names = group.iter();
    let names = names.map(|commit| commit.entries.len() + usize::from(commit.answer.is_some()));
    names.sum()
}

fn expectation(expected: Option<Revision>) -> String {
    expected.map_or_else(String::new, |Revision(revision)| format!("{revision}:"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::remote::{Content, Record, WriteId};

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

    #[test]
    fn what_is_compared_and_changed_is_one_entry() {
        let commit = purge("a");
        assert_eq!((commit.entries.len(), commit.floors.len()), (1, 1));
        assert_eq!(commit.entries[0].record.as_deref(), Some(&b""[..]));
        assert_eq!(commit.floors[0].version.as_deref(), Some("1:0"));
        assert_eq!(commit.compared, 1);
    }
}
