//! Other users and other rules while the server runs: who is there is judged a part at a time, so that others have their turn between.
use super::policy::Reviewed;
use super::{Hub, SessionId};
use crate::access::{Authenticator, Policy, Standing};
use crate::audit::EndReason;
use crate::clock::Now;
use statestore_protocol::mqtt::ReasonCode;
use std::sync::Arc;

/// How much is looked at in a turn: a session counts as so much, each of its subscriptions and watches as one, and so do some of the rules,
/// of which many may be about it. The last session may exceed it.
const TURN_LOOKS: usize = 256;
const SESSION_LOOKS: usize = 8;
const RULES_PER_LOOK: usize = 32;

/// A change that has not reached everybody, or that nobody has asked about since.
#[derive(Debug)]
pub(super) struct Change {
    /// Who could connect before, if that has changed.
    former: Option<Authenticator>,
    /// Sessions that are still to be judged.
    sessions: Vec<SessionId>,
    /// Clients behind the broker that are.
    behind: Vec<Arc<str>>,
    /// How many clients were disconnected.
    disconnected: usize,
}

impl Change {
    fn is_done(&self) -> bool {
        self.sessions.is_empty() && self.behind.is_empty()
    }
}

impl Hub {
    /// Who may connect, if that changes, and what clients may do, from now on. It holds at once for everybody who comes. Who is there is
    /// judged in [`work`](Self::work), and goes on as before until then; [`take_changed`](Self::take_changed) says when all were.
    ///
    /// Clients of users who are not known any more, or have another password now, or whose token was signed with a key that is gone,
    /// are disconnected with "not authorized"; the sessions of the first end. A session that has what it may not have any more ends as
    /// well, and its client is told the same; so nobody takes silence for news that there are none. All others go on.
    pub fn begin_change(
        &mut self,
        authenticator: Option<Authenticator>,
        policy: Option<Arc<Policy>>,
        now: Now,
    ) {
        // Who it was to reach would not be asked about it any more.
        while self.judge_next(now) {}
        self.settle(now);
        let former = authenticator.map(|authenticator| {
            self.verifications.begin_anew();
            std::mem::replace(&mut self.authenticator, authenticator)
        });
        self.policy = policy;
        for session in self.sessions.iter_mut() {
            session.is_unjudged = true;
        }
        self.change = Some(Box::new(Change {
            former,
            sessions: self.sessions.iter().map(|(id, _)| id).collect(),
            behind: self.named_behind_broker(),
            disconnected: 0,
        }));
    }

    /// How many clients the last [change](Self::begin_change) has disconnected: once, and not before everybody was judged.
    pub fn take_changed(&mut self) -> Option<usize> {
        let change = self.change.take_if(|change| change.is_done())?;
        Some(change.disconnected)
    }

    /// Who may connect from now on, at once for everybody, as by [`begin_change`](Self::begin_change). Says how many clients were
    /// disconnected.
    pub fn set_authenticator(&mut self, authenticator: Authenticator, now: Now) -> usize {
        self.begin_change(Some(authenticator), self.policy.clone(), now);
        self.finish_change(now)
    }

    /// What clients may do from now on, at once for everybody, as by [`begin_change`](Self::begin_change). Says how many clients were
    /// disconnected.
    pub fn set_policy(&mut self, policy: Option<Arc<Policy>>, now: Now) -> usize {
        self.begin_change(None, policy, now);
        self.finish_change(now)
    }

    fn finish_change(&mut self, now: Now) -> usize {
        while self.judge_next(now) {}
        self.settle(now);
        self.take_changed().unwrap_or(0)
    }

    /// Whether somebody is still to be judged.
    pub(super) fn is_changing(&self) -> bool {
        self.change.as_ref().is_some_and(|change| !change.is_done())
    }

    /// Judges some of those who are to be; whether there was anybody.
    pub(super) fn judge_next(&mut self, now: Now) -> bool {
        let Some(mut change) = self.change.take_if(|change| !change.is_done()) else {
            return false;
        };
        let rules = self.policy.as_ref().map_or(0, |policy| policy.len());
        let each = SESSION_LOOKS + rules / RULES_PER_LOOK;
        let mut left = TURN_LOOKS;
        while left > 0 {
            let looks = if let Some(id) = change.sessions.pop() {
                let looks = self.looks_at(id);
                let is_told = self.reconsider(id, change.former.as_ref(), now);
                change.disconnected += usize::from(is_told);
                looks
            } else if let Some(client) = change.behind.pop() {
                let looks = self.service.keys_watched_by(&client).count();
                self.judge_behind_broker(&client);
                looks
            } else {
                break;
            };
            left = left.saturating_sub(each + looks);
        }
        self.change = Some(change);
        true
    }

    fn looks_at(&self, id: SessionId) -> usize {
        self.sessions.get(id).map_or(0, |session| {
            let watches = self.service.keys_watched_by(&session.client);
            session.subscriptions.len() + watches.count()
        })
    }

    /// Judges a session anew; whether its client was disconnected.
    fn reconsider(&mut self, id: SessionId, former: Option<&Authenticator>, now: Now) -> bool {
        let session = self.sessions.get_mut(id);
        if !session.is_some_and(|session| std::mem::take(&mut session.is_unjudged)) {
            return false;
        }
        // First, so that nobody's will goes where it may not any more.
        match self.review(id, now) {
            Reviewed::GoesOn => {}
            Reviewed::Ended { was_connected } => return was_connected,
        }
        let (Some(former), Some(session)) = (former, self.sessions.get(id)) else {
            return false;
        };
        let connection = session.connection;
        let standing = self
            .authenticator
            .standing(former, &session.principal, &session.proof);
        if standing == Standing::Same {
            return false;
        }
        if let Some(connection) = connection {
            let why = "who may connect has changed: log in again";
            let code = ReasonCode::NOT_AUTHORIZED;
            self.fail_for(connection, EndReason::AccessChanged, code, why, now);
            self.settle_detached(now);
        }
        if standing == Standing::Unknown {
            self.end_session(id, now);
        }
        connection.is_some()
    }
}
