//! Counters of a client.

/// Counts since the client was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Requests sent; a request that is sent again in a new session counts again.
    pub sent: u64,
    /// Responses that a request waited for.
    pub completed: u64,
    /// Requests that timed out.
    pub timed_out: u64,
    /// Requests that the broker rejected or that could not be sent.
    pub failed: u64,
    /// Requests that newer ones replaced before they were sent.
    pub superseded: u64,
    /// Requests sent again after a reconnect.
    pub resent: u64,
    /// Connections that were restored.
    pub reconnects: u64,
    /// Newer service account tokens that the broker accepted on an open connection.
    pub reauthentications: u64,
    /// Reconnects at which the broker no longer had the session.
    pub sessions_lost: u64,
    /// Connections that this client closed because the broker violated the protocol.
    pub protocol_errors: u64,
    /// Responses that no request was waiting for.
    pub unmatched_responses: u64,
    /// Received timestamps that were too far ahead of the local clock and were ignored.
    pub clock_skews: u64,
    /// Notifications of watched keys.
    pub notifications: u64,
    /// Notifications that were not newer than the previous one, or that named a key without a watch.
    pub stale_notifications: u64,
    /// Messages that are neither responses nor notifications.
    pub malformed_messages: u64,
    /// Requests that were sent and are not answered yet.
    pub in_flight: u64,
    /// Requests that wait to be sent.
    pub queued: u64,
}
