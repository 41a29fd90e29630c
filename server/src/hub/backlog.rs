//! What waits to be handed out: in which order, behind what, and how much memory it takes.
use super::fanout::{Fanout, Publication, What};
use crate::budget::{Charge, Gauge};
use foldhash::quality::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

/// With so much memory of notifications that wait, requests that may write wait too, in bytes. The last one may exceed it.
const MOST_NOTIFICATION_BYTES: usize = 32 * 1024 * 1024;

/// Memory of a notification besides its key, its value and who gets it.
const NOTIFICATION_BYTES: usize = 512;

/// Notifications and messages that have not reached everybody yet, first the one that is next.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    fanouts: VecDeque<Fanout>,
    /// How many there are of one key or to one topic, by its hash. Two with one hash wait for each other, no more.
    about: HashMap<u64, About>,
    hash: RandomState,
    /// Memory of the notifications, without their values.
    notification_bytes: usize,
    messages: usize,
    /// Memory of who is still to get the messages.
    target_bytes: usize,
}

/// What waits of one key, or to one topic.
#[derive(Debug, Default)]
struct About {
    count: usize,
    /// Who gets the last one. Most others share it.
    clients: Option<Arc<Vec<Arc<str>>>>,
}

impl Backlog {
    pub(super) fn len(&self) -> usize {
        self.fanouts.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fanouts.is_empty()
    }

    /// Whether so many notifications wait that nothing is to be changed before some have been handed out.
    pub(super) fn is_full(&self) -> bool {
        self.notification_bytes >= MOST_NOTIFICATION_BYTES
    }

    /// Memory of who is still to get messages, if any wait.
    pub(super) fn target_bytes(&self) -> Option<usize> {
        (self.messages > 0).then_some(self.target_bytes)
    }

    /// Whether something waits that has to reach everybody before this does.
    pub(super) fn is_before(&self, what: &What) -> bool {
        !self.is_empty() && self.about.contains_key(&self.subject(what))
    }

    fn subject(&self, what: &What) -> u64 {
        match what {
            What::Notification(notification) => self.hash.hash_one((0, &notification.key[..])),
            What::Message(publication) => self.hash.hash_one((1, publication.topic())),
        }
    }

    /// Something comes behind all others. What it takes is counted until it has [ended](Self::ended).
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
                // Otherwise a change of who watches has made another list of them.
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

    /// The subscribers of a message that waits are found by now.
    pub(super) fn found_targets(&mut self, publication: &Publication) {
        self.target_bytes += publication.target_bytes;
    }

    /// What is next. It stays counted: it comes [back](Self::put_back), or has [ended](Self::ended).
    pub(super) fn take(&mut self) -> Option<Fanout> {
        self.fanouts.pop_front()
    }

    /// What was taken goes on in another turn.
    pub(super) fn put_back(&mut self, fanout: Fanout) {
        self.fanouts.push_front(fanout);
    }

    /// What was taken has reached everybody.
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
