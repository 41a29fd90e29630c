//! Requests of the broker that are not acknowledged.
use super::RECEIVE_MAXIMUM;
use statestore_protocol::mqtt::session::{Session, SessionError};
use statestore_protocol::mqtt::{PacketId, ReasonCode};
use std::collections::VecDeque;

/// Requests of this connection that are not acknowledged, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct UnacknowledgedRequests {
    /// Number of the first one. Numbers are never reused.
    first: u64,
    /// Packet identifiers, each with the reason code of its acknowledgement once the request is done.
    slots: VecDeque<(PacketId, Option<ReasonCode>)>,
}

impl UnacknowledgedRequests {
    pub(super) fn push(&mut self, packet_id: PacketId) -> u64 {
        self.slots.push_back((packet_id, None));
        self.first + self.slots.len() as u64 - 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns whether the broker may not send many more requests.
    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= usize::from(RECEIVE_MAXIMUM) / 2
    }

    /// Returns whether a pending request belongs to this connection.
    pub(super) fn contains(&self, number: u64) -> bool {
        number >= self.first
    }

    /// Returns the number of the first request that is not acknowledged.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Marks a request as done, if its connection is still there.
    pub(super) fn finish(&mut self, number: u64, reason: ReasonCode) {
        let offset = number.checked_sub(self.first);
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        if let Some((_, done)) = offset.and_then(|offset| self.slots.get_mut(offset)) {
            *done = Some(reason);
        }
    }

    /// Acknowledges the requests that are done, up to the first that is not.
    pub(super) fn acknowledge(&mut self, session: &mut Session<u64>) -> Result<(), SessionError> {
        while let Some((packet_id, Some(reason))) = self.slots.front() {
            session.acknowledge(*packet_id, *reason)?;
            self.slots.pop_front();
            self.first += 1;
        }
        Ok(())
    }

    /// Forgets all requests, since the connection is gone.
    pub(super) fn clear(&mut self) {
        self.first += self.slots.len() as u64;
        self.slots.clear();
    }
}
