//! Metrics of the connection to a broker.

/// Metrics of the connection to a broker, at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BrokerFigures {
    /// Whether requests can arrive.
    pub(crate) is_attached: bool,
    /// Number of times that requests became possible.
    pub(crate) attached: u64,
    /// Messages that wait to be published or to be acknowledged by the broker.
    pub(crate) waiting: u64,
    /// Notifications without a subscriber, which ended the watches of their client.
    pub(crate) unwanted: u64,
    /// Messages that the broker refused.
    pub(crate) refused: u64,
    /// Requests whose sender the broker did not prove, and log entries of a group that were not accepted.
    pub(crate) unproven: u64,
    /// Connections that ended because of a lost probe.
    pub(crate) lost_probes: u64,
    /// Whether the last connection ended because of a lost probe, and no message was delivered since.
    pub(crate) is_failing: bool,
}
