//! Election of the leader: the server of a group that answers requests about watches and sends notifications. The other servers know the
//! same watches and stand by.
//!
//! All servers of a group publish to one topic and subscribe to it. This topic is a log: each server receives every entry, its own
//! included, in one order. By that order all servers agree:
//!
//! - **A campaign makes a leader** and ends the former one, unless the former one has sent a heartbeat in the meantime. The first of several
//!   campaigns wins. Each campaign has a rising number, the term.
//! - **A leader leads for [`LEASE_MS`]** after it sent its last entry as the leader that came back to it. Another server campaigns only after a
//!   heartbeat of its own has come back that it sent [`ELECTION_TIMEOUT_MS`] after that entry. [`ELECTION_TIMEOUT_MS`] is longer, so two
//!   servers never lead at a time, even if one of them is suspended or cut off. If the broker reports that the leader is gone, no server
//!   has to wait.
//! - **The highest rank campaigns.** A server that has followed the log without a gap ranks first. Then these count, in this order: whether it
//!   sees changes, the last term of which it knew the watches, and how long it is attached.
//! - **A leader that sees no changes** for [`BLIND_TIMEOUT_MS`], because the engine is away for it, resigns. It does so only if another server
//!   knows as much and sees changes.
//!
//! The election is a state machine without a broker and without a clock.
//!
//! # Reasons against a lease in the storage
//!
//! - A leader answers requests in the order of the log. Its successor must have read all of them, so taking over is an entry of the log.
//! - Entries that come back prove that the broker receives what the leader publishes. A lease in the storage does not.
//! - A leader leads while the storage is full or lacks replicas. Then it accepts no lease, but clients can watch keys.
//! - Redis may lose a lease, and a second server would lead.
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Milliseconds between two heartbeats of a server.
pub(super) const HEARTBEAT_MS: u64 = 500;
/// Milliseconds for which a leader leads after it sent an entry that came back.
pub(super) const LEASE_MS: u64 = 2500;
/// Milliseconds without a heartbeat of the leader after which another server campaigns.
pub(super) const ELECTION_TIMEOUT_MS: u64 = 4000;
/// Milliseconds for which a server that has not followed the log listens for a leader before it campaigns.
pub(super) const INITIAL_WAIT_MS: u64 = 3000;
/// Milliseconds without seeing changes after which a leader resigns.
const BLIND_TIMEOUT_MS: u64 = 3000;
/// Milliseconds between two requests for the leader's watches.
const JOIN_RETRY_MS: u64 = 2000;

/// Number of a campaign; 0 is none.
pub(super) type Term = u64;

/// A heartbeat of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Heartbeat {
    /// The last term that the server knows.
    pub(super) term: Term,
    /// Whether it is the server's own.
    pub(super) is_leader: bool,
    /// The term in which it knew the watches; 0 if it does not know them.
    pub(super) synced_term: Term,
    /// Whether it has followed the log since.
    pub(super) is_synced: bool,
    /// Time of sending, by the server's own clock.
    pub(super) sent_ms: u64,
    /// Number of heartbeats before this one since the server is attached.
    pub(super) sequence: u64,
    /// Whether the server sees changes.
    pub(super) sees_changes: bool,
}

impl Heartbeat {
    /// Returns the server's rank. Among equals, the first name ranks higher.
    fn rank(&self) -> (bool, bool, Term) {
        (self.is_synced, self.sees_changes, self.synced_term)
    }
}

/// A campaign of a server to be the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Campaign {
    pub(super) term: Term,
    /// Time of sending, by the server's own clock.
    pub(super) sent_ms: u64,
    /// Time of the leader's last entry, by the leader's clock; 0 if there is no leader. A later entry makes the campaign void.
    pub(super) after_heartbeat_ms: u64,
    /// The term before, if the server has followed the log since; 0 if not.
    pub(super) previous_term: Term,
}

/// An entry of the log about the election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElectionMessage {
    /// The server is attached.
    Heartbeat(Heartbeat),
    /// The server campaigns to be the leader.
    Campaign(Campaign),
    /// The server requests the leader's watches.
    Join,
    /// The server has left.
    Leave,
    /// The leader resigns, since it has seen no changes for `blind_ms` milliseconds.
    Resign { blind_ms: u64 },
}

/// Effect of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElectionEvent {
    Unchanged,
    /// Election of this server. It publishes the messages since `since_ms`, which the former leader may not have published.
    Elected {
        since_ms: u64,
    },
    /// The watches that this server knows are out of date.
    Stale,
    /// A server requests the watches.
    WatchesRequested,
}

/// The server whose campaign was the last one.
#[derive(Debug)]
struct Leader {
    name: Arc<str>,
    /// Time at which its last entry as the leader was received.
    heard_ms: u64,
    /// Time of that entry, by the leader's own clock.
    sent_ms: u64,
    /// Number of entries that had been received by then.
    log_index: u64,
}

#[derive(Debug)]
struct MemberState {
    heartbeat: Heartbeat,
    heard_ms: u64,
    /// Number of entries that had been received when the server's first heartbeat came; 0 if that was before this server began.
    since_index: u64,
}

/// State of the election, as one server knows it.
#[derive(Debug, Default)]
pub(super) struct Election {
    /// The name of this server, while it is attached.
    name: Option<Arc<str>>,
    joined_ms: u64,
    term: Term,
    leader: Option<Leader>,
    /// Time up to which the former leader has certainly published its messages.
    published_until_ms: u64,
    synced_term: Term,
    is_synced: bool,
    other_members: BTreeMap<Arc<str>, MemberState>,
    /// Time at which the last heartbeat that came back was sent.
    echoed_ms: Option<u64>,
    /// Whether a campaign of this server has not come back yet.
    is_campaigning: bool,
    /// Whether this server has resigned in this term.
    has_resigned: bool,
    next_heartbeat_ms: u64,
    heartbeat_count: u64,
    next_join_ms: Option<u64>,
    /// Number of entries that were received.
    log_index: u64,
    /// Number of entries that had been received when the first heartbeat of this server came back.
    since_index: u64,
    /// Time since which this server does not see changes.
    blind_since_ms: Option<u64>,
}

impl Election {
    /// Begins to follow the log under this name, which no server had before.
    pub(super) fn join(&mut self, name: Arc<str>, now_ms: u64) {
        self.leave();
        self.name = Some(name);
        self.joined_ms = now_ms;
        self.next_heartbeat_ms = now_ms;
        self.heartbeat_count = 0;
    }

    /// Ends following the log. The known watches are kept, in case no other server knows them.
    pub(super) fn leave(&mut self) {
        self.name = None;
        self.leader = None;
        self.is_synced = false;
        self.other_members.clear();
        self.echoed_ms = None;
        self.is_campaigning = false;
        self.has_resigned = false;
        self.next_join_ms = None;
    }

    /// Returns the name of this server.
    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Returns whether this is the name of this server.
    pub(super) fn is_me(&self, name: &[u8]) -> bool {
        self.name.as_ref().is_some_and(|me| me.as_bytes() == name)
    }

    /// Returns the leader by the log, if there is one.
    pub(super) fn leader(&self) -> Option<&Arc<str>> {
        self.leader.as_ref().map(|leader| &leader.name)
    }

    /// Returns whether this server is the leader by the log, even if its lease is over.
    pub(super) fn is_leader(&self) -> bool {
        self.name.is_some() && self.name.as_ref() == self.leader()
    }

    /// Returns whether another server is the leader.
    pub(super) fn is_standby(&self) -> bool {
        self.leader.is_some() && !self.is_leader()
    }

    /// Returns whether this server knows all watches.
    pub(super) fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Returns whether this server answers and notifies now.
    pub(super) fn is_active(&self, now_ms: u64) -> bool {
        let sent_ms = self.leader.as_ref().map_or(0, |leader| leader.sent_ms);
        // Other servers may read that it resigns before it does itself.
        self.is_leader() && !self.has_resigned && now_ms < sent_ms + LEASE_MS
    }

    /// Sets whether this server sees changes.
    pub(super) fn set_sees_changes(&mut self, sees: bool, now_ms: u64) {
        if sees {
            self.blind_since_ms = None;
        } else {
            self.blind_since_ms.get_or_insert(now_ms);
        }
    }

    /// Returns when [`poll`](Self::poll) has an entry to publish.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.name.as_ref()?;
        let join_ms = self.next_join_ms.unwrap_or(u64::MAX);
        Some(self.next_heartbeat_ms.min(join_ms))
    }

    /// Returns the next entry to be published now, or `None` if there is none.
    pub(super) fn poll(&mut self, now_ms: u64, wall_ms: u64) -> Option<ElectionMessage> {
        let me = self.name.as_ref()?;
        let mine = self.heartbeat(now_ms);
        if now_ms >= self.next_heartbeat_ms {
            self.next_heartbeat_ms = now_ms + HEARTBEAT_MS;
            self.heartbeat_count += 1;
            return Some(ElectionMessage::Heartbeat(mine));
        }
        if self.next_join_ms.is_some_and(|join_ms| now_ms >= join_ms) {
            self.next_join_ms = Some(now_ms + JOIN_RETRY_MS);
            return Some(ElectionMessage::Join);
        }
        let present = || {
            let members = self.other_members.iter();
            members.filter(|(_, other)| now_ms < other.heard_ms + ELECTION_TIMEOUT_MS)
        };
        if let Some(since_ms) = self.blind_since_ms
            && now_ms >= since_ms + BLIND_TIMEOUT_MS
            && self.is_leader()
            && !self.has_resigned
            && present().any(|(_, it)| it.heartbeat.is_synced && it.heartbeat.sees_changes)
        {
            self.has_resigned = true;
            let blind_ms = now_ms - since_ms;
            return Some(ElectionMessage::Resign { blind_ms });
        }
        if !self.is_campaigning
            && self.is_leaderless()
            && present().all(|(name, other)| {
                (other.heartbeat.rank(), Reverse(name)) < (mine.rank(), Reverse(me))
            })
        {
            self.is_campaigning = true;
            return Some(ElectionMessage::Campaign(Campaign {
                // A server that has just started does not know the former terms.
                term: wall_ms.max(self.term + 1),
                sent_ms: now_ms,
                after_heartbeat_ms: self.leader.as_ref().map_or(0, |leader| leader.sent_ms),
                previous_term: if self.is_synced { self.term } else { 0 },
            }));
        }
        None
    }

    fn heartbeat(&self, now_ms: u64) -> Heartbeat {
        Heartbeat {
            term: self.term,
            is_leader: self.is_leader(),
            synced_term: self.synced_term,
            is_synced: self.is_synced,
            sent_ms: now_ms,
            sequence: self.heartbeat_count,
            sees_changes: self.blind_since_ms.is_none(),
        }
    }

    /// Returns whether there was no leader in the log when the last heartbeat of this server came back.
    fn is_leaderless(&self) -> bool {
        let from_ms = match &self.leader {
            Some(_) if self.is_leader() => return false,
            Some(leader) => leader.heard_ms + ELECTION_TIMEOUT_MS,
            None if self.is_synced => 0,
            None => self.joined_ms + INITIAL_WAIT_MS,
        };
        self.echoed_ms.is_some_and(|sent_ms| sent_ms >= from_ms)
    }

    /// Processes an entry of a server.
    pub(super) fn handle(
        &mut self,
        from: &Arc<str>,
        message: ElectionMessage,
        now_ms: u64,
    ) -> ElectionEvent {
        self.log_index += 1;
        let is_leader = self.leader() == Some(from);
        match message {
            ElectionMessage::Heartbeat(heartbeat) => {
                return self.handle_heartbeat(from, heartbeat, now_ms);
            }
            ElectionMessage::Campaign(campaign) => {
                return self.handle_campaign(from, campaign, now_ms);
            }
            ElectionMessage::Join => return ElectionEvent::WatchesRequested,
            ElectionMessage::Leave => {
                self.other_members.remove(from);
                if is_leader {
                    self.end_term(0);
                }
            }
            ElectionMessage::Resign { blind_ms } if is_leader => self.end_term(blind_ms),
            ElectionMessage::Resign { .. } => {}
        }
        ElectionEvent::Unchanged
    }

    fn handle_heartbeat(
        &mut self,
        from: &Arc<str>,
        heartbeat: Heartbeat,
        now_ms: u64,
    ) -> ElectionEvent {
        let index = self.log_index;
        let is_mine = self.name.as_ref() == Some(from);
        if is_mine {
            if self.echoed_ms.is_none() {
                self.since_index = index;
            }
            self.echoed_ms = self.echoed_ms.max(Some(heartbeat.sent_ms));
        } else {
            let first = if heartbeat.sequence == 0 { index } else { 0 };
            let known = self.other_members.get(from);
            let member = MemberState {
                heartbeat,
                heard_ms: now_ms,
                since_index: known.map_or(first, |known| known.since_index),
            };
            self.other_members.insert(Arc::clone(from), member);
        }
        if !heartbeat.is_leader {
            // A leader that did not know yet that it leads sent this one.
            return ElectionEvent::Unchanged;
        }
        if let Some(leader) = &mut self.leader
            && leader.name == *from
            && heartbeat.term == self.term
        {
            leader.heard_ms = now_ms;
            leader.sent_ms = heartbeat.sent_ms;
            leader.log_index = index;
            return ElectionEvent::Unchanged;
        }
        let is_silent = |leader: &Leader| now_ms >= leader.heard_ms + ELECTION_TIMEOUT_MS;
        let needs_one = !self.is_synced && self.leader.as_ref().is_none_or(is_silent);
        let is_newer = heartbeat.term > self.term;
        // If the broker does not deliver all entries in one order, one term may have two leaders.
        let yields =
            heartbeat.term == self.term && self.is_leader() && Some(from) < self.name.as_ref();
        if is_mine || !is_newer && !yields && !needs_one {
            return ElectionEvent::Unchanged;
        }
        self.set_leader(from, heartbeat.term, heartbeat.sent_ms, now_ms);
        self.mark_unsynced(now_ms);
        ElectionEvent::Stale
    }

    fn handle_campaign(
        &mut self,
        from: &Arc<str>,
        campaign: Campaign,
        now_ms: u64,
    ) -> ElectionEvent {
        let Campaign {
            term,
            sent_ms,
            after_heartbeat_ms: after_ms,
            previous_term,
        } = campaign;
        let is_mine = self.name.as_ref() == Some(from);
        let since = match self.other_members.get(from) {
            Some(other) => other.since_index,
            None if is_mine => self.since_index,
            None => 0,
        };
        let is_present = |leader: &Leader| match (previous_term, after_ms) {
            // A server that knows of no leader joined after the leader's last entry.
            (0, 0) => leader.log_index > since,
            (0, _) => leader.sent_ms != after_ms,
            _ => previous_term != self.term || leader.sent_ms != after_ms,
        };
        if self.leader.as_ref().is_some_and(is_present) {
            self.is_campaigning &= !is_mine;
            return ElectionEvent::Unchanged;
        }
        self.set_leader(from, term, sent_ms, now_ms);
        if is_mine {
            self.mark_synced();
            // The others have to learn it soon.
            self.next_heartbeat_ms = now_ms;
            return ElectionEvent::Elected {
                since_ms: self.published_until_ms,
            };
        }
        if self.is_synced && previous_term > 0 {
            self.synced_term = term;
            return ElectionEvent::Unchanged;
        }
        self.mark_unsynced(now_ms);
        ElectionEvent::Stale
    }

    fn set_leader(&mut self, name: &Arc<str>, term: Term, sent_ms: u64, now_ms: u64) {
        self.end_term(0);
        self.term = term;
        self.leader = Some(Leader {
            name: Arc::clone(name),
            heard_ms: now_ms,
            sent_ms,
            log_index: self.log_index,
        });
        self.is_campaigning = false;
        self.has_resigned = false;
    }

    /// Ends the term of the leader, if there is one, which did not see changes for `blind_ms` milliseconds.
    fn end_term(&mut self, blind_ms: u64) {
        if let Some(former) = self.leader.take() {
            self.published_until_ms = former.heard_ms.saturating_sub(blind_ms);
        }
    }

    /// Marks the known watches as incomplete, and requests those of the leader.
    fn mark_unsynced(&mut self, request_ms: u64) {
        self.synced_term = 0;
        self.is_synced = false;
        self.next_join_ms = Some(request_ms);
    }

    /// Marks the known watches as incomplete, since this server could not follow an entry. That may last, so the leader is asked again only
    /// after a while.
    pub(super) fn mark_unsynced_with_delay(&mut self, now_ms: u64) {
        self.mark_unsynced(now_ms + JOIN_RETRY_MS);
    }

    /// Marks the known watches as complete: all that the leader knows.
    pub(super) fn mark_synced(&mut self) {
        self.synced_term = self.term;
        self.is_synced = true;
        self.next_join_ms = None;
    }
}
