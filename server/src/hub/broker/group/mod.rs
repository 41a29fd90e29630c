//! Servers that share the requests of a broker, and have one set of watches.
//!
//! ```text
//!   KEYNOTIFY ──▶ any server ──▶ log ──▶ every server: the same watches
//!                                          ├─ keeper: answers, and notifies
//!                                          └─ others: set aside what they would send
//! ```
//!
//! A request about a watch goes into the [log](entry) of the group, through the broker. Every server executes it when it comes back, in the
//! same order. One of them, the [keeper], answers it and notifies the watching clients. So a client that asks two servers is notified once,
//! and no other server notifies it after a STOP. The other servers set their answers and notifications [aside]. A new keeper continues
//! where the former one may have ended.
mod aside;
mod begun;
mod entry;
mod keeper;
mod known;
mod log;
#[cfg(test)]
mod tests;
mod touched;
mod watches;

pub(super) use watches::is_about_watch;

use super::outgoing::{Outgoing, What};
use super::{Broker, IdentityKey};
use crate::clock::Now;
use crate::keyspace::Ticket;
use aside::Aside;
use begun::Begun;
use bytes::Bytes;
use entry::{Entry, Kind};
use keeper::Keepers;
use statestore_protocol::mqtt::{QoS, Will};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use touched::Touched;

/// Time before the last entry of a keeper whose messages it may not have published, in milliseconds.
const UNSAID_MS: u64 = 2000;

/// The state of a server's group.
#[derive(Debug)]
pub(super) struct Group {
    /// Topic of the log.
    pub(super) topic: String,
    keepers: Keepers,
    /// Name of this server while it is attached.
    name: Arc<str>,
    aside: Aside,
    /// Number of messages that were set aside and then dropped.
    dropped: u64,
    touched: Touched,
    begun: Begun,
    /// Maximum number of bytes of `touched` at which the server starts over.
    most_touched: usize,
    /// Watches sent by the keeper that are not established here yet.
    told: HashSet<Ticket>,
    /// Watching clients that have sent requests since the last heartbeat.
    alive: BTreeSet<Arc<str>>,
}

impl Group {
    /// Creates the state of a group with room for `most` messages, of `most_bytes` bytes, that are set aside.
    pub(super) fn new(name: &str, most: usize, most_bytes: usize) -> Self {
        Self {
            topic: entry::log(name),
            keepers: Keepers::default(),
            name: Arc::default(),
            aside: Aside::new(most, most_bytes),
            dropped: 0,
            touched: Touched::default(),
            begun: Begun::default(),
            most_touched: most_bytes,
            told: HashSet::new(),
            alive: BTreeSet::new(),
        }
    }

    /// Returns the will: the entry that the broker publishes when the connection ends.
    pub(super) fn will(&mut self, client_id: &str, key: Option<&IdentityKey>, now: Now) -> Will {
        // Names sort by time, so that the server attached longest ranks first.
        self.name = format!("{:015}-{client_id}", now.wall_ms).into();
        let entry = Entry {
            kind: Kind::Gone,
            from: &self.name,
            client: None,
            user: None,
            payload: b"",
            request: None,
            identity: None,
        };
        entry.write(&self.topic, key, |header| Will {
            topic: self.topic.clone(),
            qos: QoS::AtLeastOnce,
            user_properties: header
                .user_properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            payload: Bytes::new(),
            retain: false,
            delay_s: 0,
            message_expiry: None,
            payload_is_utf8: None,
            content_type: None,
            response_topic: None,
            correlation_data: None,
        })
    }

    pub(super) fn joined(&mut self, is_denied: bool, now: Now) {
        if is_denied {
            tracing::error!(
                topic = self.topic,
                "the broker does not let this server read what the servers of its group say, so that nobody can watch keys"
            );
        } else {
            self.keepers.joined(Arc::clone(&self.name), now.mono_ms);
        }
    }

    /// Leaves the group: the connection has ended, or is about to.
    pub(super) fn left(&mut self) {
        self.keepers.left();
        self.forget_told();
    }

    fn forget_told(&mut self) {
        self.touched.clear();
        self.told.clear();
    }

    /// Sets a message aside that the keeper publishes.
    pub(super) fn set_aside(&mut self, outgoing: Outgoing, now: Now) {
        self.dropped += self.aside.put(outgoing, now.mono_ms);
    }

    /// Returns whether more has changed than can be remembered until the keeper sends its watches.
    pub(super) fn is_behind(&self) -> bool {
        self.touched.bytes() > self.most_touched
    }

    /// Returns whether this server is the keeper by the log, even if its lease is over.
    pub(super) fn is_keeper(&self) -> bool {
        self.keepers.is_keeper()
    }

    /// Returns whether this server answers and notifies.
    pub(super) fn keeps(&self, now: Now) -> bool {
        self.keepers.keeps(now.mono_ms)
    }

    /// Returns when the next entry is to be published.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.keepers.next_ms()
    }
}

impl Broker {
    /// Returns whether this server answers requests about watches and notifies: alone, or as the keeper of its group.
    pub(super) fn keeps(&self, now: Now) -> bool {
        self.group.as_ref().is_none_or(|group| group.keeps(now))
    }

    /// Leaves the group. Messages of the keeper are set aside and do not wait for this server's next connection.
    pub(super) fn leave_group(&mut self, now: Now) {
        let Some(group) = &mut self.group else {
            return;
        };
        group.left();
        for outgoing in std::mem::take(&mut self.queue) {
            if outgoing.is_kept {
                group.set_aside(outgoing, now);
            } else if !matches!(outgoing.what, What::Entry(_)) {
                self.queue.push_back(outgoing);
            }
        }
        self.count_outgoing();
    }
}
