//! Watch over the changes of the engine: a snapshot, and then each change. If changes may have been missed, the watch
//! begins again.
use super::engine::{Ask, AskId, EngineError, Found, Link, Revision, Seen};
use super::record::Record;
use super::sights::Age;
use super::{ASK_AGAIN_MS, Again, Remote, bucket_of, plan};
use crate::clock::Now;
use crate::keyspace::rules::Version;
use crate::keyspace::{End, Told};
use bytes::Bytes;
use smallvec::smallvec;
use statestore_protocol::Reply;
use std::collections::{HashMap, HashSet};

/// Time in milliseconds between the loss of a watch and the beginning of the next one.
const WATCH_AGAIN_MS: u64 = 100;

/// The same time if the watch was lost for a permanent reason.
const UNWATCHABLE_AGAIN_MS: u64 = 5_000;

/// The progress of the watch.
#[derive(Debug)]
pub(super) enum Watch {
    /// No watch is in progress; the next one begins at this time.
    Begins(u64),
    /// The snapshot is being read. Contains its parts that matter later.
    Snapshot {
        ask: AskId,
        followed: HashMap<Bytes, Record>,
        ending: HashSet<Bytes>,
    },
    /// All changes up to this revision are known. Later ones are reported, except during an interruption.
    Live {
        ask: AskId,
        at: Revision,
        is_broken: bool,
    },
}

impl<L: Link> Remote<L> {
    /// Returns whether all changes of the engine are known, or will be: none was missed.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.watch, Watch::Live { .. })
    }

    /// Returns whether all changes of the engine are known as they happen.
    pub fn is_watched(&self) -> bool {
        matches!(
            self.watch,
            Watch::Live {
                is_broken: false,
                ..
            }
        )
    }

    /// Returns whether the current watch was requested with this id.
    pub(super) fn is_of(&self, ask: AskId) -> bool {
        matches!(self.watch, Watch::Live { ask: live, .. } if live == ask)
    }

    /// Returns the revision up to which all changes are known.
    pub(super) fn known(&self) -> Option<Revision> {
        match self.watch {
            Watch::Live { at, .. } => Some(at),
            _ => None,
        }
    }

    pub(super) fn interrupted(&mut self, from: AskId, now_broken: bool) {
        if let Watch::Live { ask, is_broken, .. } = &mut self.watch
            && *ask == from
        {
            *is_broken = now_broken;
        }
    }

    pub(super) fn lost(
        &mut self,
        lost: AskId,
        error: Option<EngineError>,
        now: Now,
        told: &mut dyn Told,
    ) {
        let (Watch::Snapshot { ask, .. } | Watch::Live { ask, .. }) = self.watch else {
            return;
        };
        if ask != lost {
            return;
        }
        let pause_ms = match error {
            Some(error) => {
                let refused = plan::refusal(&error);
                self.give_up_following(&refused, told);
                UNWATCHABLE_AGAIN_MS
            }
            None => WATCH_AGAIN_MS,
        };
        self.missed_changes(now.mono_ms + pause_ms);
    }

    /// Ends the watch because changes may have been missed. The next one begins at `watch_at_ms`.
    pub(super) fn missed_changes(&mut self, watch_at_ms: u64) {
        self.watch = Watch::Begins(watch_at_ms);
        self.tasks.missed_changes();
        self.doubt_confirming();
        self.guesses.clear();
        self.following.forget_asked();
    }

    pub(super) fn ask_followed(&mut self, key: &Bytes) {
        // Without a watch, the engine request follows when there is one.
        if self.is_live() {
            let ask = self.ask(Ask::Read(smallvec![key.clone()]));
            self.following.asked(ask, key.clone());
        }
    }

    pub(super) fn found(
        &mut self,
        ask: AskId,
        key: &Bytes,
        result: Result<Vec<Seen>, Option<EngineError>>,
        now: Now,
        told: &mut dyn Told,
    ) {
        let mut seen = match result {
            Ok(seen) => seen,
            Err(Some(error)) => {
                let refused = plan::refusal(&error);
                for ticket in self.following.refused(key) {
                    told.ended(ticket, refused.clone());
                }
                return;
            }
            Err(None) => {
                let again = Again::Follow(key.clone());
                self.again.push((now.mono_ms + ASK_AGAIN_MS, again));
                return;
            }
        };
        self.saw_keys(ask, std::slice::from_ref(key), &seen, now);
        let Some(seen) = seen.pop() else { return };
        let record = seen.record.as_ref().map(|(record, _)| record);
        for ticket in self.following.found(key, record, seen.floor.0) {
            told.ended(ticket, End::reply(Reply::Ok));
        }
    }

    pub(super) fn changed(
        &mut self,
        ask: AskId,
        at: Revision,
        changes: Vec<(Bytes, Option<Record>)>,
        now: Now,
        told: &mut dyn Told,
    ) {
        let Watch::Live {
            ask: live,
            at: known,
            ..
        } = &mut self.watch
        else {
            return;
        };
        if ask != *live || at <= *known {
            return;
        }
        *known = at;
        for (key, record) in changes {
            let Some(record) = record else {
                self.sights.saw_none(&key, at);
                self.guesses.purged(&key, at);
                continue;
            };
            self.saw(&key, &record, at, now, Age::New);
            self.tasks.saw_write(record.write);
            self.following.changed(&key, &record, told);
        }
        let stamps = self.stamps(now);
        self.tasks.settle(at, &self.sights, stamps);
        self.confirm_until(at, now);
    }

    pub(super) fn snapshot(&mut self, from: AskId, records: Vec<Found>, now: Now) {
        let Watch::Snapshot {
            ask,
            followed,
            ending,
        } = &mut self.watch
        else {
            return;
        };
        if *ask != from {
            return;
        }
        for found in records {
            let Found {
                key,
                record,
                revision,
            } = found;
            self.highest = self.highest.max(record.version);
            let age = self.clocks.age(now);
            self.sights.saw(&key, &record, revision, now, age);
            if record.expiry().is_some() || !record.is_entry() {
                ending.insert(key.clone());
            }
            if self.following.has(&key) {
                followed.insert(key, record);
            }
        }
    }

    pub(super) fn synced(
        &mut self,
        from: AskId,
        at: Revision,
        floors: &[Version],
        now: Now,
        told: &mut dyn Told,
    ) {
        let watch = std::mem::replace(&mut self.watch, Watch::Begins(now.mono_ms));
        let Watch::Snapshot {
            ask,
            mut followed,
            ending,
        } = watch
        else {
            self.watch = watch;
            return;
        };
        if ask != from {
            self.watch = Watch::Snapshot {
                ask,
                followed,
                ending,
            };
            return;
        }
        self.watch = Watch::Live {
            ask,
            at,
            is_broken: false,
        };
        self.complete_ms = now.mono_ms;
        // The answers so far may have changed before the snapshot.
        self.guesses.clear();
        let known: Vec<_> = self.sights.until(at).cloned().collect();
        for key in known.iter().filter(|key| !ending.contains(*key)) {
            self.sights.saw_none(key, at);
        }
        let mut keys: Vec<_> = self.following.keys().cloned().collect();
        // The order must be the same in each run of a seed.
        keys.sort_unstable();
        for key in keys {
            // A key that was followed during the snapshot may have been followed after its record was read.
            if self.following.is_waited_for(&key) {
                self.ask_followed(&key);
                continue;
            }
            let record = followed.remove(&key);
            let floor = floors.get(usize::from(bucket_of(&key)));
            let floor = floor.copied().unwrap_or_default();
            self.following.caught_up(&key, record.as_ref(), floor, told);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::keyspace::remote::scripted::{KEY, Node, VALUE, record, seen};
    use crate::keyspace::remote::{Ask, AskId, News, Revision, Verdict};
    use crate::keyspace::{End, Keyspace};

    /// Returns a node with a change whose answer was lost, and whose copy the engine refuses at revision 6.
    fn refused() -> Node {
        let mut node = Node::new();
        node.request = None;
        assert_eq!(node.set(1), None);
        let (commit, ask) = node.remote.link.asks.pop().unwrap();
        let Ask::Commit(unit) = ask else {
            panic!("{ask:?}")
        };
        assert_eq!(
            node.advance(2, [News::Committed(commit, Verdict::Unclear)]),
            []
        );
        assert_eq!(node.advance(100, []), []);
        let copy = node.asked(&Ask::Commit(unit));
        let verdict = Verdict::Refused(vec![seen(6, &VALUE)]);
        assert_eq!(node.advance(101, [News::Committed(copy, verdict)]), []);
        node
    }

    #[test]
    fn what_is_refused_while_a_watch_is_interrupted_is_decided_when_it_goes_on() {
        let mut node = refused();
        assert_eq!(node.advance(102, [News::WatchBroken(node.watch)]), []);
        assert!(!node.remote.is_watched());
        assert_eq!(
            node.remote.engine().map(|it| it.is_watched),
            Some(false),
            "as it is told"
        );
        let ended = node.advance(5_000, [News::WatchResumed(node.watch)]);
        assert_eq!(ended, []);
        assert!(node.remote.is_watched() && node.remote.link.asks.is_empty());
        // The commit's own copy was not made: the task decides again on the current state.
        let change = (KEY.clone(), Some(record(6, &VALUE)));
        let told = News::Changes(node.watch, Revision(6), vec![change]);
        assert_eq!(node.advance(5_001, [told]), []);
        let (_, ask) = node.remote.link.asks.pop().unwrap();
        assert!(matches!(ask, Ask::Commit(_)), "{ask:?}");
    }

    #[test]
    fn what_is_refused_has_an_unknown_outcome_if_the_watch_does_not_go_on() {
        let mut node = refused();
        assert_eq!(node.advance(102, [News::WatchBroken(node.watch)]), []);
        let ended = node.advance(5_000, [News::WatchLost(node.watch, None)]);
        assert_eq!(ended, [End::Unknown]);
        assert!(!node.remote.is_watched());
    }

    #[test]
    fn only_the_present_watch_can_be_interrupted() {
        let mut node = Node::new();
        let other = AskId(u64::MAX);
        node.advance(1, [News::WatchBroken(other)]);
        assert!(node.remote.is_watched());
        node.advance(1, [News::WatchBroken(node.watch)]);
        node.advance(1, [News::WatchResumed(other)]);
        assert!(!node.remote.is_watched());
    }
}
