//! The state store as a service: a request comes in a [`RequestEnvelope`], and has one [`Outcome`], at once or later.
//!
//! ```text
//!                     envelope: client, principal, request and deadline
//!                                         │
//!   ┌─────────────────────────────────────▼─────────────────────────────────────┐
//!   │ Service   deadline, room ─▶ execute ─▶ outcome: the response, and the     │
//!   │                               │  ▲     commit that it waits for           │
//!   │       remembered answers ─────┤  │                                        │
//!   │       pending requests ───────┤  └ Changes ─▶ watches ─▶ notifications    │
//!   │                               ▼       ▲    └▶ commits ─▶ batches for the  │
//!   │                            keyspace ──┘                  storage          │
//!   └───────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The service has no knowledge of connections, sessions, MQTT or disks, nor of where entries are stored. Clients are
//! names, and waiters for a commit are numbers. The hub calls the service, one call at a time:
//!
//! - [`submit`](Service::submit) executes a request. The outcome is returned at once if the [keyspace](crate::keyspace) has
//!   it at once, as the embedded keyspace does. Otherwise [`take_outcome`](Service::take_outcome) returns it later
//!   under its [`Ticket`]. Outcomes come in order for each key, and out of order across keys. An outcome may have to
//!   wait until its [`CommitIndex`] is durable.
//! - [`take_notifications`](Service::take_notifications) returns the changes of which watching clients are notified.
//! - [`take_batch`](Service::take_batch) returns the next writes for the storage. [`mark_durable`](Service::mark_durable) records
//!   up to which commit the storage has made them durable.
//! - [`advance`](Service::advance) expires entries, and takes over what the keyspace reports.
mod change_recorder;
mod commits;
mod completion;
mod config;
mod execute;
pub mod hot_keys;
mod inspect;
mod pattern_index;
mod pending;
mod replay_cache;
mod request;
pub mod request_head;
mod request_meter;
mod retention;
mod skew_detector;
mod transaction;
mod watches;

pub use crate::keyspace::Ticket;
pub use config::ServiceConfig;
pub use request::{
    ChangeNotification, CommitIndex, NotExecutedReason, NotificationScope, Outcome, READ_ONLY,
    ReplyEnvelope, Request, RequestEnvelope, RequestProgress,
};
pub use statestored_common::ClockReading;
pub use watches::TOO_MANY_WATCHES;

pub use commits::WaiterId;
pub use request::{error_of, may_write};
pub use request_meter::{RESULTS, RequestMetrics, Verb, result_name};
pub use retention::Retention;
pub use retention::RetentionIndex;
pub use skew_detector::{ClockSkew, SkewEvidence, TOLERANCE_MS};

use crate::keyspace::rules::Version;
use crate::keyspace::{EmbeddedKeyspace, EngineMetrics, Keyspace, Quota, Size};
use bytes::Bytes;
use change_recorder::ChangeRecorder;
use commits::Commits;
use pending::PendingRequests;
use replay_cache::ReplayCache;
use request::RevealedState;
use request_meter::RequestMeter;
use skew_detector::SkewDetector;
use statestored_access::Rights;
use statestored_storage::Batch;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use watches::Unwatched;

/// Approximate maximum number of changes that one call of [`Service::advance`] makes or takes over.
const CHANGES_PER_CALL: usize = 256;

/// Number of writes waiting to be taken at which [`Service::rewrite_expiry`] pauses.
const MAX_UNTAKEN_WRITES: usize = 4 * CHANGES_PER_CALL;

/// Counts of requests since the start, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutcomeMetrics {
    /// Executed requests.
    pub executed: u64,
    /// Requests not executed because there was no room for the answer, or the engine did not answer.
    pub refused: u64,
    /// Requests not executed because their deadline had passed.
    pub expired: u64,
    /// Requests that may or may not have been executed.
    pub unknown: u64,
    /// Executed requests that were rejected because the client is not authorized.
    pub denied: u64,
}

/// The store, with everything between a request and its outcome. The service is deterministic: the same requests at the
/// same times have the same effects, if the keyspace reports the same.
pub struct Service {
    keyspace: Box<dyn Keyspace>,
    replay: ReplayCache,
    config: ServiceConfig,
    is_read_only: bool,
    /// Whether a [rewrite of expiry times](Self::rewrite_expiry) in the storage is not complete yet.
    is_rewriting_expiry: bool,
    changes: ChangeRecorder,
    commits: Commits,
    pending_requests: PendingRequests,
    outcome_metrics: OutcomeMetrics,
    meter: RequestMeter,
    /// Quota that the last rejected request met, if the request was answered at once.
    exceeded_quota: Option<Quota>,
    /// Whether the next request may change no entry, since the process cannot hold its payload a second time.
    lacks_memory: bool,
    skew_detector: SkewDetector,
    /// Address of the client that sends the next request, if it is known.
    client_address: Option<IpAddr>,
}

impl std::fmt::Debug for Service {
    /// Omits keys, values and client ids.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("keyspace", &self.keyspace)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// Creates a service in front of this keyspace.
    pub fn new(config: ServiceConfig, keyspace: impl Keyspace + 'static) -> Self {
        Self::with_keyspace(config, Box::new(keyspace))
    }

    /// Creates a service in front of a boxed keyspace.
    pub fn with_keyspace(config: ServiceConfig, keyspace: Box<dyn Keyspace>) -> Self {
        Self {
            keyspace,
            replay: ReplayCache::new(&config),
            is_read_only: false,
            is_rewriting_expiry: false,
            changes: ChangeRecorder::new(&config),
            commits: Commits::new(config.is_durable),
            pending_requests: PendingRequests::default(),
            outcome_metrics: OutcomeMetrics::default(),
            exceeded_quota: None,
            lacks_memory: false,
            skew_detector: SkewDetector::default(),
            client_address: None,
            meter: RequestMeter::default(),
            config,
        }
    }

    /// Takes over the index of the keys that the storage has from a former run. Deletes from the storage the keys that
    /// it is not to keep any more.
    pub fn restore(&mut self, kept: RetentionIndex, forgotten: impl Iterator<Item = Bytes>) {
        let floor = self.keyspace.highest_version();
        for key in forgotten {
            self.changes.writes.delete(&key, floor);
        }
        self.changes.retention_index = Some(kept);
    }

    /// Creates a service in front of an embedded keyspace without entries.
    pub fn embedded(config: ServiceConfig) -> Self {
        let keyspace = EmbeddedKeyspace::new(&config.keyspace());
        Self::new(config, keyspace)
    }

    /// Expires entries until `now`, and takes over what the keyspace reports. One call does a limited amount of work,
    /// so that requests do not wait for long: [`next_ms`](Self::next_ms) returns whether more work is due at once.
    pub fn advance(&mut self, now: ClockReading) {
        self.advance_by(CHANGES_PER_CALL, now);
        self.rewrite_expiry(now);
    }

    /// Rewrites expiry times in the storage after the wall clock has jumped ahead. Without this, those entries would
    /// count as expired at the next start. Each call rewrites a part of them, and returns whether another call can
    /// continue.
    pub fn rewrite_expiry(&mut self, now: ClockReading) -> bool {
        if self.may_rewrite_expiry() {
            self.is_rewriting_expiry = self.keyspace.rewrite_expiry(now, &mut self.changes);
        }
        self.is_rewriting_expiry && self.may_rewrite_expiry()
    }

    fn may_rewrite_expiry(&self) -> bool {
        self.changes.retention_index.is_some()
            && !self.is_read_only
            && self.changes.writes.writes.len() < MAX_UNTAKEN_WRITES
    }

    /// Returns when [`advance`](Self::advance) has work to do next, in milliseconds of the monotonic clock. A time in
    /// the past means now.
    pub fn next_ms(&self) -> Option<u64> {
        if self.is_rewriting_expiry && self.may_rewrite_expiry() {
            return Some(0);
        }
        self.keyspace.next_ms()
    }

    /// Returns the sign that timestamps of clients give of a wrong clock, if they give one.
    pub fn skew(&mut self, now: ClockReading) -> Option<SkewEvidence> {
        self.skew_detector.evidence(now.mono_ms)
    }

    /// Sets the address of the client whose request is next.
    #[inline]
    pub fn set_client_address(&mut self, address: IpAddr) {
        self.client_address = Some(address);
    }

    /// Returns when that sign may change without a further timestamp.
    pub fn next_skew_ms(&self) -> Option<u64> {
        self.skew_detector.next_ms()
    }

    /// Returns the numbers of timestamps more than a minute ahead of the clock, and behind it.
    pub fn skewed_counts(&self) -> [u64; 2] {
        self.skew_detector.skewed
    }

    /// Returns the highest version that any change was given, as far as it is known here.
    pub fn highest_version(&self) -> Version {
        self.keyspace.highest_version()
    }

    /// Returns how many requests the keyspace has [gathered](crate::keyspace::Keyspace::gathered).
    pub fn gathered(&self) -> usize {
        self.keyspace.gathered()
    }

    /// Makes the keyspace send what it has gathered, since no more requests
    /// [come soon](crate::keyspace::Keyspace::flush_gathered).
    pub fn flush_gathered(&mut self) {
        self.keyspace.flush_gathered();
    }

    /// Returns `Ready` if [`advance`](Self::advance) has work to do that no clock has announced. Otherwise wakes the
    /// context as soon as it has.
    pub fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.keyspace.poll_events(context)
    }

    /// Returns the next outcome of a request that [had no outcome](RequestProgress::Pending) when it was asked.
    pub fn take_outcome(&mut self) -> Option<(Ticket, Outcome)> {
        self.pending_requests.take_outcome()
    }

    /// Takes the quota that the last request met, if it was answered at once with "the quota has been exceeded".
    pub fn take_exceeded_quota(&mut self) -> Option<Quota> {
        self.exceeded_quota.take()
    }

    /// Rejects the next request as one over its quota if it could change an entry: the process cannot hold its payload
    /// a second time.
    pub fn reject_next_change(&mut self) {
        self.lacks_memory = true;
    }

    /// Returns whether there are notifications to take.
    pub fn has_notifications(&self) -> bool {
        !self.changes.notifications.is_empty() || self.has_waiting_changes()
    }

    /// Returns whether changes wait for their comparison with the watched patterns, which
    /// [`take_notifications`](Self::take_notifications) continues.
    pub fn has_waiting_changes(&self) -> bool {
        !self.changes.waiting.is_empty()
    }

    /// Returns whether so many of them wait that no request should add more.
    pub fn has_many_waiting_changes(&self) -> bool {
        self.changes.is_full()
    }

    /// Exchanges `into`, which must be empty, for the notifications of all changes since the last call, except those that
    /// [wait](Self::has_waiting_changes). Returns the commit that they wait for.
    pub fn take_notifications(&mut self, into: &mut Vec<ChangeNotification>) -> CommitIndex {
        self.changes.compare_waiting();
        std::mem::swap(&mut self.changes.notifications, into);
        self.commits
            .index_revealing(&RevealedState::Everything, &self.changes.writes)
    }

    /// Begins a turn: resets [`work`](Self::work).
    pub fn begin_quantum(&mut self) {
        self.changes.work = 0;
    }

    /// Returns the extra work of this turn, roughly in nanoseconds: SCANs, transactions, and comparing a topic with
    /// many filters.
    pub fn work(&self) -> usize {
        self.changes.work
    }

    /// Adds other work to this turn, roughly in nanoseconds.
    pub fn add_work(&mut self, steps: usize) {
        self.changes.work += steps;
    }

    /// Takes the next writes that are to be made durable.
    pub fn take_batch(&mut self) -> Option<(CommitIndex, Batch)> {
        self.commits.take(&mut self.changes.writes)
    }

    /// Returns whether [`take_batch`](Self::take_batch) has a batch.
    pub fn has_batch(&self) -> bool {
        self.commits.has_batch(&self.changes.writes)
    }

    /// Records that all commits up to this one are durable. Returns the waiters that this releases.
    pub fn mark_durable(&mut self, commit: CommitIndex) -> Vec<WaiterId> {
        let meter = &mut self.meter;
        self.commits
            .release(commit, |measured| meter.record_released(measured))
    }

    /// Sets the time, in microseconds since any fixed moment. Requests are not measured before the first call.
    pub fn set_time_us(&mut self, now_us: u64) {
        self.meter.set_time_us(now_us);
    }

    /// Returns the counts and latencies of requests.
    pub fn request_metrics(&self) -> RequestMetrics {
        RequestMetrics {
            insertions: self.changes.insertions,
            ..(*self.meter.metrics).clone()
        }
    }

    /// Returns whether entries can be read but not changed.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the number of watches of keys and patterns.
    pub fn watch_count(&self) -> u64 {
        self.changes.watches.len()
    }

    /// Returns the commit that a waiter for `commit` has to wait for now; 0 if it is durable.
    pub fn pending_index(&self, commit: CommitIndex) -> CommitIndex {
        self.commits.pending_index(commit)
    }

    /// Registers a waiter for this commit, which must be [pending](Self::pending_index).
    pub fn register_waiter(&mut self, commit: CommitIndex, waiter: WaiterId) {
        self.commits.register_waiter(commit, waiter);
    }

    /// Sets whether the process is short of memory: see [`Keyspace::set_memory_short`].
    pub fn set_memory_short(&mut self, is_short: bool) {
        self.keyspace.set_memory_short(is_short);
    }

    /// Moves the next entries within the heap; returns whether there are more.
    pub fn relocate(&mut self) -> bool {
        self.keyspace.relocate()
    }

    /// Sets whether entries can be read but not changed, because there is no room to keep changes.
    pub fn set_read_only(&mut self, is_read_only: bool) {
        self.is_read_only = is_read_only;
    }

    /// Ends the watches of a client whose connection has ended. Call it before the client's next request.
    pub fn end_watches(&mut self, client: &str) {
        let keyspace = &mut self.keyspace;
        self.changes
            .watches
            .end_watches(client, |unwatched| match unwatched {
                Unwatched::Key(key) => keyspace.unfollow(key),
                Unwatched::Pattern(pattern) => keyspace.unfollow_pattern(pattern),
            });
    }

    /// Notifies a client that changes of keys which match its patterns may be missing.
    pub fn resync(&mut self, client: &Arc<str>) {
        self.changes.resync_client(client);
    }

    /// Forgets the answers to a client's requests: its session has ended, or its client id belongs to another principal
    /// now.
    pub fn forget_replies(&mut self, client: &str) {
        self.replay.forget_client(client);
    }

    /// Forgets the response with this [number](ReplyEnvelope::replay_number). The client has received it, and the acknowledgement
    /// of its request before it, so the client does not deliver the request again.
    pub fn forget_reply(&mut self, client: &str, answer: u64) {
        self.replay.forget(client, answer);
    }

    /// Returns whether the client watches the key.
    pub fn is_watching(&self, client: &str, key: &[u8]) -> bool {
        self.changes.watches.is_watching(client, key)
    }

    /// Returns whether the client watches the pattern.
    pub fn is_watching_pattern(&self, client: &str, pattern: &[u8]) -> bool {
        self.changes.watches.is_watching_pattern(client, pattern)
    }

    /// Returns whether the client still has a watch through which it gets a notification of this scope about this key. Adds the cost to
    /// `steps`, roughly in nanoseconds.
    pub fn is_notified(
        &self,
        client: &str,
        key: &[u8],
        scope: NotificationScope,
        steps: &mut usize,
    ) -> bool {
        let watches = &self.changes.watches;
        match scope {
            NotificationScope::Key => watches.is_watching(client, key),
            NotificationScope::Matching => watches.is_notified(client, key, steps),
            NotificationScope::Pattern => watches.is_watching_pattern(client, key),
        }
    }

    /// Returns whether the client watches any key or pattern.
    pub fn is_watching_any(&self, client: &str) -> bool {
        self.watches_of(client) > 0
    }

    /// Returns the number of keys and patterns that the client watches.
    pub fn watches_of(&self, client: &str) -> usize {
        self.changes.watches.count_of(client)
    }

    /// Returns the patterns that the client watches.
    pub fn patterns_watched_by(&self, client: &str) -> impl Iterator<Item = &Arc<[u8]>> {
        self.changes.watches.patterns_of(client)
    }

    /// Returns the clients that watch any key or pattern.
    pub fn watching_clients(&self) -> impl Iterator<Item = &Arc<str>> {
        self.changes.watches.clients()
    }

    /// Returns the keys that the client watches.
    pub fn keys_watched_by(&self, client: &str) -> impl Iterator<Item = &[u8]> {
        self.changes.watches.keys_of(client)
    }

    /// Returns whether the client watches a key that it may not read any more.
    pub fn watches_more_than(&self, rights: &Rights, client: &str) -> bool {
        self.changes
            .watches
            .keys_of(client)
            .any(|key| !rights.may_read(key))
    }

    /// Returns the bytes of memory that watches and remembered answers of all clients take.
    pub fn client_bytes(&self) -> usize {
        self.changes.watches.bytes() + self.replay.bytes()
    }

    /// Returns the bytes of memory that watches and remembered answers of one client take.
    pub fn bytes_of(&self, client: &str) -> usize {
        self.changes.watches.bytes_of(client) + self.replay.bytes_of(client)
    }

    /// Sets the limits of the store and of watches. Entries and watches beyond a limit stay.
    pub fn set_limits(&mut self, config: &ServiceConfig) {
        self.keyspace.set_limits(&config.keyspace());
        self.changes.watches.set_limits(config);
    }

    /// Returns the size of the keyspace.
    pub fn size(&self) -> Size {
        self.keyspace.size()
    }

    /// Returns metrics of the engine that has the entries, if the keyspace is remote.
    pub fn engine_metrics(&self) -> Option<EngineMetrics> {
        self.keyspace.engine_metrics()
    }

    /// Returns the counts of requests by outcome.
    pub fn outcome_metrics(&self) -> OutcomeMetrics {
        self.outcome_metrics
    }
}
