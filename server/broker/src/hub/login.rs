//! Authentication of clients: in CONNECT, in the AUTH packets that follow it, and again over the open connection (MQTT 5, sections 3.15 and
//! 4.12).
//!
//! ```text
//!   CONNECT, AUTH 0x19 ─▶ has its turn come? ─▶ look ─┬─▶ accepted, refused ─▶ CONNACK; AUTH 0x00, DISCONNECT
//!                              │ no      ▲            ├─▶ a job for another thread ─▶ verdict ─▶ the same
//!                              ▼         │            └─▶ the client is asked ─▶ AUTH 0x18
//!                           delayed      └─────────────── AUTH 0x18 ◀─ the client answers
//! ```
use super::audit::{ClientIdentity, user_name};
use super::refusal_log::RefusalCause;
use super::verification::CompletedVerification;
use super::{ConnectionId, Hub};
use crate::audit::EndReason;
use bytes::Bytes;
use statestore_protocol::mqtt::{Auth, Connect, ReasonCode};
use statestored_access::{
    Authenticator, Credentials, Login, LoginPacing, LoginRefusal, LoginStep, REFUSAL_DELAY_MS,
    ThrottleDecision, VerificationJob, VerificationOutcome,
};
use statestored_common::ClockReading;
use statestored_connection::{AuthState, ChallengeResponse, Connection, PresentedCredentials};
use std::sync::Arc;

impl Hub {
    #[cold]
    pub(super) fn handle_connect(
        &mut self,
        id: ConnectionId,
        connect: Box<Connect>,
        now: ClockReading,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        // The limits hold for the response too, also if it is a refusal.
        connection.set_client_limits(connect.limits);
        connection.begin_auth(PresentedCredentials::Connect(connect), AuthState::Queued);
        match self.drain_refusal() {
            Some((reason, why)) => self.refuse_connect(id, reason, why, now),
            None => self.begin_login(id, now),
        }
    }

    /// Checks the credentials of a client, if its turn has come.
    pub(super) fn begin_login(&mut self, id: ConnectionId, now: ClockReading) {
        let Some(credentials) = self.connections.get(id).and_then(credentials) else {
            return;
        };
        match self.authenticator.pacing(credentials) {
            LoginPacing::Unthrottled => self.check_or_queue(id, now),
            // Its turn is decided when a thread is free: until then, other logins may have been refused.
            LoginPacing::Throttled(true) => self.queue_verification(id, false, now),
            LoginPacing::Throttled(false) => {
                if self.may_check_login(id, now) {
                    self.check_or_queue(id, now);
                }
            }
        }
    }

    /// Continues a login whose delay is over.
    pub(super) fn resume_login(&mut self, id: ConnectionId, now: ClockReading) {
        if let Some(proving) = self
            .connections
            .get_mut(id)
            .and_then(Connection::auth_exchange_mut)
        {
            proving.state = AuthState::Queued;
        }
        let until_ms = now.mono_ms.saturating_add(self.limits.connect_timeout_ms);
        self.set_connection_timer(id, Some(until_ms));
        self.check_or_queue(id, now);
        // Packets that arrived meanwhile.
        self.mark_dirty(id);
    }

    /// Returns whether the credentials of a client may be checked now. If not, the login waits or is refused.
    pub(super) fn may_check_login(&mut self, id: ConnectionId, now: ClockReading) -> bool {
        let Some(connection) = self.connections.get(id) else {
            return false;
        };
        if connection.session().is_some() {
            // The client is authenticated, and can only prove the same identity again.
            return true;
        }
        let claimed = credentials(connection).and_then(Authenticator::claimed_user_name);
        let turn = self
            .logins
            .schedule(connection.login_source(), claimed.as_deref(), now.mono_ms);
        match turn {
            ThrottleDecision::Immediate => return true,
            ThrottleDecision::At(at_ms) => {
                if let Some(proving) = self
                    .connections
                    .get_mut(id)
                    .and_then(Connection::auth_exchange_mut)
                {
                    proving.state = AuthState::Delayed;
                }
                self.set_connection_timer(id, Some(at_ms));
            }
            ThrottleDecision::Reject => {
                let why = "too many logins were refused: try again later";
                self.refuse_connect(id, ReasonCode::CONNECTION_RATE_EXCEEDED, why, now);
            }
        }
        false
    }

    /// Checks the credentials of a client, or queues them for another thread.
    pub(super) fn check_or_queue(&mut self, id: ConnectionId, now: ClockReading) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let answer = connection
            .auth_exchange_mut()
            .and_then(|it| it.response.take());
        let step = match answer {
            Some(ChallengeResponse { exchange, data }) => {
                let certificate = connection.certificate().map(AsRef::as_ref);
                self.authenticator
                    .continue_login(&exchange, &data, certificate)
            }
            None => match credentials(connection) {
                Some(credentials) => self.authenticator.begin(credentials, now),
                None => return,
            },
        };
        if matches!(step, LoginStep::Verify(_)) {
            self.queue_verification(id, true, now);
        } else {
            self.apply_login_step(id, step, now);
        }
    }

    /// Checks the credentials of a client. Returns the job for another thread, if one is needed.
    pub(super) fn check_credentials(
        &mut self,
        id: ConnectionId,
        now: ClockReading,
    ) -> Option<VerificationJob> {
        let connection = self.connections.get(id)?;
        let step = self.authenticator.begin(credentials(connection)?, now);
        let since_ms = now.mono_ms;
        match step {
            // The delayed refusal takes longer than the hash would, so the hash is left to other logins.
            LoginStep::Verify(job) if job.is_for_unknown_user() && self.delays_refusal(id, now) => {
                let refusal = self.client_refusal(id);
                self.refuse_login(id, refusal, "wrong user name or password", since_ms, now);
                None
            }
            LoginStep::Verify(job) => {
                self.connections.get_mut(id)?.auth_exchange_mut()?.state =
                    AuthState::Verifying { since_ms };
                Some(job)
            }
            step => {
                self.apply_login_step(id, step, now);
                None
            }
        }
    }

    /// Queues a login until a thread has time to check it.
    fn queue_verification(&mut self, id: ConnectionId, has_turn: bool, now: ClockReading) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let is_quick = connection.auth_method().is_some();
        let claimed = credentials(connection).and_then(Authenticator::claimed_user_name);
        let source = connection.login_source();
        let line = claimed.map(|user| self.logins.user_and_source_key(source, &user));
        if !self.verifications.push(id, line, has_turn, is_quick) {
            let why = "too many logins wait already: try again later";
            self.reject_client(id, ReasonCode::SERVER_BUSY, why, now);
        }
    }

    fn apply_login_step(&mut self, id: ConnectionId, step: LoginStep, now: ClockReading) {
        match step {
            LoginStep::Accepted(login, proof) => self.accept_login(id, *login, proof, now),
            LoginStep::Refused(refusal) => {
                self.refuse_login(id, refusal, refusal.1, now.mono_ms, now);
            }
            LoginStep::Challenge(question, exchange) => {
                if let Some(proving) = self
                    .connections
                    .get_mut(id)
                    .and_then(Connection::auth_exchange_mut)
                {
                    proving.state = AuthState::Challenged(exchange);
                }
                self.append_auth(id, ReasonCode::CONTINUE_AUTHENTICATION, Some(question), now);
            }
            // Only the begin of a login makes a job, and `check_credentials` handles that one.
            LoginStep::Verify(_) => self.reject_client(
                id,
                ReasonCode::UNSPECIFIED_ERROR,
                "the login cannot go on",
                now,
            ),
        }
    }

    /// Processes the result of a [verification](super::Verification::run). Nothing happens if its connection is gone or does not wait for
    /// it any more.
    pub fn finish_verification(&mut self, verified: CompletedVerification, now: ClockReading) {
        let id = verified.connection;
        self.verifications.finish(id, verified.memory);
        let connection = self.connections.get_mut(id);
        let Some(proving) = connection.and_then(Connection::auth_exchange_mut) else {
            return;
        };
        let AuthState::Verifying { since_ms } = proving.state else {
            return;
        };
        if verified.epoch == self.verifications.epoch() {
            match verified.verdict {
                VerificationOutcome::Accepted(login) => self.accept_login(id, *login, None, now),
                VerificationOutcome::Refused(why) => {
                    let reason = self.client_refusal(id);
                    self.refuse_login(id, reason, why, since_ms, now);
                }
                VerificationOutcome::Unavailable(why) => {
                    self.reject_client(id, ReasonCode::SERVER_BUSY, why, now);
                }
            }
        } else {
            // The users have changed since, so the result does not count.
            proving.state = AuthState::Queued;
            self.check_or_queue(id, now);
        }
        // Packets that arrived meanwhile.
        self.mark_dirty(id);
        self.settle(now);
    }

    /// Returns the reason that is sent to a client whose token or password is refused.
    fn client_refusal(&self, id: ConnectionId) -> LoginRefusal {
        let method = self.connections.get(id).and_then(Connection::auth_method);
        let reason = if method.is_some() {
            ReasonCode::NOT_AUTHORIZED
        } else {
            ReasonCode::BAD_USER_NAME_OR_PASSWORD
        };
        (reason, "the credentials are not accepted")
    }

    fn accept_login(
        &mut self,
        id: ConnectionId,
        login: Login,
        proof: Option<String>,
        now: ClockReading,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let claimed = credentials(connection).and_then(Authenticator::claimed_user_name);
        if let (Some(claimed), Some(_)) = (claimed, login.principal.name()) {
            let source = connection.login_source();
            self.logins.record_success(source, &claimed);
        }
        match connection
            .take_auth_exchange()
            .map(|proving| proving.credentials)
        {
            Some(PresentedCredentials::Connect(connect)) => {
                let party = ClientIdentity {
                    client: connect.client_id.as_str().into(),
                    user: user_name(&login.principal),
                };
                if let Err(told) = self.try_connect(id, *connect, login, proof, now) {
                    let (reason, why) = told;
                    let reasons = (RefusalCause::from_reason_code(reason), why.into());
                    self.refuse_connect_as(id, party, reasons, told, now);
                }
            }
            Some(PresentedCredentials::Reauthentication(_)) => {
                self.finish_reauthentication(id, login, proof, now);
            }
            None => {}
        }
    }

    /// Returns whether a refusal of the client's credentials is delayed.
    fn delays_refusal(&mut self, id: ConnectionId, now: ClockReading) -> bool {
        let Some(connection) = self.connections.get(id) else {
            return false;
        };
        let source = connection.login_source();
        credentials(connection)
            .and_then(Authenticator::claimed_user_name)
            .is_some_and(|user| self.logins.delays_refusal(source, &user, now.mono_ms))
    }

    /// Refuses the client's credentials, whose check began at `since_ms`.
    fn refuse_login(
        &mut self,
        id: ConnectionId,
        refusal: LoginRefusal,
        why: &str,
        since_ms: u64,
        now: ClockReading,
    ) {
        let (reason, told) = refusal;
        let is_wrong = matches!(
            reason,
            ReasonCode::BAD_USER_NAME_OR_PASSWORD | ReasonCode::NOT_AUTHORIZED
        );
        if let Some(connection) = self.connections.get(id).filter(|_| is_wrong) {
            self.metrics.logins_refused += 1;
            let source = connection.login_source();
            let claimed = credentials(connection).and_then(Authenticator::claimed_user_name);
            if claimed.is_some() || connection.auth_method().is_some() {
                self.logins
                    .record_refusal(source, claimed.as_deref(), now.mono_ms);
            }
        }
        let reasons = (RefusalCause::Login, why.to_owned().into());
        if self
            .connections
            .get(id)
            .and_then(Connection::session)
            .is_some()
        {
            self.record_client_refusal(id, reasons, None, now);
            let end = EndReason::ReauthenticationRefused;
            return self.disconnect_with_end_reason(id, end, ReasonCode::NOT_AUTHORIZED, told, now);
        }
        let party = self.claimed_identity(id);
        let leaves_ms = since_ms.saturating_add(REFUSAL_DELAY_MS);
        if is_wrong && leaves_ms > now.mono_ms && self.delays_refusal(id, now) {
            // The refusal is logged at once, also if the client does not wait for it.
            self.record_refused_connect(id, party, reasons, now);
            let connection = self.connections.get_mut(id);
            if let Some(proving) = connection.and_then(Connection::auth_exchange_mut) {
                proving.state = AuthState::Refused(refusal);
                self.set_connection_timer(id, Some(leaves_ms));
            }
            return;
        }
        self.refuse_connect_as(id, party, reasons, (reason, told), now);
    }

    /// Ends a connection whose client fails to authenticate, whether it is open or not.
    pub(super) fn reject_client(
        &mut self,
        id: ConnectionId,
        reason: ReasonCode,
        why: &str,
        now: ClockReading,
    ) {
        let connection = self.connections.get(id);
        if connection.and_then(Connection::session).is_some() {
            let reasons = (
                RefusalCause::from_reason_code(reason),
                why.to_owned().into(),
            );
            self.record_client_refusal(id, reasons, None, now);
            let end = match reason {
                ReasonCode::PROTOCOL_ERROR => EndReason::ProtocolError,
                _ => EndReason::ReauthenticationRefused,
            };
            self.disconnect_with_end_reason(id, end, reason, why, now);
        } else {
            self.refuse_connect(id, reason, why, now);
        }
    }

    /// Returns the client id and user name that a client claims in the CONNECT at hand.
    pub(super) fn claimed_identity(&self, id: ConnectionId) -> ClientIdentity {
        let Some(connection) = self.connections.get(id) else {
            return ClientIdentity::default();
        };
        let claimed = credentials(connection).and_then(Authenticator::claimed_user_name);
        let client = match connection
            .auth_exchange()
            .map(|proving| &proving.credentials)
        {
            Some(PresentedCredentials::Connect(connect)) => connect.client_id.as_str().into(),
            _ => Arc::clone(connection.client()),
        };
        ClientIdentity {
            client,
            user: claimed.map(Into::into),
        }
    }

    pub(super) fn append_auth(
        &mut self,
        id: ConnectionId,
        reason: ReasonCode,
        data: Option<String>,
        now: ClockReading,
    ) {
        let Some(method) = self.connections.get(id).and_then(Connection::auth_method) else {
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

/// Returns the credentials of a client that are not accepted or refused yet.
pub(super) fn credentials(connection: &Connection) -> Option<Credentials<'_>> {
    let certificate = connection.certificate();
    Some(match &connection.auth_exchange()?.credentials {
        PresentedCredentials::Connect(connect) => Credentials {
            user_name: connect.user_name.as_deref(),
            password: connect.password.as_ref(),
            authentication: connect
                .authentication
                .as_ref()
                .map(|(method, data)| (method.as_str(), data)),
            certificate,
        },
        PresentedCredentials::Reauthentication(data) => Credentials {
            user_name: None,
            password: None,
            authentication: Some((connection.auth_method()?, data)),
            certificate,
        },
    })
}
