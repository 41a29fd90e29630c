//! Which server of a group keeps its watches. The others know the same ones, and stand by.
//!
//! All servers of a group publish to one topic and subscribe it: a log, of which each gets everything, its own entries included, in
//! one order. By that order all of them agree:
//!
//! - **A keeper is made by a claim**, which ends the keeper before, unless that one has said in the meantime that it is there. Of several claims
//!   it is the first. Each has a number, the term, which rises.
//! - **It keeps for [`LEASE_MS`]** after it has sent a beat that came back to it. Another server claims only once a beat of its own
//!   has come back that it sent [`SILENCE_MS`] after the last one of the keeper, which is longer. So no two keep at a time,
//!   whoever stands still or is cut off. If the broker says that the keeper is gone, nobody has to wait.
//! - **Who claims** is the server that knows most: of those that have followed the log without a gap, and of these of those that see what
//!   changes, the one that is attached for longest; if there is none, one that was the keeper before, alone, or that begins with nothing.
//! - **A keeper that sees no changes** for [`BLIND_MS`], since the engine is away for it, gives that up, if there is another server that knows as
//!   much and sees them.
//!
//! This is a state machine without a broker and without a clock.
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Between two beats of a server, in milliseconds.
pub(super) const BEAT_MS: u64 = 500;
/// For so long after it sent a beat that came back a keeper keeps.
pub(super) const LEASE_MS: u64 = 2500;
/// After so long without a beat of it another one claims.
pub(super) const SILENCE_MS: u64 = 4000;
/// For so long a server that has not followed the log listens whether there is a keeper before it claims.
pub(super) const LISTENING_MS: u64 = 3000;
/// After so long without seeing what changes a keeper lets another one keep.
const BLIND_MS: u64 = 3000;
/// Between two requests for the watches that the keeper knows.
const JOIN_MS: u64 = 2000;

/// The number of a claim; 0 is none.
pub(super) type Term = u64;

/// What a server says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Beat {
    /// The last claim that it knows.
    pub(super) term: Term,
    /// The claim was its own.
    pub(super) is_keeper: bool,
    /// Under which claim it knew the watches; 0 if it does not know them.
    pub(super) known: Term,
    /// It has followed the log since.
    pub(super) is_whole: bool,
    /// When it says so, by its own clock.
    pub(super) sent_ms: u64,
    /// How many beats there were before since it is attached.
    pub(super) nth: u64,
    /// It sees what changes.
    pub(super) sees: bool,
}

/// What a server says that wants to be the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) term: Term,
    /// When it says so, by its own clock.
    pub(super) sent_ms: u64,
    /// When the keeper said for the last time that it is there, by its clock; 0 if there is none. If it has said so again, nothing is claimed.
    pub(super) after_ms: u64,
    /// The claim before, if it has followed the log since; 0 if not.
    pub(super) follows: Term,
}

/// What is to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saying {
    Beat(Beat),
    /// This server wants to be the keeper.
    Claim(Claim),
    /// The keeper is to say what it knows.
    Join,
    /// This server does not want to be the keeper any more. It has seen no changes for so many milliseconds.
    Yield {
        blind_ms: u64,
    },
}

/// What comes of an entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    /// This server keeps from now on. What a former keeper may not have said since then is to be said.
    Began {
        since_ms: u64,
    },
    /// What this server knows is out of date.
    Stale,
}

/// Whose claim was the last one.
#[derive(Debug)]
struct Keeper {
    name: Arc<str>,
    /// When it was heard of last.
    heard_ms: u64,
    /// When it said that, by its clock.
    sent_ms: u64,
    /// How many entries had been heard then.
    place: u64,
}

#[derive(Debug)]
struct Other {
    beat: Beat,
    heard_ms: u64,
    /// How many entries had been heard when it began; 0 if that was before this server did.
    since: u64,
}

/// What one server knows of who keeps.
#[derive(Debug, Default)]
pub(super) struct Keepers {
    /// The name of this server, while it is attached.
    me: Option<Arc<str>>,
    joined_ms: u64,
    term: Term,
    keeper: Option<Keeper>,
    /// When the one before was heard of last.
    former_ms: u64,
    known: Term,
    is_whole: bool,
    others: BTreeMap<Arc<str>, Other>,
    /// When the last beat was sent that came back.
    echoed_ms: Option<u64>,
    claimed: Option<Term>,
    beat_ms: u64,
    beats: u64,
    join_ms: Option<u64>,
    /// How many entries were heard.
    places: u64,
    /// How many had been when the first beat of this server came back.
    since: u64,
    /// Since when this server does not see what changes.
    blind_ms: Option<u64>,
    /// The claim of its own that it has given up.
    yielded: Term,
}

impl Keepers {
    /// This server gets the log from now on, under this name, which nobody had before.
    pub(super) fn joined(&mut self, name: Arc<str>, now_ms: u64) {
        self.left();
        self.me = Some(name);
        self.joined_ms = now_ms;
        self.beat_ms = now_ms;
        self.beats = 0;
    }

    /// It does not get it any more. What it knows is kept, for the case that there is nobody else.
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

    /// The name of this server.
    pub(super) fn me(&self) -> Option<&Arc<str>> {
        self.me.as_ref()
    }

    /// Whether somebody is the keeper by the log, and who.
    pub(super) fn keeper(&self) -> Option<&Arc<str>> {
        self.keeper.as_ref().map(|keeper| &keeper.name)
    }

    /// Whether this server is the keeper by the log.
    pub(super) fn is_keeper(&self) -> bool {
        self.me.is_some() && self.me.as_ref() == self.keeper()
    }

    /// Whether another server is the keeper.
    pub(super) fn stands_by(&self) -> bool {
        self.keeper.is_some() && !self.is_keeper()
    }

    /// Whether it knows all watches.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether this server answers and notifies now.
    pub(super) fn keeps(&self, now_ms: u64) -> bool {
        let until_ms = self.echoed_ms.map_or(0, |sent_ms| sent_ms + LEASE_MS);
        // Others know that it yields before it hears so itself.
        self.is_keeper() && self.yielded != self.term && now_ms < until_ms
    }

    /// Whether this server sees what changes.
    pub(super) fn sees(&mut self, sees: bool, now_ms: u64) {
        if sees {
            self.blind_ms = None;
        } else {
            self.blind_ms.get_or_insert(now_ms);
        }
    }

    /// When [`poll`](Self::poll) has something to say.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.me.as_ref()?;
        let join_ms = self.join_ms.unwrap_or(u64::MAX);
        Some(self.beat_ms.min(join_ms))
    }

    /// What is to be published now, until there is nothing.
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
            // A server that begins does not know the terms before.
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

    /// Whether nobody keeps, as far as the log had it when the last beat of this server came back.
    fn is_vacant(&self) -> bool {
        let from_ms = match &self.keeper {
            Some(_) if self.is_keeper() => return false,
            Some(keeper) => keeper.heard_ms + SILENCE_MS,
            None if self.is_whole => 0,
            None => self.joined_ms + LISTENING_MS,
        };
        self.echoed_ms.is_some_and(|sent_ms| sent_ms >= from_ms)
    }

    /// Whether no other server that can be heard knows more.
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

    /// A server says that it is there.
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
        // Where the broker does not hand out everything in one order there may be two of one term.
        let yields = beat.term == self.term && self.is_keeper() && Some(from) < self.me.as_ref();
        if !is_newer && !yields && !needs_one {
            return Turn::Nothing;
        }
        self.follow(from, beat.term, beat.sent_ms, now_ms);
        self.is_doubted(now_ms);
        Turn::Stale
    }

    /// A server wants to be the keeper.
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
            // Who knows of no keeper began after it was there for the last time.
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
            // The others are to know soon.
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

    /// The broker says that a server is gone, or it does so itself.
    pub(super) fn gone(&mut self, from: &Arc<str>) {
        self.others.remove(from);
        if let Some(former) = self.keeper.take_if(|keeper| keeper.name == *from) {
            self.former_ms = former.heard_ms;
        }
    }

    /// A keeper lets another one keep.
    pub(super) fn yielded(&mut self, from: &Arc<str>, blind_ms: u64) {
        if let Some(former) = self.keeper.take_if(|keeper| keeper.name == *from) {
            self.former_ms = former.heard_ms.saturating_sub(blind_ms);
        }
    }

    /// What this server knows may not be all.
    pub(super) fn is_doubted(&mut self, now_ms: u64) {
        self.known = 0;
        self.is_whole = false;
        self.join_ms = Some(now_ms);
    }

    /// This server could not follow what it was told of. It may be so for long: the keeper is asked again after a while.
    pub(super) fn could_not_follow(&mut self, now_ms: u64) {
        self.is_doubted(now_ms + JOIN_MS);
    }

    /// This server has been told by the keeper what that knows.
    pub(super) fn was_told(&mut self) {
        self.known = self.term;
        self.is_whole = true;
        self.join_ms = None;
    }
}
