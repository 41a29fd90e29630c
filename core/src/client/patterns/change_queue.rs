//! Events of keys that are not yet delivered, at most one for each key.
use super::observation::MatchObservation;
use bytes::Bytes;
use statestore_protocol::Hlc;
use std::collections::{HashMap, VecDeque};

/// A state of a key.
#[derive(Debug)]
pub(super) enum KeyChange {
    Set { value: Bytes, version: Hlc },
    Deleted { version: Option<Hlc> },
}

/// A queue that replaces the event of a key by a newer one. The reader gets the newest state of each key.
#[derive(Debug, Default)]
pub(in super::super) struct ChangeQueue {
    order: VecDeque<Slot>,
    changes: HashMap<Bytes, PendingChange>,
    /// Total size of the keys and values, in bytes.
    bytes: usize,
    /// Number of gaps so far. An event never moves before a gap that it follows.
    epoch: u64,
    /// Number of [`Slot::Resync`] in `order`.
    resyncs: usize,
    /// Number of the valid [`Slot::End`].
    end: Option<u64>,
    ends: u64,
    is_complete: bool,
}

/// The newest event of a key, with the number of gaps before it.
#[derive(Debug)]
struct PendingChange {
    change: KeyChange,
    epoch: u64,
}

#[derive(Debug)]
enum Slot {
    /// An event of a key. It is void if the event of the key has another epoch: a later slot delivers it.
    Change {
        key: Bytes,
        epoch: u64,
    },
    Resync,
    /// The end of a scan: [`MatchObservation::Complete`] or [`MatchObservation::Resynced`].
    End(u64),
}

impl ChangeQueue {
    /// Creates a queue. `is_complete` is whether the reader knows the present state, so that no
    /// [`MatchObservation::Complete`] follows.
    pub(in super::super) fn new(is_complete: bool) -> Self {
        Self {
            is_complete,
            ..Self::default()
        }
    }

    /// Returns the number of keys with an event.
    pub(in super::super) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.resyncs == 0 && self.end.is_none() && self.changes.is_empty()
    }

    /// Adds an event of another observer.
    pub(in super::super) fn push_event(&mut self, event: MatchObservation) {
        match event {
            MatchObservation::Set {
                key,
                value,
                version,
            } => self.push(key, KeyChange::Set { value, version }),
            MatchObservation::Deleted { key, version } => {
                self.push(key, KeyChange::Deleted { version });
            }
            MatchObservation::Resync => self.push_resync(),
            MatchObservation::Complete | MatchObservation::Resynced => self.push_end(),
        }
    }

    /// Adds the newest state of a key.
    pub(super) fn push(&mut self, key: Bytes, change: KeyChange) {
        self.bytes += key.len() + change.bytes();
        let epoch = self.epoch;
        if let Some(known) = self.changes.get_mut(&key) {
            let replaced = std::mem::replace(&mut known.change, change);
            self.bytes -= key.len() + replaced.bytes();
            if known.epoch == epoch {
                return;
            }
            known.epoch = epoch;
        } else {
            let pending = PendingChange { change, epoch };
            self.changes.insert(key.clone(), pending);
        }
        self.order.push_back(Slot::Change { key, epoch });
    }

    /// Adds the event that changes may have been missed. An end of a scan that was not delivered yet is withdrawn.
    pub(super) fn push_resync(&mut self) {
        self.end = None;
        if !matches!(self.order.back(), Some(Slot::Resync)) {
            self.order.push_back(Slot::Resync);
            self.resyncs += 1;
            self.epoch += 1;
        }
    }

    /// Adds the event that a scan has ended, behind the events of its keys.
    pub(super) fn push_end(&mut self) {
        self.ends += 1;
        self.end = Some(self.ends);
        self.order.push_back(Slot::End(self.ends));
    }

    /// Takes the next event.
    pub(in super::super) fn take(&mut self) -> Option<MatchObservation> {
        loop {
            match self.order.pop_front()? {
                Slot::Change { key, epoch } => {
                    let pending = self.changes.get(&key);
                    if pending.is_none_or(|pending| pending.epoch != epoch) {
                        continue;
                    }
                    let PendingChange { change, .. } = self.changes.remove(&key)?;
                    self.bytes -= key.len() + change.bytes();
                    return Some(change.observation(key));
                }
                Slot::Resync => {
                    self.resyncs -= 1;
                    return Some(MatchObservation::Resync);
                }
                Slot::End(number) if self.end == Some(number) => {
                    self.end = None;
                    let was_complete = std::mem::replace(&mut self.is_complete, true);
                    return Some(if was_complete {
                        MatchObservation::Resynced
                    } else {
                        MatchObservation::Complete
                    });
                }
                Slot::End(_) => {}
            }
        }
    }

    /// Drops the events of all keys. Returns the keys. An event of a gap remains.
    pub(in super::super) fn drop_changes(&mut self) -> Vec<Bytes> {
        let had_resync = self.resyncs > 0;
        let mut keys: Vec<Bytes> = self.changes.drain().map(|(key, _)| key).collect();
        keys.sort_unstable();
        self.order.clear();
        (self.bytes, self.resyncs, self.end) = (0, 0, None);
        if had_resync {
            self.push_resync();
        }
        keys
    }
}

impl KeyChange {
    /// Returns the size of the value, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Set { value, .. } => value.len(),
            Self::Deleted { .. } => 0,
        }
    }

    fn observation(self, key: Bytes) -> MatchObservation {
        match self {
            Self::Set { value, version } => MatchObservation::Set {
                key,
                value,
                version,
            },
            Self::Deleted { version } => MatchObservation::Deleted { key, version },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deleted(number: u64) -> KeyChange {
        KeyChange::Deleted {
            version: Some(Hlc::new(number, 0, "n").unwrap()),
        }
    }

    /// Returns the events in a short form: the key and the version of a deletion, or the name of another event.
    fn drain(queue: &mut ChangeQueue) -> Vec<String> {
        let events = std::iter::from_fn(|| queue.take()).map(|event| match event {
            MatchObservation::Deleted { key, version } => {
                let wall_ms = version.map(|version| version.wall_ms());
                format!("{} {}", key.escape_ascii(), wall_ms.unwrap_or_default())
            }
            other => format!("{other:?}"),
        });
        events.collect()
    }

    #[test]
    fn a_newer_event_of_a_key_replaces_the_earlier_one_in_its_place() {
        let mut queue = ChangeQueue::default();
        queue.push("a".into(), deleted(1));
        queue.push("b".into(), deleted(2));
        queue.push_end();
        queue.push("c".into(), deleted(3));
        queue.push("a".into(), deleted(4));
        assert_eq!((queue.len(), queue.bytes()), (3, 3));
        assert_eq!(drain(&mut queue), ["a 4", "b 2", "Complete", "c 3"]);
        assert!(queue.is_empty());
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn a_gap_withdraws_an_end_that_was_not_delivered() {
        let mut queue = ChangeQueue::default();
        queue.push("a".into(), deleted(1));
        queue.push_end();
        queue.push_resync();
        queue.push("b".into(), deleted(2));
        queue.push_end();
        assert_eq!(drain(&mut queue), ["a 1", "Resync", "b 2", "Complete"]);
        queue.push_resync();
        queue.push_resync();
        queue.push_end();
        assert_eq!(drain(&mut queue), ["Resync", "Resynced"]);
    }

    #[test]
    fn an_event_after_a_gap_is_not_delivered_before_the_gap() {
        let mut queue = ChangeQueue::default();
        queue.push("a".into(), deleted(9));
        queue.push("b".into(), deleted(8));
        queue.push_resync();
        // The store was restored.
        queue.push("a".into(), deleted(1));
        queue.push("a".into(), deleted(2));
        assert_eq!(queue.len(), 2);
        assert_eq!(drain(&mut queue), ["b 8", "Resync", "a 2"]);
        assert!(queue.is_empty());
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn dropped_events_are_named() {
        let mut queue = ChangeQueue::default();
        queue.push("a".into(), deleted(1));
        queue.push_end();
        queue.push("b".into(), deleted(2));
        assert_eq!(queue.drop_changes(), ["a", "b"]);
        assert!(queue.is_empty());
        queue.push_resync();
        queue.push("c".into(), deleted(3));
        assert_eq!(queue.drop_changes(), ["c"]);
        queue.push_end();
        assert_eq!(drain(&mut queue), ["Resync", "Complete"]);
    }
}
