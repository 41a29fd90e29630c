//! Execution of requests.
//!
//! # Order of checks
//!
//! The first check that fails, or that finds an answer, answers the request:
//!
//! 1. **Payload**: the errors of [`Command::decode`], then a key or pattern that is longer than the limit.
//! 2. **Rights**: `not authorized` for a GET or KEYNOTIFY of a key that the client may not read, and for an MGET with
//!    such a key. The same for a SET, DEL or VDEL of a key that it may not write, and for a SCAN or a KEYNOTIFY of a
//!    pattern if it may not read anything. A SCAN treats keys that the client may not read as absent, before any limit. A
//!    watch of a pattern notifies only of keys that the client may read. CAPS is for all clients.
//! 3. **Redelivery**: a SET, DEL, VDEL or TXN that was answered before is answered again. A command that could change
//!    an entry is over the quota here if the process cannot hold another copy of it.
//! 4. **Timestamps**: `malformed timestamp` for a `__ts` or `__ft` that is not an HLC, on any command that carries one
//!    (vendor clients send `__ts` with every command). `syntax error` for an `__ft` on a TXN, whose operations have
//!    their own tokens. `missing timestamp` on a SET or a TXN only.
//! 5. **Skew**: `__ts` more than a minute ahead of the wall clock, on a SET or a TXN only, since no other command uses
//!    it. `__ft` on any command, if it is more than a minute ahead of both the wall clock and the
//!    [highest version](crate::keyspace::Keyspace::highest_version).
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
//! The [embedded keyspace](crate::keyspace::EmbeddedKeyspace) describes the versions themselves.
use super::Service;
use super::pending::PendingRequest;
use super::replay_cache::PreviousDelivery;
use super::request::{
    NotExecutedReason, Outcome, READ_ONLY, Request, RequestEnvelope, RequestProgress,
    changes_entries, error_of,
};
use super::request_meter::Verb;
use super::skew_detector::TimestampSource;
use super::transaction;
use crate::keyspace::rules::{self, CheckedRequest, Operation};
use crate::keyspace::{Completion, KeyFilter, PageRequest, Quota, RequestContext};
use bytes::Bytes;
use statestore_protocol::{Command, Reply, ServiceError};
use statestored_access::Rights;
use statestored_common::ClockReading;
use std::sync::Arc;

/// Number of expired entries that a request removes before it is executed. More than one, so that expired entries
/// become fewer even without calls of [`Service::advance`].
const EXPIRED_PER_REQUEST: usize = 4;

/// Cost of checking whether a client may read or write a key, roughly in nanoseconds.
const RIGHTS_CHECK_STEPS: usize = 100;

impl KeyFilter for Rights {
    fn allows(&self, key: &[u8]) -> bool {
        self.may_read(key)
    }
}

impl Service {
    /// Executes a request, unless its deadline has passed or there is no room for its answer.
    ///
    /// No request sees an entry at or after the millisecond in which it expires.
    pub fn submit(&mut self, envelope: &RequestEnvelope<'_>, now: ClockReading) -> RequestProgress {
        let mut verb = Verb::Invalid;
        let reception = self.execute(envelope, now, &mut verb);
        let lacked_memory = std::mem::take(&mut self.lacks_memory);
        if let RequestProgress::Complete(outcome) = &reception {
            if let Outcome::Replied(response) = outcome
                && error_of(&response.reply) == Some(&ServiceError::QuotaExceeded)
            {
                self.exceeded_quota = match verb {
                    _ if lacked_memory => Some(Quota::Memory),
                    Verb::Keynotify => self.changes.watches.exceeded_quota.take(),
                    _ => self.keyspace.take_exceeded_quota(),
                };
            }
            let taken = self.meter.start(verb);
            if !self.record_outcome(verb, taken, outcome) {
                self.meter.record_immediate(verb);
            }
        }
        self.client_address = None;
        reception
    }

    fn execute(
        &mut self,
        envelope: &RequestEnvelope<'_>,
        now: ClockReading,
        verb: &mut Verb,
    ) -> RequestProgress {
        if envelope
            .deadline_ms
            .is_some_and(|at_ms| now.mono_ms > at_ms)
        {
            return self.complete(Outcome::Refused(NotExecutedReason::Expired));
        }
        if !envelope.has_capacity {
            return self.complete(Outcome::Refused(NotExecutedReason::NoCapacity));
        }
        self.advance_by(EXPIRED_PER_REQUEST, now);
        let request = &envelope.request;
        let command = match Command::decode(request.payload) {
            Ok(command) => command,
            Err(error) => return self.complete_with(error.into()),
        };
        if let Some(reply) = self.length_error(&command) {
            return self.complete_with(reply.into());
        }
        *verb = Verb::of(&command);
        if let Some(reply) = request
            .rights
            .and_then(|it| self.authorization_error(it, &command))
        {
            self.outcome_metrics.denied += 1;
            return self.complete_with(reply.into());
        }
        let id = (request.may_be_redelivered && changes_entries(&command))
            .then(|| self.replay.identify(request));
        if let Some(id) = &id {
            match self.replay.find(request.client, id) {
                Some(PreviousDelivery::Replied(mut response)) => {
                    response.commit_index = self.awaited_commit(&response.reply, command);
                    return self.complete_with(response);
                }
                // The engine has the answers for all servers: it knows the outcome by now, or decides it now.
                Some(PreviousDelivery::Unknown) if envelope.is_shared => {}
                Some(PreviousDelivery::Unknown) => return self.complete(Outcome::Unknown),
                Some(PreviousDelivery::Pending(former)) => {
                    if let Some(ticket) = self.pending_requests.follow(former) {
                        return RequestProgress::Pending(ticket);
                    }
                }
                None => {}
            }
        }
        if self.lacks_memory && changes_entries(&command) {
            return self.complete_with(Reply::Error(ServiceError::QuotaExceeded).into());
        }
        let context = RequestContext {
            ticket: self.pending_requests.next_ticket(),
            now,
            deadline_ms: envelope.deadline_ms,
            digest: (envelope.is_shared && changes_entries(&command)).then(|| request.digest()),
        };
        self.changes.is_persist_requested = request.properties.persist;
        let end = self.begin(&command, envelope, &context);
        self.changes.is_persist_requested = false;
        if let Some(end) = end {
            return self.complete_at_once(end, command, id, request);
        }
        let is_watch = matches!(
            command,
            Command::Watch { .. } | Command::WatchPattern { .. }
        );
        RequestProgress::Pending(self.pending_requests.insert(PendingRequest {
            command,
            replay_slot: id.and_then(|id| {
                self.replay
                    .remember_pending(request.client, id, context.ticket)
            }),
            watcher: is_watch.then(|| Arc::clone(request.client)),
            timer: self.meter.start(*verb),
            followers: Vec::new(),
        }))
    }

    /// Returns the rejection of a key or a pattern that is longer than the limit.
    fn length_error(&self, command: &Command) -> Option<Reply> {
        let max_bytes = self.config.max_key_bytes;
        let check = |what: &str, bytes: &Bytes| {
            (bytes.len() > max_bytes).then(|| ServiceError::too_long(what, max_bytes))
        };
        let error = match command {
            Command::Scan { pattern, .. }
            | Command::WatchPattern { pattern }
            | Command::UnwatchPattern { pattern } => check("pattern", pattern),
            Command::Set { key, .. }
            | Command::Get { key, .. }
            | Command::Del { key, .. }
            | Command::Vdel { key, .. }
            | Command::Watch { key }
            | Command::Unwatch { key } => check("key", key),
            Command::GetMany { keys } => keys.iter().find_map(|key| check("key", key)),
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
    fn authorization_error(&mut self, rights: &Rights, command: &Command) -> Option<Reply> {
        if let Command::GetMany { keys } = command {
            self.changes.work += keys.len() * RIGHTS_CHECK_STEPS;
        }
        let Command::Transact { operations } = command else {
            let is_denied = !rights.allows(command);
            return is_denied.then_some(Reply::Error(ServiceError::NotAuthorized));
        };
        self.changes.work += operations.len() * RIGHTS_CHECK_STEPS;
        transaction::first_rejected(operations, |operation| {
            let is_denied = !rights.may_write(operation.key());
            is_denied.then_some(ServiceError::NotAuthorized)
        })
    }

    /// Executes a command, or passes it to the keyspace.
    fn begin(
        &mut self,
        command: &Command,
        envelope: &RequestEnvelope<'_>,
        context: &RequestContext,
    ) -> Option<Completion> {
        let request = &envelope.request;
        if let (Command::Set { .. } | Command::Transact { .. }, Some(Ok(timestamp))) =
            (command, &request.properties.timestamp)
        {
            let ClockReading { wall_ms, mono_ms } = context.now;
            let at_ms = timestamp.wall_ms();
            let source = match (request.principal.name(), self.client_address) {
                (Some(user), _) => TimestampSource::User(user),
                (None, Some(address)) => TimestampSource::Address(address),
                (None, None) => TimestampSource::Client(request.client),
            };
            self.skew_detector.observe(source, at_ms, wall_ms, mono_ms);
        }
        let step = rules::check(
            command,
            &request.properties,
            context.now.wall_ms,
            self.keyspace.highest_version(),
        );
        match step {
            Err(error) => Some(error_end(error)),
            Ok(CheckedRequest::Entry(_, operation))
                if self.is_read_only && !matches!(operation, Operation::Get { .. }) =>
            {
                Some(error_end(ServiceError::Other(READ_ONLY.into())))
            }
            Ok(CheckedRequest::Entry(key, operation)) => {
                self.keyspace
                    .operate(context, key, &operation, &mut self.changes)
            }
            Ok(CheckedRequest::Transact {
                operations,
                timestamp,
            }) => {
                let highest = self.keyspace.highest_version();
                if let Some(reply) =
                    transaction::first_skewed_token(operations, context.now.wall_ms, highest)
                {
                    Some(Completion::reply(reply))
                } else if self.is_read_only {
                    Some(error_end(ServiceError::Other(READ_ONLY.into())))
                } else {
                    let operations = transaction::operations(operations, timestamp);
                    self.keyspace
                        .transact(context, &operations, &mut self.changes)
                }
            }
            Ok(CheckedRequest::Capabilities) => {
                let capabilities = self.keyspace.capabilities();
                Some(Completion::reply(Reply::Capabilities(capabilities)))
            }
            Ok(CheckedRequest::Watch(key)) => self.watch(key, request, context),
            Ok(CheckedRequest::Unwatch(key)) => {
                let was_watched = self.unwatch(request.client, key);
                Some(unwatch_end(was_watched))
            }
            Ok(CheckedRequest::WatchPattern(_) | CheckedRequest::UnwatchPattern(_))
                if !self.keyspace.capabilities().observe_matching =>
            {
                Some(error_end(ServiceError::Syntax))
            }
            Ok(CheckedRequest::WatchPattern(pattern)) => {
                self.watch_pattern(pattern, request, context)
            }
            Ok(CheckedRequest::UnwatchPattern(pattern)) => {
                let was_watched = self.unwatch_pattern(request.client, pattern);
                Some(unwatch_end(was_watched))
            }
            Ok(CheckedRequest::GetMany(keys)) => {
                let max_reply_bytes = envelope.max_reply_bytes;
                self.keyspace
                    .get_many(context, keys, max_reply_bytes, &mut self.changes)
            }
            Ok(CheckedRequest::Scan {
                pattern,
                token,
                values,
            }) => {
                let filter = request.rights.map(Arc::clone);
                let page = PageRequest {
                    pattern: pattern.clone(),
                    token: token.cloned(),
                    filter: filter.map(|rights| rights as Arc<dyn KeyFilter>),
                    with_values: values,
                    max_reply_bytes: envelope.max_reply_bytes,
                };
                self.keyspace.page(context, &page, &mut self.changes)
            }
        }
    }

    #[inline(never)]
    fn watch(
        &mut self,
        key: &Bytes,
        request: &Request<'_>,
        context: &RequestContext,
    ) -> Option<Completion> {
        // Begins before the keyspace answers, so that no change reported in between is missed.
        match self
            .changes
            .watches
            .watch(request.client, request.principal, key)
        {
            Ok(()) => self.keyspace.follow(context, key),
            Err(error) => Some(error_end(error)),
        }
    }

    /// Ends a watch. Returns whether there was one.
    #[inline(never)]
    pub(super) fn unwatch(&mut self, client: &str, key: &[u8]) -> bool {
        let was_watched = self.changes.watches.unwatch(client, key);
        if was_watched && self.changes.watches.watchers(key).is_none() {
            self.keyspace.unfollow(key);
        }
        was_watched
    }

    #[inline(never)]
    fn watch_pattern(
        &mut self,
        pattern: &Bytes,
        request: &Request<'_>,
        context: &RequestContext,
    ) -> Option<Completion> {
        match self
            .changes
            .watches
            .watch_pattern(request.client, request.principal, pattern)
        {
            Ok(()) => self.keyspace.follow_pattern(context, pattern),
            Err(error) => Some(error_end(error)),
        }
    }

    /// Ends a watch of a pattern. Returns whether there was one.
    #[inline(never)]
    pub(super) fn unwatch_pattern(&mut self, client: &str, pattern: &[u8]) -> bool {
        let was_watched = self.changes.watches.unwatch_pattern(client, pattern);
        if was_watched && !self.changes.watches.is_pattern_watched(pattern) {
            self.keyspace.unfollow_pattern(pattern);
        }
        was_watched
    }
}

/// Returns the end of a request to end a watch.
fn unwatch_end(was_watched: bool) -> Completion {
    Completion::reply(if was_watched {
        Reply::Ok
    } else {
        Reply::Count(0)
    })
}

fn error_end(error: ServiceError) -> Completion {
    Completion::reply(Reply::Error(error))
}
