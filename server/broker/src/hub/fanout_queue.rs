//! Fan-outs that wait to be delivered: their order, their dependencies and their memory.
use super::fanout::{Fanout, FanoutContent, MessageFanout};
use foldhash::quality::RandomState;
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Number of waiting fan-outs at which no more are taken over that no connection here has caused: expiry, and changes by others.
pub(super) const MAX_FANOUTS: usize = 1024;

/// Memory of waiting notifications, in bytes, at which requests that may write wait too. The last notification may exceed it.
const MAX_NOTIFICATION_BYTES: usize = 32 * 1024 * 1024;

/// Memory of a notification besides its key, its value and its recipients.
const NOTIFICATION_BYTES: usize = 512;

/// Notifications and messages that have not reached all their recipients, the next one first.
#[derive(Debug, Default)]
pub(super) struct FanoutQueue {
    fanouts: VecDeque<Fanout>,
    /// Number of items for each key or topic, by its hash. Items with equal hashes wait for each other, without other harm.
    by_subject: HashMap<u64, SubjectState>,
    hash: RandomState,
    /// Memory of the notifications, without their values.
    notification_bytes: usize,
    messages: usize,
    /// Memory of the recipients of the messages.
    target_bytes: usize,
}

/// The waiting items of one key or topic.
#[derive(Debug, Default)]
struct SubjectState {
    count: usize,
    /// Recipients of the last item. Most other items share this list.
    last_recipients: Option<Arc<Vec<Arc<str>>>>,
}

impl FanoutQueue {
    pub(super) fn len(&self) -> usize {
        self.fanouts.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fanouts.is_empty()
    }

    /// Returns whether so many notifications wait that some must be handed out before the next change.
    pub(super) fn is_full(&self) -> bool {
        self.notification_bytes >= MAX_NOTIFICATION_BYTES
    }

    /// Returns the memory of the recipients of waiting messages, or `None` if no message waits.
    pub(super) fn target_bytes(&self) -> Option<usize> {
        (self.messages > 0).then_some(self.target_bytes)
    }

    /// Returns whether an item of the same key or topic waits, which must reach all its recipients first.
    pub(super) fn must_wait(&self, what: &FanoutContent) -> bool {
        !self.is_empty() && self.by_subject.contains_key(&self.subject_hash(what))
    }

    fn subject_hash(&self, what: &FanoutContent) -> u64 {
        match what {
            FanoutContent::Notification(notification) => {
                self.hash.hash_one((0, &notification.key[..]))
            }
            FanoutContent::Message(publication) => self.hash.hash_one((1, publication.topic())),
        }
    }

    /// Appends an item. Its memory is counted until it has [ended](Self::finish).
    pub(super) fn push(&mut self, mut fanout: Fanout, budget: &MemoryBudget) {
        let subject = self.subject_hash(&fanout.content);
        let about = self.by_subject.entry(subject).or_default();
        about.count += 1;
        match &mut fanout.content {
            FanoutContent::Notification(notification) => {
                let clients = &notification.clients;
                let is_shared = about
                    .last_recipients
                    .as_ref()
                    .is_some_and(|shared| Arc::ptr_eq(shared, clients));
                // Otherwise the set of watching clients has changed, which made another list.
                let own = if is_shared { 0 } else { clients.len() };
                about.last_recipients = Some(Arc::clone(clients));
                let bytes =
                    NOTIFICATION_BYTES + notification.key.len() + own * size_of::<Arc<str>>();
                notification.reservation = Some(Reservation::new(budget, bytes));
                self.notification_bytes += bytes;
            }
            FanoutContent::Message(publication) => {
                self.messages += 1;
                self.target_bytes += publication.target_bytes;
            }
        }
        self.fanouts.push_back(fanout);
    }

    /// Counts the subscribers of a waiting message, which are found by now.
    pub(super) fn count_targets(&mut self, publication: &MessageFanout) {
        self.target_bytes += publication.target_bytes;
    }

    /// Takes the next item. The item stays counted until it is [put back](Self::put_back) or has [ended](Self::finish).
    pub(super) fn take(&mut self) -> Option<Fanout> {
        self.fanouts.pop_front()
    }

    /// Puts a taken item back, to continue in another turn.
    pub(super) fn put_back(&mut self, fanout: Fanout) {
        self.fanouts.push_front(fanout);
    }

    /// Stops counting a taken item, which has reached all its recipients.
    pub(super) fn finish(&mut self, what: &FanoutContent) {
        let subject = self.subject_hash(what);
        if let Some(about) = self.by_subject.get_mut(&subject) {
            about.count -= 1;
            if about.count == 0 {
                self.by_subject.remove(&subject);
            }
        }
        match what {
            FanoutContent::Notification(notification) => {
                let waiting = notification.reservation.as_ref();
                self.notification_bytes -= waiting.map_or(0, Reservation::bytes);
            }
            FanoutContent::Message(publication) => {
                self.messages -= 1;
                self.target_bytes -= publication.target_bytes;
            }
        }
    }
}
