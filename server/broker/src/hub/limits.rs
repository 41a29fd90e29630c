//! Limits of the hub, some of which CONNACK announces.

use crate::audit::AuditOptions;
use statestored_access::{RateLimits, UserLimitsMap};

/// Limits of connections and sessions. All of them bound memory or time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubLimits {
    /// Most connections at a time; a further one is closed at once.
    pub max_connections: usize,
    /// Most sessions, connected or not. For one more, one without a connection ends; if all have a connection, the
    /// CONNECT is refused with "quota exceeded".
    pub max_sessions: usize,
    /// Largest packet accepted, in bytes with its fixed header.
    pub max_packet_bytes: u32,
    /// Most QoS 1 messages of a client that are not acknowledged yet (Receive Maximum).
    pub receive_maximum: u16,
    /// Most topic aliases of a client.
    pub topic_alias_maximum: u16,
    /// Milliseconds from the opening of a connection to its CONNECT.
    pub connect_timeout_ms: u64,
    /// Longest keep-alive in seconds; a client that asks for more, or for none, gets this one. 0: no limit.
    pub max_keep_alive_s: u16,
    /// Longest time in seconds that a session is kept without a connection.
    pub max_session_expiry_s: u32,
    /// Most messages that wait in one session.
    pub max_queued_messages: usize,
    /// Most bytes of messages that wait in one session, or are in flight and may have to be sent again. The last
    /// message may exceed it.
    pub max_queued_bytes: usize,
    /// Most bytes of memory that all sessions and connections together hold: queues, messages in flight, watches, filters, aliases, wills,
    /// remembered answers, partial packets and output. Beyond it, the largest holders are evicted.
    pub max_session_bytes: usize,
    /// Bytes of output that a connection may have outstanding before messages wait in its session and its
    /// requests wait in its socket. One packet may exceed it.
    pub max_output_bytes: usize,
    /// Most subscriptions of a session; one more is answered with "quota exceeded".
    pub max_subscriptions: usize,
    /// Most bytes of the topic filters of a session; more are answered with "quota exceeded".
    pub max_filter_bytes: usize,
    /// How much all clients together may send in a second.
    pub rates: RateLimits,
    /// Limits of each user.
    pub users: UserLimitsMap,
    /// Milliseconds that a connection which is to be closed gets for its last output.
    pub linger_ms: u64,
    /// Options of the audit trail.
    pub audit: AuditOptions,
    /// Milliseconds from which on a request is slow, and is listed for operators.
    pub slow_request_ms: u64,
}

impl Default for HubLimits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_sessions: 20_000,
            max_packet_bytes: 16 * 1024 * 1024,
            receive_maximum: 1024,
            topic_alias_maximum: 64,
            connect_timeout_ms: 10_000,
            max_keep_alive_s: 0,
            max_session_expiry_s: 7 * 24 * 3600,
            max_queued_messages: 10_000,
            max_queued_bytes: 64 * 1024 * 1024,
            max_session_bytes: 1024 * 1024 * 1024,
            max_output_bytes: 1024 * 1024,
            max_subscriptions: 1000,
            max_filter_bytes: 1024 * 1024,
            rates: RateLimits::default(),
            users: UserLimitsMap::default(),
            linger_ms: 1000,
            audit: AuditOptions::default(),
            slow_request_ms: 10,
        }
    }
}

impl HubLimits {
    /// Returns whether a limit of what clients may send in a second can apply.
    pub(super) fn has_rates(&self) -> bool {
        self.rates != RateLimits::default() || !self.users.is_empty()
    }
}
