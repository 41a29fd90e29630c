//! Lines of the [audit trail](crate::audit) about connections and refusals.
use super::refusal_log::{RefusalCause, RefusalDetails};
use super::{ConnectionId, Hub, SessionId};
use crate::audit::{self, EndReason, LineKind, truncate};
use bytes::Bytes;
use slotmap::Key;
use statestore_protocol::{Command, Reply, ServiceError};
use statestored_access::{Peer, Principal};
use statestored_common::ClockReading;
use statestored_connection::{Connection, ConnectionState};
use statestored_store::service::{
    NotExecutedReason, Outcome, READ_ONLY, TOO_MANY_WATCHES, error_of,
};
use std::borrow::Cow;
use std::sync::Arc;

const OMITTED_LINES_MESSAGE: &str = "lines of the audit trail were left out";

/// The party that something was refused.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientIdentity {
    pub(super) client: Arc<str>,
    pub(super) user: Option<Arc<str>>,
}

/// The cause of a refusal, and the reason in words.
pub(super) type RefusalReason = (RefusalCause, Cow<'static, str>);

impl Hub {
    /// Counts and logs a connection of this peer that was closed at once, since there are too many.
    pub fn record_connection_over_limit(&mut self, peer: &Peer, now: ClockReading) {
        self.metrics.connects_refused += 1;
        self.end_counts.count(EndReason::TooManyConnections);
        let why = "there are too many connections";
        self.record_refusal(
            ClientIdentity::default(),
            Some(peer),
            (RefusalCause::Connections, why.into()),
            None,
            now,
        );
    }

    /// Counts a connection of this peer that was closed at once, since the server stops.
    pub fn record_connection_during_shutdown(&self, peer: &Peer) {
        self.end_counts.count(EndReason::ServerStopped);
        tracing::debug!(%peer, "refusing a connection: the server stops");
    }

    /// Returns whether a line about this client may be written.
    pub(super) fn may_log(
        &mut self,
        line: LineKind,
        client: &str,
        peer: Option<&Peer>,
        now: ClockReading,
    ) -> bool {
        let rate = self.limits.audit.max_lines_per_second;
        let address = peer.map(|peer| peer.address);
        self.line_limiter
            .admits(line, client, address, rate, now.mono_ms)
    }

    /// Logs that a CONNECT was accepted.
    #[cold]
    pub(super) fn log_connected(
        &mut self,
        id: ConnectionId,
        session_present: bool,
        keep_alive_s: u16,
        now: ClockReading,
    ) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let client = Arc::clone(connection.client());
        let peer = connection.endpoint().clone();
        if !self.may_log(LineKind::Connection, &client, Some(&peer), now) {
            return;
        }
        let Some(session) = self.session_of(id) else {
            return;
        };
        tracing::info!(
            target: audit::CONNECTION,
            event = "connected",
            connection = id.data().as_ffi(),
            client = &*truncate(&client),
            user = session.principal.name().map(truncate).as_deref(),
            peer = %peer,
            listener = &*peer.listener,
            session_present,
            session_expiry_s = session.expiry_s,
            keep_alive_s,
            "a client connected"
        );
    }

    /// Counts and logs that a connection ends, unless it ended before. `why` is the reason in words, if there is more to say.
    #[cold]
    pub(super) fn log_end(
        &mut self,
        id: ConnectionId,
        reason: EndReason,
        why: &str,
        by: Option<&Peer>,
        now: ClockReading,
    ) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let is_open = match connection.state() {
            ConnectionState::Open(_) => true,
            ConnectionState::Opening => false,
            ConnectionState::Closing | ConnectionState::Closed => return,
        };
        self.end_counts.count(reason);
        if reason.is_failure() {
            self.metrics.connections_failed += 1;
        }
        let client = Arc::clone(connection.client());
        let peer = connection.endpoint().clone();
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        let seconds = now.mono_ms.saturating_sub(connection.opened_ms()) as f64 / 1e3;
        let user = self.user_of(id);
        let user = user.as_deref().map(truncate);
        let by_peer = by.map(tracing::field::display);
        let by_listener = by.map(|peer| &*peer.listener);
        let why = (!why.is_empty()).then_some(why);
        macro_rules! line {
            ($level:ident, $text:literal) => {
                tracing::$level!(
                    target: audit::CONNECTION,
                    event = "disconnected",
                    reason = reason.name(),
                    why,
                    connection = id.data().as_ffi(),
                    client = &*truncate(&client),
                    user = user.as_deref(),
                    peer = %peer,
                    listener = &*peer.listener,
                    seconds,
                    by_peer,
                    by_listener,
                    $text
                )
            };
        }
        if !is_open {
            // Probes of ports come every second, and refusals have a line of their own.
            line!(debug, "a connection without a client ended");
        } else if self.may_log(LineKind::Connection, &client, Some(&peer), now) {
            line!(info, "a client disconnected");
        }
    }

    /// Counts, lists and logs a refusal.
    #[cold]
    pub(super) fn record_refusal(
        &mut self,
        identity: ClientIdentity,
        peer: Option<&Peer>,
        (cause, why): RefusalReason,
        key: Option<Bytes>,
        now: ClockReading,
    ) {
        let key = key.filter(|_| self.limits.audit.logs_keys);
        if self.may_log(LineKind::Refusal, &identity.client, peer, now) {
            let key = key.as_deref().map(String::from_utf8_lossy);
            let message = match cause {
                RefusalCause::Login => "a login was refused",
                _ => "a client or a request was refused",
            };
            tracing::warn!(
                target: audit::REFUSAL,
                event = "refused",
                cause = cause.name(),
                why = &*why,
                client = &*truncate(&identity.client),
                user = identity.user.as_deref().map(truncate).as_deref(),
                peer = peer.map(tracing::field::display),
                listener = peer.map(|peer| &*peer.listener),
                key = key.as_deref(),
                "{message}"
            );
        }
        let short = |name: Arc<str>| match truncate(&name) {
            Cow::Borrowed(_) => name,
            Cow::Owned(short) => short.into(),
        };
        let refused = RefusalDetails {
            peer: peer.map(|peer| peer.address),
            client: short(identity.client),
            user: identity.user.map(short),
            cause,
            reason: why.into(),
            key,
        };
        self.refusal_log.record(refused, now.wall_ms);
        if cause == RefusalCause::Clock {
            self.observe_clock(now);
        }
    }

    /// Notes a refusal for the client of a connection.
    #[cold]
    pub(super) fn record_keyless_refusal(
        &mut self,
        id: ConnectionId,
        cause: RefusalCause,
        why: &'static str,
        now: ClockReading,
    ) {
        self.record_client_refusal(id, (cause, why.into()), None, now);
    }

    /// Notes a refusal for the client of a connection, with the key that it is about.
    #[cold]
    pub(super) fn record_client_refusal(
        &mut self,
        id: ConnectionId,
        reasons: RefusalReason,
        key: Option<Bytes>,
        now: ClockReading,
    ) {
        let connection = self.connections.get(id);
        let peer = connection.map(Connection::endpoint).cloned();
        let party = ClientIdentity {
            client: connection
                .map(|it| Arc::clone(it.client()))
                .unwrap_or_default(),
            user: self.user_of(id),
        };
        self.record_refusal(party, peer.as_ref(), reasons, key, now);
    }

    /// Returns the reasons to note if a request's outcome is a refusal. To be called before the next request is executed.
    pub(super) fn refusal_reason(&mut self, outcome: &Outcome) -> Option<RefusalReason> {
        let error = match outcome {
            Outcome::Unknown => return None,
            Outcome::Refused(refusal) => {
                return Some(match refusal {
                    NotExecutedReason::NoCapacity => (
                        RefusalCause::Quota,
                        "too many responses are not acknowledged".into(),
                    ),
                    NotExecutedReason::Expired => (
                        RefusalCause::Unavailable,
                        "the request expired before it was executed".into(),
                    ),
                    NotExecutedReason::Unavailable => (
                        RefusalCause::Unavailable,
                        "the storage does not answer".into(),
                    ),
                });
            }
            Outcome::Replied(response) => error_of(&response.reply)?,
        };
        Some(match error {
            ServiceError::QuotaExceeded => {
                let quota = self.service.take_exceeded_quota();
                let why = quota.map_or("the store is full".into(), |it| it.to_string().into());
                (RefusalCause::Quota, why)
            }
            ServiceError::NotAuthorized => (
                RefusalCause::Authorization,
                "the policy does not allow this request".into(),
            ),
            ServiceError::TimestampSkew => {
                let why = "the timestamp is more than a minute ahead of the server's clock";
                (RefusalCause::Clock, why.into())
            }
            ServiceError::FencingTokenSkew => {
                let why = "the fencing token is more than a minute ahead of the server's clock";
                (RefusalCause::Clock, why.into())
            }
            ServiceError::FencingTokenRequired | ServiceError::FencingTokenLower => {
                (RefusalCause::Fencing, error.to_string().into())
            }
            ServiceError::Other(text) if text == READ_ONLY => {
                (RefusalCause::Unavailable, READ_ONLY.into())
            }
            ServiceError::Other(text) if text == TOO_MANY_WATCHES => {
                (RefusalCause::Quota, TOO_MANY_WATCHES.into())
            }
            _ => (
                RefusalCause::Protocol,
                truncate(&error.to_string()).into_owned().into(),
            ),
        })
    }

    /// Logs the numbers of omitted lines, if that is due.
    pub(super) fn report_omitted_lines(&mut self, now: ClockReading) {
        for left_out in self.line_limiter.take_report(now.mono_ms) {
            let source = left_out.source.as_deref().map(truncate);
            let (source, lines) = (source.as_deref(), left_out.lines);
            match left_out.kind {
                LineKind::Refusal => {
                    tracing::warn!(target: audit::REFUSAL, event = "left_out", source, lines, "{OMITTED_LINES_MESSAGE}");
                }
                LineKind::Admin => {
                    tracing::warn!(target: audit::ADMIN, event = "left_out", source, lines, "{OMITTED_LINES_MESSAGE}");
                }
                LineKind::Connection => {
                    tracing::info!(target: audit::CONNECTION, event = "left_out", source, lines, "{OMITTED_LINES_MESSAGE}");
                }
            }
        }
    }

    fn session_of(&self, id: ConnectionId) -> Option<&super::session::Session> {
        self.sessions.get(self.connections.get(id)?.session()?)
    }

    /// Returns the user of a connection's session.
    fn user_of(&self, id: ConnectionId) -> Option<Arc<str>> {
        let session = self.session_of(id)?;
        user_name(&session.principal)
    }

    /// Returns the party that has a session.
    pub(super) fn client_identity(&self, id: SessionId) -> ClientIdentity {
        let session = self.sessions.get(id);
        ClientIdentity {
            client: session.map(|it| Arc::clone(&it.client)).unwrap_or_default(),
            user: session.and_then(|it| user_name(&it.principal)),
        }
    }
}

/// Returns the name of a principal's user.
pub(super) fn user_name(principal: &Principal) -> Option<Arc<str>> {
    principal.name().map(Into::into)
}

/// Returns the key that a request with this outcome is about, if it is about one. Of an MGET, it is the first.
pub(super) fn key_of(payload: &Bytes, outcome: &Outcome) -> Option<Bytes> {
    let at = match outcome {
        Outcome::Replied(response) => match response.reply {
            Reply::Rejected { operation, .. } => usize::try_from(operation).ok()?,
            _ => 0,
        },
        _ => 0,
    };
    match Command::decode(payload).ok()? {
        Command::Set { key, .. }
        | Command::Get { key, .. }
        | Command::Del { key, .. }
        | Command::Vdel { key, .. }
        | Command::Watch { key }
        | Command::Unwatch { key } => Some(key),
        Command::Scan { pattern, .. }
        | Command::WatchPattern { pattern }
        | Command::UnwatchPattern { pattern } => Some(pattern),
        Command::GetMany { keys } => keys.into_iter().next(),
        Command::Transact { operations } => operations.get(at).map(|it| it.key().clone()),
        _ => None,
    }
}
