//! Servers that share the requests of a broker, and have one set of watches.
//!
//! ```text
//!   KEYNOTIFY ──▶ any server ──▶ log ──▶ every server: the same watches
//!                                          ├─ leader: answers, and notifies
//!                                          └─ others: set aside what they would send
//! ```
//!
//! A request about a watch goes into the [log](entry) of the group, through the broker. Every server executes it when it comes back, in the
//! same order. One of them, the [leader](election), answers it and notifies the watching clients. So a client that asks two servers is notified once,
//! and no other server notifies it after a STOP. The other servers set their answers and notifications [aside](standby_buffer). A new leader continues
//! where the former one may have ended, and notifies clients that watch patterns of a gap.
mod changes_since_join;
mod election;
mod entry;
mod log;
mod standby_buffer;
#[cfg(test)]
mod tests;
mod watch_starts;
mod watch_transfer;
mod watches;

use super::outgoing_message::{OutgoingKind, OutgoingMessage};
use super::{Broker, IdentityKey};
use changes_since_join::ChangesSinceJoin;
use election::{Election, ElectionMessage};
use entry::{Entry, EntryKind};
use standby_buffer::StandbyBuffer;
use statestore_protocol::mqtt::{QoS, ReasonCode, Will};
use statestored_common::ClockReading;
use statestored_store::keyspace::Ticket;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use watch_starts::WatchStarts;

/// Time before the last entry of a leader whose messages it may not have published, in milliseconds.
const UNPUBLISHED_WINDOW_MS: u64 = 2000;

/// The state of a server's group.
#[derive(Debug)]
pub(super) struct Group {
    /// Topic of the log.
    pub(super) topic: String,
    election: Election,
    /// Name of this server while it is attached.
    name: Arc<str>,
    standby: StandbyBuffer,
    /// Number of messages that were set aside and then dropped.
    dropped: u64,
    /// Whether any notifications may be missing, of which clients that watch patterns are to be notified.
    has_gap: bool,
    changes: ChangesSinceJoin,
    watch_starts: WatchStarts,
    /// Maximum number of bytes of `changes` at which the server starts over.
    max_change_bytes: usize,
    /// Watches sent by the leader that are not established here yet.
    pending_transfers: HashSet<Ticket>,
    /// Watching clients that have sent requests since the last heartbeat.
    alive_clients: BTreeSet<Arc<str>>,
    /// Refused entries that were logged on this connection: whether they had a request, and the reason of the broker.
    logged_refusals: Vec<(bool, ReasonCode)>,
}

impl Group {
    /// Creates the state of a group whose standby buffer has room for `max_messages` messages of `max_bytes` bytes together.
    pub(super) fn new(name: &str, max_messages: usize, max_bytes: usize) -> Self {
        Self {
            topic: entry::log_topic(name),
            election: Election::default(),
            name: Arc::default(),
            standby: StandbyBuffer::new(max_messages, max_bytes),
            dropped: 0,
            has_gap: false,
            changes: ChangesSinceJoin::default(),
            watch_starts: WatchStarts::default(),
            max_change_bytes: max_bytes,
            pending_transfers: HashSet::new(),
            alive_clients: BTreeSet::new(),
            logged_refusals: Vec::new(),
        }
    }

    /// Returns the will: the entry that the broker publishes when the connection ends.
    pub(super) fn will(
        &mut self,
        client_id: &str,
        key: Option<&IdentityKey>,
        now: ClockReading,
    ) -> Will {
        // Names sort by time, so that the server attached longest ranks first.
        self.name = format!("{:015}-{client_id}", now.wall_ms).into();
        let entry = Entry::new(EntryKind::Election(ElectionMessage::Leave));
        entry.write(&self.name, &self.topic, (key, None), |header| Will {
            topic: self.topic.clone(),
            qos: QoS::AtLeastOnce,
            user_properties: header
                .user_properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Will::default()
        })
    }

    pub(super) fn join(&mut self, is_denied: bool, now: ClockReading) {
        if is_denied {
            tracing::error!(
                topic = self.topic,
                "the broker denies this server the subscription to the topic of its group, so clients cannot watch keys"
            );
        } else {
            self.election.join(Arc::clone(&self.name), now.mono_ms);
        }
    }

    /// Leaves the group: the connection has ended, or is about to.
    pub(super) fn leave(&mut self) {
        self.election.leave();
        self.logged_refusals.clear();
        self.clear_pending_transfers();
    }

    fn clear_pending_transfers(&mut self) {
        self.changes.clear();
        self.pending_transfers.clear();
    }

    /// Sets a message aside that the leader publishes.
    pub(super) fn buffer_message(&mut self, outgoing: OutgoingMessage, now: ClockReading) {
        self.dropped += self.standby.push(outgoing, now.mono_ms);
    }

    /// Returns whether more has changed than can be remembered until the leader sends its watches.
    pub(super) fn is_behind(&self) -> bool {
        self.changes.bytes() > self.max_change_bytes
    }

    /// Returns whether this server is the leader by the log, even if its lease is over.
    pub(super) fn is_leader(&self) -> bool {
        self.election.is_leader()
    }

    /// Returns whether this server answers and notifies.
    pub(super) fn is_active(&self, now: ClockReading) -> bool {
        self.election.is_active(now.mono_ms)
    }

    /// Returns when the next entry is to be published.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.election.next_ms()
    }
}

impl Broker {
    /// Returns whether this server answers requests about watches and notifies: alone, or as the leader of its group.
    pub(super) fn is_active(&self, now: ClockReading) -> bool {
        self.group.as_ref().is_none_or(|group| group.is_active(now))
    }

    /// Logs that the broker refused an entry of this server, the first time on a connection.
    pub(super) fn warn_of_refused_entry(&mut self, has_request: bool, reason: ReasonCode) {
        let Some(group) = &mut self.group else {
            return;
        };
        if group.logged_refusals.contains(&(has_request, reason)) {
            return;
        }
        group.logged_refusals.push((has_request, reason));
        let topic = &group.topic;
        if has_request && self.config.identity.is_none() {
            tracing::warn!(
                topic,
                %reason,
                "the broker refuses to pass a KEYNOTIFY on to the group of this server, so clients cannot watch keys: if it signs the \
                 identity of clients, give this server --attach-identity and --attach-identity-key"
            );
        } else {
            tracing::warn!(
                topic,
                %reason,
                "the broker refuses messages of this server to its group, so clients cannot watch keys: let this server publish on this topic"
            );
        }
    }

    /// Leaves the group. Messages of the leader are set aside and do not wait for this server's next connection.
    pub(super) fn leave_group(&mut self, now: ClockReading) {
        let Some(group) = &mut self.group else {
            return;
        };
        group.leave();
        for outgoing in std::mem::take(&mut self.queue) {
            if outgoing.is_leader_only {
                group.buffer_message(outgoing, now);
            } else if !matches!(outgoing.kind, OutgoingKind::Entry(_)) {
                self.queue.push_back(outgoing);
            }
        }
        self.recount_outgoing();
    }
}
