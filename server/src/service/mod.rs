//! The state store as a service: a request comes in an `Envelope`, and has one `Outcome`.
//!
//! ```text
//!                    envelope: who asks, in whose name, what, by when
//!                                        │
//!   ┌────────────────────────────────────▼────────────────────────────────────┐
//!   │ Service   deadline, room ─▶ Engine ─▶ Commits ─▶ outcome: the response, │
//!   │                               │         │        and what it waits for  │
//!   │          watches, remembered ─┤         └─▶ batches for the storage     │
//!   │          answers, read-only   ▼                                         │
//!   │                            keyspace      notifications: who is told     │
//!   └─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! It knows no connection, no session, no MQTT and no disk. A client is a name to it; whoever waits for a
//! commit is a number (`Waiter`). What it is told and asked comes from the room above, one call at a time:
//!
//! - `ask` executes a request. The outcome is there at once, since all entries are in memory; but it may
//!   not leave before its `Commit` is durable, and so outcomes leave out of order across keys.
//! - `take_notifications` says who is to be told of what was changed by that.
//! - `take_batch` is what the storage has to keep next, and `durable` says how far
//!   it has come.
//! - `expire` lets time pass.
//!
//! [`Engine`] is what is left of it without commits: what the same requests at the same times always bring about.
mod commits;
mod config;
mod engine;
mod replay;
mod request;
mod watch;

pub use crate::clock::Now;
pub use config::EngineConfig;
pub use engine::{Engine, READ_ONLY};
pub use request::{Effects, Notify, Request, Response, Shown};

pub(crate) use commits::Waiter;
pub(crate) use request::{Commit, Envelope, Outcome, Refusal};

use crate::storage::Batch;
use commits::Commits;

/// What became of requests since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RequestStatistics {
    /// Executed.
    pub(crate) executed: u64,
    /// Not executed since there was no room for the answer.
    pub(crate) refused: u64,
    /// Not executed since their deadline had passed.
    pub(crate) expired: u64,
}

/// The store with all that is between a request and its outcome.
#[derive(Debug)]
pub(crate) struct Service {
    engine: Engine,
    effects: Effects,
    commits: Commits,
    statistics: RequestStatistics,
}

impl Service {
    /// Around an engine. If it is durable, outcomes wait for [`durable`](Self::durable); without, there are no batches.
    pub(crate) fn new(engine: Engine, is_durable: bool) -> Self {
        Self {
            engine,
            effects: Effects::default(),
            commits: Commits::new(is_durable),
            statistics: RequestStatistics::default(),
        }
    }

    /// Executes a request, unless it comes too late or there is no room for its answer.
    pub(crate) fn ask(&mut self, envelope: &Envelope<'_>, now: Now) -> Result<Outcome, Refusal> {
        if envelope
            .deadline_ms
            .is_some_and(|at_ms| now.mono_ms > at_ms)
        {
            self.statistics.expired += 1;
            return Err(Refusal::Expired);
        }
        if !envelope.has_room {
            self.statistics.refused += 1;
            return Err(Refusal::NoRoom);
        }
        self.statistics.executed += 1;
        let response = self
            .engine
            .execute(&envelope.request, now, &mut self.effects);
        let commit = self.commits.telling(&response.shown, &self.effects.writes);
        self.drop_useless_writes();
        Ok(Outcome { response, commit })
    }

    /// Removes what expired until `now`, some of it at a time.
    pub(crate) fn expire(&mut self, now: Now) {
        if self
            .next_expiry_ms()
            .is_some_and(|at_ms| at_ms <= now.mono_ms)
        {
            self.engine.expire(now, &mut self.effects);
            self.drop_useless_writes();
        }
    }

    /// When [`expire`](Self::expire) has something to do next, in milliseconds of the monotonic clock.
    pub(crate) fn next_expiry_ms(&self) -> Option<u64> {
        self.engine.next_expiry_ms()
    }

    /// Whether somebody is to be told of a change.
    pub(crate) fn has_notifications(&self) -> bool {
        !self.effects.notifications.is_empty()
    }

    /// Exchanges `into`, which is empty, for the notifications of all changes since the last call; says what they wait
    /// for.
    pub(crate) fn take_notifications(&mut self, into: &mut Vec<Notify>) -> Commit {
        std::mem::swap(&mut self.effects.notifications, into);
        self.commits
            .telling(&Shown::Everything, &self.effects.writes)
    }

    /// Without a storage that keeps them, nobody takes them.
    fn drop_useless_writes(&mut self) {
        if !self.commits.is_enabled() {
            self.effects.writes.writes.clear();
            self.effects.writes.clock = None;
        }
    }

    /// From now on, [`work`](Self::work) is counted anew.
    pub(crate) fn begin_turn(&mut self) {
        self.effects.work = 0;
    }

    /// The [work](Effects::work) of the requests of this turn.
    pub(crate) fn work(&self) -> usize {
        self.effects.work
    }

    /// Writes to be made durable.
    pub(crate) fn take_batch(&mut self) -> Option<(Commit, Batch)> {
        self.commits.take(&mut self.effects.writes)
    }

    /// Whether [`take_batch`](Self::take_batch) has one.
    pub(crate) fn has_batch(&self) -> bool {
        self.commits.has_batch(&self.effects.writes)
    }

    /// All commits up to this one are durable; names those who waited.
    pub(crate) fn durable(&mut self, commit: Commit) -> Vec<Waiter> {
        self.commits.release(commit)
    }

    /// What something that had to wait for this commit has to wait for now.
    pub(crate) fn pending(&self, commit: Commit) -> Commit {
        self.commits.pending(commit)
    }

    /// Somebody waits for this commit, which is [pending](Self::pending).
    pub(crate) fn wait(&mut self, commit: Commit, waiter: Waiter) {
        self.commits.wait(commit, waiter);
    }

    /// Whether entries can be read but not changed, because there is no room to keep changes.
    pub(crate) fn set_read_only(&mut self, is_read_only: bool) {
        self.engine.set_read_only(is_read_only);
    }

    /// The client is gone for now: its watches end. To be called before its next request.
    pub(crate) fn disconnected(&mut self, client: &str) {
        self.engine.disconnected(client);
    }

    /// The client is gone for good, or somebody else has its name now: the answers to its requests are forgotten.
    pub(crate) fn session_ended(&mut self, client: &str) {
        self.engine.session_ended(client);
    }

    /// The client will not deliver the request again whose answer has this [number](Response::answer).
    pub(crate) fn answer_received(&mut self, client: &str, answer: u64) {
        self.engine.answer_received(client, answer);
    }

    /// Whether the client watches the key.
    pub(crate) fn is_watching(&self, client: &str, key: &[u8]) -> bool {
        self.engine.is_watching(client, key)
    }

    /// Bytes of memory that watches and remembered answers of all clients take.
    pub(crate) fn client_bytes(&self) -> usize {
        self.engine.client_bytes()
    }

    /// Bytes of memory that watches and remembered answers of one client take.
    pub(crate) fn bytes_of(&self, client: &str) -> usize {
        self.engine.bytes_of(client)
    }

    /// What became of requests.
    pub(crate) fn statistics(&self) -> RequestStatistics {
        self.statistics
    }

    /// The store itself.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}
