//! Other users while the server runs.
use super::{ConnectionId, Hub, SessionId};
use crate::access::{Authenticator, Standing};
use crate::clock::Now;
use statestore_protocol::mqtt::ReasonCode;

impl Hub {
    /// Who may connect from now on. Clients of users who are not known any more, or have another password now, or whose token
    /// was signed with a key that is gone, are disconnected with "not authorized"; the sessions of the first end. Says how many
    /// clients were disconnected.
    pub fn set_authenticator(&mut self, authenticator: Authenticator, now: Now) -> usize {
        let former = std::mem::replace(&mut self.authenticator, authenticator);
        self.verifications.begin_anew();
        let changed: Vec<(SessionId, Option<ConnectionId>, Standing)> = self
            .sessions
            .iter()
            .map(|(id, session)| {
                let standing =
                    self.authenticator
                        .standing(&former, &session.principal, &session.proof);
                (id, session.connection, standing)
            })
            .filter(|(.., standing)| *standing != Standing::Same)
            .collect();
        let mut disconnected = 0;
        for (session, connection, standing) in changed {
            if let Some(connection) = connection {
                disconnected += 1;
                let why = "who may connect has changed: log in again";
                self.fail(connection, ReasonCode::NOT_AUTHORIZED, why, now);
                self.settle_detached(now);
            }
            if standing == Standing::Unknown {
                self.end_session(session, now);
            }
        }
        self.settle(now);
        disconnected
    }
}
