//! Effects of changes: notifications for watching clients, and writes for the storage.
use super::request::Notify;
use super::retention::{Keeping, Kept};
use super::watch::Watches;
use crate::keyspace::{Changed, End, Ticket, Told, What};
use crate::storage::{Batch, Record, Write};
use statestore_protocol::{Event, Hlc};
use std::sync::Arc;

/// Effects that the keyspace has reported and that have not been taken yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Notifications, in the order of the changes.
    pub(super) notifications: Vec<Notify>,
    /// Writes, in the order of the changes; empty if no storage keeps them.
    pub(super) writes: Batch,
    /// Requests that ended after the call that asked for them.
    pub(super) ended: Vec<(Ticket, End)>,
    /// Steps that took longer than a request usually does, roughly in nanoseconds.
    pub(super) work: usize,
}

/// Receiver of a keyspace's reports, which records them in [`Changes`].
pub(super) struct Noting<'a> {
    pub(super) changes: &'a mut Changes,
    pub(super) watches: &'a Watches,
    /// Index of the keys that the storage keeps, if there is a storage.
    pub(super) kept: Option<&'a mut Kept>,
    /// Whether the current request asks for its entry to be kept.
    pub(super) is_asked_for: bool,
    /// Number of entries that were created.
    pub(super) insertions: &'a mut u64,
}

impl Told for Noting<'_> {
    fn changed(&mut self, change: &Changed<'_>) {
        self.keep(change);
        if let What::Set { is_new: true, .. } = change.what {
            *self.insertions += 1;
        }
        if let Some(clients) = self.watches.watchers(change.key) {
            self.changes.notifications.push(Notify {
                clients: Arc::clone(clients),
                key: change.key.clone(),
                event: match change.what {
                    What::Set { value, .. } => Event::Set(value.clone()),
                    What::Removed { .. } => Event::Deleted,
                },
                version: Hlc::store_version(change.version),
            });
        }
    }

    fn redated(&mut self, record: Record) {
        if self
            .kept
            .as_ref()
            .is_some_and(|kept| kept.keeps(&record.key))
        {
            self.changes.writes.writes.push(Write::Put(record));
        }
    }

    fn ended(&mut self, ticket: Ticket, end: End) {
        self.changes.ended.push((ticket, end));
    }

    fn worked(&mut self, steps: usize) {
        self.changes.work += steps;
    }
}

impl Noting<'_> {
    fn keep(&mut self, change: &Changed<'_>) {
        let Some(kept) = &mut self.kept else {
            return;
        };
        let writes = &mut self.changes.writes;
        match change.what {
            What::Set {
                value,
                token,
                expiry,
                ..
            } => match kept.set(change.key, self.is_asked_for) {
                Keeping::Entry => writes.writes.push(Write::Put(Record {
                    key: change.key.clone(),
                    value: value.clone(),
                    version: change.version,
                    fence: token.cloned(),
                    expiry,
                })),
                // The storage has an older entry, which must not come back.
                Keeping::Removal => writes.delete(change.key, change.version),
                Keeping::Nothing => {}
            },
            What::Removed { floor } => {
                if kept.removed(change.key) == Keeping::Removal {
                    writes.delete(change.key, floor);
                }
            }
        }
    }
}
