//! Counters and gauges of the hub.

/// Counters since the start, and gauges of the present state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HubMetrics {
    /// Keys that exist now, including expired keys that have not been removed yet. `None` if they are in an engine that servers share,
    /// where their number is not known.
    pub keys: Option<u64>,
    /// Bytes of memory that the entries take now; `None` in the same case.
    pub entry_bytes: Option<u64>,
    /// Connections that are open now.
    pub connections: u64,
    /// Sessions that exist now, with a connection or without.
    pub sessions: u64,
    /// Bytes that sessions and connections hold now, roughly. Shared memory counts once.
    pub held_bytes: u64,
    /// Bytes that the slots for hashing of passwords take now.
    pub hashing_bytes: u64,
    /// Sessions ended to make room for others.
    pub sessions_evicted: u64,
    /// Connections accepted since the start.
    pub connections_opened: u64,
    /// CONNECT packets refused, for any reason.
    pub connects_refused: u64,
    /// Logins refused for their credentials: a wrong password, a token or a proof that is not accepted. Logins over open connections are
    /// included.
    pub logins_refused: u64,
    /// Connections closed with an error of the client: malformed packets, broken rules, time-outs, overflows.
    pub connections_failed: u64,
    /// Number of times that a connection was not read from for a while, since its user or all clients had sent more than they may.
    pub pauses: u64,
    /// Requests that the store executed.
    pub requests: u64,
    /// Requests refused before execution: no response topic, no correlation data, QoS 0, no room
    /// for the response.
    pub requests_refused: u64,
    /// Requests not executed since their message expiry had passed.
    pub requests_expired: u64,
    /// Requests with an unknown outcome.
    pub requests_unknown: u64,
    /// Requests that were answered with "not authorized".
    pub requests_denied: u64,
    /// Pending requests.
    pub requests_pending: u64,
    /// Responses handed to a connection or a session.
    pub responses: u64,
    /// Notifications handed to a connection or a session.
    pub notifications: u64,
    /// Messages that clients published to ordinary topics.
    pub messages: u64,
    /// Deliveries dropped since a queue or an output buffer was full.
    pub dropped_full: u64,
    /// Deliveries dropped since they are larger than the receiver's Maximum Packet Size.
    pub dropped_too_large: u64,
    /// Deliveries dropped since their message expiry passed in a queue.
    pub dropped_expired: u64,
    /// Deliveries dropped since the session had ended.
    pub dropped_no_session: u64,
    /// Messages rejected since the client may not publish to that topic.
    pub messages_refused: u64,
    /// Subscriptions rejected since the client may not receive messages of these topics.
    pub subscriptions_refused: u64,
}
