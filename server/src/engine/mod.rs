//! The state store as a pure state machine: `(request, now) -> response, notifications, writes`.
//!
//! No socket, no thread, no clock of its own.
//!
//! # Order of checks
//!
//! A request is answered by the first of these that has something to say:
//!
//! 1. **Payload**: the errors of [`Command::decode`], then a key or pattern that is longer than the limit.
//! 2. **Redelivery**: a SET, DEL or VDEL that was answered before is answered again.
//! 3. **Timestamps**: `malformed timestamp` for a `__ts` or `__ft` that is not an HLC, on any command that carries
//!    one (vendor clients send `__ts` with every command); `missing timestamp` on a SET only.
//! 4. **Skew**: `__ts` more than a minute ahead of the wall clock on a SET only, since no other command uses it; `__ft`
//!    on any command, if it is more than a minute ahead of both the wall clock and the [highest version](#versions).
//! 5. **Fence** (SET, DEL, VDEL on a key that has a token): `a fencing token is required`, then `lower version`.
//! 6. **Condition**: NX, NEX, or the value of VDEL: `:-1`. A deletion of an absent key: `:0`.
//! 7. **Quota**: a SET that would make one key, or some bytes, too many. A SET that makes its entry no larger never
//!    meets it.
//! 8. **Effect**.
//!
//! While the store is [read-only](Engine::set_read_only), what passed the checks up to 4 and could change an entry
//! (SET, DEL, VDEL) is refused with [`READ_ONLY`]. Expiry goes on.
//!
//! Whatever is not applied changes nothing, the fencing token included.
//!
//! # Versions
//!
//! A SET gets the version that the HLC rule makes of the wall clock, its own `__ts`, and the key's stored version.
//! A deletion (DEL, VDEL, expiry) gets a version greater than that of the deleted entry. Of all deletions together
//! the store keeps the highest version, the *floor*, across restarts too ([`Batch::clock`]); a SET of an absent key
//! takes the floor in the place of the stored version. So the versions of one key, and with them its notifications
//! and the fencing tokens made of them, rise for ever, through deletion, expiry, restart, and a wall clock that was
//! set back.
//!
//! One clock for all keys would give that too, but then a single client whose clock is a minute ahead would push
//! the versions of every key a minute ahead. With the floor this spreads only to keys that are made after a key of
//! that client was deleted, and by no more than the same minute.
//!
//! A fencing token is the version of an entry, or made of one, and so it is ahead of a wall clock that was set back by as
//! much as the versions are. Therefore its skew is judged against the highest version of all, too, which the entries
//! and the floor tell again after a restart. As that never goes back, a token that protects an entry is never refused
//! for its skew later.
//!
//! [`Command::decode`]: statestore_protocol::Command::decode
//! [`Batch::clock`]: crate::storage::Batch::clock

mod config;
mod expiry;
mod packed;
mod replay;
pub mod rules;
mod scan;
mod store;
mod table;
mod watch;

pub use config::EngineConfig;

use crate::storage::{Batch, Expiry, Record, RecordView, Write};
use bytes::Bytes;
use replay::Replay;
use rules::{Change, Operation, Outcome, Step};
use scan::Pages;
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Command, Event, Hlc, Reply, ServiceError};
use std::sync::Arc;
use store::{Expired, Store};
use watch::Watches;

/// How many expired entries one call of [`Engine::expire`] removes at most.
const EXPIRED_PER_CALL: usize = 256;

/// How many expired entries a request removes before it is executed. More than one, so that the expired entries
/// become fewer even if nobody calls [`Engine::expire`].
const EXPIRED_PER_REQUEST: usize = 4;

/// The error text for a command that could change an entry while the store is read-only.
pub const READ_ONLY: &str = "the store is read-only because its disk is full; free space on the server's disk, then try again";

/// The two clocks that one instant has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the Unix epoch; may jump. Versions and skew limits come from it.
    pub wall_ms: u64,
    /// Milliseconds on a clock that never jumps; expiry is counted on it.
    pub mono_ms: u64,
}

/// One request, as it came from the front.
#[derive(Debug)]
pub struct Request<'a> {
    /// The publisher's real client id.
    pub client: &'a Arc<str>,
    /// Correlation data, not empty; of any length.
    pub correlation: &'a [u8],
    /// The RESP3 payload.
    pub payload: &'a Bytes,
    /// User properties.
    pub properties: RequestProperties,
    /// Whether the client can deliver it again: its session outlives its connection.
    pub may_return: bool,
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The payload.
    pub reply: Reply,
    /// `__ts`, on the replies that carry one.
    pub version: Option<Hlc>,
    /// What it tells of the state of the store.
    pub shown: Shown,
    /// The number under which it is remembered for a redelivery, until
    /// [`answer_received`](Engine::answer_received).
    pub answer: Option<u64>,
}

/// What of the store's state an answer tells, and with it of writes that a crash could still undo. That a key is absent
/// tells of the write that deleted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// Nothing that a write has changed: the answer is about the request alone.
    Nothing,
    /// What the last write of this key has made of it.
    Key(Bytes),
    /// What all writes together have made: a page of a scan, or that the store is full.
    Everything,
}

impl Shown {
    fn by(reply: &Reply, command: &Command) -> Self {
        match (reply, command) {
            (Reply::Error(ServiceError::QuotaExceeded), _) => Self::Everything,
            (Reply::Error(error), _) if !is_about_token(error) => Self::Nothing,
            (_, Command::Scan { .. }) => Self::Everything,
            // That a watch has begun does not come before what an earlier one has seen.
            (
                _,
                Command::Set { key, .. }
                | Command::Get { key }
                | Command::Del { key }
                | Command::Vdel { key, .. }
                | Command::Watch { key }
                | Command::Unwatch { key },
            ) => Self::Key(key.clone()),
            _ => Self::Nothing,
        }
    }
}

/// A change that watching clients are told about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    /// Who watches, in the order of their client ids. A client that changes a key it watches is among them.
    pub clients: Arc<Vec<Arc<str>>>,
    /// The key.
    pub key: Bytes,
    /// The change.
    pub event: Event,
    /// Its version.
    pub version: Hlc,
}

/// What executing requests and passing time brought about, besides responses.
///
/// A response can tell of the writes of an earlier call: a GET reads them, a redelivery repeats their answer. So no
/// response leaves before the writes are durable of which it tells ([`Response::shown`]), and no notification before its
/// own change is.
#[derive(Debug, Default)]
pub struct Effects {
    /// In the order of the changes.
    pub notifications: Vec<Notify>,
    /// In the order of the changes.
    pub writes: Batch,
    /// Steps that took longer than a request usually does, roughly in nanoseconds: those of SCAN.
    pub work: usize,
}

/// The store.
pub struct Engine {
    store: Store,
    watches: Watches,
    replay: Replay,
    pages: Pages,
    config: EngineConfig,
    is_read_only: bool,
}

impl std::fmt::Debug for Engine {
    /// Shows no keys, values or client ids.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// An empty store.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            store: Store::new(&config),
            watches: Watches::new(&config),
            replay: Replay::new(&config),
            pages: Pages::new(&config),
            config,
            is_read_only: false,
        }
    }

    /// Takes over one record at start, before any request; also if the quota is smaller by now. The last one of a
    /// key counts.
    ///
    /// A record whose time is over is not seen by any request, and the next calls of [`expire`](Self::expire)
    /// remove it from the storage.
    pub fn restore(&mut self, record: &RecordView<'_>, now: Now) {
        self.store.restore(record, now);
    }

    /// Gets ready to [restore](Self::restore) what has these keys. It is quicker then; nothing else depends on it.
    pub fn restore_soon(&self, keys: &mut dyn Iterator<Item = &[u8]>) {
        self.store.restore_soon(keys);
    }

    /// Takes over that a key was deleted in a former run, after what was restored of it before.
    pub fn restore_deletion(&mut self, key: &[u8]) {
        self.store.restore_deletion(key);
    }

    /// Takes over the highest version that a deletion in a former run was given.
    pub fn restore_clock(&mut self, wall_ms: u64, counter: u64) {
        self.store.raise_floor((wall_ms, counter));
    }

    /// Whether entries can be read but not changed, because there is no room to keep changes.
    pub fn set_read_only(&mut self, is_read_only: bool) {
        self.is_read_only = is_read_only;
    }

    /// Executes one request. No request sees an entry at or after the millisecond in which it expires.
    ///
    /// `effects` is added to, so one may serve several calls.
    pub fn execute(&mut self, request: &Request<'_>, now: Now, effects: &mut Effects) -> Response {
        self.expire_some(EXPIRED_PER_REQUEST, now, effects);
        let command = match self.decode(request.payload) {
            Ok(command) => command,
            Err(error) => return error.into(),
        };
        let mut response = if is_replayed(&command) && request.may_return {
            let id = self.replay.identify(request);
            self.replay.answer(request.client, &id).unwrap_or_else(|| {
                let mut response = self.execute_new(&command, request, now, effects);
                response.answer = self.replay.remember(request.client, id, &response);
                response
            })
        } else {
            self.execute_new(&command, request, now, effects)
        };
        response.shown = Shown::by(&response.reply, &command);
        response
    }

    /// Removes what expired until `now`, but not so much at once that requests would have to wait for long:
    /// [`next_expiry_ms`](Self::next_expiry_ms) says whether there is more to do at once.
    pub fn expire(&mut self, now: Now, effects: &mut Effects) {
        self.expire_some(EXPIRED_PER_CALL, now, effects);
    }

    /// When [`expire`](Self::expire) has something to do next, in `mono_ms`; what is past means now.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.store.next_deadline_ms()
    }

    /// The client's connection ended: its watches end. To be called before the first request of its next one.
    pub fn disconnected(&mut self, client: &str) {
        self.watches.disconnected(client);
    }

    /// The client's session ended: remembered answers to its requests are dropped.
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

    /// Bytes of memory that the entries take; the [quota](EngineConfig::max_bytes) is for these.
    pub fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Whether there is more than the quota allows.
    pub fn is_full(&self) -> bool {
        self.len() > self.config.max_keys || self.bytes() > self.config.max_bytes
    }

    /// Bytes of memory that watches and remembered answers of all clients take.
    pub fn client_bytes(&self) -> usize {
        self.watches.bytes() + self.replay.bytes()
    }

    /// Bytes of memory that watches and remembered answers of one client take.
    pub fn bytes_of(&self, client: &str) -> usize {
        self.watches.bytes_of(client) + self.replay.bytes_of(client)
    }

    /// Number of keys, those included that expired but have not been removed yet.
    pub fn len(&self) -> u64 {
        self.store.table().len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn decode(&self, payload: &Bytes) -> Result<Command, ServiceError> {
        let command = Command::decode(payload)?;
        let (what, bytes) = match &command {
            Command::Scan { pattern, .. } => ("pattern", pattern),
            Command::Set { key, .. }
            | Command::Get { key }
            | Command::Del { key }
            | Command::Vdel { key, .. }
            | Command::Watch { key }
            | Command::Unwatch { key } => ("key", key),
            _ => return Err(ServiceError::UnknownCommand),
        };
        let max_bytes = self.config.max_key_bytes;
        if bytes.len() > max_bytes {
            let text = format!("the {what} is longer than {max_bytes} bytes");
            return Err(ServiceError::Other(text.into()));
        }
        Ok(command)
    }

    fn execute_new(
        &mut self,
        command: &Command,
        request: &Request<'_>,
        now: Now,
        effects: &mut Effects,
    ) -> Response {
        match rules::check(
            command,
            &request.properties,
            now.wall_ms,
            self.store.highest(),
        ) {
            Err(error) => error.into(),
            Ok(Step::Entry(_, operation))
                if self.is_read_only && !matches!(operation, Operation::Get) =>
            {
                ServiceError::Other(READ_ONLY.into()).into()
            }
            Ok(Step::Entry(key, operation)) => self.operate(key, &operation, now, effects),
            Ok(Step::Watch(key)) => match self.watches.watch(request.client, key) {
                Ok(()) => Reply::Ok.into(),
                Err(error) => error.into(),
            },
            Ok(Step::Unwatch(key)) if self.watches.unwatch(request.client, key) => Reply::Ok.into(),
            Ok(Step::Unwatch(_)) => Reply::Count(0).into(),
            Ok(Step::Scan { pattern, token }) => self.scan(pattern, token, now, effects),
        }
    }

    fn operate(
        &mut self,
        key: &Bytes,
        operation: &Operation<'_>,
        now: Now,
        effects: &mut Effects,
    ) -> Response {
        let (expired, outcome) = self.store.apply(key, operation, now);
        if let Some(Expired { key, version }) = expired {
            self.record_deletion(key, version, effects);
        }
        let Outcome {
            reply,
            version,
            change,
        } = outcome;
        let version = version.map(Hlc::store_version);
        match change {
            Change::Keep => {}
            Change::Put {
                value,
                version: stored,
                token,
                ttl_ms,
            } => {
                effects.writes.writes.push(Write::Put(Record {
                    key: key.clone(),
                    value: value.clone(),
                    version: stored,
                    fence: token.cloned(),
                    expiry: ttl_ms.map(|ttl| Expiry {
                        at_wall_ms: now.wall_ms.saturating_add(ttl.get()),
                        ttl_ms: ttl.get(),
                    }),
                }));
                self.notify(key, || Event::Set(value.clone()), stored, effects);
            }
            Change::Remove { version } => self.record_deletion(key.clone(), version, effects),
        }
        Response {
            version,
            ..reply.into()
        }
    }

    fn scan(
        &self,
        pattern: &[u8],
        token: Option<&Bytes>,
        now: Now,
        effects: &mut Effects,
    ) -> Response {
        let table = self.store.table();
        let from = match token {
            None => 0,
            Some(token) => match scan::position(token) {
                Some(position) => position,
                None => return ServiceError::Syntax.into(),
            },
        };
        let work = &mut effects.work;
        let (keys, next) = self.pages.page(table, pattern, from, now.mono_ms, work);
        let token = next.map(scan::token);
        Reply::Page { keys, token }.into()
    }

    fn expire_some(&mut self, most: usize, now: Now, effects: &mut Effects) {
        for _ in 0..most {
            match self.store.expire_first(now) {
                Some(Expired { key, version }) => self.record_deletion(key, version, effects),
                None => return,
            }
        }
    }

    fn record_deletion(&self, key: Bytes, version: rules::Version, effects: &mut Effects) {
        self.notify(&key, || Event::Deleted, version, effects);
        effects.writes.writes.push(Write::Delete(key));
        effects.writes.clock = Some(self.store.floor());
    }

    fn notify(
        &self,
        key: &Bytes,
        event: impl FnOnce() -> Event,
        version: rules::Version,
        effects: &mut Effects,
    ) {
        if let Some(clients) = self.watches.watchers(key) {
            effects.notifications.push(Notify {
                clients: Arc::clone(clients),
                key: key.clone(),
                event: event(),
                version: Hlc::store_version(version),
            });
        }
    }
}

/// Whether an error tells of the token that protects a key.
fn is_about_token(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::FencingTokenRequired | ServiceError::FencingTokenLower
    )
}

/// Whether a redelivery of this command is answered from memory.
fn is_replayed(command: &Command) -> bool {
    matches!(
        command,
        Command::Set { .. } | Command::Del { .. } | Command::Vdel { .. }
    )
}

impl From<Reply> for Response {
    /// A reply without a version that tells of nothing.
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            version: None,
            shown: Shown::Nothing,
            answer: None,
        }
    }
}

impl From<ServiceError> for Response {
    /// A refusal.
    fn from(error: ServiceError) -> Self {
        Reply::Error(error).into()
    }
}
