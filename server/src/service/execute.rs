//! Execution of requests.
//!
//! # Order of checks
//!
//! The first check that fails, or that finds an answer, answers the request:
//!
//! 1. **Payload**: the errors of [`Command::decode`], then a key or pattern that is longer than the limit.
//! 2. **Rights**: `not authorized` for a GET or KEYNOTIFY of a key that the client may not read. The same for a SET, DEL
//!    or VDEL of a key that it may not write, and for a SCAN if it may not read anything. A SCAN treats keys that the
//!    client may not read as absent, before any limit. CAPS is for all clients.
//! 3. **Redelivery**: a SET, DEL, VDEL or TXN that was answered before is answered again. A command that could change
//!    an entry is over the quota here if the process cannot hold another copy of it.
//! 4. **Timestamps**: `malformed timestamp` for a `__ts` or `__ft` that is not an HLC, on any command that carries one
//!    (vendor clients send `__ts` with every command). `syntax error` for an `__ft` on a TXN, whose operations have
//!    their own tokens. `missing timestamp` on a SET or a TXN only.
//! 5. **Skew**: `__ts` more than a minute ahead of the wall clock, on a SET or a TXN only, since no other command uses
//!    it. `__ft` on any command, if it is more than a minute ahead of both the wall clock and the
//!    [highest version](crate::keyspace::Keyspace::highest).
//! 6. **Fence** (SET, DEL, VDEL on a key that has a token): `a fencing token is required`, then `lower version`.
//! 7. **Condition**: NX, NEX, IFV, or the value of VDEL: `:-1`. A deletion of an absent key: `:0`, with IFV `:-1`.
//! 8. **Quota**: a SET that would exceed the limit of keys or bytes. A SET that makes its entry no larger never meets
//!    the quota.
//! 9. **Effect**.
//!
//! While the store is [read-only](Service::set_read_only), a SET, DEL, VDEL or TXN that passed the checks up to 5 is
//! rejected with [`READ_ONLY`]. Expiry continues.
//!
//! The operations of a TXN pass the same checks in the same order: first the key length of all operations, then the
//! rights of all. Redelivery and timestamps of the whole TXN follow, and then the skew of all tokens. Checks 6 to 8 come
//! last, one operation after the other. The earliest of these steps that an operation fails ends the TXN: the answer is
//! [`Reply::Rejected`] with the first operation that fails it. No operation has an effect before all have passed.
//!
//! A command that is not applied changes nothing, the fencing token included.
//!
//! A fencing token is the version of an entry, or is derived from one. After the wall clock was set back, it is as far
//! ahead as the versions are. Therefore its skew is also judged against the highest version of all, which the entries
//! and the floor restore after a restart. The highest version never decreases, so a token that protects an entry is
//! never rejected for its skew later.
//!
//! The [embedded keyspace](crate::keyspace::Embedded) describes the versions themselves.
use super::Service;
use super::changes::Noting;
use super::meter::{Measured, Verb};
use super::replay::{Known, Place, RequestId};
use super::request::{
    Answered, Envelope, Outcome, Reception, Refusal, Request, Response, Shown, changes_entries,
};
use super::skew::Source;
use super::transaction;
use super::under_way::Waiting;
use crate::access::Rights;
use crate::clock::Now;
use crate::keyspace::rules::{self, Operation, Step};
use crate::keyspace::{Asked, End, KeyFilter, PageRequest, Quota, Ticket};
use bytes::Bytes;
use statestore_protocol::{Command, Hlc, Rejection, Reply, ServiceError};
use std::sync::Arc;

/// Number of expired entries that a request removes before it is executed. More than one, so that expired entries
/// become fewer even without calls of [`Service::advance`].
const EXPIRED_PER_REQUEST: usize = 4;

/// Cost of checking whether a client may read or write a key, roughly in nanoseconds.
const STEPS_OF_RIGHTS: usize = 100;

/// The error text for a command that could change an entry while the store is read-only.
pub const READ_ONLY: &str = "the store is read-only because its disk is full; free space on the server's disk, then try again";

/// Returns whether an outcome is "the quota has been exceeded".
fn is_over_quota(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Answered(Answered {
            response: Response {
                reply: Reply::Error(ServiceError::QuotaExceeded)
                    | Reply::Rejected {
                        reason: Rejection::Error(ServiceError::QuotaExceeded),
                        ..
                    },
                ..
            },
            ..
        })
    )
}

impl KeyFilter for Rights {
    fn allows(&self, key: &[u8]) -> bool {
        self.may_read(key)
    }
}

impl Service {
    /// Executes a request, unless its deadline has passed or there is no room for its answer.
    ///
    /// No request sees an entry at or after the millisecond in which it expires.
    pub fn ask(&mut self, envelope: &Envelope<'_>, now: Now) -> Reception {
        let mut verb = Verb::Invalid;
        let reception = self.execute(envelope, now, &mut verb);
        let lacked_memory = std::mem::take(&mut self.lacks_memory);
        if let Reception::Ended(outcome) = &reception {
            if is_over_quota(outcome) {
                self.met_quota = match verb {
                    _ if lacked_memory => Some(Quota::Memory),
                    Verb::Keynotify => self.watches.met_quota.take(),
                    _ => self.keyspace.take_met_quota(),
                };
            }
            let taken = self.meter.taken(verb);
            if !self.waits(verb, taken, outcome) {
                self.meter.answered_at_once(verb);
            }
        }
        self.client_address = None;
        reception
    }

    fn execute(&mut self, envelope: &Envelope<'_>, now: Now, verb: &mut Verb) -> Reception {
        if envelope
            .deadline_ms
            .is_some_and(|at_ms| now.mono_ms > at_ms)
        {
            return self.end(Outcome::Refused(Refusal::Expired));
        }
        if !envelope.has_room {
            return self.end(Outcome::Refused(Refusal::NoRoom));
        }
        self.advance_by(EXPIRED_PER_REQUEST, now);
        let request = &envelope.request;
        let command = match Command::decode(request.payload) {
            Ok(command) => command,
            Err(error) => return self.answer(error.into()),
        };
        if let Some(reply) = self.too_long(&command) {
            return self.answer(reply.into());
        }
        *verb = Verb::of(&command);
        if let Some(reply) = request.rights.and_then(|it| self.denied(it, &command)) {
            self.statistics.denied += 1;
            return self.answer(reply.into());
        }
        let id = (request.may_return && changes_entries(&command))
            .then(|| self.replay.identify(request));
        if let Some(id) = &id {
            match self.replay.find(request.client, id) {
                Some(Known::Answered(mut response)) => {
                    response.shown = Shown::by(&response.reply, command);
                    return self.answer(response);
                }
                // The engine has the answers for all servers: it knows the outcome by now, or decides it now.
                Some(Known::Unknown) if envelope.is_shared => {}
                Some(Known::Unknown) => return self.end(Outcome::Unknown),
                Some(Known::UnderWay(former)) => {
                    if let Some(ticket) = self.under_way.follow(former) {
                        return Reception::Later(ticket);
                    }
                }
                None => {}
            }
        }
        if self.lacks_memory && changes_entries(&command) {
            return self.answer(Reply::Error(ServiceError::QuotaExceeded).into());
        }
        let asked = Asked {
            ticket: self.under_way.ticket(),
            now,
            deadline_ms: envelope.deadline_ms,
            request: (envelope.is_shared && changes_entries(&command)).then(|| request.digest()),
        };
        if let Some(end) = self.begin(&command, request, &asked) {
            return self.ended_at_once(end, command, id, request);
        }
        let place = id.and_then(|id| {
            self.replay
                .remember_under_way(request.client, id, asked.ticket)
        });
        let is_watch = matches!(command, Command::Watch { .. });
        let watcher = is_watch.then(|| Arc::clone(request.client));
        let measured = self.meter.taken(*verb);
        let ticket = self.under_way.begin(command, place, watcher, measured);
        Reception::Later(ticket)
    }

    /// Returns the rejection of a key or a pattern that is longer than the limit.
    fn too_long(&self, command: &Command) -> Option<Reply> {
        let max_bytes = self.config.max_key_bytes;
        let check = |what: &str, bytes: &Bytes| {
            (bytes.len() > max_bytes).then(|| ServiceError::too_long(what, max_bytes))
        };
        let error = match command {
            Command::Scan { pattern, .. } => check("pattern", pattern),
            Command::Set { key, .. }
            | Command::Get { key, .. }
            | Command::Del { key, .. }
            | Command::Vdel { key, .. }
            | Command::Watch { key }
            | Command::Unwatch { key } => check("key", key),
            Command::Transact { operations } => {
                return transaction::first_rejected(operations, |operation| {
                    let key = operation.key();
                    let is_empty = key.is_empty().then_some(ServiceError::EmptyKey);
                    is_empty.or_else(|| check("key", key))
                });
            }
            _ => None,
        };
        error.map(Reply::Error)
    }

    /// Returns the rejection of a command that the client is not authorized to execute.
    #[inline(never)]
    fn denied(&mut self, rights: &Rights, command: &Command) -> Option<Reply> {
        let Command::Transact { operations } = command else {
            let is_denied = !rights.allow(command);
            return is_denied.then_some(Reply::Error(ServiceError::NotAuthorized));
        };
        self.changes.work += operations.len() * STEPS_OF_RIGHTS;
        transaction::first_rejected(operations, |operation| {
            let is_denied = !rights.may_write(operation.key());
            is_denied.then_some(ServiceError::NotAuthorized)
        })
    }

    /// Executes a command, or passes it to the keyspace.
    fn begin(&mut self, command: &Command, request: &Request<'_>, asked: &Asked) -> Option<End> {
        if let (Command::Set { .. } | Command::Transact { .. }, Some(Ok(timestamp))) =
            (command, &request.properties.timestamp)
        {
            let Now { wall_ms, mono_ms } = asked.now;
            let at_ms = timestamp.wall_ms();
            let source = match (request.principal.name(), self.client_address) {
                (Some(user), _) => Source::User(user),
                (None, Some(address)) => Source::Address(address),
                (None, None) => Source::Client(request.client),
            };
            self.clock_watch.observe(source, at_ms, wall_ms, mono_ms);
        }
        let step = rules::check(
            command,
            &request.properties,
            asked.now.wall_ms,
            self.keyspace.highest(),
        );
        let mut told = Noting {
            changes: &mut self.changes,
            watches: &self.watches,
            kept: self.kept.as_mut(),
            is_asked_for: request.properties.persist,
            insertions: &mut self.meter.figures.insertions,
        };
        match step {
            Err(error) => Some(refused(error)),
            Ok(Step::Entry(_, operation))
                if self.is_read_only && !matches!(operation, Operation::Get { .. }) =>
            {
                Some(refused(ServiceError::Other(READ_ONLY.into())))
            }
            Ok(Step::Entry(key, operation)) => {
                self.keyspace.operate(asked, key, &operation, &mut told)
            }
            Ok(Step::Transact {
                operations,
                timestamp,
            }) => {
                let highest = self.keyspace.highest();
                if let Some(reply) = transaction::ahead(operations, asked.now.wall_ms, highest) {
                    Some(End::reply(reply))
                } else if self.is_read_only {
                    Some(refused(ServiceError::Other(READ_ONLY.into())))
                } else {
                    let operations = transaction::operations(operations, timestamp);
                    self.keyspace.transact(asked, &operations, &mut told)
                }
            }
            Ok(Step::Capabilities) => {
                let capabilities = self.keyspace.capabilities();
                Some(End::reply(Reply::Capabilities(capabilities)))
            }
            Ok(Step::Watch(key)) => self.watch(key, request, asked),
            Ok(Step::Unwatch(key)) => {
                let was_watched = self.unwatch(request.client, key);
                Some(End::reply(if was_watched {
                    Reply::Ok
                } else {
                    Reply::Count(0)
                }))
            }
            Ok(Step::Scan { pattern, token }) => {
                let filter = request.rights.map(Arc::clone);
                let page = PageRequest {
                    pattern: pattern.clone(),
                    token: token.cloned(),
                    filter: filter.map(|rights| rights as Arc<dyn KeyFilter>),
                };
                self.keyspace.page(asked, &page, &mut told)
            }
        }
    }

    #[inline(never)]
    fn watch(&mut self, key: &Bytes, request: &Request<'_>, asked: &Asked) -> Option<End> {
        // Begins before the keyspace answers, so that no change reported in between is missed.
        match self.watches.watch(request.client, request.principal, key) {
            Ok(()) => self.keyspace.follow(asked, key),
            Err(error) => Some(refused(error)),
        }
    }

    /// Ends a watch. Returns whether there was one.
    #[inline(never)]
    fn unwatch(&mut self, client: &str, key: &[u8]) -> bool {
        let was_watched = self.watches.unwatch(client, key);
        if was_watched && self.watches.watchers(key).is_none() {
            self.keyspace.unfollow(key);
        }
        was_watched
    }

    fn ended_at_once(
        &mut self,
        end: End,
        command: Command,
        id: Option<RequestId>,
        request: &Request<'_>,
    ) -> Reception {
        match end {
            End::Answered { reply, version } => {
                self.meter.transacted(&command, &reply);
                let mut response = response(reply, version, command);
                if let Some(id) = id {
                    response.answer = self.replay.remember(request.client, id, &response);
                }
                self.answer(response)
            }
            End::Expired => self.end(Outcome::Refused(Refusal::Expired)),
            End::Away => self.end(Outcome::Refused(Refusal::Away)),
            End::Unknown => {
                if let Some(id) = id {
                    self.replay.remember_unknown(request.client, id);
                }
                self.end(Outcome::Unknown)
            }
        }
    }

    /// Advances the keyspace, and takes over the requests that have ended.
    pub(super) fn advance_by(&mut self, most: usize, now: Now) {
        let mut told = Noting {
            changes: &mut self.changes,
            watches: &self.watches,
            kept: self.kept.as_mut(),
            is_asked_for: false,
            insertions: &mut self.meter.figures.insertions,
        };
        self.keyspace.advance(most, now, &mut told);
        if !self.changes.ended.is_empty() {
            self.take_over_ended();
        }
    }

    #[inline(never)]
    fn take_over_ended(&mut self) {
        let mut ended = std::mem::take(&mut self.changes.ended);
        for (ticket, end) in ended.drain(..) {
            if let Some(waiting) = self.under_way.end(ticket) {
                let Waiting {
                    command,
                    place,
                    watcher,
                    measured,
                    followers,
                } = waiting;
                if let (Some(watcher), Command::Watch { key }) = (watcher, &command)
                    && !matches!(
                        &end,
                        End::Answered {
                            reply: Reply::Ok,
                            ..
                        }
                    )
                {
                    self.unwatch(&watcher, key);
                }
                let verb = Verb::of(&command);
                let outcome = self.ended_later(ticket, command, place.as_ref(), end);
                self.count(&outcome);
                if !self.waits(verb, measured, &outcome)
                    && let Some(measured) = measured
                {
                    self.meter.released(measured);
                }
                self.under_way.put_outcome(ticket, followers, outcome);
            }
        }
        self.changes.ended = ended;
    }

    fn ended_later(
        &mut self,
        ticket: Ticket,
        command: Command,
        place: Option<&Place>,
        end: End,
    ) -> Outcome {
        match end {
            End::Answered { reply, version } => {
                self.meter.transacted(&command, &reply);
                let mut response = response(reply, version, command);
                response.answer =
                    place.and_then(|place| self.replay.answered(place, ticket, &response));
                self.answered(response)
            }
            End::Expired | End::Away => {
                if let Some(place) = place {
                    self.replay.did_not_happen(place, ticket);
                }
                Outcome::Refused(if end == End::Away {
                    Refusal::Away
                } else {
                    Refusal::Expired
                })
            }
            End::Unknown => {
                if let Some(place) = place {
                    self.replay.became_unknown(place, ticket);
                }
                Outcome::Unknown
            }
        }
    }

    fn answer(&mut self, response: Response) -> Reception {
        let outcome = self.answered(response);
        self.end(outcome)
    }

    /// Returns a response, with the commit that it waits for.
    fn answered(&mut self, response: Response) -> Outcome {
        let commit = self.commits.telling(&response.shown, &self.changes.writes);
        Outcome::Answered(Answered { response, commit })
    }

    fn end(&mut self, outcome: Outcome) -> Reception {
        self.count(&outcome);
        Reception::Ended(outcome)
    }

    /// Counts an outcome. Returns whether it waits for a commit. If so, a request that was taken at a known time is
    /// measured until that commit is durable.
    fn waits(&mut self, verb: Verb, taken: Option<Measured>, outcome: &Outcome) -> bool {
        self.meter.ended(verb, outcome);
        let commit = match outcome {
            Outcome::Answered(Answered { commit, .. }) if *commit > 0 => *commit,
            _ => return false,
        };
        if let Some(measured) = taken {
            self.commits.measure(commit, measured);
        }
        true
    }

    fn count(&mut self, outcome: &Outcome) {
        let statistics = &mut self.statistics;
        *match outcome {
            Outcome::Answered(_) => &mut statistics.executed,
            Outcome::Refused(Refusal::Expired) => &mut statistics.expired,
            Outcome::Refused(Refusal::NoRoom | Refusal::Away) => &mut statistics.refused,
            Outcome::Unknown => &mut statistics.unknown,
        } += 1;
    }
}

fn refused(error: ServiceError) -> End {
    End::reply(Reply::Error(error))
}

fn response(reply: Reply, version: Option<rules::Version>, command: Command) -> Response {
    Response {
        shown: Shown::by(&reply, command),
        version: version.map(Hlc::store_version),
        reply,
        answer: None,
    }
}
