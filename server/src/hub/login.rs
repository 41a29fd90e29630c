//! Authentication of clients: in CONNECT, in the AUTH packets that follow it, and again over the open connection (MQTT 5, sections 3.15 and
//! 4.12).
//!
//! ```text
//!   CONNECT, AUTH 0x19 ─▶ has its turn come? ─▶ look ─┬─▶ accepted, refused ─▶ CONNACK; AUTH 0x00, DISCONNECT
//!                              │ no      ▲            ├─▶ a job for another thread ─▶ verdict ─▶ the same
//!                              ▼         │            └─▶ the client is asked ─▶ AUTH 0x18
//!                           delayed      └─────────────── AUTH 0x18 ◀─ the client answers
//! ```
use super::audit::{Party, user_name};
use super::policy::Reviewed;
use super::refusals::Cause;
use super::verification::Verified;
use super::{ConnectionId, Hub};
use crate::access::{
    Authenticator, Credentials, Job, Login, Pace, REFUSAL_DELAY_MS, Refusal, Step, Turn, Verdict,
};
use crate::audit::EndReason;
use crate::clock::Now;
use crate::connection::{Answer, Connection, Shown, Stage};
use bytes::Bytes;
use statestore_protocol::mqtt::{Auth, Connect, ReasonCode};
use std::sync::Arc;

/// Milliseconds that a client has for a newer token after its own has expired.
const GRACE_MS: u64 = 5_000;

impl Hub {
    #[cold]
    pub(super) fn connect(&mut self, id: ConnectionId, connect: Box<Connect>, now: Now) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        // The limits hold for the response too, also if it is a refusal.
        connection.introduced(connect.limits);
        connection.prove(Shown::Connect(connect), Stage::Queued);
        self.begin_login(id, now);
    }

    /// Checks the credentials of a client, if its turn has come.
    fn begin_login(&mut self, id: ConnectionId, now: Now) {
        let Some(credentials) = self.connections.get(id).and_then(credentials) else {
            return;
        };
        match self.authenticator.pace(credentials) {
            Pace::Free => self.look_now(id, now),
            // Its turn is decided when a thread is free: until then, other logins may have been refused.
            Pace::InTurn(true) => self.queue(id, false, now),
            Pace::InTurn(false) => {
                if self.has_turn(id, now) {
                    self.look_now(id, now);
                }
            }
        }
    }

    /// Continues a login whose delay is over.
    pub(super) fn turn_has_come(&mut self, id: ConnectionId, now: Now) {
        if let Some(proving) = self
            .connections
            .get_mut(id)
            .and_then(Connection::proving_mut)
        {
            proving.stage = Stage::Queued;
        }
        let until_ms = now.mono_ms.saturating_add(self.limits.connect_timeout_ms);
        self.set_connection_timer(id, Some(until_ms));
        self.look_now(id, now);
        // Packets that arrived meanwhile.
        self.mark_dirty(id);
    }

    /// Returns whether the credentials of a client may be checked now. If not, the login waits or is refused.
    pub(super) fn has_turn(&mut self, id: ConnectionId, now: Now) -> bool {
        let Some(connection) = self.connections.get(id) else {
            return false;
        };
        if connection.session().is_some() {
            // The client is authenticated, and can only prove the same identity again.
            return true;
        }
        let claimed = credentials(connection).and_then(Authenticator::claimed);
        let turn = self
            .logins
            .turn(connection.login_source(), claimed.as_deref(), now.mono_ms);
        match turn {
            Turn::Now => return true,
            Turn::At(at_ms) => {
                if let Some(proving) = self
                    .connections
                    .get_mut(id)
                    .and_then(Connection::proving_mut)
                {
                    proving.stage = Stage::Delayed;
                }
                self.set_connection_timer(id, Some(at_ms));
            }
            Turn::Never => {
                let why = "too many logins were refused: try again later";
                self.refuse_connect(id, ReasonCode::CONNECTION_RATE_EXCEEDED, why, now);
            }
        }
        false
    }

    /// Checks the credentials of a client, or queues them for another thread.
    fn look_now(&mut self, id: ConnectionId, now: Now) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let answer = connection.proving_mut().and_then(|it| it.answer.take());
        let step = match answer {
            Some(Answer { exchange, data }) => {
                let certificate = connection.certificate().map(AsRef::as_ref);
                self.authenticator.answered(&exchange, &data, certificate)
            }
            None => match credentials(connection) {
                Some(credentials) => self.authenticator.begin(credentials, now),
                None => return,
            },
        };
        if matches!(step, Step::Job(_)) {
            self.queue(id, true, now);
        } else {
            self.step(id, step, now);
        }
    }

    /// Checks the credentials of a client. Returns the job for another thread, if one is needed.
    pub(super) fn look(&mut self, id: ConnectionId, now: Now) -> Option<Job> {
        let connection = self.connections.get(id)?;
        let step = self.authenticator.begin(credentials(connection)?, now);
        let since_ms = now.mono_ms;
        match step {
            // The delayed refusal takes longer than the hash would, so the hash is left to other logins.
            Step::Job(Job::Nobody { .. }) if self.holds_back(id, now) => {
                let refusal = self.reason_of_refusal(id);
                self.refused(id, refusal, "wrong user name or password", since_ms, now);
                None
            }
            Step::Job(job) => {
                self.connections.get_mut(id)?.proving_mut()?.stage = Stage::Looked { since_ms };
                Some(job)
            }
            step => {
                self.step(id, step, now);
                None
            }
        }
    }

    /// Queues a login until a thread has time to check it.
    fn queue(&mut self, id: ConnectionId, has_turn: bool, now: Now) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let is_quick = connection.method().is_some();
        let claimed = credentials(connection).and_then(Authenticator::claimed);
        let source = connection.login_source();
        let line = claimed.map(|user| self.logins.of_user_from_source(source, &user));
        if !self.verifications.push(id, line, has_turn, is_quick) {
            let why = "too many logins wait already: try again later";
            self.turn_away(id, ReasonCode::SERVER_BUSY, why, now);
        }
    }

    fn step(&mut self, id: ConnectionId, step: Step, now: Now) {
        match step {
            Step::Accepted(login, proof) => self.accepted(id, *login, proof, now),
            Step::Refused(refusal) => self.refused(id, refusal, refusal.1, now.mono_ms, now),
            Step::Asked(question, exchange) => {
                if let Some(proving) = self
                    .connections
                    .get_mut(id)
                    .and_then(Connection::proving_mut)
                {
                    proving.stage = Stage::Asked(exchange);
                }
                self.append_auth(id, ReasonCode::CONTINUE_AUTHENTICATION, Some(question), now);
            }
            // Only the begin of a login makes a job, and `look` handles that one.
            Step::Job(_) => self.turn_away(
                id,
                ReasonCode::UNSPECIFIED_ERROR,
                "the login cannot go on",
                now,
            ),
        }
    }

    /// Processes the result of a [verification](super::Verification::run). Nothing happens if its connection is gone or does not wait for
    /// it any more.
    pub fn verified(&mut self, verified: Verified, now: Now) {
        let id = verified.connection;
        self.verifications.ended(id, verified.memory);
        let connection = self.connections.get_mut(id);
        let Some(proving) = connection.and_then(Connection::proving_mut) else {
            return;
        };
        let Stage::Looked { since_ms } = proving.stage else {
            return;
        };
        if verified.epoch == self.verifications.epoch() {
            match verified.verdict {
                Verdict::Accepted(login) => self.accepted(id, *login, None, now),
                Verdict::Refused(why) => {
                    let reason = self.reason_of_refusal(id);
                    self.refused(id, reason, why, since_ms, now);
                }
                Verdict::Unknown(why) => self.turn_away(id, ReasonCode::SERVER_BUSY, why, now),
            }
        } else {
            // The users have changed since, so the result does not count.
            proving.stage = Stage::Queued;
            self.look_now(id, now);
        }
        // Packets that arrived meanwhile.
        self.mark_dirty(id);
        self.settle(now);
    }

    /// Returns the reason that is sent to a client whose token or password is refused.
    fn reason_of_refusal(&self, id: ConnectionId) -> Refusal {
        let method = self.connections.get(id).and_then(Connection::method);
        let reason = if method.is_some() {
            ReasonCode::NOT_AUTHORIZED
        } else {
            ReasonCode::BAD_USER_NAME_OR_PASSWORD
        };
        (reason, "the credentials are not accepted")
    }

    /// Processes an AUTH of a client.
    #[cold]
    pub(super) fn auth(&mut self, id: ConnectionId, auth: Auth, now: Now) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let broken = match (auth.method.as_deref(), connection.method()) {
            (_, None) => Some("no enhanced authentication is going on"),
            (None, _) => Some("an AUTH without an authentication method"),
            (theirs, method) if theirs != method => Some("an AUTH with another method"),
            _ => None,
        };
        if let Some(why) = broken {
            return self.turn_away(id, ReasonCode::PROTOCOL_ERROR, why, now);
        }
        let is_open = connection.session().is_some();
        let data = auth.data.unwrap_or_default();
        match (auth.reason, connection.proving_mut()) {
            (ReasonCode::CONTINUE_AUTHENTICATION, Some(proving))
                if matches!(proving.stage, Stage::Asked(_)) =>
            {
                // One answer, right or wrong, ends the exchange.
                let asked = std::mem::replace(&mut proving.stage, Stage::Queued);
                if let Stage::Asked(exchange) = asked {
                    proving.answer = Some(Answer { exchange, data });
                }
                // The result reveals whether a password is right, so it waits for its turn.
                if self.has_turn(id, now) {
                    self.look_now(id, now);
                }
            }
            (ReasonCode::REAUTHENTICATE, None) if is_open => {
                connection.prove(Shown::Again(data), Stage::Queued);
                self.begin_again(id, now);
            }
            _ => self.turn_away(
                id,
                ReasonCode::PROTOCOL_ERROR,
                "an AUTH that has no place here",
                now,
            ),
        }
    }

    /// Begins a re-authentication. A client cannot try the password of another user this way.
    fn begin_again(&mut self, id: ConnectionId, now: Now) {
        let connection = self.connections.get(id);
        let session = connection
            .and_then(Connection::session)
            .and_then(|session| self.sessions.get(session));
        let claimed = connection
            .and_then(credentials)
            .and_then(Authenticator::claimed);
        let name = session.and_then(|session| session.principal.name());
        if claimed.is_some() && claimed.as_deref() != name {
            return self.turn_away(id, ReasonCode::NOT_AUTHORIZED, OTHER_PARTY, now);
        }
        self.begin_login(id, now);
    }

    fn accepted(&mut self, id: ConnectionId, login: Login, proof: Option<String>, now: Now) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let claimed = credentials(connection).and_then(Authenticator::claimed);
        if let (Some(claimed), Some(_)) = (claimed, login.principal.name()) {
            let source = connection.login_source();
            self.logins.succeeded(source, &claimed);
        }
        match connection.take_proving().map(|proving| proving.shown) {
            Some(Shown::Connect(connect)) => {
                let party = Party {
                    client: connect.client_id.as_str().into(),
                    user: user_name(&login.principal),
                };
                if let Err(told) = self.try_connect(id, *connect, login, proof, now) {
                    let (reason, why) = told;
                    let reasons = (Cause::of(reason), why.into());
                    self.refuse_party(id, party, reasons, told, now);
                }
            }
            Some(Shown::Again(_)) => self.proven_again(id, login, proof, now),
            None => {}
        }
    }

    /// Completes a re-authentication.
    fn proven_again(&mut self, id: ConnectionId, login: Login, proof: Option<String>, now: Now) {
        let Some(owned) = self.connections.get(id).and_then(Connection::session) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(owned) else {
            return;
        };
        if !session.principal.is_same_party(&login.principal) {
            return self.turn_away(id, ReasonCode::NOT_AUTHORIZED, OTHER_PARTY, now);
        }
        session.principal = login.principal;
        session.proof = login.proof;
        session.is_unjudged = false;
        // Other attributes may mean other rights.
        if self.review(owned, now) != Reviewed::GoesOn {
            return;
        }
        self.hold_until(id, login.until_wall_ms, now);
        self.append_auth(id, ReasonCode::SUCCESS, proof, now);
    }

    /// Sets the time until which the client's identity is valid. The connection lasts [`GRACE_MS`] longer, so that the client can
    /// authenticate again.
    pub(super) fn hold_until(&mut self, id: ConnectionId, until_wall_ms: Option<u64>, now: Now) {
        let until_ms = until_wall_ms.map(|until_ms| {
            let left_ms = until_ms.saturating_sub(now.wall_ms);
            now.mono_ms.saturating_add(left_ms).saturating_add(GRACE_MS)
        });
        if let Some(connection) = self.connections.get_mut(id) {
            let due_ms = connection.holds_until(until_ms);
            self.set_connection_timer(id, due_ms);
        }
    }

    /// Returns whether a refusal of the client's credentials is delayed.
    fn holds_back(&mut self, id: ConnectionId, now: Now) -> bool {
        let Some(connection) = self.connections.get(id) else {
            return false;
        };
        let source = connection.login_source();
        credentials(connection)
            .and_then(Authenticator::claimed)
            .is_some_and(|user| self.logins.holds_back(source, &user, now.mono_ms))
    }

    /// Refuses the client's credentials, whose check began at `since_ms`.
    fn refused(&mut self, id: ConnectionId, refusal: Refusal, why: &str, since_ms: u64, now: Now) {
        let (reason, told) = refusal;
        let is_wrong = matches!(
            reason,
            ReasonCode::BAD_USER_NAME_OR_PASSWORD | ReasonCode::NOT_AUTHORIZED
        );
        if let Some(connection) = self.connections.get(id).filter(|_| is_wrong) {
            self.statistics.logins_refused += 1;
            let source = connection.login_source();
            let claimed = credentials(connection).and_then(Authenticator::claimed);
            if claimed.is_some() || connection.method().is_some() {
                self.logins.refused(source, claimed.as_deref(), now.mono_ms);
            }
        }
        let reasons = (Cause::Login, why.to_owned().into());
        if self
            .connections
            .get(id)
            .and_then(Connection::session)
            .is_some()
        {
            self.refuse_client(id, reasons, None, now);
            let end = EndReason::ReauthenticationRefused;
            return self.fail_for(id, end, ReasonCode::NOT_AUTHORIZED, told, now);
        }
        let party = self.claimed_party(id);
        let leaves_ms = since_ms.saturating_add(REFUSAL_DELAY_MS);
        if is_wrong && leaves_ms > now.mono_ms && self.holds_back(id, now) {
            // The refusal is logged at once, also if the client does not wait for it.
            self.note_refused_party(id, party, reasons, now);
            let connection = self.connections.get_mut(id);
            if let Some(proving) = connection.and_then(Connection::proving_mut) {
                proving.stage = Stage::Refused(refusal);
                self.set_connection_timer(id, Some(leaves_ms));
            }
            return;
        }
        self.refuse_party(id, party, reasons, (reason, told), now);
    }

    /// Ends a connection whose client fails to authenticate, whether it is open or not.
    fn turn_away(&mut self, id: ConnectionId, reason: ReasonCode, why: &str, now: Now) {
        let connection = self.connections.get(id);
        if connection.and_then(Connection::session).is_some() {
            let reasons = (Cause::of(reason), why.to_owned().into());
            self.refuse_client(id, reasons, None, now);
            let end = match reason {
                ReasonCode::PROTOCOL_ERROR => EndReason::ProtocolError,
                _ => EndReason::ReauthenticationRefused,
            };
            self.fail_for(id, end, reason, why, now);
        } else {
            self.refuse_connect(id, reason, why, now);
        }
    }

    /// Returns the client id and user name that a client claims in the CONNECT at hand.
    pub(super) fn claimed_party(&self, id: ConnectionId) -> Party {
        let Some(connection) = self.connections.get(id) else {
            return Party::default();
        };
        let claimed = credentials(connection).and_then(Authenticator::claimed);
        let client = match connection.proving().map(|proving| &proving.shown) {
            Some(Shown::Connect(connect)) => connect.client_id.as_str().into(),
            _ => Arc::clone(connection.client()),
        };
        Party {
            client,
            user: claimed.map(Into::into),
        }
    }

    fn append_auth(
        &mut self,
        id: ConnectionId,
        reason: ReasonCode,
        data: Option<String>,
        now: Now,
    ) {
        let Some(method) = self.connections.get(id).and_then(Connection::method) else {
            return;
        };
        let auth = Auth {
            reason,
            method: Some(method.into()),
            data: data.map(Bytes::from),
            reason_string: None,
        };
        self.append(id, now, |out, max_packet_bytes| {
            auth.encode(max_packet_bytes, out)
        });
    }
}

const OTHER_PARTY: &str = "who authenticates again is somebody else";

/// Returns the credentials of a client that are not accepted or refused yet.
fn credentials(connection: &Connection) -> Option<Credentials<'_>> {
    let certificate = connection.certificate();
    Some(match &connection.proving()?.shown {
        Shown::Connect(connect) => Credentials {
            user_name: connect.user_name.as_deref(),
            password: connect.password.as_ref(),
            authentication: connect
                .authentication
                .as_ref()
                .map(|(method, data)| (method.as_str(), data)),
            certificate,
        },
        Shown::Again(data) => Credentials {
            user_name: None,
            password: None,
            authentication: Some((connection.method()?, data)),
            certificate,
        },
    })
}
