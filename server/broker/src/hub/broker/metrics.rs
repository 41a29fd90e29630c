//! Metrics of the connection to a broker.

/// Metrics of the connection to a broker, at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct BrokerMetrics {
    /// Whether requests can arrive.
    pub is_attached: bool,
    /// Number of times that requests became possible.
    pub attach_count: u64,
    /// Messages that wait to be published or to be acknowledged by the broker.
    pub queued_messages: u64,
    /// Notifications without a subscriber, which ended the watches of their client.
    pub unmatched_notifications: u64,
    /// Messages that the broker refused.
    pub refused_messages: u64,
    /// Requests whose sender the broker did not prove, and log entries of a group that were not accepted.
    pub unverified_requests: u64,
    /// Connections that ended because of a lost probe.
    pub lost_probes: u64,
    /// Whether the last connection ended because of a lost probe, and no message was delivered since.
    pub is_failing: bool,
}
