//! What a client has seen so far.

/// Counts since the client was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Requests sent; one that is sent again in a new session counts again.
    pub sent: u64,
    /// Responses that a request waited for.
    pub completed: u64,
    /// Requests whose time was up.
    pub timed_out: u64,
    /// Requests that the broker refused or that could not be sent.
    pub failed: u64,
    /// Requests that newer ones replaced before they were sent.
    pub superseded: u64,
    /// Requests sent again after a reconnect.
    pub resent: u64,
    /// Connections that were made again.
    pub reconnects: u64,
    /// Newer service account tokens that the broker accepted over a live connection.
    pub reauthentications: u64,
    /// Reconnects at which the broker had no session any more.
    pub sessions_lost: u64,
    /// Connections that this client closed because the broker broke the protocol.
    pub protocol_errors: u64,
    /// Responses for which no request waited.
    pub unmatched_responses: u64,
    /// Received timestamps that were too far ahead of the local clock and were not taken over.
    pub clock_skews: u64,
    /// Notifications of watched keys.
    pub notifications: u64,
    /// Notifications that were not newer than the one before, or came for a key that is not watched.
    pub stale_notifications: u64,
    /// Messages that are neither responses nor notifications.
    pub malformed_messages: u64,
    /// Requests that were sent and not answered yet.
    pub in_flight: u64,
    /// Requests that wait to be sent.
    pub queued: u64,
}
