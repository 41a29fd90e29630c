//! Changes of users and rules while the server runs. Sessions are judged a part at a time, so that other work has its turn in between.
use super::policy::ReviewOutcome;
use super::{Hub, SessionId};
use crate::audit::EndReason;
use statestore_protocol::mqtt::ReasonCode;
use statestored_access::{Authenticator, ClientGrant, Policy};
use statestored_common::ClockReading;
use std::sync::Arc;

/// Number of looks in a turn. A session counts as [`SESSION_REVIEW_STEPS`], each of its subscriptions and watches as one. Each [`RULES_PER_REVIEW_STEP`]
/// rules count as one too, since many may concern the session. The last session may exceed the number.
const QUANTUM_REVIEW_STEPS: usize = 256;
const SESSION_REVIEW_STEPS: usize = 8;
const RULES_PER_REVIEW_STEP: usize = 32;

/// A change whose sessions are not all judged, or whose result was not taken yet.
#[derive(Debug)]
pub(super) struct AccessChange {
    /// The former users, if they have changed.
    former_authenticator: Option<Authenticator>,
    /// Sessions that are still to be judged.
    sessions: Vec<SessionId>,
    /// Clients behind the broker that are still to be judged.
    broker_clients: Vec<Arc<str>>,
    /// Number of clients that were disconnected.
    disconnected: usize,
}

impl AccessChange {
    fn is_done(&self) -> bool {
        self.sessions.is_empty() && self.broker_clients.is_empty()
    }
}

impl Hub {
    /// Changes the users, if `authenticator` is given, and the policy. The change applies at once to every new connection. Existing
    /// sessions are judged in [`work`](Self::work), and go on as before until then. [`take_access_change`](Self::take_access_change) reports when all
    /// are judged.
    ///
    /// A client is disconnected with "not authorized" if its user is not known any more or has another password. The same holds if its
    /// token was signed with a removed key. If the user is not known any more, the session ends too.
    ///
    /// A session that has more than its rights allow also ends, and its client is disconnected in the same way. So no client takes silence
    /// for an absence of changes. All others go on.
    pub fn begin_access_change(
        &mut self,
        authenticator: Option<Authenticator>,
        policy: Option<Arc<Policy>>,
        now: ClockReading,
    ) {
        // The result of the change before could not be taken any more.
        while self.review_next(now) {}
        self.settle(now);
        let former = authenticator.map(|authenticator| {
            self.verifications.invalidate_running();
            std::mem::replace(&mut self.authenticator, authenticator)
        });
        self.policy = policy;
        for session in self.sessions.iter_mut() {
            session.needs_review = true;
        }
        self.access_change = Some(Box::new(AccessChange {
            former_authenticator: former,
            sessions: self.sessions.iter().map(|(id, _)| id).collect(),
            broker_clients: self.broker_clients(),
            disconnected: 0,
        }));
    }

    /// Returns the policy in force; without one, every client may do everything.
    pub fn policy(&self) -> Option<&Arc<Policy>> {
        self.policy.as_ref()
    }

    /// Returns how many clients the last [change](Self::begin_access_change) has disconnected: once, and not before all sessions are judged.
    pub fn take_access_change(&mut self) -> Option<usize> {
        let change = self.access_change.take_if(|change| change.is_done())?;
        Some(change.disconnected)
    }

    /// Changes the users, for all sessions at once, like [`begin_access_change`](Self::begin_access_change). Returns how many clients were disconnected.
    pub fn set_authenticator(&mut self, authenticator: Authenticator, now: ClockReading) -> usize {
        self.begin_access_change(Some(authenticator), self.policy.clone(), now);
        self.finish_access_change(now)
    }

    /// Changes the policy, for all sessions at once, like [`begin_access_change`](Self::begin_access_change). Returns how many clients were disconnected.
    pub fn set_policy(&mut self, policy: Option<Arc<Policy>>, now: ClockReading) -> usize {
        self.begin_access_change(None, policy, now);
        self.finish_access_change(now)
    }

    fn finish_access_change(&mut self, now: ClockReading) -> usize {
        while self.review_next(now) {}
        self.settle(now);
        self.take_access_change().unwrap_or(0)
    }

    /// Returns whether a session is still to be judged.
    pub(super) fn is_review_pending(&self) -> bool {
        self.access_change
            .as_ref()
            .is_some_and(|change| !change.is_done())
    }

    /// Judges some of the sessions that are to be judged. Returns whether there were any.
    pub(super) fn review_next(&mut self, now: ClockReading) -> bool {
        let Some(mut change) = self.access_change.take_if(|change| !change.is_done()) else {
            return false;
        };
        let rules = self.policy.as_ref().map_or(0, |policy| policy.len());
        let each = SESSION_REVIEW_STEPS + rules / RULES_PER_REVIEW_STEP;
        let mut left = QUANTUM_REVIEW_STEPS;
        while left > 0 {
            let looks = if let Some(id) = change.sessions.pop() {
                let looks = self.review_steps(id);
                let is_told = self.review_session(id, change.former_authenticator.as_ref(), now);
                change.disconnected += usize::from(is_told);
                looks
            } else if let Some(client) = change.broker_clients.pop() {
                let looks = self.service.watches_of(&client);
                self.review_broker_client(&client, now);
                looks
            } else {
                break;
            };
            left = left.saturating_sub(each + looks);
        }
        self.access_change = Some(change);
        true
    }

    fn review_steps(&self, id: SessionId) -> usize {
        self.sessions.get(id).map_or(0, |session| {
            session.subscriptions.len() + self.service.watches_of(&session.client)
        })
    }

    /// Judges a session anew. Returns whether its client was disconnected.
    fn review_session(
        &mut self,
        id: SessionId,
        former: Option<&Authenticator>,
        now: ClockReading,
    ) -> bool {
        let session = self.sessions.get_mut(id);
        if !session.is_some_and(|session| std::mem::take(&mut session.needs_review)) {
            return false;
        }
        // Judged first, so that no will goes where it may not go any more.
        match self.review(id, now) {
            ReviewOutcome::Continues => self.resync(id, now),
            ReviewOutcome::Ended { was_connected } => return was_connected,
        }
        let (Some(former), Some(session)) = (former, self.sessions.get(id)) else {
            return false;
        };
        let connection = session.connection;
        let grant = self
            .authenticator
            .grant(former, &session.principal, &session.proof);
        if grant == ClientGrant::Valid {
            return false;
        }
        if let Some(connection) = connection {
            let why = "the users have changed: log in again";
            let code = ReasonCode::NOT_AUTHORIZED;
            self.disconnect_with_end_reason(connection, EndReason::AccessChanged, code, why, now);
            self.settle_detached(now);
        }
        if grant == ClientGrant::Revoked {
            self.end_session(id, now);
        }
        connection.is_some()
    }
}
