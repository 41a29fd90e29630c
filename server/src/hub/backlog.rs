//! Fan-outs that wait to be delivered: their order, their dependencies and their memory.
use super::fanout::{Fanout, Publication, What};
use crate::budget::{Charge, Gauge};
use foldhash::quality::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Memory of waiting notifications, in bytes, at which requests that may write wait too. The last notification may exceed it.
const MOST_NOTIFICATION_BYTES: usize = 32 * 1024 * 1024;

/// Memory of a notification besides its key, its value and its recipients.
const NOTIFICATION_BYTES: usize = 512;

/// Notifications and messages that have not reached all their recipients, the next one first.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    fanouts: VecDeque<Fanout>,
    /// Number of items for each key or topic, by its hash. Items with equal hashes wait for each other, without other harm.
    about: HashMap<u64, About>,
    hash: RandomState,
    /// Memory of the notifications, without their values.
    notification_bytes: usize,
    messages: usize,
    /// Memory of the recipients of the messages.
    target_bytes: usize,
}

/// The waiting items of one key or topic.
#[derive(Debug, Default)]
struct About {
    count: usize,
    /// Recipients of the last item. Most other items share this list.
    clients: Option<Arc<Vec<Arc<str>>>>,
}

impl Backlog {
    pub(super) fn len(&self) -> usize {
        self.fanouts.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fanouts.is_empty()
    }

    /// Returns whether so many notifications wait that some must be handed out before the next change.
    pub(super) fn is_full(&self) -> bool {
        self.notification_bytes >= MOST_NOTIFICATION_BYTES
    }

    /// Returns the memory of the recipients of waiting messages, or `None` if no message waits.
    pub(super) fn target_bytes(&self) -> Option<usize> {
        (self.messages > 0).then_some(self.target_bytes)
    }

    /// Returns whether an item of the same key or topic waits, which must reach all its recipients first.
    pub(super) fn is_before(&self, what: &What) -> bool {
        !self.is_empty() && self.about.contains_key(&self.subject(what))
    }

    fn subject(&self, what: &What) -> u64 {
        match what {
            What::Notification(notification) => self.hash.hash_one((0, &notification.key[..])),
            What::Message(publication) => self.hash.hash_one((1, publication.topic())),
        }
    }

    /// Appends an item. Its memory is counted until it has [ended](Self::ended).
    pub(super) fn push(&mut self, mut fanout: Fanout, gauge: &Gauge) {
        let subject = self.subject(&fanout.what);
        let about = self.about.entry(subject).or_default();
        about.count += 1;
        match &mut fanout.what {
            What::Notification(notification) => {
                let clients = &notification.clients;
                let is_shared = about
                    .clients
                    .as_ref()
                    .is_some_and(|shared| Arc::ptr_eq(shared, clients));
                // Otherwise the set of watching clients has changed, which made another list.
                let own = if is_shared { 0 } else { clients.len() };
                about.clients = Some(Arc::clone(clients));
                let bytes =
                    NOTIFICATION_BYTES + notification.key.len() + own * size_of::<Arc<str>>();
                notification.waiting = Some(Charge::new(gauge, bytes));
                self.notification_bytes += bytes;
            }
            What::Message(publication) => {
                self.messages += 1;
                self.target_bytes += publication.target_bytes;
            }
        }
        self.fanouts.push_back(fanout);
    }

    /// Counts the subscribers of a waiting message, which are found by now.
    pub(super) fn found_targets(&mut self, publication: &Publication) {
        self.target_bytes += publication.target_bytes;
    }

    /// Takes the next item. The item stays counted until it is [put back](Self::put_back) or has [ended](Self::ended).
    pub(super) fn take(&mut self) -> Option<Fanout> {
        self.fanouts.pop_front()
    }

    /// Puts a taken item back, to continue in another turn.
    pub(super) fn put_back(&mut self, fanout: Fanout) {
        self.fanouts.push_front(fanout);
    }

    /// Stops counting a taken item, which has reached all its recipients.
    pub(super) fn ended(&mut self, what: &What) {
        let subject = self.subject(what);
        if let Some(about) = self.about.get_mut(&subject) {
            about.count -= 1;
            if about.count == 0 {
                self.about.remove(&subject);
            }
        }
        match what {
            What::Notification(notification) => {
                let waiting = notification.waiting.as_ref();
                self.notification_bytes -= waiting.map_or(0, Charge::bytes);
            }
            What::Message(publication) => {
                self.messages -= 1;
                self.target_bytes -= publication.target_bytes;
            }
        }
    }
}
