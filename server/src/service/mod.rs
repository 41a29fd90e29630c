//! The state store as a service: a request comes in an [`Envelope`], and has one [`Outcome`], at once or later.
//!
//! ```text
//!                     envelope: who asks, in whose name, what, by when
//!                                         │
//!   ┌─────────────────────────────────────▼─────────────────────────────────────┐
//!   │ Service   deadline, room ─▶ execute ─▶ outcome: the response, and the     │
//!   │                               │  ▲     commit that it waits for           │
//!   │       remembered answers ─────┤  │                                        │
//!   │       under way: who waits ───┤  └ Changes ─▶ watches ─▶ notifications    │
//!   │       for what                ▼       ▲    └▶ commits ─▶ batches for the  │
//!   │                            keyspace ──┘                  storage          │
//!   └───────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! It knows no connection, no session, no MQTT and no disk, and not where entries live. A client is a name to it; whoever
//! waits for a commit is a number. What it is told and asked comes from the room above, one call at a time:
//!
//! - [`ask`](Service::ask) executes a request. The outcome is there at once if the [keyspace](crate::keyspace) has it at
//!   once, as the embedded one has; otherwise it comes out of [`take_outcome`](Service::take_outcome) under its [`Ticket`].
//!   Outcomes come in order for each key, and out of order across keys. One may also not leave before its [`Commit`] is
//!   durable.
//! - [`take_notifications`](Service::take_notifications) says who is to be told of what was changed.
//! - [`take_batch`](Service::take_batch) is what the storage has to keep next, and [`durable`](Service::durable) says how
//!   far it has come.
//! - [`advance`](Service::advance) lets time pass, and the keyspace say what it has to say.
mod changes;
mod commits;
mod config;
mod execute;
mod inspect;
mod meter;
mod replay;
mod request;
mod retention;
mod skew;
mod transaction;
mod under_way;
mod watch;

pub use crate::clock::Now;
pub use crate::keyspace::Ticket;
pub use config::ServiceConfig;
pub use execute::READ_ONLY;
pub use request::{
    Answered, Commit, Envelope, Notify, Outcome, Reception, Refusal, Request, Response, Shown,
};
pub(crate) use watch::WATCHES_TOO_MANY;

pub use commits::Waiter;
pub(crate) use meter::{RESULTS, RequestFigures, Verb};
pub(crate) use request::may_write;
pub(crate) use retention::Kept;
pub use retention::Retention;
pub(crate) use skew::{Skew, SkewSign, TOLERANCE_MS};

use crate::access::Rights;
use crate::keyspace::remote::EngineFigures;
use crate::keyspace::rules::Version;
use crate::keyspace::{Embedded, Keyspace, Quota, Size};
use crate::storage::Batch;
use bytes::Bytes;
use changes::{Changes, Noting};
use commits::Commits;
use meter::Meter;
use replay::Replay;
use skew::ClockWatch;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use under_way::UnderWay;
use watch::Watches;

/// How many changes, roughly, one call of [`Service::advance`] brings about or takes over at most.
const CHANGES_PER_CALL: usize = 256;

/// With so many writes that nobody has taken yet, none are made that could be made later.
const MOST_UNTAKEN: usize = 4 * CHANGES_PER_CALL;

/// What became of requests since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestStatistics {
    /// Executed.
    pub(crate) executed: u64,
    /// Not executed since there was no room for the answer, or the storage did not answer.
    pub(crate) refused: u64,
    /// Not executed since their deadline had passed.
    pub(crate) expired: u64,
    /// Executed or not: nobody knows.
    pub(crate) unknown: u64,
    /// Of the executed ones, those that were refused since the client may not do that.
    pub(crate) denied: u64,
}

/// The store with all that is between a request and its outcome. What the same requests at the same times bring about is
/// always the same, if the keyspace says the same.
pub struct Service {
    keyspace: Box<dyn Keyspace>,
    watches: Watches,
    replay: Replay,
    config: ServiceConfig,
    is_read_only: bool,
    /// The storage is still to be told of [other ends](Self::redate) of entries.
    is_redating: bool,
    changes: Changes,
    commits: Commits,
    /// What the storage keeps, if there is one.
    kept: Option<Kept>,
    under_way: UnderWay,
    statistics: RequestStatistics,
    meter: Meter,
    /// The quota that the last request met which was answered at once.
    met_quota: Option<Quota>,
    /// The next request may change no entry, since the process cannot hold its payload a second time.
    lacks_memory: bool,
    clock_watch: ClockWatch,
    /// The address of the client whose request is next, if it is known.
    client_address: Option<IpAddr>,
}

impl std::fmt::Debug for Service {
    /// Shows no keys, values or client ids.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("keyspace", &self.keyspace)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// In front of this keyspace.
    pub fn new(config: ServiceConfig, keyspace: impl Keyspace + 'static) -> Self {
        Self::over(config, Box::new(keyspace))
    }

    /// The same over whatever keyspace it is.
    pub(crate) fn over(config: ServiceConfig, keyspace: Box<dyn Keyspace>) -> Self {
        Self {
            keyspace,
            watches: Watches::new(&config),
            replay: Replay::new(&config),
            is_read_only: false,
            is_redating: false,
            changes: Changes::default(),
            commits: Commits::new(config.is_durable),
            kept: config
                .is_durable
                .then(|| Kept::new(config.retention.clone(), config.hash_key)),
            under_way: UnderWay::default(),
            statistics: RequestStatistics::default(),
            met_quota: None,
            lacks_memory: false,
            clock_watch: ClockWatch::default(),
            client_address: None,
            meter: Meter::default(),
            config,
        }
    }

    /// Takes over what the storage has of a former run, and lets it forget what it is not to keep any more.
    pub(crate) fn restore(&mut self, kept: Kept, forgotten: impl Iterator<Item = Bytes>) {
        let floor = self.keyspace.highest();
        for key in forgotten {
            self.changes.writes.delete(&key, floor);
        }
        self.kept = Some(kept);
    }

    /// In front of an embedded keyspace without entries.
    pub fn embedded(config: ServiceConfig) -> Self {
        let keyspace = Embedded::new(&config.keyspace());
        Self::new(config, keyspace)
    }

    /// Removes what expired until `now`, and takes over what the keyspace has to tell, but not so much at once that requests
    /// would have to wait for long: [`next_ms`](Self::next_ms) says whether there is more to do at once.
    pub fn advance(&mut self, now: Now) {
        self.advance_by(CHANGES_PER_CALL, now);
        self.redate(now);
    }

    /// If the wall clock has jumped ahead, what the storage has of entries that end would be over at the next start: it is told a
    /// part of it anew. Whether it takes more.
    pub fn redate(&mut self, now: Now) -> bool {
        if self.may_redate() {
            let mut told = Noting {
                changes: &mut self.changes,
                watches: &self.watches,
                kept: self.kept.as_mut(),
                is_asked_for: false,
                insertions: &mut self.meter.figures.insertions,
            };
            self.is_redating = self.keyspace.redate(now, &mut told);
        }
        self.is_redating && self.may_redate()
    }

    fn may_redate(&self) -> bool {
        self.kept.is_some() && !self.is_read_only && self.changes.writes.writes.len() < MOST_UNTAKEN
    }

    /// When [`advance`](Self::advance) has something to do next, in milliseconds of the monotonic clock; what is past means
    /// now.
    pub fn next_ms(&self) -> Option<u64> {
        if self.is_redating && self.may_redate() {
            return Some(0);
        }
        self.keyspace.next_ms()
    }

    /// Returns the sign that timestamps of clients give of a wrong clock, if they give one.
    pub(crate) fn skew(&mut self, now: Now) -> Option<SkewSign> {
        self.clock_watch.sign(now.mono_ms)
    }

    /// Sets the address of the client whose request is next.
    #[inline]
    pub(crate) fn set_client_address(&mut self, address: IpAddr) {
        self.client_address = Some(address);
    }

    /// Returns when that sign may change without a further timestamp.
    pub(crate) fn next_skew_ms(&self) -> Option<u64> {
        self.clock_watch.next_ms()
    }

    /// Returns the numbers of timestamps more than a minute ahead of the clock, and behind it.
    pub(crate) fn skewed(&self) -> [u64; 2] {
        self.clock_watch.skewed
    }

    /// Returns the highest version that any change was given, as far as it is known here.
    pub(crate) fn highest(&self) -> Version {
        self.keyspace.highest()
    }

    /// How much the keyspace has [gathered](crate::keyspace::Keyspace::gathered).
    pub fn gathered(&self) -> usize {
        self.keyspace.gathered()
    }

    /// Nothing more [comes soon](crate::keyspace::Keyspace::ask_gathered).
    pub fn ask_gathered(&mut self) {
        self.keyspace.ask_gathered();
    }

    /// Ready if [`advance`](Self::advance) has something to do that no clock has announced; otherwise the context is woken then.
    pub fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.keyspace.poll_news(context)
    }

    /// What became of a request that [had no outcome](Reception::Later) when it was asked.
    pub fn take_outcome(&mut self) -> Option<(Ticket, Outcome)> {
        self.under_way.take_outcome()
    }

    /// Takes the quota that the last request met, if it was answered at once with "the quota has been exceeded".
    pub(crate) fn take_met_quota(&mut self) -> Option<Quota> {
        self.met_quota.take()
    }

    /// Refuses the next request as one over its quota if it could change an entry: the process cannot hold its payload a second time.
    pub(crate) fn refuse_next_change(&mut self) {
        self.lacks_memory = true;
    }

    /// Whether somebody is to be told of a change.
    pub fn has_notifications(&self) -> bool {
        !self.changes.notifications.is_empty()
    }

    /// Exchanges `into`, which is empty, for the notifications of all changes since the last call; says what they wait
    /// for.
    pub fn take_notifications(&mut self, into: &mut Vec<Notify>) -> Commit {
        std::mem::swap(&mut self.changes.notifications, into);
        self.commits
            .telling(&Shown::Everything, &self.changes.writes)
    }

    /// From now on, [`work`](Self::work) is counted anew.
    pub fn begin_turn(&mut self) {
        self.changes.work = 0;
    }

    /// What took longer than a request usually does in this turn, roughly in nanoseconds: SCANs, transactions, comparing a topic with
    /// many filters.
    pub fn work(&self) -> usize {
        self.changes.work
    }

    /// Something else in this turn took long, roughly so many nanoseconds.
    pub(crate) fn worked(&mut self, steps: usize) {
        self.changes.work += steps;
    }

    /// Writes to be made durable.
    pub fn take_batch(&mut self) -> Option<(Commit, Batch)> {
        self.commits.take(&mut self.changes.writes)
    }

    /// Whether [`take_batch`](Self::take_batch) has one.
    pub fn has_batch(&self) -> bool {
        self.commits.has_batch(&self.changes.writes)
    }

    /// All commits up to this one are durable; names those who waited.
    pub fn durable(&mut self, commit: Commit) -> Vec<Waiter> {
        let meter = &mut self.meter;
        self.commits
            .release(commit, |measured| meter.released(measured))
    }

    /// It is so late now, in microseconds since any moment. As long as nobody says so, no request is measured.
    pub(crate) fn measure(&mut self, now_us: u64) {
        self.meter.at(now_us);
    }

    /// What was counted and measured of requests.
    pub(crate) fn request_figures(&self) -> &RequestFigures {
        &self.meter.figures
    }

    /// Whether entries can be read but not changed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// How many watches there are.
    pub(crate) fn watches(&self) -> u64 {
        self.watches.len()
    }

    /// What something that had to wait for this commit has to wait for now.
    pub fn pending(&self, commit: Commit) -> Commit {
        self.commits.pending(commit)
    }

    /// Somebody waits for this commit, which is [pending](Self::pending).
    pub fn wait(&mut self, commit: Commit, waiter: Waiter) {
        self.commits.wait(commit, waiter);
    }

    /// The process has no memory left, or has some again: see [`Keyspace::set_memory_short`].
    pub(crate) fn set_memory_short(&mut self, is_short: bool) {
        self.keyspace.set_memory_short(is_short);
    }

    /// Moves the next entries within the heap; returns whether there are more.
    pub(crate) fn relocate(&mut self) -> bool {
        self.keyspace.relocate()
    }

    /// Whether entries can be read but not changed, because there is no room to keep changes.
    pub fn set_read_only(&mut self, is_read_only: bool) {
        self.is_read_only = is_read_only;
    }

    /// The client is gone for now: its watches end. To be called before its next request.
    pub fn disconnected(&mut self, client: &str) {
        let keyspace = &mut self.keyspace;
        self.watches
            .disconnected(client, |key| keyspace.unfollow(key));
    }

    /// The client is gone for good, or somebody else has its name now: the answers to its requests are forgotten.
    pub fn session_ended(&mut self, client: &str) {
        self.replay.session_ended(client);
    }

    /// The client has received the response with this [number](Response::answer), and the acknowledgement of its
    /// request before it: it will not deliver the request again.
    pub fn answer_received(&mut self, client: &str, answer: u64) {
        self.replay.forget(client, answer);
    }

    /// Whether the client watches the key.
    pub fn is_watching(&self, client: &str, key: &[u8]) -> bool {
        self.watches.is_watching(client, key)
    }

    /// Whether the client watches anything.
    pub fn is_watching_any(&self, client: &str) -> bool {
        self.watches.keys_of(client).next().is_some()
    }

    /// The clients that watch anything.
    pub fn watching(&self) -> impl Iterator<Item = &Arc<str>> {
        self.watches.clients()
    }

    /// The keys that the client watches.
    pub fn keys_watched_by(&self, client: &str) -> impl Iterator<Item = &[u8]> {
        self.watches.keys_of(client)
    }

    /// Whether the client watches a key that it may not read any more.
    pub fn watches_more_than(&self, rights: &Rights, client: &str) -> bool {
        self.watches
            .keys_of(client)
            .any(|key| !rights.may_read(key))
    }

    /// Bytes of memory that watches and remembered answers of all clients take.
    pub fn client_bytes(&self) -> usize {
        self.watches.bytes() + self.replay.bytes()
    }

    /// Bytes of memory that watches and remembered answers of one client take.
    pub fn bytes_of(&self, client: &str) -> usize {
        self.watches.bytes_of(client) + self.replay.bytes_of(client)
    }

    /// How much there may be, and be watched, from now on. What there is already stays.
    pub fn set_limits(&mut self, config: &ServiceConfig) {
        self.keyspace.set_limits(&config.keyspace());
        self.watches.set_limits(config);
    }

    /// How much the keyspace has.
    pub fn size(&self) -> Size {
        self.keyspace.size()
    }

    /// What the keyspace says of the engine that has the entries, if that is elsewhere.
    pub(crate) fn engine(&self) -> Option<EngineFigures> {
        self.keyspace.engine()
    }

    /// What became of requests.
    pub(crate) fn statistics(&self) -> RequestStatistics {
        self.statistics
    }
}
