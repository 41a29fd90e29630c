//! Counters of runs.
use std::ops::AddAssign;

/// Counters of a run.
#[derive(Debug, Default, Clone, Copy)]
pub struct RunMetrics {
    /// Requests.
    pub requests: u64,
    /// Requests that were sent more than once.
    pub repeated: u64,
    /// Requests that the broker delivered to another server.
    pub redelivered: u64,
    /// Requests without a response.
    pub unanswered: u64,
    /// Requests that were rejected.
    pub rejected: u64,
    /// Changes of the engine.
    pub changes: u64,
    /// Notifications that clients got.
    pub notified: u64,
    /// Notifications of gaps among them.
    pub gaps: u64,
    /// Watches that had to be notified of a change, whatever happened in between.
    pub watched: u64,
    /// Servers that were killed.
    pub kills: u64,
    /// Pauses of servers.
    pub pauses: u64,
    /// Connections of servers that were cut.
    pub cuts: u64,
    /// Cuts that the server, or the broker, did not notice.
    pub unnoticed: u64,
    /// Links to the engine that were cut.
    pub engine_cuts: u64,
    /// Ends of the broker.
    pub broker_ends: u64,
}

impl AddAssign for RunMetrics {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.repeated += other.repeated;
        self.redelivered += other.redelivered;
        self.unanswered += other.unanswered;
        self.rejected += other.rejected;
        self.changes += other.changes;
        self.notified += other.notified;
        self.gaps += other.gaps;
        self.watched += other.watched;
        self.kills += other.kills;
        self.pauses += other.pauses;
        self.cuts += other.cuts;
        self.unnoticed += other.unnoticed;
        self.engine_cuts += other.engine_cuts;
        self.broker_ends += other.broker_ends;
    }
}
