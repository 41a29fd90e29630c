//! The service without its bookkeeping of commits: a pure state machine, `(request, now) -> response, notifications,
//! writes`.
use super::EngineConfig;
use super::replay::Replay;
use super::request::{Effects, Notify, Request, Response, Shown};
use super::watch::Watches;
use crate::clock::Now;
use crate::keyspace::rules::{self, Change, Operation, Outcome, Step};
use crate::keyspace::{Expired, Keyspace};
use crate::storage::{Expiry, Record, RecordView, Write};
use bytes::Bytes;
use statestore_protocol::{Command, Event, Hlc, Reply, ServiceError};
use std::sync::Arc;

/// How many expired entries one call of [`Engine::expire`] removes at most.
const EXPIRED_PER_CALL: usize = 256;

/// How many expired entries a request removes before it is executed. More than one, so that the expired entries
/// become fewer even if nobody calls [`Engine::expire`].
const EXPIRED_PER_REQUEST: usize = 4;

/// The error text for a command that could change an entry while the store is read-only.
pub const READ_ONLY: &str = "the store is read-only because its disk is full; free space on the server's disk, then try again";

/// The keyspace with the watches and the remembered answers of its clients. No socket, no thread, no clock of its own.
///
/// # Order of checks
///
/// A request is answered by the first of these that has something to say:
///
/// 1. **Payload**: the errors of [`Command::decode`], then a key or pattern that is longer than the limit.
/// 2. **Redelivery**: a SET, DEL or VDEL that was answered before is answered again.
/// 3. **Timestamps**: `malformed timestamp` for a `__ts` or `__ft` that is not an HLC, on any command that carries
///    one (vendor clients send `__ts` with every command); `missing timestamp` on a SET only.
/// 4. **Skew**: `__ts` more than a minute ahead of the wall clock on a SET only, since no other command uses it; `__ft`
///    on any command, if it is more than a minute ahead of both the wall clock and the [highest version](#versions).
/// 5. **Fence** (SET, DEL, VDEL on a key that has a token): `a fencing token is required`, then `lower version`.
/// 6. **Condition**: NX, NEX, or the value of VDEL: `:-1`. A deletion of an absent key: `:0`.
/// 7. **Quota**: a SET that would make one key, or some bytes, too many. A SET that makes its entry no larger never
///    meets it.
/// 8. **Effect**.
///
/// While the store is [read-only](Self::set_read_only), what passed the checks up to 4 and could change an entry
/// (SET, DEL, VDEL) is refused with [`READ_ONLY`]. Expiry goes on.
///
/// Whatever is not applied changes nothing, the fencing token included.
///
/// # Versions
///
/// A SET gets the version that the HLC rule makes of the wall clock, its own `__ts`, and the key's stored version.
/// A deletion (DEL, VDEL, expiry) gets a version greater than that of the deleted entry. Of all deletions together
/// the store keeps the highest version, the *floor*, across restarts too ([`Batch::clock`](crate::storage::Batch::clock)); a SET of an absent key
/// takes the floor in the place of the stored version. So the versions of one key, and with them its notifications
/// and the fencing tokens made of them, rise for ever, through deletion, expiry, restart, and a wall clock that was
/// set back.
///
/// One clock for all keys would give that too, but then a single client whose clock is a minute ahead would push
/// the versions of every key a minute ahead. With the floor this spreads only to keys that are made after a key of
/// that client was deleted, and by no more than the same minute.
///
/// A fencing token is the version of an entry, or made of one, and so it is ahead of a wall clock that was set back by as
/// much as the versions are. Therefore its skew is judged against the highest version of all, too, which the entries
/// and the floor tell again after a restart. As that never goes back, a token that protects an entry is never refused
/// for its skew later.
pub struct Engine {
    keyspace: Keyspace,
    watches: Watches,
    replay: Replay,
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
            keyspace: Keyspace::new(&config.keyspace()),
            watches: Watches::new(&config),
            replay: Replay::new(&config),
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
        self.keyspace.restore(record, now);
    }

    /// Gets ready to [restore](Self::restore) what has these keys. It is quicker then; nothing else depends on it.
    pub fn restore_soon(&self, keys: &mut dyn Iterator<Item = &[u8]>) {
        self.keyspace.restore_soon(keys);
    }

    /// Takes over that a key was deleted in a former run, after what was restored of it before.
    pub fn restore_deletion(&mut self, key: &[u8]) {
        self.keyspace.restore_deletion(key);
    }

    /// Takes over the highest version that a deletion in a former run was given.
    pub fn restore_clock(&mut self, wall_ms: u64, counter: u64) {
        self.keyspace.raise_floor((wall_ms, counter));
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
        response.shown = Shown::by(&response.reply, command);
        response
    }

    /// Removes what expired until `now`, but not so much at once that requests would have to wait for long:
    /// [`next_expiry_ms`](Self::next_expiry_ms) says whether there is more to do at once.
    pub fn expire(&mut self, now: Now, effects: &mut Effects) {
        self.expire_some(EXPIRED_PER_CALL, now, effects);
    }

    /// When [`expire`](Self::expire) has something to do next, in `mono_ms`; what is past means now.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.keyspace.next_deadline_ms()
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
        self.keyspace.bytes()
    }

    /// Whether there is more than the quota allows.
    pub fn is_full(&self) -> bool {
        self.keyspace.is_full()
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
        self.keyspace.len()
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
            self.keyspace.highest(),
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
        let (expired, outcome) = self.keyspace.apply(key, operation, now);
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
        match self.keyspace.page(pattern, token, now, &mut effects.work) {
            Some((keys, token)) => Reply::Page { keys, token }.into(),
            None => ServiceError::Syntax.into(),
        }
    }

    fn expire_some(&mut self, most: usize, now: Now, effects: &mut Effects) {
        for _ in 0..most {
            match self.keyspace.expire_first(now) {
                Some(Expired { key, version }) => self.record_deletion(key, version, effects),
                None => return,
            }
        }
    }

    fn record_deletion(&self, key: Bytes, version: rules::Version, effects: &mut Effects) {
        self.notify(&key, || Event::Deleted, version, effects);
        effects.writes.writes.push(Write::Delete(key));
        effects.writes.clock = Some(self.keyspace.floor());
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

/// Whether a redelivery of this command is answered from memory.
fn is_replayed(command: &Command) -> bool {
    matches!(
        command,
        Command::Set { .. } | Command::Del { .. } | Command::Vdel { .. }
    )
}
