//! Following the changes of the engine: a snapshot, and then each of them, until some may have been missed; then again.
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

/// How far the changes of the engine are known.
#[derive(Debug)]
pub(super) enum Watch {
    /// None is under way; the next one is begun then.
    Begins(u64),
    /// The records of the snapshot that matter later.
    Snapshot {
        ask: AskId,
        followed: HashMap<Bytes, Record>,
        ending: HashSet<Bytes>,
    },
    /// All changes up to this revision are known.
    Live { ask: AskId, at: Revision },
}

impl<L: Link> Remote<L> {
    pub(super) fn ask_followed(&mut self, key: &Bytes) {
        // Without a watch it is asked when there is one.
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
                let refused = End::reply(Reply::Error(plan::refusal(&error)));
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
        } = &mut self.watch
        else {
            return;
        };
        if ask != *live || at <= *known {
            return;
        }
        *known = at;
        self.heard_ms = now.mono_ms;
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
        self.watch = Watch::Live { ask, at };
        self.heard_ms = now.mono_ms;
        // What was answered until now may have been changed before the snapshot.
        self.guesses.clear();
        let known: Vec<_> = self.sights.until(at).cloned().collect();
        for key in known.iter().filter(|key| !ending.contains(*key)) {
            self.sights.saw_none(key, at);
        }
        let mut keys: Vec<_> = self.following.keys().cloned().collect();
        // In an order that is the same in each run of a seed.
        keys.sort_unstable();
        for key in keys {
            // Who began to follow it meanwhile may have begun behind its place in the snapshot.
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
