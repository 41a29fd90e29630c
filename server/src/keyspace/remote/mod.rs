//! A keyspace over an engine that other nodes share. An operation reads, applies the rules, commits by compare-and-swap, and starts
//! again on a conflict.
//!
//! ```text
//!   operate, transact ─▶ a queue for each key ─▶ read ─▶ plan (the rules, expiry) ─▶ commit ─▶ ended
//!                                                 ▲           │ nothing changes ──────────────▶ ended
//!                                                 └───────────┴── refused, and not by its own copy
//!   the engine's changes ─▶ sights (expiry), following (notifications), tasks (which commit made the change)
//! ```
//!
//! Like every keyspace, it is a state machine without I/O. Its engine requests go through a [`Link`], whose events it processes in
//! [`advance`](Keyspace::advance). Nodes do not know of each other; all that they share is in the engine.
//!
//! # Comparisons of a commit
//!
//! A commit compares the revision of the record that was read, also if it is a tombstone. If the key has no record, the commit
//! compares the absence of a record and the floor of the key's bucket. While the floor has its revision, no tombstone of the bucket
//! was purged. The key was therefore not created and deleted unseen in the meantime. If other servers may receive the same request,
//! the commit also compares that it has no answer. The answer is put with the changes, or alone if nothing is changed.
//!
//! # Clocks
//!
//! A version is made of the clock of the node that assigns it, and is permanent. A node therefore assigns none while its clock is
//! ahead of most others (`clocks`), and refuses operations that would change something. Expiry does not depend on it: see `sights`.
//!
//! # Outcome of a commit
//!
//! If no answer arrives, the node resends the identical commit until a compare succeeds or fails. A refusal may be caused by a former
//! copy of the commit. Each record names the commit that made it. Once the node has seen all changes up to the refusal, it knows
//! whether its own was among them. If changes were missed meanwhile, the outcome is [unknown](End::Unknown).
mod answer;
mod away;
mod clocks;
mod comparing;
mod config;
mod confirming;
mod engine;
#[cfg(feature = "etcd")]
pub mod etcd;
mod following;
mod guesses;
mod maps;
mod pages;
mod plan;
#[cfg(feature = "elsewhere")]
mod portion;
mod record;
#[cfg(feature = "redis")]
pub mod redis;
mod remembering;
#[cfg(feature = "elsewhere")]
mod restoring;
#[cfg(feature = "elsewhere")]
mod said;
#[cfg(test)]
mod scripted;
mod sights;
#[cfg(feature = "elsewhere")]
mod snapshots;
mod standing;
mod task;
mod tasks;
#[cfg(feature = "elsewhere")]
mod thread;
#[cfg(feature = "elsewhere")]
mod tls;
mod untold;
mod watching;

pub use clocks::FoundClocks;
pub use config::RemoteConfig;
pub use engine::{
    ANSWER_LIFETIME, Ask, AskId, BUCKETS, CLOCK_LIFETIME, EngineError, Found, FoundPage, Keys,
    Link, News, Place, Put, Revision, Seen, UNKNOWN_FLOOR, Unit, Verdict, bucket_of,
};
pub use record::{Content, Record, RecordError, WriteId};
pub use standing::{EngineFigures, Kind as AskKind, Result as AskResult, Trouble};
#[cfg(feature = "elsewhere")]
pub use thread::ThreadLink;
#[cfg(feature = "elsewhere")]
pub use tls::EngineTls;

use super::rules::{Operation, Version};
use super::{Asked, End, Keyspace, Look, OwnedOperation, PageRequest, PageTokens, Size, Told};
use crate::clock::Now;
use bytes::Bytes;
use clocks::Clocks;
use confirming::Confirming;
use following::Following;
use guesses::Guesses;
use pages::Page;
use plan::Work;
use sights::Sights;
use smallvec::smallvec;
use standing::Standing;
use statestore_protocol::{Capabilities, Reply, ServiceError};
use std::collections::{HashMap, HashSet};
use std::task::{Context, Poll};
use tasks::Tasks;
use untold::Untold;
use watching::Watch;

/// A keyspace over a shared engine.
#[derive(Debug)]
pub struct Remote<L> {
    link: L,
    config: RemoteConfig,
    asks: u64,
    watch: Watch,
    /// Time since when changes are missed.
    missing_since_ms: Option<u64>,
    /// Time up to which all changes are certainly known.
    complete_ms: u64,
    sights: Sights,
    following: Following,
    guesses: Guesses,
    tasks: Tasks,
    confirming: Confirming,
    untold: Untold,
    pages: HashMap<AskId, Page>,
    page_tokens: PageTokens,
    /// Engine requests to repeat, each with its time: unanswered ones about followed keys, and pages.
    again: Vec<(u64, Again)>,
    highest: Version,
    standing: Standing,
    clocks: Clocks,
    /// The unanswered engine request for clocks.
    asked_clocks: Option<AskId>,
    /// Time of the last [`advance`](Keyspace::advance).
    advanced: Option<Now>,
}

#[derive(Debug)]
enum Again {
    Follow(Bytes),
    Page(Page),
}

/// Time in milliseconds for which commits wait for the next watch after one was broken or lost, or before the first one. A commit that is
/// refused while changes are missed has an unknown outcome.
const HOLD_MS: u64 = 1_000;

/// Time in milliseconds before the removal of an expired entry is attempted again.
const FINISH_AGAIN_MS: u64 = 1_000;

/// Time in milliseconds before an unanswered engine request is repeated.
const ASK_AGAIN_MS: u64 = 100;

impl<L: Link> Remote<L> {
    /// Creates a keyspace over the engine behind `link`. The keyspace begins to watch its changes when it is first
    /// [advanced](Keyspace::advance).
    pub fn new(config: RemoteConfig, link: L) -> Self {
        Self {
            page_tokens: PageTokens::new(link.store_secret()),
            link,
            asks: 0,
            watch: Watch::Begins(0),
            missing_since_ms: None,
            complete_ms: 0,
            sights: Sights::new(config.patience_ms, config.tombstone_ms),
            following: Following::default(),
            guesses: Guesses::new(config.guess_bytes),
            tasks: Tasks::new(config.process),
            confirming: Confirming::default(),
            untold: Untold::default(),
            pages: HashMap::new(),
            again: Vec::new(),
            highest: (0, 0),
            standing: Standing::default(),
            clocks: Clocks::new(config.process, config.clock_limit_ms, config.compare_ms),
            asked_clocks: None,
            advanced: None,
            config,
        }
    }

    fn ask(&mut self, ask: Ask) -> AskId {
        self.asks += 1;
        let id = AskId(self.asks);
        if !matches!(ask, Ask::Watch | Ask::Clocks { .. }) {
            self.standing.asked();
        }
        self.guesses.asked(id);
        self.link.ask(id, ask);
        id
    }

    fn take(&mut self, news: News, now: Now, told: &mut dyn Told) {
        self.standing.heard(&news, now);
        match news {
            News::Read(ask, result) => {
                if let Some(key) = self.following.answered(ask) {
                    self.found(ask, &key, result, now, told);
                } else {
                    if let Ok(seen) = &result {
                        self.saw_keys(ask, &self.tasks.keys_of(ask), seen, now);
                    }
                    let stamps = self.stamps(now);
                    self.tasks.read(ask, result, &self.sights, stamps);
                }
            }
            News::Revision(ask, result) => self.told_revision(ask, result, now),
            News::Committed(ask, verdict) => self.committed(ask, verdict, now),
            News::Page(ask, found) => self.paged(ask, found, now, told),
            News::Clocks(ask, found) => self.compared(ask, found, now),
            News::Snapshot(ask, records) => self.snapshot(ask, records, now),
            News::Synced(ask, at, floors) => self.synced(ask, at, &floors, now, told),
            News::Changes(ask, at, changes) => self.changed(ask, at, changes, now, told),
            News::Writable(_) => {}
            News::Watching(ask, ago) => {
                if self.is_of(ask) {
                    let ago_ms = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
                    self.complete_ms = self.complete_ms.max(now.mono_ms.saturating_sub(ago_ms));
                }
                // No request has an outcome, not even the lack of an answer.
                return;
            }
            News::WatchBroken(ask) => self.interrupted(ask, true),
            News::WatchResumed(ask) => self.interrupted(ask, false),
            News::WatchLost(ask, error) => self.lost(ask, error, now, told),
            News::Reverted => {
                self.sights.doubt();
                self.following.doubt();
                self.missed_changes(now.mono_ms);
            }
        }
        if self.standing.is_away(now) {
            self.give_up(now, told);
        }
    }

    /// Begins the next watch, repeats unanswered engine requests, and removes expired entries, as far as they are due.
    fn begin_due(&mut self, now: Now) {
        self.compare_due(now);
        // The remaining time of old entries depends on the clocks.
        if let Watch::Begins(at_ms) = self.watch
            && at_ms <= now.mono_ms
            && self.clocks.standing(now) != clocks::Standing::Unknown
        {
            let ask = self.ask(Ask::Watch);
            self.watch = Watch::Snapshot {
                ask,
                followed: HashMap::new(),
                ending: HashSet::new(),
            };
        }
        let (due, later) = std::mem::take(&mut self.again)
            .into_iter()
            .partition(|(at_ms, _)| *at_ms <= now.mono_ms);
        self.again = later;
        for (_, again) in due {
            match again {
                Again::Follow(key) => self.ask_followed(&key),
                Again::Page(page) => self.ask_page(page),
            }
        }
        while let Some((key, revision)) = self.sights.take_due(now) {
            // Another attempt follows if this one does not succeed by then.
            let later_ms = now.mono_ms + FINISH_AGAIN_MS;
            self.sights.postpone(&key, revision, later_ms);
            if !self.tasks.is_busy(&key) {
                let deadline_ms = Tasks::deadline(now);
                self.read_plainly(&key);
                let work = Work::Finish(revision);
                self.tasks
                    .add(None, None, deadline_ms, smallvec![key], work);
            }
        }
    }

    fn begin(&mut self, asked: &Asked, keys: Keys, work: Work) -> Option<End> {
        let deadline_ms = asked
            .deadline_ms
            .unwrap_or_else(|| Tasks::deadline(asked.now));
        let ticket = Some(asked.ticket);
        for key in &keys {
            // Operations on a key run in the order of their requests.
            self.read_plainly(key);
        }
        self.tasks
            .add(ticket, asked.request, deadline_ms, keys, work);
        self.send(asked.now);
        None
    }

    /// Returns the time until which commits wait for the watch.
    fn held_until_ms(&self) -> Option<u64> {
        self.missing_since_ms.map(|since_ms| since_ms + HOLD_MS)
    }

    /// Sends the engine requests of the tasks.
    fn send(&mut self, now: Now) {
        self.clocks.pass(now);
        if self.clocks.standing(now) == clocks::Standing::Unknown {
            return;
        }
        let stamps = self.stamps(now);
        let is_live = self.is_live();
        // An operation whose commit was sent cannot be refused any more. If the engine may be away, it is therefore asked for something
        // else first.
        let may_guess = is_live && !self.standing.is_silent();
        if self.is_watched() {
            self.missing_since_ms = None;
        } else {
            self.missing_since_ms.get_or_insert(now.mono_ms);
        }
        let may_commit = self
            .held_until_ms()
            .is_none_or(|until_ms| until_ms <= now.mono_ms);
        if may_commit {
            self.tasks.let_go();
        }
        loop {
            let guesses = may_guess.then_some(&mut self.guesses);
            let next = self
                .tasks
                .next_ask((may_commit, is_live), guesses, &self.sights, stamps);
            let Some((task, ask)) = next else {
                break;
            };
            let ask = self.ask(ask);
            self.tasks.asked(task, ask);
        }
    }
}

impl<L: Link> Keyspace for Remote<L> {
    fn operate(
        &mut self,
        asked: &Asked,
        key: &Bytes,
        operation: &Operation<'_>,
        _told: &mut dyn Told,
    ) -> Option<End> {
        if let Some(end) = self.remembered(key, operation, asked.now) {
            return Some(end);
        }
        if self.confirms(asked, key, operation) {
            return None;
        }
        let work = Work::Operation(OwnedOperation::of(operation));
        let keys = smallvec![key.clone()];
        self.begin(asked, keys, work)
    }

    fn transact(
        &mut self,
        asked: &Asked,
        operations: &[(&Bytes, Operation<'_>)],
        _told: &mut dyn Told,
    ) -> Option<End> {
        let mut keys: Keys = operations.iter().map(|(key, _)| (*key).clone()).collect();
        keys.sort();
        keys.dedup();
        if keys.len() as u64 > self.config.max_operations {
            let text = format!(
                "the storage takes {} keys at most in one transaction",
                self.config.max_operations
            );
            let error = ServiceError::Other(text.into());
            return Some(End::reply(Reply::Error(error)));
        }
        let operations = operations.iter().filter_map(|(key, operation)| {
            let place = keys.binary_search(key).ok()?;
            Some((place, OwnedOperation::of(operation)))
        });
        let work = Work::Transaction(operations.collect());
        self.begin(asked, keys, work)
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::ALL;
        capabilities.transactions = Some(self.config.max_operations);
        capabilities
    }

    fn page(&mut self, asked: &Asked, request: &PageRequest, _told: &mut dyn Told) -> Option<End> {
        self.begin_page(asked, request)
    }

    fn follow(&mut self, asked: &Asked, key: &Bytes) -> Option<End> {
        if self.following.begin(key, asked.ticket) {
            return Some(End::reply(Reply::Ok));
        }
        self.ask_followed(key);
        None
    }

    fn unfollow(&mut self, key: &[u8]) {
        self.following.ended(key);
    }

    fn advance(&mut self, most: usize, now: Now, told: &mut dyn Told) {
        // A step of the clock has to be seen before anything is stamped.
        self.clocks.pass(now);
        let mut left = most;
        while left > 0
            && let Some(news) = self.link.news()
        {
            left -= 1;
            self.take(news, now, told);
        }
        let last = self.advanced.replace(now);
        if left == most && last == Some(now) && !self.has_ended() {
            // Nothing new is due: this is called before each request, of which there are many in a millisecond.
            return;
        }
        self.give_up_due(now, told);
        self.tasks.pass(now);
        self.pass_confirming(now);
        self.begin_due(now);
        self.send(now);
        self.ask_revision_due(now);
        for ticket in self.following.take_released() {
            told.ended(ticket, End::reply(Reply::Ok));
        }
        self.release_untold(now);
        let ended = self.untold.take_ready();
        for (ticket, end) in ended.into_iter().chain(self.tasks.take_ended()) {
            told.ended(ticket, end);
        }
        self.standing.pass(
            self.is_watched(),
            self.highest,
            (self.clocks.standing(now), self.clocks.ahead_ms(now)),
            now,
        );
    }

    fn next_ms(&self) -> Option<u64> {
        let watch = match self.watch {
            Watch::Begins(at_ms) if self.clocks.is_compared() => Some(at_ms),
            _ => None,
        };
        let clocks = Some(self.clocks.next_ms()).filter(|at_ms| *at_ms < u64::MAX);
        let again = self.again.iter().map(|(at_ms, _)| *at_ms).min();
        let held = self.held_until_ms().filter(|_| self.tasks.holds());
        let times = [
            watch,
            held,
            (self.following.has_released() || self.link.unsent() > 0).then_some(0),
            clocks,
            again,
            self.sights.next_ms(),
            self.tasks.next_ms(),
            self.confirming.next_ms(),
            self.untold.next_ms(),
            self.standing.gives_up_ms(),
        ];
        times.into_iter().flatten().min()
    }

    fn gathered(&self) -> usize {
        self.confirming.gathered() + self.link.unsent()
    }

    fn ask_gathered(&mut self) {
        if self.confirming.gathered() > 0 {
            self.ask_revision();
        }
        self.link.send();
    }

    fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.link.poll_news(context)
    }

    fn highest(&self) -> Version {
        self.highest
    }

    fn size(&self) -> Size {
        Size { keys: 0, bytes: 0 }
    }

    fn look(&self, key: &[u8], most_bytes: usize, now: Now) -> Option<Look> {
        self.remembered_entry(key, most_bytes, now)
    }

    fn engine(&self) -> Option<EngineFigures> {
        Some(self.standing.figures())
    }
}
