//! Limits of the connections and sessions of a user.
use super::{Hub, HubLimits, SessionId};
use statestore_protocol::mqtt::ReasonCode;
use statestored_access::{LoginRefusal, Principal};
use statestored_common::ClockReading;
use statestored_store::service::ServiceConfig;

impl Hub {
    /// Checks whether a user may have one more connection, to an existing session or to a new one. For a new one, a session of the user
    /// without a connection may end.
    pub(super) fn check_user_limits(
        &mut self,
        principal: &Principal,
        existing: Option<SessionId>,
        now: ClockReading,
    ) -> Result<(), LoginRefusal> {
        let limits = *self.limits.users.get(principal);
        let (sessions, connected) = self.sessions.counts_of(principal);
        let is_taken_over = existing
            .and_then(|id| self.sessions.get(id))
            .is_some_and(|session| session.connection.is_some());
        if limits
            .connections
            .is_some_and(|most| connected - usize::from(is_taken_over) >= most)
        {
            let why = "this user has as many connections as it may have";
            return Err((ReasonCode::QUOTA_EXCEEDED, why));
        }
        if existing.is_none() && limits.sessions.is_some_and(|most| sessions >= most) {
            let Some(least) = self.sessions.cheapest_to_evict_of(principal) else {
                let why = "this user has as many sessions as it may have";
                return Err((ReasonCode::QUOTA_EXCEEDED, why));
            };
            self.metrics.sessions_evicted += 1;
            self.end_session(least, now);
        }
        Ok(())
    }

    /// Sets the limits. Existing connections and sessions that exceed them are kept.
    pub fn set_limits(&mut self, limits: HubLimits, service: &ServiceConfig) {
        self.service.set_limits(service);
        if let Some(broker) = &mut self.broker {
            broker.set_max_packet_bytes(limits.max_packet_bytes);
        }
        self.limits = limits;
        self.session_memory_limits.eviction_threshold_bytes = self.max_session_bytes();
    }
}
