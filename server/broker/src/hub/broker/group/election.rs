//! Election of the keeper: the server of a group that answers requests about watches and sends notifications. The other servers know the
//! same watches and stand by.
//!
//! All servers of a group publish to one topic and subscribe to it. This topic is a log: each server receives every entry, its own
//! included, in one order. By that order all servers agree:
//!
//! - **A claim makes a keeper** and ends the former one, unless the former one has sent a heartbeat in the meantime. The first of several
//!   claims wins. Each claim has a rising number, the term.
//! - **A keeper keeps for [`LEASE_MS`]** after it sent a heartbeat that came back to it. Another server claims only after a heartbeat of
//!   its own has come back that it sent [`ELECTION_TIMEOUT_MS`] after the last one of the keeper. [`ELECTION_TIMEOUT_MS`] is longer, so two servers never
//!   keep at a time, even if one of them is suspended or cut off. If the broker reports that the keeper is gone, no server has to wait.
//! - **The highest rank claims.** A server that has followed the log without a gap ranks first. Then these count, in this order: whether it
//!   sees changes, the last term of which it knew the watches, and how long it is attached.
//! - **A keeper that sees no changes** for [`BLIND_TIMEOUT_MS`], because the engine is away for it, gives up. It does so only if another server
//!   knows as much and sees changes.
//!
//! The election is a state machine without a broker and without a clock.
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Milliseconds between two heartbeats of a server.
pub(super) const HEARTBEAT_MS: u64 = 500;
/// Milliseconds for which a keeper keeps after it sent a heartbeat that came back.
pub(super) const LEASE_MS: u64 = 2500;
/// Milliseconds without a heartbeat of the keeper after which another server claims.
pub(super) const ELECTION_TIMEOUT_MS: u64 = 4000;
/// Milliseconds for which a server that has not followed the log listens for a keeper before it claims.
pub(super) const INITIAL_WAIT_MS: u64 = 3000;
/// Milliseconds without seeing changes after which a keeper gives up.
const BLIND_TIMEOUT_MS: u64 = 3000;
/// Milliseconds between two requests for the watches that the keeper knows.
const JOIN_RETRY_MS: u64 = 2000;

/// Number of a claim; 0 is none.
pub(super) type Term = u64;

/// A heartbeat of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Heartbeat {
    /// The last claim that the server knows.
    pub(super) term: Term,
    /// Whether that claim was its own.
    pub(super) is_leader: bool,
    /// The claim under which it knew the watches; 0 if it does not know them.
    pub(super) synced_term: Term,
    /// Whether it has followed the log since that claim.
    pub(super) is_synced: bool,
    /// Time of sending, by the server's own clock.
    pub(super) sent_ms: u64,
    /// Number of heartbeats before this one since the server is attached.
    pub(super) sequence: u64,
    /// Whether the server sees changes.
    pub(super) sees_changes: bool,
}

/// A claim of a server to be the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Campaign {
    pub(super) term: Term,
    /// Time of sending, by the server's own clock.
    pub(super) sent_ms: u64,
    /// Time of the keeper's last heartbeat, by the keeper's clock; 0 if there is no keeper. A later heartbeat makes the claim void.
    pub(super) after_heartbeat_ms: u64,
    /// The claim before, if the server has followed the log since; 0 if not.
    pub(super) previous_term: Term,
}

/// An entry to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElectionMessage {
    Heartbeat(Heartbeat),
    /// A claim of this server to be the keeper.
    Campaign(Campaign),
    /// A request for the watches that the keeper knows.
    Join,
    /// A resignation of this server as the keeper. It has seen no changes for `blind_since_ms` milliseconds.
    Resign {
        blind_ms: u64,
    },
}

/// Effect of an entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElectionEvent {
    Unchanged,
    /// Begin of this server's keeping. Messages that the former keeper may not have published since `since_ms` are to be published.
    Elected {
        since_ms: u64,
    },
    /// The watches that this server knows are out of date.
    Stale,
}

/// The server whose claim was the last one.
#[derive(Debug)]
struct Leader {
    name: Arc<str>,
    /// Time at which its last heartbeat or claim was received.
    heard_ms: u64,
    /// Time of its last heartbeat or claim, by its own clock.
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
    /// Time at which the former keeper was last heard.
    former_leader_heard_ms: u64,
    synced_term: Term,
    is_synced: bool,
    other_members: BTreeMap<Arc<str>, MemberState>,
    /// Time at which the last heartbeat that came back was sent.
    echoed_ms: Option<u64>,
    campaign_term: Option<Term>,
    next_heartbeat_ms: u64,
    heartbeat_count: u64,
    next_join_ms: Option<u64>,
    /// Number of entries that were received.
    log_index: u64,
    /// Number of entries that had been received when the first heartbeat of this server came back.
    since_index: u64,
    /// Time since which this server does not see changes.
    blind_since_ms: Option<u64>,
    /// The claim of this server that it has given up.
    resigned_term: Term,
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
        self.campaign_term = None;
        self.next_join_ms = None;
        self.resigned_term = 0;
    }

    /// Returns the name of this server.
    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Returns the keeper by the log, if there is one.
    pub(super) fn leader(&self) -> Option<&Arc<str>> {
        self.leader.as_ref().map(|keeper| &keeper.name)
    }

    /// Returns whether this server is the keeper by the log.
    pub(super) fn is_leader(&self) -> bool {
        self.name.is_some() && self.name.as_ref() == self.leader()
    }

    /// Returns whether another server is the keeper.
    pub(super) fn is_standby(&self) -> bool {
        self.leader.is_some() && !self.is_leader()
    }

    /// Returns whether this server knows all watches.
    pub(super) fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Returns whether this server answers and notifies now.
    pub(super) fn is_active(&self, now_ms: u64) -> bool {
        let until_ms = self.echoed_ms.map_or(0, |sent_ms| sent_ms + LEASE_MS);
        // Other servers may read that it yields before it does itself.
        self.is_leader() && self.resigned_term != self.term && now_ms < until_ms
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
        self.name.as_ref()?;
        if now_ms >= self.next_heartbeat_ms {
            self.next_heartbeat_ms = now_ms + HEARTBEAT_MS;
            let beat = self.heartbeat(now_ms);
            self.heartbeat_count += 1;
            return Some(ElectionMessage::Heartbeat(beat));
        }
        if self.next_join_ms.is_some_and(|join_ms| now_ms >= join_ms) {
            self.next_join_ms = Some(now_ms + JOIN_RETRY_MS);
            return Some(ElectionMessage::Join);
        }
        if let Some(since_ms) = self.blind_since_ms
            && now_ms >= since_ms + BLIND_TIMEOUT_MS
            && self.is_leader()
            && self.resigned_term != self.term
            && self.other_members.values().any(|other| {
                other.heartbeat.is_synced
                    && other.heartbeat.sees_changes
                    && now_ms < other.heard_ms + ELECTION_TIMEOUT_MS
            })
        {
            self.resigned_term = self.term;
            return Some(ElectionMessage::Resign {
                blind_ms: now_ms - since_ms,
            });
        }
        if self.campaign_term.is_none() && self.is_leaderless() && self.has_highest_rank(now_ms) {
            // A server that has just started does not know the former terms.
            let term = wall_ms.max(self.term + 1);
            self.campaign_term = Some(term);
            return Some(ElectionMessage::Campaign(Campaign {
                term,
                sent_ms: now_ms,
                after_heartbeat_ms: self.leader.as_ref().map_or(0, |keeper| keeper.sent_ms),
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

    /// Returns whether there was no keeper in the log when the last heartbeat of this server came back.
    fn is_leaderless(&self) -> bool {
        let from_ms = match &self.leader {
            Some(_) if self.is_leader() => return false,
            Some(keeper) => keeper.heard_ms + ELECTION_TIMEOUT_MS,
            None if self.is_synced => 0,
            None => self.joined_ms + INITIAL_WAIT_MS,
        };
        self.echoed_ms.is_some_and(|sent_ms| sent_ms >= from_ms)
    }

    /// Returns whether no other server that can be heard has a higher rank.
    fn has_highest_rank(&self, now_ms: u64) -> bool {
        let Some(me) = &self.name else {
            return false;
        };
        let mine = (
            self.is_synced,
            self.blind_since_ms.is_none(),
            self.synced_term,
            Reverse(me),
        );
        self.other_members.iter().all(|(name, other)| {
            let Heartbeat {
                is_synced: is_whole,
                sees_changes: sees,
                synced_term: known,
                ..
            } = other.heartbeat;
            let theirs = (is_whole, sees, known, Reverse(name));
            now_ms >= other.heard_ms + ELECTION_TIMEOUT_MS || theirs < mine
        })
    }

    /// Processes a heartbeat of a server.
    pub(super) fn handle_heartbeat(
        &mut self,
        from: &Arc<str>,
        beat: Heartbeat,
        now_ms: u64,
    ) -> ElectionEvent {
        self.log_index += 1;
        let place = self.log_index;
        if Some(from) == self.name.as_ref() {
            if self.echoed_ms.is_none() {
                self.since_index = place;
            }
            self.echoed_ms = self.echoed_ms.max(Some(beat.sent_ms));
            if let Some(keeper) = self.leader.as_mut().filter(|it| it.name == *from) {
                keeper.sent_ms = beat.sent_ms;
                keeper.log_index = place;
            }
            return ElectionEvent::Unchanged;
        }
        let begun = if beat.sequence == 0 { place } else { 0 };
        let since = self
            .other_members
            .get(from)
            .map_or(begun, |other| other.since_index);
        let other = MemberState {
            heartbeat: beat,
            heard_ms: now_ms,
            since_index: since,
        };
        self.other_members.insert(Arc::clone(from), other);
        if !beat.is_leader {
            return ElectionEvent::Unchanged;
        }
        if let Some(keeper) = &mut self.leader
            && keeper.name == *from
            && beat.term == self.term
        {
            keeper.heard_ms = now_ms;
            keeper.sent_ms = beat.sent_ms;
            keeper.log_index = place;
            return ElectionEvent::Unchanged;
        }
        let is_silent = |keeper: &Leader| now_ms >= keeper.heard_ms + ELECTION_TIMEOUT_MS;
        let needs_one = !self.is_synced && self.leader.as_ref().is_none_or(is_silent);
        let is_newer = beat.term > self.term;
        // If the broker does not deliver all entries in one order, one term may have two keepers.
        let yields = beat.term == self.term && self.is_leader() && Some(from) < self.name.as_ref();
        if !is_newer && !yields && !needs_one {
            return ElectionEvent::Unchanged;
        }
        self.set_leader(from, beat.term, beat.sent_ms, now_ms);
        self.mark_unsynced(now_ms);
        ElectionEvent::Stale
    }

    /// Processes a server's claim to be the keeper.
    pub(super) fn handle_campaign(
        &mut self,
        from: &Arc<str>,
        claim: Campaign,
        now_ms: u64,
    ) -> ElectionEvent {
        self.log_index += 1;
        let Campaign {
            term,
            sent_ms,
            after_heartbeat_ms: after_ms,
            previous_term: follows,
        } = claim;
        let is_mine = Some(from) == self.name.as_ref();
        let since = match self.other_members.get(from) {
            Some(other) => other.since_index,
            None if is_mine => self.since_index,
            None => 0,
        };
        let is_there = |keeper: &Leader| match (follows, after_ms) {
            // A server that knows of no keeper joined after the keeper's last entry.
            (0, 0) => keeper.log_index > since,
            (0, _) => keeper.sent_ms != after_ms,
            _ => follows != self.term || keeper.sent_ms != after_ms,
        };
        if self.leader.as_ref().is_some_and(is_there) {
            if Some(from) == self.name.as_ref() {
                self.campaign_term = None;
            }
            return ElectionEvent::Unchanged;
        }
        self.set_leader(from, term, sent_ms, now_ms);
        if self.is_leader() {
            self.echoed_ms = self.echoed_ms.max(Some(sent_ms));
            self.synced_term = term;
            self.is_synced = true;
            self.next_join_ms = None;
            // The others have to learn it soon.
            self.next_heartbeat_ms = now_ms;
            return ElectionEvent::Elected {
                since_ms: self.former_leader_heard_ms,
            };
        }
        if self.is_synced && follows > 0 {
            self.synced_term = term;
            return ElectionEvent::Unchanged;
        }
        self.mark_unsynced(now_ms);
        ElectionEvent::Stale
    }

    fn set_leader(&mut self, name: &Arc<str>, term: Term, sent_ms: u64, now_ms: u64) {
        if let Some(former) = &self.leader {
            self.former_leader_heard_ms = former.heard_ms;
        }
        self.term = term;
        self.leader = Some(Leader {
            name: Arc::clone(name),
            heard_ms: now_ms,
            sent_ms,
            log_index: self.log_index,
        });
        self.campaign_term = None;
    }

    /// Processes that a server is gone, as the broker or the server itself reports.
    pub(super) fn handle_leave(&mut self, from: &Arc<str>) {
        self.other_members.remove(from);
        if let Some(former) = self.leader.take_if(|keeper| keeper.name == *from) {
            self.former_leader_heard_ms = former.heard_ms;
        }
    }

    /// Processes that a keeper gives up.
    pub(super) fn handle_resign(&mut self, from: &Arc<str>, blind_ms: u64) {
        if let Some(former) = self.leader.take_if(|keeper| keeper.name == *from) {
            self.former_leader_heard_ms = former.heard_ms.saturating_sub(blind_ms);
        }
    }

    /// Marks the known watches as incomplete.
    pub(super) fn mark_unsynced(&mut self, now_ms: u64) {
        self.synced_term = 0;
        self.is_synced = false;
        self.next_join_ms = Some(now_ms);
    }

    /// Marks the known watches as incomplete, since this server could not follow an entry. That may last, so the keeper is asked again only
    /// after a while.
    pub(super) fn mark_unsynced_with_delay(&mut self, now_ms: u64) {
        self.mark_unsynced(now_ms + JOIN_RETRY_MS);
    }

    /// Marks the known watches as complete: the keeper has sent all that it knows.
    pub(super) fn mark_synced(&mut self) {
        self.synced_term = self.term;
        self.is_synced = true;
        self.next_join_ms = None;
    }
}
