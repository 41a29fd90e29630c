//! Effects of changes: notifications for watching clients, and writes for the storage.
use super::ServiceConfig;
use super::pattern_index::Watchers;
use super::request::{ChangeNotification, NotificationScope};
use super::retention::{RetentionAction, RetentionIndex};
use super::watches::Watches;
use crate::keyspace::rules::Version;
use crate::keyspace::{ChangeEvent, Completion, EntryState, EventSink, Ticket};
use bytes::Bytes;
use statestore_protocol::{Event, Hlc};
use statestored_storage::{Batch, Record, Write};
use std::collections::VecDeque;
use std::sync::Arc;

/// Cost of comparisons with patterns, roughly in nanoseconds, after which further changes wait for a later turn. The last comparison may
/// exceed it.
const MAX_COMPARISON_STEPS: usize = 250_000;

/// Number of changes waiting for their comparison at which requests that may write wait too.
const MAX_WAITING_CHANGES: usize = 1_024;

/// A change that is still to be compared with the watched patterns.
pub(super) struct WaitingChange {
    /// Clients that watched the key at the change.
    watchers: Option<Watchers>,
    key: Bytes,
    event: Event,
    version: Version,
}

/// Receiver of a keyspace's reports, with the effects that have not been taken yet.
pub(super) struct ChangeRecorder {
    pub(super) watches: Watches,
    /// Index of the keys that the storage keeps, if there is a storage.
    pub(super) retention_index: Option<RetentionIndex>,
    /// Whether the current request asks for its entry to be kept.
    pub(super) is_persist_requested: bool,
    /// Number of entries that were created.
    pub(super) insertions: u64,
    /// Notifications, in the order of the changes.
    pub(super) notifications: Vec<ChangeNotification>,
    /// Changes that are still to be compared with the watched patterns, in their order.
    pub(super) waiting: VecDeque<WaitingChange>,
    /// Cost of the comparisons with patterns since the notifications were taken last, roughly in nanoseconds.
    compared: usize,
    /// Writes, in the order of the changes; empty if no storage keeps them.
    pub(super) writes: Batch,
    /// Requests that ended after the call that asked for them.
    pub(super) ended: Vec<(Ticket, Completion)>,
    /// Steps that took longer than a request usually does, roughly in nanoseconds.
    pub(super) work: usize,
}

impl EventSink for ChangeRecorder {
    fn changed(&mut self, change: &ChangeEvent<'_>) {
        self.retain(change);
        if let EntryState::Set { is_new: true, .. } = change.state {
            self.insertions += 1;
        }
        if self.watches.has_patterns() || !self.waiting.is_empty() {
            return self.compare(change, true);
        }
        if let Some(clients) = self.watches.watchers(change.key) {
            let recipients = (Arc::clone(clients), NotificationScope::Key);
            self.notify(recipients, change.key, event(change), change.version);
        }
    }

    fn changed_unfollowed(&mut self, change: &ChangeEvent<'_>) {
        self.compare(change, false);
    }

    fn changes_missed(&mut self) {
        let gaps = self.watches.patterns();
        self.notifications
            .extend(gaps.map(|(pattern, clients)| ChangeNotification::resync(pattern, clients)));
    }

    fn expiry_rewritten(&mut self, record: Record) {
        if self
            .retention_index
            .as_ref()
            .is_some_and(|kept| kept.contains(&record.key))
        {
            self.writes.writes.push(Write::Put(record));
        }
    }

    fn completed(&mut self, ticket: Ticket, end: Completion) {
        self.ended.push((ticket, end));
    }

    fn add_work(&mut self, steps: usize) {
        self.work += steps;
    }
}

/// Returns the event of which clients are notified.
fn event(change: &ChangeEvent<'_>) -> Event {
    match change.state {
        EntryState::Set { value, .. } => Event::Set(value.clone()),
        EntryState::Removed { .. } => Event::Deleted,
    }
}

impl ChangeRecorder {
    pub(super) fn new(config: &ServiceConfig) -> Self {
        Self {
            watches: Watches::new(config),
            retention_index: config
                .is_durable
                .then(|| RetentionIndex::new(config.retention.clone(), config.hash_key)),
            is_persist_requested: false,
            insertions: 0,
            notifications: Vec::new(),
            waiting: VecDeque::new(),
            compared: 0,
            writes: Batch::default(),
            ended: Vec::new(),
            work: 0,
        }
    }

    fn notify(
        &mut self,
        (clients, scope): (Watchers, NotificationScope),
        key: &Bytes,
        event: Event,
        version: Version,
    ) {
        self.notifications.push(ChangeNotification {
            clients,
            scope,
            key: key.clone(),
            event,
            version: Hlc::store_version(version),
        });
    }

    /// Compares a change with the watched patterns, at once or after the changes that wait. `has_watchers` is whether the watchers of its
    /// key are notified as well.
    #[inline(never)]
    fn compare(&mut self, change: &ChangeEvent<'_>, has_watchers: bool) {
        let watchers = self.watches.watchers(change.key).filter(|_| has_watchers);
        if !self.waiting.is_empty() || self.compared >= MAX_COMPARISON_STEPS {
            self.waiting.push_back(WaitingChange {
                watchers: watchers.map(Arc::clone),
                key: change.key.clone(),
                event: event(change),
                version: change.version,
            });
            return;
        }
        let mut steps = 0;
        let recipients = self.watches.recipients(watchers, change.key, &mut steps);
        self.count_comparison(steps);
        if let Some(recipients) = recipients {
            self.notify(recipients, change.key, event(change), change.version);
        }
    }

    /// Compares waiting changes with the watched patterns, for the next [`MAX_COMPARISON_STEPS`].
    pub(super) fn compare_waiting(&mut self) {
        self.compared = 0;
        while self.compared < MAX_COMPARISON_STEPS
            && let Some(change) = self.waiting.pop_front()
        {
            let WaitingChange {
                watchers: former,
                key,
                event,
                version,
            } = change;
            let watchers = former.and_then(|clients| self.watches.still_watching(clients, &key));
            let mut steps = 0;
            let recipients = self.watches.recipients(watchers.as_ref(), &key, &mut steps);
            self.count_comparison(steps);
            if let Some(recipients) = recipients {
                self.notify(recipients, &key, event, version);
            }
        }
    }

    fn count_comparison(&mut self, steps: usize) {
        self.compared += steps;
        self.work += steps;
    }

    /// Returns whether so many changes wait that some must be compared with the watched patterns before the next change.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING_CHANGES
    }

    /// Notifies a client that changes may be missing of all patterns that it watches.
    pub(super) fn resync_client(&mut self, client: &Arc<str>) {
        let clients = Watchers::new(vec![Arc::clone(client)]);
        let patterns = self.watches.patterns_of(client);
        self.notifications
            .extend(patterns.map(|pattern| ChangeNotification::resync(pattern, &clients)));
    }

    fn retain(&mut self, change: &ChangeEvent<'_>) {
        let Some(kept) = &mut self.retention_index else {
            return;
        };
        let writes = &mut self.writes;
        match change.state {
            EntryState::Set {
                value,
                token,
                expiry,
                ..
            } => match kept.record_set(change.key, self.is_persist_requested) {
                RetentionAction::Put => writes.writes.push(Write::Put(Record {
                    key: change.key.clone(),
                    value: value.clone(),
                    version: change.version,
                    fence: token.cloned(),
                    expiry,
                })),
                // The storage has an older entry, which must not come back.
                RetentionAction::Delete => writes.delete(change.key, change.version),
                RetentionAction::Nothing => {}
            },
            EntryState::Removed { floor } => {
                if kept.record_removal(change.key) == RetentionAction::Delete {
                    writes.delete(change.key, floor);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestored_access::Principal;

    fn clients(recorder: &mut ChangeRecorder) -> Vec<(Vec<Arc<str>>, NotificationScope)> {
        let notifications = recorder.notifications.drain(..);
        notifications
            .map(|it| (it.clients.to_vec(), it.scope))
            .collect()
    }

    #[test]
    fn patterns_get_gaps_and_the_changes_that_the_followers_of_a_key_have_seen() {
        let mut recorder = ChangeRecorder::new(&ServiceConfig::default());
        let (user, [a, b, c]) = (Principal::default(), ["a", "b", "c"].map(Arc::<str>::from));
        for client in [&a, &b] {
            let watched = recorder.watches.watch_pattern(client, &user, b"k*");
            assert_eq!(watched, Ok(()));
        }
        for client in [&b, &c] {
            assert_eq!(recorder.watches.watch(client, &user, b"k1"), Ok(()));
        }
        recorder.changes_missed();
        let resync = ChangeNotification::resync(b"k*", &Arc::new(vec![a.clone(), b.clone()]));
        assert_eq!(recorder.notifications, [resync], "one for each pattern");
        recorder.notifications.clear();

        let (key, value) = (Bytes::from_static(b"k1"), Bytes::new());
        let change = ChangeEvent {
            key: &key,
            version: (7, 0),
            state: EntryState::Set {
                value: &value,
                token: None,
                expiry: None,
                is_new: false,
            },
        };
        let scope = NotificationScope::Matching;
        recorder.changed_unfollowed(&change);
        let both = vec![a.clone(), b.clone()];
        assert_eq!(clients(&mut recorder), [(both, scope)]);
        recorder.changed(&change);
        assert_eq!(clients(&mut recorder), [(vec![a, b, c], scope)]);
    }

    #[test]
    fn costly_comparisons_are_made_in_parts_and_in_order() {
        let mut recorder = ChangeRecorder::new(&ServiceConfig::default());
        let (user, client) = (Principal::default(), Arc::<str>::from("a"));
        for number in 0..5 {
            // Each place of the long key is compared with the run, up to its last bytes.
            let pattern = format!("*{}b{number}*", "a".repeat(28));
            let watched = recorder
                .watches
                .watch_pattern(&client, &user, pattern.as_bytes());
            assert_eq!(watched, Ok(()));
        }
        assert_eq!(recorder.watches.watch(&client, &user, b"k"), Ok(()));
        let (long, key) = (Bytes::from(vec![b'a'; 1_000]), Bytes::from_static(b"k"));
        for number in 0..100 {
            for key in [&long, &key] {
                recorder.changed(&ChangeEvent {
                    key,
                    version: (number, 0),
                    state: EntryState::Removed { floor: (0, 0) },
                });
            }
        }
        let at_once = recorder.notifications.len();
        assert!(at_once < 50, "{at_once}");
        let mut parts = 0;
        while !recorder.waiting.is_empty() {
            let before = recorder.work;
            recorder.compare_waiting();
            assert!(recorder.work - before < 2 * MAX_COMPARISON_STEPS);
            parts += 1;
        }
        assert!(parts > 2, "{parts}");
        let versions = recorder.notifications.iter().map(|it| it.version.wall_ms());
        assert!(versions.eq(0..100), "each once, in order");
    }
}
