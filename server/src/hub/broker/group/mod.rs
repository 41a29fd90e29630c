//! Servers that share the requests of a broker, and have one set of watches.
//!
//! ```text
//!   KEYNOTIFY ──▶ any server ──▶ log ──▶ every server: the same watches
//!                                          ├─ keeper: answers, and notifies
//!                                          └─ others: set aside what they would say
//! ```
//!
//! A request about a watch goes into the [log](entry) of the group, by way of the broker. Every server executes it when it comes from
//! there, in the same order. One of them, the [keeper], answers it, and says what the watching clients are to be told; so a client that
//! asks two servers is told once, and no other server says anything after a STOP. What the others would say they set [aside]: who
//! becomes the keeper goes on where the former one may have ended.
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

/// So long before a keeper was heard of last it may have had something to say that it did not say, in milliseconds.
const UNSAID_MS: u64 = 2000;

/// What one server knows of its group.
#[derive(Debug)]
pub(super) struct Group {
    /// Of the log.
    pub(super) topic: String,
    keepers: Keepers,
    /// The name that this server has once it is attached.
    name: Arc<str>,
    aside: Aside,
    /// How much of it had to give way.
    dropped: u64,
    touched: Touched,
    begun: Begun,
    /// With so many bytes of that, the server begins anew.
    most_touched: usize,
    /// Watches that the keeper has told of, and that are not followed yet.
    told: HashSet<Ticket>,
    /// Watching clients that have sent requests since the last beat.
    alive: BTreeSet<Arc<str>>,
}

impl Group {
    /// With room for so many messages, of so many bytes, that are set aside.
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

    /// The message in the log of which the broker publishes, when the connection ends, that this server is gone.
    pub(super) fn will(&mut self, client_id: &str, key: Option<&IdentityKey>, now: Now) -> Will {
        // Who is there for longer comes before others.
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

    /// The connection has ended, or is about to.
    pub(super) fn left(&mut self) {
        self.keepers.left();
        self.forget_told();
    }

    fn forget_told(&mut self) {
        self.touched.clear();
        self.told.clear();
    }

    /// Sets something aside that the keeper says.
    pub(super) fn set_aside(&mut self, outgoing: Outgoing, now: Now) {
        self.dropped += self.aside.put(outgoing, now.mono_ms);
    }

    /// Whether more has come to pass than can be remembered until the keeper says what it knows.
    pub(super) fn is_behind(&self) -> bool {
        self.touched.bytes() > self.most_touched
    }

    /// Whether this server is the keeper by the log, even if it may not say so now.
    pub(super) fn is_keeper(&self) -> bool {
        self.keepers.is_keeper()
    }

    /// Whether this server answers and notifies.
    pub(super) fn keeps(&self, now: Now) -> bool {
        self.keepers.keeps(now.mono_ms)
    }

    /// When there is something to say.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.keepers.next_ms()
    }
}

impl Broker {
    /// Whether this server says what is to be said about watches: it does alone, or as the keeper of its group.
    pub(super) fn keeps(&self, now: Now) -> bool {
        self.group.as_ref().is_none_or(|group| group.keeps(now))
    }

    /// What only the keeper says does not wait for the next connection of this server.
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
