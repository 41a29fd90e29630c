//! Which changes are told: those of the keys that somebody follows, each once, in the order of their versions.
use super::engine::AskId;
use super::maps::{ById, ByKey};
use super::record::{Content, Record};
use crate::keyspace::rules::Version;
use crate::keyspace::{Changed, Ticket, Told, What};
use bytes::Bytes;

/// What was told of a key last, or what it was when somebody began to follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Last {
    version: Version,
    is_removed: bool,
}

#[derive(Debug, Default)]
struct Followed {
    /// What was told, or seen while nobody knew yet what the key held at the beginning.
    last: Option<Last>,
    /// What was told. It can be before the last: an end is not told of what nobody was told.
    told: Option<Last>,
    /// Those who wait to be told that it is followed.
    waiting: Vec<Ticket>,
}

/// The keys that somebody follows.
#[derive(Debug, Default)]
pub(super) struct Following {
    keys: ByKey<Followed>,
    /// Which key a question is about.
    asked: ById<AskId, Bytes>,
    /// Those who waited for a key that nobody follows any more.
    released: Vec<Ticket>,
}

impl Following {
    /// Somebody wants to follow a key. Whether that is so already, and nothing has to be asked.
    pub(super) fn begin(&mut self, key: &Bytes, ticket: Ticket) -> bool {
        let followed = self.keys.entry(key.clone()).or_default();
        if followed.last.is_some() && followed.waiting.is_empty() {
            return true;
        }
        followed.waiting.push(ticket);
        false
    }

    /// What the key holds was asked for.
    pub(super) fn asked(&mut self, ask: AskId, key: Bytes) {
        self.asked.insert(ask, key);
    }

    /// Which key a question was about, if it was about one that is to be followed.
    pub(super) fn answered(&mut self, ask: AskId) -> Option<Bytes> {
        self.asked.remove(&ask)
    }

    /// Questions that were asked so far are of no use any more.
    pub(super) fn forget_asked(&mut self) {
        self.asked.clear();
    }

    /// Whether somebody follows it, or waits for that.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key)
    }

    /// Whether somebody waits until it is known what the key holds.
    pub(super) fn is_waited_for(&self, key: &[u8]) -> bool {
        let followed = self.keys.get(key);
        followed.is_some_and(|followed| !followed.waiting.is_empty())
    }

    /// All of them.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.keys.keys()
    }

    /// It is known what the key held at one moment; all changes behind it will be told. Gives those who waited for that.
    pub(super) fn found(
        &mut self,
        key: &Bytes,
        record: Option<&Record>,
        floor: Version,
    ) -> Vec<Ticket> {
        // A second answer, to a question that was asked again, may be ahead of the changes that are still to be told.
        let Some(followed) = self
            .keys
            .get_mut(key)
            .filter(|followed| !followed.waiting.is_empty())
        else {
            return Vec::new();
        };
        let found = last_of(record, floor);
        if followed
            .last
            .is_none_or(|last| last.version < found.version)
        {
            followed.last = Some(found);
        }
        std::mem::take(&mut followed.waiting)
    }

    /// It cannot be known what the key holds. Gives those who wait for that.
    pub(super) fn refused(&mut self, key: &[u8]) -> Vec<Ticket> {
        let followed = self.keys.get_mut(key);
        followed.map_or_else(Vec::new, |it| std::mem::take(&mut it.waiting))
    }

    /// Nothing will be known soon. Gives those who wait, whose keys are not followed for them.
    pub(super) fn give_up(&mut self) -> Vec<Ticket> {
        let waiting = self.keys.values_mut();
        let waiting = waiting.flat_map(|followed| std::mem::take(&mut followed.waiting));
        let mut waiting: Vec<_> = waiting.collect();
        // In an order that is the same in each run of a seed.
        waiting.sort_unstable();
        waiting
    }

    /// Nobody follows the key any more. Who still waited for that has to be told an end as well.
    pub(super) fn ended(&mut self, key: &[u8]) {
        if let Some(followed) = self.keys.remove(key) {
            self.released.extend(followed.waiting);
        }
    }

    /// Whether [`take_released`](Self::take_released) gives anybody.
    pub(super) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Those who waited for a key until nobody followed it any more: no change of it is missed by that.
    pub(super) fn take_released(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.released)
    }

    /// A key was changed.
    pub(super) fn changed(&mut self, key: &Bytes, record: &Record, told: &mut dyn Told) {
        let Some(followed) = self.keys.get_mut(key) else {
            return;
        };
        let last = followed.last;
        if last.is_some_and(|last| last.version >= record.version) {
            return;
        }
        followed.last = Some(last_of(Some(record), (0, 0)));
        // What was made in between was missed: there is no end to tell of what nobody was told.
        let is_removed_again = !record.is_entry() && last.is_some_and(|last| last.is_removed);
        if followed.waiting.is_empty() && !is_removed_again {
            followed.told = followed.last;
            tell(key, record, told);
        }
    }

    /// What was seen last may have been lost. What was told stays told.
    pub(super) fn doubt(&mut self) {
        for followed in self.keys.values_mut() {
            followed.last = followed.told.or(followed.last);
        }
    }

    /// Changes may have been missed, and this is what the key holds by now.
    pub(super) fn caught_up(
        &mut self,
        key: &Bytes,
        record: Option<&Record>,
        floor: Version,
        told: &mut dyn Told,
    ) {
        if let Some(record) = record {
            return self.changed(key, record, told);
        }
        if let Some(followed) = self.keys.get_mut(key)
            && let Some(last) = followed.last
            && !last.is_removed
        {
            // Its tombstone was purged meanwhile, and the floor is not below that. If the engine has lost both, those who were told the
            // last version still have to take this for a later one.
            let behind = (last.version.0, last.version.1.saturating_add(1));
            let version = floor.max(behind);
            followed.last = Some(Last {
                version,
                is_removed: true,
            });
            followed.told = followed.last;
            tell_removed(key, version, told);
        }
    }
}

fn last_of(record: Option<&Record>, floor: Version) -> Last {
    Last {
        version: record.map_or(floor, |record| record.version),
        is_removed: !record.is_some_and(Record::is_entry),
    }
}

fn tell(key: &Bytes, record: &Record, told: &mut dyn Told) {
    let Content::Entry {
        value,
        token,
        expiry,
    } = &record.content
    else {
        return tell_removed(key, record.version, told);
    };
    told.changed(&Changed {
        key,
        version: record.version,
        what: What::Set {
            value,
            token: token.as_ref(),
            expiry: *expiry,
            is_new: false,
        },
    });
}

fn tell_removed(key: &Bytes, version: Version, told: &mut dyn Told) {
    told.changed(&Changed {
        key,
        version,
        what: What::Removed { floor: version },
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::End;
    use crate::keyspace::remote::WriteId;

    /// The versions that were told.
    #[derive(Default)]
    struct Ear(Vec<u64>);

    impl Told for Ear {
        fn changed(&mut self, change: &Changed<'_>) {
            self.0.push(change.version.0);
        }

        fn ended(&mut self, _ticket: Ticket, _end: End) {}

        fn worked(&mut self, _steps: usize) {}
    }

    fn entry(version: u64) -> Record {
        let write = WriteId {
            process: 1,
            number: version,
        };
        Record {
            version: (version, 0),
            write,
            content: Content::Entry {
                value: Bytes::new(),
                token: None,
                expiry: None,
            },
        }
    }

    /// A key that is followed since it had the version 1.
    fn followed(key: &Bytes) -> Following {
        let mut following = Following::default();
        assert!(!following.begin(key, Ticket(1)));
        let waited = following.found(key, Some(&entry(1)), (0, 0));
        assert_eq!(waited, [Ticket(1)]);
        following
    }

    #[test]
    fn a_second_answer_hides_no_change() {
        let key = Bytes::from_static(b"key");
        let (mut following, mut ear) = (followed(&key), Ear::default());
        let waited = following.found(&key, Some(&entry(3)), (0, 0));
        assert_eq!(waited, []);
        following.changed(&key, &entry(2), &mut ear);
        following.changed(&key, &entry(3), &mut ear);
        assert_eq!(ear.0, [2, 3]);
    }

    #[test]
    fn what_was_not_told_is_forgotten_with_what_the_engine_lost() {
        let key = Bytes::from_static(b"key");
        let removed = |version| Record {
            content: Content::Tombstone,
            ..entry(version)
        };
        let (mut following, mut ear) = (followed(&key), Ear::default());
        following.changed(&key, &removed(2), &mut ear);
        // It was made and removed again in a gap.
        following.caught_up(&key, Some(&removed(5)), (0, 0), &mut ear);
        following.doubt();
        following.caught_up(&key, Some(&entry(4)), (0, 0), &mut ear);
        assert_eq!(ear.0, [2, 4]);
    }
}
