//! Rights of sessions, if there is a policy.
use super::subscribe::may_subscribe;
use super::{Hub, SessionId};
use crate::audit::EndReason;
use statestore_protocol::mqtt::{Connect, ReasonCode};
use statestored_access::{LoginRefusal, Principal, Rights};
use statestored_common::ClockReading;
use std::sync::Arc;

/// Result of the review of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewOutcome {
    Continues,
    Ended { was_connected: bool },
}

impl Hub {
    /// Returns the rights of the client of a CONNECT; `None` allows everything.
    pub(super) fn rights(
        &self,
        principal: &Principal,
        connect: &Connect,
    ) -> Result<Option<Arc<Rights>>, LoginRefusal> {
        let Some(policy) = &self.policy else {
            return Ok(None);
        };
        let rights = policy.rights(principal, &connect.client_id).ok_or((
            ReasonCode::NOT_AUTHORIZED,
            "no rule allows this client to connect",
        ))?;
        if let Some(will) = &connect.will
            && !rights.may_publish(&will.topic)
        {
            let why = "this client may not publish its will";
            return Err((ReasonCode::NOT_AUTHORIZED, why));
        }
        Ok(Some(rights))
    }

    /// Returns whether a session has subscriptions, watches or a will that these rights do not allow.
    pub(super) fn exceeds_rights(&self, id: SessionId, rights: Option<&Rights>) -> bool {
        let (Some(session), Some(rights)) = (self.sessions.get(id), rights) else {
            return false;
        };
        let mut filters = session.subscriptions.keys();
        filters.any(|filter| !may_subscribe(Some(rights), filter))
            || self.service.watches_more_than(rights, &session.client)
            || !self.may_publish_will(id, rights)
    }

    fn may_publish_will(&self, id: SessionId, rights: &Rights) -> bool {
        let Some(session) = self.sessions.get(id) else {
            return true;
        };
        let connection = session.connection.and_then(|id| self.connections.get(id));
        let will = match connection {
            Some(connection) => connection.will(),
            None => session.will.as_ref().map(|(_, will)| &**will),
        };
        will.is_none_or(|will| rights.may_publish(&will.topic))
    }

    /// Reviews a session whose principal or policy has changed. Ends the session and notifies its client if the session has more than its
    /// new rights allow.
    pub(super) fn review(&mut self, id: SessionId, now: ClockReading) -> ReviewOutcome {
        let Err(rights) = self.apply_rights(id) else {
            return ReviewOutcome::Continues;
        };
        let may_publish_will = rights.is_some_and(|rights| self.may_publish_will(id, &rights));
        let was_connected = self.end_unauthorized(id, may_publish_will, now);
        ReviewOutcome::Ended { was_connected }
    }

    /// Notifies a client whose rights may have changed that its watches of patterns concern other keys than before.
    pub(super) fn resync(&mut self, id: SessionId, now: ClockReading) {
        if let Some(session) = self.sessions.get(id) {
            self.service.resync(&session.client);
            self.notify_watchers(None, now);
        }
    }

    /// Gives a session the rights of its principal. If the session has more than these allow, returns them as an error instead, if there
    /// are any.
    fn apply_rights(&mut self, id: SessionId) -> Result<(), Option<Arc<Rights>>> {
        let Some(session) = self.sessions.get(id) else {
            return Ok(());
        };
        let policy = self.policy.as_ref();
        let rights = policy.map(|policy| policy.rights(&session.principal, &session.client));
        let rights = match rights {
            None => None,
            Some(Some(rights)) if !self.exceeds_rights(id, Some(&rights)) => Some(rights),
            Some(rights) => return Err(rights),
        };
        if let Some(session) = self.sessions.get_mut(id) {
            session.rights = rights;
        }
        Ok(())
    }

    /// Ends a session and the connection that it may have. Returns whether it had one.
    fn end_unauthorized(
        &mut self,
        id: SessionId,
        may_publish_will: bool,
        now: ClockReading,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let connection = session.connection;
        if !may_publish_will {
            session.will = None;
        }
        if let Some(id) = connection {
            if !may_publish_will && let Some(connection) = self.connections.get_mut(id) {
                connection.take_will();
            }
            let why = "this client has what the policy does not allow any more: log in again";
            let code = ReasonCode::NOT_AUTHORIZED;
            self.disconnect_with_end_reason(id, EndReason::AccessChanged, code, why, now);
            self.settle_detached(now);
        }
        self.end_session(id, now);
        connection.is_some()
    }
}
