//! Eviction when all sessions and connections together hold too much memory, or when there are too many sessions.
//!
//! The largest holders of memory are evicted first. A holder with no more than its fair share, which is the target divided by the number of
//! holders, is never evicted.
use super::{ConnectionId, Hub, SessionId};
use crate::audit::EndReason;
use crate::large_allocations::LargeAllocations;
use statestore_protocol::mqtt::ReasonCode;
use statestored_common::ClockReading;
use statestored_connection::Connection;
use std::collections::BinaryHeap;

/// Owner of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MemoryHolder {
    /// A session, with the connection that it may have.
    Session(SessionId),
    /// A connection without a session: its CONNECT has not come, or it is about to close.
    Connection(ConnectionId),
}

/// Limits of the memory of sessions and connections.
#[derive(Debug)]
pub(super) struct SessionMemoryLimits {
    /// When more than this is held, the largest holders are evicted.
    pub(super) eviction_threshold_bytes: usize,
    /// A limit below the configured one, as long as the process has no memory left.
    shortage_limit: Option<usize>,
}

impl SessionMemoryLimits {
    pub(super) fn new(max_session_bytes: usize) -> Self {
        Self {
            eviction_threshold_bytes: max_session_bytes,
            shortage_limit: None,
        }
    }
}

impl Hub {
    /// Returns the maximum number of bytes that sessions and connections may hold now.
    pub(super) fn max_session_bytes(&self) -> usize {
        let configured = self.limits.max_session_bytes;
        let short = self.session_memory_limits.shortage_limit;
        short.map_or(configured, |limit| limit.min(configured))
    }

    /// Sets whether the process has no memory left. If so, entries do not grow, and sessions and connections may hold `limit` bytes; `None`
    /// means that there is memory again.
    pub fn set_memory_short(&mut self, limit: Option<usize>, now: ClockReading) {
        self.service.set_memory_short(limit.is_some());
        self.session_memory_limits.shortage_limit = limit;
        self.session_memory_limits.eviction_threshold_bytes = self.max_session_bytes();
        self.settle(now);
    }

    /// Returns whether the process has no memory left.
    pub(super) fn is_memory_short(&self) -> bool {
        self.session_memory_limits.shortage_limit.is_some()
    }

    /// Sets the check of large packets and values.
    pub fn set_large_allocations(&mut self, large_allocations: LargeAllocations) {
        self.large_allocations = large_allocations;
    }

    /// Returns whether the input of a connection may take `bytes` bytes.
    pub fn allows_input(&self, bytes: usize) -> bool {
        self.large_allocations.allows(bytes)
    }

    /// Ends a connection since the process has no memory for a large packet from or to its client.
    #[cold]
    pub fn end_large_packet(&mut self, id: ConnectionId, now: ClockReading) {
        let why = "the server has no memory for a packet of this size";
        let code = ReasonCode::QUOTA_EXCEEDED;
        self.disconnect_with_end_reason(id, EndReason::Evicted, code, why, now);
        self.settle(now);
    }

    /// Moves the next entries within the heap; returns whether there are more.
    pub fn relocate(&mut self) -> bool {
        self.service.relocate()
    }

    /// Returns the bytes that sessions and connections hold, with the watches and remembered answers that the service keeps for them.
    /// Shared memory is counted once.
    pub fn held_bytes(&self) -> usize {
        self.memory_budget.bytes() + self.service.client_bytes()
    }

    /// Evicts holders if too much is held, and frees more than necessary so that this is rare. Sessions without a connection are evicted
    /// until much is free, connected clients only until a little is free.
    pub(super) fn evict(&mut self, now: ClockReading) {
        let most = self.max_session_bytes();
        // Enough for the largest message to the next client that reconnects.
        let message = self.limits.max_packet_bytes as usize + self.limits.max_output_bytes;
        let enough = most - message.clamp(most / 8, most / 2);
        let little = most - most / 64;
        let mut holders = self.holders();
        let fair = enough / holders.len().max(1);
        while self.held_bytes() > enough
            && let Some((bytes, holder)) = holders.pop()
            && bytes > fair
        {
            if self.held_bytes() <= little && self.is_connected(holder) {
                continue;
            }
            match holder {
                MemoryHolder::Connection(id) => self.evict_connection(id, now),
                MemoryHolder::Session(id) => {
                    self.evict_from_session(id, now);
                    if self.sessions.get(id).is_some() {
                        holders.push((self.held_by_session(id), holder));
                    }
                }
            }
        }
        // If this did not help, looking again does not help before more is held.
        self.session_memory_limits.eviction_threshold_bytes =
            most.max(self.held_bytes() + most / 64);
    }

    /// Returns the holders of memory, the largest on top.
    fn holders(&self) -> BinaryHeap<(usize, MemoryHolder)> {
        let sessions = self
            .sessions
            .iter()
            .map(|(id, _)| (self.held_by_session(id), MemoryHolder::Session(id)));
        let connections = self.connections.iter().filter_map(|(id, connection)| {
            let is_alone = connection.session().is_none();
            is_alone.then(|| (connection.reserved_bytes(), MemoryHolder::Connection(id)))
        });
        sessions.chain(connections).collect()
    }

    /// Returns the bytes that a session holds, as if nothing of it was shared.
    fn held_by_session(&self, id: SessionId) -> usize {
        let Some(session) = self.sessions.get(id) else {
            return 0;
        };
        let connection = session.connection.and_then(|id| self.connections.get(id));
        session.own_bytes()
            + session.held_bytes()
            + connection.map_or(0, Connection::reserved_bytes)
            + self.service.bytes_of(&session.client)
    }

    fn is_connected(&self, holder: MemoryHolder) -> bool {
        match holder {
            MemoryHolder::Session(id) => self
                .sessions
                .get(id)
                .is_some_and(|session| session.connection.is_some()),
            MemoryHolder::Connection(_) => true,
        }
    }

    /// Ends the connection of a session that has one. Otherwise drops the oldest message that waits in the session, or ends the session if
    /// none does.
    fn evict_from_session(&mut self, id: SessionId, now: ClockReading) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if let Some(connection_id) = session.connection {
            let connection = self.connections.get_mut(connection_id);
            let is_stuck = connection.is_some_and(Connection::drop_buffers);
            let why = "the server needs the memory that this client holds";
            let code = ReasonCode::QUOTA_EXCEEDED;
            self.disconnect_with_end_reason(connection_id, EndReason::Evicted, code, why, now);
            if is_stuck {
                self.drop_connection(connection_id, EndReason::Evicted, why, now);
            }
            self.settle_detached(now);
        } else if session.dequeue().is_some() {
            self.metrics.dropped_full += 1;
            self.sessions.update_rank(id);
        } else {
            self.metrics.sessions_evicted += 1;
            self.end_session(id, now);
        }
    }

    /// Closes a connection that has no session.
    fn evict_connection(&mut self, id: ConnectionId, now: ClockReading) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.drop_buffers();
        }
        let why = "the server needs the memory that this connection holds";
        self.drop_connection(id, EndReason::Evicted, why, now);
    }

    /// Ends a session without a connection to make room for another one. Returns false if all have a connection.
    pub(super) fn evict_session(&mut self, now: ClockReading) -> bool {
        let Some(id) = self.sessions.cheapest_to_evict() else {
            return false;
        };
        self.metrics.sessions_evicted += 1;
        self.end_session(id, now);
        true
    }
}
