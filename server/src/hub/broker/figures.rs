//! Metrics of the connection to a broker.

/// What is counted and measured of the broker.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BrokerFigures {
    /// Whether requests can come.
    pub(crate) is_attached: bool,
    /// How often that began.
    pub(crate) attached: u64,
    /// Messages that wait to be published, or to be acknowledged by the broker.
    pub(crate) waiting: u64,
    /// Notifications that nobody subscribes any more, so that the watches of the client ended.
    pub(crate) unwanted: u64,
    /// Messages that the broker refused.
    pub(crate) refused: u64,
    /// Requests of which the broker did not say who sent them.
    pub(crate) unproven: u64,
    /// Connections that ended because of a lost probe.
    pub(crate) lost_probes: u64,
    /// Whether the last connection ended because of a lost probe, and nothing was delivered since.
    pub(crate) is_failing: bool,
}
