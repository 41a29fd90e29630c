//! Draining: the server accepts no clients, and disconnects those that it has over some time.
use super::{ConnectionId, Hub};
use statestore_protocol::mqtt::ReasonCode;
use statestored_access::LoginRefusal;
use statestored_common::ClockReading;
use statestored_connection::Connection;

/// Maximum number of clients that one tick disconnects.
const MAX_PER_TICK: usize = 256;

const REASON: &str = "an operator drains the server: connect to another one";

/// A drain, and the connections that it has not ended yet.
#[derive(Debug)]
pub(super) struct Drain {
    connections: Vec<ConnectionId>,
    total: u64,
    begun_ms: u64,
    duration_ms: u64,
}

impl Drain {
    fn new(connections: Vec<ConnectionId>, duration_ms: u64, now_ms: u64) -> Self {
        Self {
            total: connections.len() as u64,
            connections,
            begun_ms: now_ms,
            duration_ms: duration_ms.max(1),
        }
    }

    fn ended(&self) -> u64 {
        self.total - self.connections.len() as u64
    }

    /// Returns when the next connection is due, in milliseconds; `None` after the last one.
    pub(super) fn next_ms(&self) -> Option<u64> {
        if self.connections.is_empty() {
            return None;
        }
        let after_ms = ((self.ended() + 1) * self.duration_ms).div_ceil(self.total);
        Some(self.begun_ms + after_ms)
    }

    /// Takes the next connection if it is due.
    fn pop(&mut self, now_ms: u64) -> Option<ConnectionId> {
        self.next_ms().filter(|due_ms| *due_ms <= now_ms)?;
        self.connections.pop()
    }
}

impl Hub {
    /// Refuses all further clients, and disconnects the present ones, evenly over this time.
    pub fn begin_drain(&mut self, duration_ms: u64, now: ClockReading) {
        let open = self
            .connections
            .iter()
            .filter(|(_, it)| it.session().is_some());
        let ids = open.map(|(id, _)| id).collect();
        self.drain = Some(Drain::new(ids, duration_ms, now.mono_ms));
    }

    /// Accepts clients again, and keeps those that are still connected.
    pub fn end_drain(&mut self) {
        self.drain = None;
    }

    /// Returns whether the server is being drained.
    pub fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Returns the number of clients that are connected.
    pub fn connected_clients(&self) -> usize {
        let connections = self.connections.values();
        connections.filter(|it| it.session().is_some()).count()
    }

    /// Returns the refusal of a client while the server is being drained.
    pub(super) fn drain_refusal(&self) -> Option<LoginRefusal> {
        self.is_draining()
            .then_some((ReasonCode::USE_ANOTHER_SERVER, REASON))
    }

    /// Disconnects the clients whose time has come.
    pub(super) fn continue_drain(&mut self, now: ClockReading) {
        for _ in 0..MAX_PER_TICK {
            let next = self.drain.as_mut().and_then(|it| it.pop(now.mono_ms));
            let Some(id) = next else {
                return;
            };
            let connection = self.connections.get(id);
            if connection.and_then(Connection::session).is_some() {
                self.disconnect_with(id, ReasonCode::USE_ANOTHER_SERVER, REASON, now);
            }
        }
    }
}
