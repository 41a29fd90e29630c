//! Re-authentication of clients over the open connection, and the end of the time for which an identity is valid.
use super::login::credentials;
use super::policy::ReviewOutcome;
use super::{ConnectionId, Hub};
use statestore_protocol::mqtt::{Auth, ReasonCode};
use statestored_access::{Authenticator, Login};
use statestored_common::ClockReading;
use statestored_connection::{AuthState, ChallengeResponse, Connection, PresentedCredentials};

/// Milliseconds that a client has for a newer token after its own has expired.
const REAUTH_GRACE_MS: u64 = 5_000;

const DIFFERENT_USER: &str = "the new credentials are those of another user";

impl Hub {
    /// Processes an AUTH of a client.
    #[cold]
    pub(super) fn handle_auth(&mut self, id: ConnectionId, auth: Auth, now: ClockReading) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let broken = match (auth.method.as_deref(), connection.auth_method()) {
            (_, None) => Some("no enhanced authentication is going on"),
            (None, _) => Some("an AUTH without an authentication method"),
            (theirs, method) if theirs != method => Some("an AUTH with another method"),
            _ => None,
        };
        if let Some(why) = broken {
            return self.reject_client(id, ReasonCode::PROTOCOL_ERROR, why, now);
        }
        let is_open = connection.session().is_some();
        let data = auth.data.unwrap_or_default();
        match (auth.reason, connection.auth_exchange_mut()) {
            (ReasonCode::CONTINUE_AUTHENTICATION, Some(proving))
                if matches!(proving.state, AuthState::Challenged(_)) =>
            {
                // One answer, right or wrong, ends the exchange.
                let state = std::mem::replace(&mut proving.state, AuthState::Queued);
                if let AuthState::Challenged(exchange) = state {
                    proving.response = Some(ChallengeResponse { exchange, data });
                }
                // The result reveals whether a password is right, so it waits for its turn.
                if self.may_check_login(id, now) {
                    self.check_or_queue(id, now);
                }
            }
            (ReasonCode::REAUTHENTICATE, None) if is_open => {
                connection.begin_auth(
                    PresentedCredentials::Reauthentication(data),
                    AuthState::Queued,
                );
                self.begin_reauthentication(id, now);
            }
            _ => self.reject_client(
                id,
                ReasonCode::PROTOCOL_ERROR,
                "an AUTH that has no place here",
                now,
            ),
        }
    }

    /// Begins a re-authentication. A client cannot try the password of another user this way.
    fn begin_reauthentication(&mut self, id: ConnectionId, now: ClockReading) {
        let connection = self.connections.get(id);
        let session = connection
            .and_then(Connection::session)
            .and_then(|session| self.sessions.get(session));
        let claimed = connection
            .and_then(credentials)
            .and_then(Authenticator::claimed_user_name);
        let name = session.and_then(|session| session.principal.name());
        if claimed.is_some() && claimed.as_deref() != name {
            return self.reject_client(id, ReasonCode::NOT_AUTHORIZED, DIFFERENT_USER, now);
        }
        self.begin_login(id, now);
    }

    /// Completes a re-authentication.
    pub(super) fn finish_reauthentication(
        &mut self,
        id: ConnectionId,
        login: Login,
        proof: Option<String>,
        now: ClockReading,
    ) {
        let Some(owned) = self.connections.get(id).and_then(Connection::session) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(owned) else {
            return;
        };
        if !session.principal.has_same_owner(&login.principal) {
            return self.reject_client(id, ReasonCode::NOT_AUTHORIZED, DIFFERENT_USER, now);
        }
        let may_differ = session.needs_review || session.principal != login.principal;
        session.principal = login.principal;
        session.proof = login.credential;
        session.needs_review = false;
        // Other attributes may mean other rights.
        if self.review(owned, now) != ReviewOutcome::Continues {
            return;
        }
        if may_differ {
            self.resync(owned, now);
        }
        self.set_auth_expiry(id, login.expires_wall_ms, now);
        self.append_auth(id, ReasonCode::SUCCESS, proof, now);
    }

    /// Sets the time until which the client's identity is valid. The connection lasts [`REAUTH_GRACE_MS`] longer, so that the client can
    /// authenticate again.
    pub(super) fn set_auth_expiry(
        &mut self,
        id: ConnectionId,
        until_wall_ms: Option<u64>,
        now: ClockReading,
    ) {
        let until_ms = until_wall_ms.map(|until_ms| {
            let left_ms = until_ms.saturating_sub(now.wall_ms);
            now.mono_ms
                .saturating_add(left_ms)
                .saturating_add(REAUTH_GRACE_MS)
        });
        if let Some(connection) = self.connections.get_mut(id) {
            let due_ms = connection.set_auth_expiry(until_ms);
            self.set_connection_timer(id, due_ms);
        }
    }
}
