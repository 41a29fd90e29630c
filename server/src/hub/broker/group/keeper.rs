//! Election of the keeper: the server of a group that answers requests about watches and sends notifications. The other servers know the
//! same watches and stand by.
//!
//! All servers of a group publish to one topic and subscribe to it. This topic is a log: each server receives every entry, its own
//! included, in one order. By that order all servers agree:
//!
//! - **A claim makes a keeper** and ends the former one, unless the former one has sent a heartbeat in the meantime. The first of several
//!   claims wins. Each claim has a rising number, the term.
//! - **A keeper keeps for [`LEASE_MS`]** after it sent a heartbeat that came back to it. Another server claims only after a heartbeat of
//!   its own has come back that it sent [`SILENCE_MS`] after the last one of the keeper. [`SILENCE_MS`] is longer, so two servers never
//!   keep at a time, even if one of them is suspended or cut off. If the broker reports that the keeper is gone, no server has to wait.
//! - **The highest rank claims.** A server that has followed the log without a gap ranks first. Then these count, in this order: whether it
//!   sees changes, the last term of which it knew the watches, and how long it is attached.
//! - **A keeper that sees no changes** for [`BLIND_MS`], because the engine is away for it, gives up. It does so only if another server
//!   knows as much and sees changes.
//!
//! The election is a state machine without a broker and without a clock.
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Milliseconds between two heartbeats of a server.
pub(super) const BEAT_MS: u64 = 500;
/// Milliseconds for which a keeper keeps after it sent a heartbeat that came back.
pub(super) const LEASE_MS: u64 = 2500;
/// Milliseconds without a heartbeat of the keeper after which another server claims.
pub(super) const SILENCE_MS: u64 = 4000;
/// Milliseconds for which a server that has not followed the log listens for a keeper before it claims.
pub(super) const LISTENING_MS: u64 = 3000;
/// Milliseconds without seeing changes after which a keeper gives up.
const BLIND_MS: u64 = 3000;
/// Milliseconds between two requests for the watches that the keeper knows.
const JOIN_MS: u64 = 2000;

/// Number of a claim; 0 is none.
pub(super) type Term = u64;

/// A heartbeat of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Beat {
    /// The last claim that the server knows.
    pub(super) term: Term,
    /// Whether that claim was its own.
    pub(super) is_keeper: bool,
    /// The claim under which it knew the watches; 0 if it does not know them.
    pub(super) known: Term,
    /// Whether it has followed the log since that claim.
    pub(super) is_whole: bool,
    /// Time of sending, by the server's own clock.
    pub(super) sent_ms: u64,
    /// Number of heartbeats before this one since the server is attached.
    pub(super) nth: u64,
    /// Whether the server sees changes.
    pub(super) sees: bool,
}

/// A claim of a server to be the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) term: Term,
    /// Time of sending, by the server's own clock.
    pub(super) sent_ms: u64,
    /// Time of the keeper's last heartbeat, by the keeper's clock; 0 if there is no keeper. A later heartbeat makes the claim void.
    pub(super) after_ms: u64,
    /// The claim before, if the server has followed the log since; 0 if not.
    pub(super) follows: Term,
}

/// An entry to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saying {
    Beat(Beat),
    /// A claim of this server to be the keeper.
    Claim(Claim),
    /// A request for the watches that the keeper knows.
    Join,
    /// A resignation of this server as the keeper. It has seen no changes for `blind_ms` milliseconds.
    Yield {
        blind_ms: u64,
    },
}

/// Effect of an entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    /// Begin of this server's keeping. Messages that the former keeper may not have published since `since_ms` are to be published.
    Began {
        since_ms: u64,
    },
    /// The watches that this server knows are out of date.
    Stale,
}

/// The server whose claim was the last one.
#[derive(Debug)]
struct Keeper {
    name: Arc<str>,
    /// Time at which its last heartbeat or claim was received.
    heard_ms: u64,
    /// Time of its last heartbeat or claim, by its own clock.
    sent_ms: u64,
    /// Number of entries that had been received by then.
    place: u64,
}

#[derive(Debug)]
struct Other {
    beat: Beat,
    heard_ms: u64,
    /// Number of entries that had been received when the server's first heartbeat came; 0 if that was before this server began.
    since: u64,
}

/// State of the election, as one server knows it.
#[derive(Debug, Default)]
pub(super) struct Keepers {
    /// The name of this server, while it is attached.
    me: Option<Arc<str>>,
    joined_ms: u64,
    term: Term,
    keeper: Option<Keeper>,
    /// Time at which the former keeper was last heard.
    former_ms: u64,
    known: Term,
    is_whole: bool,
    others: BTreeMap<Arc<str>, Other>,
    /// Time at which the last heartbeat that came back was sent.
    echoed_ms: Option<u64>,
    claimed: Option<Term>,
    beat_ms: u64,
    beats: u64,
    join_ms: Option<u64>,
    /// Number of entries that were received.
    places: u64,
    /// Number of entries that had been received when the first heartbeat of this server came back.
    since: u64,
    /// Time since which this server does not see changes.
    blind_ms: Option<u64>,
    /// The claim of this server that it has given up.
    yielded: Term,
}

impl Keepers {
    /// Begins to follow the log under this name, which no server had before.
    pub(super) fn joined(&mut self, name: Arc<str>, now_ms: u64) {
        self.left();
        self.me = Some(name);
        self.joined_ms = now_ms;
        self.beat_ms = now_ms;
        self.beats = 0;
    }

    /// Ends following the log. The known watches are kept, in case no other server knows them.
    pub(super) fn left(&mut self) {
        self.me = None;
        self.keeper = None;
        self.is_whole = false;
        self.others.clear();
        self.echoed_ms = None;
        self.claimed = None;
        self.join_ms = None;
        self.yielded = 0;
    }

    /// Returns the name of this server.
    pub(super) fn me(&self) -> Option<&Arc<str>> {
        self.me.as_ref()
    }

    /// Returns the keeper by the log, if there is one.
    pub(super) fn keeper(&self) -> Option<&Arc<str>> {
        self.keeper.as_ref().map(|keeper| &keeper.name)
    }

    /// Returns whether this server is the keeper by the log.
    pub(super) fn is_keeper(&self) -> bool {
        self.me.is_some() && self.me.as_ref() == self.keeper()
    }

    /// Returns whether another server is the keeper.
    pub(super) fn stands_by(&self) -> bool {
        self.keeper.is_some() && !self.is_keeper()
    }

    /// Returns whether this server knows all watches.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns whether this server answers and notifies now.
    pub(super) fn keeps(&self, now_ms: u64) -> bool {
        let until_ms = self.echoed_ms.map_or(0, |sent_ms| sent_ms + LEASE_MS);
        // Other servers may read that it yields before it does itself.
        self.is_keeper() && self.yielded != self.term && now_ms < until_ms
    }

    /// Sets whether this server sees changes.
    pub(super) fn sees(&mut self, sees: bool, now_ms: u64) {
        if sees {
            self.blind_ms = None;
        } else {
            self.blind_ms.get_or_insert(now_ms);
        }
    }

    /// Returns when [`poll`](Self::poll) has an entry to publish.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.me.as_ref()?;
        let join_ms = self.join_ms.unwrap_or(u64::MAX);
        Some(self.beat_ms.min(join_ms))
    }

    /// Returns the next entry to be published now, or `None` if there is none.
    pub(super) fn poll(&mut self, now_ms: u64, wall_ms: u64) -> Option<Saying> {
        self.me.as_ref()?;
        if now_ms >= self.beat_ms {
            self.beat_ms = now_ms + BEAT_MS;
            let beat = self.beat(now_ms);
            self.beats += 1;
            return Some(Saying::Beat(beat));
        }
        if self.join_ms.is_some_and(|join_ms| now_ms >= join_ms) {
            self.join_ms = Some(now_ms + JOIN_MS);
            return Some(Saying::Join);
        }
        if let Some(since_ms) = self.blind_ms
            && now_ms >= since_ms + BLIND_MS
            && self.is_keeper()
            && self.yielded != self.term
            && self.others.values().any(|other| {
                other.beat.is_whole && other.beat.sees && now_ms < other.heard_ms + SILENCE_MS
            })
        {
            self.yielded = self.term;
            return Some(Saying::Yield {
                blind_ms: now_ms - since_ms,
            });
        }
        if self.claimed.is_none() && self.is_vacant() && self.is_next(now_ms) {
            // A server that has just started does not know the former terms.
            let term = wall_ms.max(self.term + 1);
            self.claimed = Some(term);
            return Some(Saying::Claim(Claim {
                term,
                sent_ms: now_ms,
                after_ms: self.keeper.as_ref().map_or(0, |keeper| keeper.sent_ms),
                follows: if self.is_whole { self.term } else { 0 },
            }));
        }
        None
    }

    fn beat(&self, now_ms: u64) -> Beat {
        Beat {
            term: self.term,
            is_keeper: self.is_keeper(),
            known: self.known,
            is_whole: self.is_whole,
            sent_ms: now_ms,
            nth: self.beats,
            sees: self.blind_ms.is_none(),
        }
    }

    /// Returns whether there was no keeper in the log when the last heartbeat of this server came back.
    fn is_vacant(&self) -> bool {
        let from_ms = match &self.keeper {
            Some(_) if self.is_keeper() => return false,
            Some(keeper) => keeper.heard_ms + SILENCE_MS,
            None if self.is_whole => 0,
            None => self.joined_ms + LISTENING_MS,
        };
        self.echoed_ms.is_some_and(|sent_ms| sent_ms >= from_ms)
    }

    /// Returns whether no other server that can be heard has a higher rank.
    fn is_next(&self, now_ms: u64) -> bool {
        let Some(me) = &self.me else {
            return false;
        };
        let mine = (
            self.is_whole,
            self.blind_ms.is_none(),
            self.known,
            Reverse(me),
        );
        self.others.iter().all(|(name, other)| {
            let Beat {
                is_whole,
                sees,
                known,
                ..
            } = other.beat;
            let theirs = (is_whole, sees, known, Reverse(name));
            now_ms >= other.heard_ms + SILENCE_MS || theirs < mine
        })
    }

    /// Processes a heartbeat of a server.
    pub(super) fn heard(&mut self, from: &Arc<str>, beat: Beat, now_ms: u64) -> Turn {
        self.places += 1;
        let place = self.places;
        if Some(from) == self.me.as_ref() {
            if self.echoed_ms.is_none() {
                self.since = place;
            }
            self.echoed_ms = self.echoed_ms.max(Some(beat.sent_ms));
            if let Some(keeper) = self.keeper.as_mut().filter(|it| it.name == *from) {
                keeper.sent_ms = beat.sent_ms;
                keeper.place = place;
            }
            return Turn::Nothing;
        }
        let begun = if beat.nth == 0 { place } else { 0 };
        let since = self.others.get(from).map_or(begun, |other| other.since);
        let other = Other {
            beat,
            heard_ms: now_ms,
            since,
        };
        self.others.insert(Arc::clone(from), other);
        if !beat.is_keeper {
            return Turn::Nothing;
        }
        if let Some(keeper) = &mut self.keeper
            && keeper.name == *from
            && beat.term == self.term
        {
            keeper.heard_ms = now_ms;
            keeper.sent_ms = beat.sent_ms;
            keeper.place = place;
            return Turn::Nothing;
        }
        let is_silent = |keeper: &Keeper| now_ms >= keeper.heard_ms + SILENCE_MS;
        let needs_one = !self.is_whole && self.keeper.as_ref().is_none_or(is_silent);
        let is_newer = beat.term > self.term;
        // If the broker does not deliver all entries in one order, one term may have two keepers.
        let yields = beat.term == self.term && self.is_keeper() && Some(from) < self.me.as_ref();
        if !is_newer && !yields && !needs_one {
            return Turn::Nothing;
        }
        self.follow(from, beat.term, beat.sent_ms, now_ms);
        self.is_doubted(now_ms);
        Turn::Stale
    }

    /// Processes a server's claim to be the keeper.
    pub(super) fn claimed(&mut self, from: &Arc<str>, claim: Claim, now_ms: u64) -> Turn {
        self.places += 1;
        let Claim {
            term,
            sent_ms,
            after_ms,
            follows,
        } = claim;
        let is_mine = Some(from) == self.me.as_ref();
        let since = match self.others.get(from) {
            Some(other) => other.since,
            None if is_mine => self.since,
            None => 0,
        };
        let is_there = |keeper: &Keeper| match (follows, after_ms) {
            // A server that knows of no keeper joined after the keeper's last entry.
            (0, 0) => keeper.place > since,
            (0, _) => keeper.sent_ms != after_ms,
            _ => follows != self.term || keeper.sent_ms != after_ms,
        };
        if self.keeper.as_ref().is_some_and(is_there) {
            if Some(from) == self.me.as_ref() {
                self.claimed = None;
            }
            return Turn::Nothing;
        }
        self.follow(from, term, sent_ms, now_ms);
        if self.is_keeper() {
            self.echoed_ms = self.echoed_ms.max(Some(sent_ms));
            self.known = term;
            self.is_whole = true;
            self.join_ms = None;
            // The others have to learn it soon.
            self.beat_ms = now_ms;
            return Turn::Began {
                since_ms: self.former_ms,
            };
        }
        if self.is_whole && follows > 0 {
            self.known = term;
            return Turn::Nothing;
        }
        self.is_doubted(now_ms);
        Turn::Stale
    }

    fn follow(&mut self, name: &Arc<str>, term: Term, sent_ms: u64, now_ms: u64) {
        if let Some(former) = &self.keeper {
            self.former_ms = former.heard_ms;
        }
        self.term = term;
        self.keeper = Some(Keeper {
            name: Arc::clone(name),
            heard_ms: now_ms,
            sent_ms,
            place: self.places,
        });
        self.claimed = None;
    }

    /// Processes that a server is gone, as the broker or the server itself reports.
    pub(super) fn gone(&mut self, from: &Arc<str>) {
        self.others.remove(from);
        if let Some(former) = self.keeper.take_if(|keeper| keeper.name == *from) {
            self.former_ms = former.heard_ms;
        }
    }

    /// Processes that a keeper gives up.
    pub(super) fn yielded(&mut self, from: &Arc<str>, blind_ms: u64) {
        if let Some(former) = self.keeper.take_if(|keeper| keeper.name == *from) {
            self.former_ms = former.heard_ms.saturating_sub(blind_ms);
        }
    }

    /// Marks the known watches as incomplete.
    pub(super) fn is_doubted(&mut self, now_ms: u64) {
        self.known = 0;
        self.is_whole = false;
        self.join_ms = Some(now_ms);
    }

    /// Marks the known watches as incomplete, since this server could not follow an entry. That may last, so the keeper is asked again only
    /// after a while.
    pub(super) fn could_not_follow(&mut self, now_ms: u64) {
        self.is_doubted(now_ms + JOIN_MS);
    }

    /// Marks the known watches as complete: the keeper has sent all that it knows.
    pub(super) fn was_told(&mut self) {
        self.known = self.term;
        self.is_whole = true;
        self.join_ms = None;
    }
}
