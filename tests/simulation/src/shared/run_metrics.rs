//! Counters of a run.
use super::NodeRequest;
use super::engine::Engine;
use statestore_protocol::Reply;
use statestored_shared::EngineValue;
use statestored_store::keyspace::Completion;

/// Counters of a run, which show that it was not idle.
#[derive(Debug, Default, Clone, Copy)]
pub struct RunMetrics {
    /// Requests of clients.
    pub requests: usize,
    /// Changes of the engine.
    pub changes: usize,
    /// Requests with an unknown outcome.
    pub unknown: usize,
    /// Requests that were certainly not executed, because their time was up.
    pub expired: usize,
    /// Requests and answers that were lost.
    pub lost: usize,
    /// Commits that arrived a second time.
    pub doubled: usize,
    /// Commits that were rejected because the engine was full.
    pub full: usize,
    /// Watches that were lost.
    pub gaps: usize,
    /// Watches that were interrupted and continued where they were.
    pub interruptions: usize,
    /// Nodes that were restarted during the run.
    pub restarts: usize,
    /// Requests that were delivered to a second node.
    pub redelivered: usize,
    /// Changes that were reported.
    pub reported: usize,
    /// Executed transactions.
    pub transactions: usize,
    /// Tombstones that were purged.
    pub purged: usize,
    /// Expired entries.
    pub expired_entries: usize,
    /// Eventual reads that were answered without the engine.
    pub eventual_cache_hits: usize,
    /// Reads that were answered without the engine once it had reported its revision.
    pub confirmed_cache_hits: u64,
    /// Changes that were rejected because of a clock.
    pub clock_rejections: usize,
}

impl std::ops::AddAssign for RunMetrics {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.changes += other.changes;
        self.unknown += other.unknown;
        self.expired += other.expired;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.full += other.full;
        self.gaps += other.gaps;
        self.interruptions += other.interruptions;
        self.restarts += other.restarts;
        self.redelivered += other.redelivered;
        self.reported += other.reported;
        self.transactions += other.transactions;
        self.purged += other.purged;
        self.expired_entries += other.expired_entries;
        self.eventual_cache_hits += other.eventual_cache_hits;
        self.confirmed_cache_hits += other.confirmed_cache_hits;
        self.clock_rejections += other.clock_rejections;
    }
}

/// Returns the number of executed transactions.
pub(super) fn transactions(asked: &[NodeRequest]) -> usize {
    let is_made = |asked: &&NodeRequest| {
        matches!(
            &asked.completion,
            Some((_, Completion::Answered { reply: Reply::Transacted(versions), .. })) if versions.iter().flatten().next().is_some()
        )
    };
    asked.iter().filter(is_made).count()
}

/// Returns the number of purged tombstones.
pub(super) fn purged(engine: &Engine) -> usize {
    let changes = engine.log.iter().flat_map(|logged| &logged.changes);
    changes
        .filter(|(_, put)| *put == EngineValue::Absent)
        .count()
}
