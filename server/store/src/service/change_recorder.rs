//! Effects of changes: notifications for watching clients, and writes for the storage.
use super::ServiceConfig;
use super::request::ChangeNotification;
use super::retention::{RetentionAction, RetentionIndex};
use super::watches::Watches;
use crate::keyspace::{ChangeEvent, Completion, EntryState, EventSink, Ticket};
use statestore_protocol::{Event, Hlc};
use statestored_storage::{Batch, Record, Write};
use std::sync::Arc;

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
        if let Some(clients) = self.watches.watchers(change.key) {
            self.notifications.push(ChangeNotification {
                clients: Arc::clone(clients),
                key: change.key.clone(),
                event: match change.state {
                    EntryState::Set { value, .. } => Event::Set(value.clone()),
                    EntryState::Removed { .. } => Event::Deleted,
                },
                version: Hlc::store_version(change.version),
            });
        }
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
            writes: Batch::default(),
            ended: Vec::new(),
            work: 0,
        }
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
