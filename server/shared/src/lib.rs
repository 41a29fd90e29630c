//! A keyspace over an engine that other nodes share. An operation reads, applies the rules, commits by compare-and-swap, and starts
//! again on a conflict.
//!
//! ```text
//!   operate, transact ─▶ a queue for each key ─▶ read ─▶ plan (the rules, expiry) ─▶ commit ─▶ ended
//!                                                 ▲           │ nothing changes ──────────────▶ ended
//!                                                 └───────────┴── refused, and not by its own copy
//!   the engine's changes ─▶ expiry_index, followed_keys (notifications), tasks (which commit made the change)
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
//! ahead of most others (`clock_comparison`), and refuses operations that would change something. Expiry does not depend on it: see `expiry_index`.
//!
//! # Outcome of a commit
//!
//! If no answer arrives, the node resends the identical commit until a compare succeeds or fails. A refusal may be caused by a former
//! copy of the commit. Each record names the commit that made it. Once the node has seen all changes up to the refusal, it knows
//! whether its own was among them. If changes were missed meanwhile, the outcome is [unknown](Completion::Unknown).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod clock_comparison;
mod clock_requests;
mod config;
mod engine;
mod engine_health;
mod engine_watch;
mod eventual_reads;
mod expiry_index;
mod followed_keys;
mod followed_patterns;
mod get_many;
mod held_replies;
mod maps;
mod pages;
mod plan;
mod record;
mod record_cache;
#[cfg(test)]
mod scripted_link;
mod stored_reply;
mod task;
mod task_requests;
mod tasks;
mod unavailable;
mod unconfirmed_reads;

pub use config::SharedKeyspaceConfig;
pub use engine::{
    BUCKETS, CLOCK_LIFETIME, ClockReadings, CommitOutcome, EngineCommit, EngineError, EngineEvent,
    EngineKey, EngineRequest, EngineRequestId, EngineValue, KeyState, KeyedRecord, Keys, Link,
    MAX_READ_BYTES, REPLY_LIFETIME, RecordPage, Revision, UNKNOWN_FLOOR, bucket_of,
};
pub use record::{Record, RecordContent, RecordError, WriteId};

use bytes::Bytes;
use clock_comparison::ClockComparison;
use engine_health::EngineHealth;
use engine_watch::EngineWatch;
use expiry_index::ExpiryIndex;
use followed_keys::FollowedKeys;
use followed_patterns::FollowedPatterns;
use held_replies::HeldReplies;
use pages::PendingPage;
use plan::TaskAction;
use record_cache::RecordCache;
use smallvec::smallvec;
use statestore_protocol::{Capabilities, Reply, ServiceError};
use statestored_common::ClockReading;
use statestored_store::keyspace::rules::{Operation, Version};
use statestored_store::keyspace::{
    Completion, EngineMetrics, EntryView, EventSink, Keyspace, OwnedOperation, PageRequest,
    PageTokens, RequestContext, Size,
};
use std::collections::{HashMap, HashSet};
use std::task::{Context, Poll};
use tasks::Tasks;
use unconfirmed_reads::UnconfirmedReads;

/// A keyspace over a shared engine.
#[derive(Debug)]
pub struct SharedKeyspace<L> {
    link: L,
    config: SharedKeyspaceConfig,
    last_request_id: u64,
    watch: EngineWatch,
    /// Time since when changes are missed.
    gap_since_ms: Option<u64>,
    /// Time up to which all changes are certainly known.
    complete_until_ms: u64,
    expiry_index: ExpiryIndex,
    followed_keys: FollowedKeys,
    followed_patterns: FollowedPatterns,
    record_cache: RecordCache,
    tasks: Tasks,
    unconfirmed_reads: UnconfirmedReads,
    held_replies: HeldReplies,
    pages: HashMap<EngineRequestId, PendingPage>,
    page_tokens: PageTokens,
    /// Engine requests to repeat, each with its time: unanswered ones about followed keys, and pages.
    retries: Vec<(u64, Retry)>,
    highest_version: Version,
    health: EngineHealth,
    clock_comparison: ClockComparison,
    /// The unanswered engine request for clocks.
    clock_request: Option<EngineRequestId>,
    /// Time of the last [`advance`](Keyspace::advance).
    last_advance: Option<ClockReading>,
}

#[derive(Debug)]
enum Retry {
    Follow(Bytes),
    Page(PendingPage),
}

/// Time in milliseconds for which commits wait for the next watch after one was broken or lost, or before the first one. A commit that is
/// refused while changes are missed has an unknown outcome.
const COMMIT_HOLD_MS: u64 = 1_000;

/// Time in milliseconds before the removal of an expired entry is attempted again.
const REMOVAL_RETRY_MS: u64 = 1_000;

/// Time in milliseconds before an unanswered engine request is repeated.
const REQUEST_RETRY_MS: u64 = 100;

impl<L: Link> SharedKeyspace<L> {
    /// Creates a keyspace over the engine behind `link`. The keyspace begins to watch its changes when it is first
    /// [advanced](Keyspace::advance).
    pub fn new(config: SharedKeyspaceConfig, link: L) -> Self {
        Self {
            page_tokens: PageTokens::new(link.store_secret()),
            link,
            last_request_id: 0,
            watch: EngineWatch::Scheduled(0),
            gap_since_ms: None,
            complete_until_ms: 0,
            expiry_index: ExpiryIndex::new(config.removal_delay_ms, config.tombstone_lifetime_ms),
            followed_keys: FollowedKeys::default(),
            followed_patterns: FollowedPatterns::default(),
            record_cache: RecordCache::new(config.cache_bytes),
            tasks: Tasks::new(config.process),
            unconfirmed_reads: UnconfirmedReads::default(),
            held_replies: HeldReplies::default(),
            pages: HashMap::new(),
            retries: Vec::new(),
            highest_version: (0, 0),
            health: EngineHealth::default(),
            clock_comparison: ClockComparison::new(
                config.process,
                config.max_clock_lead_ms,
                config.clock_interval_ms,
            ),
            clock_request: None,
            last_advance: None,
            config,
        }
    }

    fn request(&mut self, ask: EngineRequest) -> EngineRequestId {
        self.last_request_id += 1;
        let id = EngineRequestId(self.last_request_id);
        if !matches!(ask, EngineRequest::Watch | EngineRequest::Clocks { .. }) {
            self.health.request_sent();
        }
        self.record_cache.request_sent(id);
        self.link.request(id, ask);
        id
    }

    fn handle_event(&mut self, news: EngineEvent, now: ClockReading, events: &mut dyn EventSink) {
        self.health.record_event(&news, now);
        match news {
            EngineEvent::Read(ask, result) => {
                if let Some(key) = self.followed_keys.take_requested(ask) {
                    self.followed_state_received(ask, &key, result, now, events);
                } else {
                    if let Ok(seen) = &result {
                        self.observe_keys(ask, &self.tasks.keys_of(ask), seen, now);
                    }
                    let stamps = self.version_clock(now);
                    self.tasks
                        .states_received(ask, result, &self.expiry_index, stamps);
                }
            }
            EngineEvent::Revision(ask, result) => self.revision_received(ask, result, now),
            EngineEvent::Committed(ask, verdict) => self.commit_answered(ask, verdict, now),
            EngineEvent::Page(ask, found) => self.page_received(ask, found, now, events),
            EngineEvent::Clocks(ask, found) => self.clocks_received(ask, found, now),
            EngineEvent::Snapshot(ask, records) => self.snapshot_received(ask, records, now),
            EngineEvent::Synced(ask, at, floors) => {
                self.snapshot_completed(ask, at, &floors, now, events);
            }
            EngineEvent::Changes(ask, at, changes) => {
                self.changes_received(ask, at, changes, now, events);
            }
            EngineEvent::Writable(_) | EngineEvent::Members { .. } => {}
            EngineEvent::WatchProgress(ask, ago) => {
                if self.is_current_watch(ask) {
                    let ago_ms = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
                    self.complete_until_ms = self
                        .complete_until_ms
                        .max(now.mono_ms.saturating_sub(ago_ms));
                }
                // No request has an outcome, not even the lack of an answer.
                return;
            }
            EngineEvent::WatchInterrupted(ask) => self.watch_interrupted(ask, true),
            EngineEvent::WatchResumed(ask) => self.watch_interrupted(ask, false),
            EngineEvent::WatchLost(ask, error) => self.watch_lost(ask, error, now, events),
            EngineEvent::Reverted => {
                self.expiry_index.mark_doubtful();
                self.followed_keys.mark_doubtful();
                self.missed_changes(now.mono_ms);
            }
        }
        if self.health.is_unavailable(now) {
            self.reject_unsent(now, events);
        }
    }

    /// Begins the next watch, repeats unanswered engine requests, and removes expired entries, as far as they are due.
    fn start_due_requests(&mut self, now: ClockReading) {
        self.query_clocks_if_due(now);
        // The remaining time of old entries depends on the clocks.
        if let EngineWatch::Scheduled(at_ms) = self.watch
            && at_ms <= now.mono_ms
            && self.clock_comparison.status(now) != clock_comparison::ClockStatus::Unknown
        {
            let ask = self.request(EngineRequest::Watch);
            self.watch = EngineWatch::Snapshot {
                request_id: ask,
                followed: HashMap::new(),
                expiring: HashSet::new(),
            };
        }
        let (due, later) = std::mem::take(&mut self.retries)
            .into_iter()
            .partition(|(at_ms, _)| *at_ms <= now.mono_ms);
        self.retries = later;
        for (_, again) in due {
            match again {
                Retry::Follow(key) => self.request_followed(&key),
                Retry::Page(page) => self.request_page(page),
            }
        }
        while let Some((key, revision)) = self.expiry_index.take_due(now) {
            // Another attempt follows if this one does not succeed by then.
            let later_ms = now.mono_ms + REMOVAL_RETRY_MS;
            self.expiry_index.postpone(&key, revision, later_ms);
            if !self.tasks.is_busy(&key) {
                let deadline_ms = Tasks::deadline(now);
                self.read_key_from_engine(&key);
                let work = TaskAction::RemoveExpired(revision);
                self.tasks
                    .add(None, None, deadline_ms, smallvec![key], work);
            }
        }
    }
}

impl<L: Link> Keyspace for SharedKeyspace<L> {
    fn operate(
        &mut self,
        context: &RequestContext,
        key: &Bytes,
        operation: &Operation<'_>,
        _events: &mut dyn EventSink,
    ) -> Option<Completion> {
        if let Some(end) = self.eventual_read(key, operation, context.now) {
            return Some(end);
        }
        if self.try_add_unconfirmed(context, key, operation) {
            return None;
        }
        let work = TaskAction::Operation(OwnedOperation::of(operation));
        let keys = smallvec![key.clone()];
        self.start_task(context, keys, work)
    }

    fn transact(
        &mut self,
        context: &RequestContext,
        operations: &[(&Bytes, Operation<'_>)],
        _events: &mut dyn EventSink,
    ) -> Option<Completion> {
        let mut keys: Keys = operations.iter().map(|(key, _)| (*key).clone()).collect();
        keys.sort();
        keys.dedup();
        if keys.len() as u64 > self.config.max_operations {
            let text = format!(
                "the storage takes {} keys at most in one transaction",
                self.config.max_operations
            );
            let error = ServiceError::Other(text.into());
            return Some(Completion::reply(Reply::Error(error)));
        }
        let operations = operations.iter().filter_map(|(key, operation)| {
            let place = keys.binary_search(key).ok()?;
            Some((place, OwnedOperation::of(operation)))
        });
        let work = TaskAction::Transaction(operations.collect());
        self.start_task(context, keys, work)
    }

    fn get_many(
        &mut self,
        context: &RequestContext,
        keys: &[Bytes],
        max_reply_bytes: usize,
        _events: &mut dyn EventSink,
    ) -> Option<Completion> {
        self.begin_get_many(context, keys, max_reply_bytes)
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::ALL;
        capabilities.transactions = Some(self.config.max_operations);
        capabilities.max_get_keys = Some(self.config.max_read_keys);
        capabilities
    }

    fn page(
        &mut self,
        context: &RequestContext,
        request: &PageRequest,
        _events: &mut dyn EventSink,
    ) -> Option<Completion> {
        self.begin_page(context, request)
    }

    fn follow(&mut self, context: &RequestContext, key: &Bytes) -> Option<Completion> {
        if self.followed_keys.follow(key, context.ticket) {
            return Some(Completion::reply(Reply::Ok));
        }
        self.request_followed(key);
        None
    }

    fn unfollow(&mut self, key: &[u8]) {
        self.followed_keys.unfollow(key);
    }

    fn follow_pattern(&mut self, context: &RequestContext, pattern: &Bytes) -> Option<Completion> {
        let is_live = self.is_live();
        self.followed_patterns
            .follow(pattern, context.ticket, is_live);
        is_live.then(|| Completion::reply(Reply::Ok))
    }

    fn unfollow_pattern(&mut self, pattern: &[u8]) {
        self.followed_patterns.unfollow(pattern);
    }

    fn advance(&mut self, most: usize, now: ClockReading, events: &mut dyn EventSink) {
        // A step of the clock has to be seen before anything is stamped.
        self.clock_comparison.update(now);
        let mut left = most;
        while left > 0
            && let Some(news) = self.link.next_event()
        {
            left -= 1;
            self.handle_event(news, now, events);
        }
        let last = self.last_advance.replace(now);
        if left == most && last == Some(now) && !self.has_completions() {
            // Nothing new is due: this is called before each request, of which there are many in a millisecond.
            return;
        }
        self.reject_unsent_if_due(now, events);
        self.tasks.advance(now);
        self.advance_unconfirmed(now);
        self.start_due_requests(now);
        self.send_requests(now);
        self.request_revision_if_due(now);
        let released = self.followed_keys.take_released().into_iter();
        for ticket in released.chain(self.followed_patterns.take_released()) {
            events.completed(ticket, Completion::reply(Reply::Ok));
        }
        self.release_held_replies(now);
        let ended = self.held_replies.take_ready();
        for (ticket, end) in ended.into_iter().chain(self.tasks.take_completed()) {
            events.completed(ticket, end);
        }
        self.health.update(
            self.is_watched(),
            self.highest_version,
            (
                self.clock_comparison.status(now),
                self.clock_comparison.ahead_ms(now),
            ),
            now,
        );
    }

    fn next_ms(&self) -> Option<u64> {
        let watch = match self.watch {
            EngineWatch::Scheduled(at_ms) if self.clock_comparison.is_compared() => Some(at_ms),
            _ => None,
        };
        let clocks = Some(self.clock_comparison.next_ms()).filter(|at_ms| *at_ms < u64::MAX);
        let again = self.retries.iter().map(|(at_ms, _)| *at_ms).min();
        let held = self
            .commits_held_until_ms()
            .filter(|_| self.tasks.has_held_commits());
        let times = [
            watch,
            held,
            (self.has_released_follows() || self.link.buffered() > 0).then_some(0),
            clocks,
            again,
            self.expiry_index.next_ms(),
            self.tasks.next_ms(),
            self.unconfirmed_reads.next_ms(),
            self.held_replies.next_ms(),
            self.health.next_rejection_ms(),
        ];
        times.into_iter().flatten().min()
    }

    fn gathered(&self) -> usize {
        self.unconfirmed_reads.buffered_count() + self.link.buffered()
    }

    fn flush_gathered(&mut self) {
        if self.unconfirmed_reads.buffered_count() > 0 {
            self.request_revision();
        }
        self.link.flush();
    }

    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.link.poll_events(context)
    }

    fn highest_version(&self) -> Version {
        self.highest_version
    }

    fn size(&self) -> Size {
        Size { keys: 0, bytes: 0 }
    }

    fn entry_view(&self, key: &[u8], most_bytes: usize, now: ClockReading) -> Option<EntryView> {
        self.cached_entry_view(key, most_bytes, now)
    }

    fn engine_metrics(&self) -> Option<EngineMetrics> {
        Some(self.health.metrics())
    }
}
