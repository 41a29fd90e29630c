//! Counters of a run.
use super::Asked;
use super::engine::Engine;
use statestore_protocol::Reply;
use statestored::keyspace::End;
use statestored::keyspace::remote::Put;

/// Counters of a run, which show that it was not idle.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Requests of clients.
    pub asked: usize,
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
    pub again: usize,
    /// Changes that were reported.
    pub told: usize,
    /// Executed transactions.
    pub transactions: usize,
    /// Tombstones that were purged.
    pub purged: usize,
    /// Expired entries.
    pub ended: usize,
    /// Eventual reads that were answered without the engine.
    pub remembered: usize,
    /// Reads that were answered without the engine once it had reported its revision.
    pub confirmed: u64,
    /// Changes that were rejected because of a clock.
    pub clock_refused: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.asked += other.asked;
        self.changes += other.changes;
        self.unknown += other.unknown;
        self.expired += other.expired;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.full += other.full;
        self.gaps += other.gaps;
        self.interruptions += other.interruptions;
        self.restarts += other.restarts;
        self.again += other.again;
        self.told += other.told;
        self.transactions += other.transactions;
        self.purged += other.purged;
        self.ended += other.ended;
        self.remembered += other.remembered;
        self.confirmed += other.confirmed;
        self.clock_refused += other.clock_refused;
    }
}

/// Returns the number of executed transactions.
pub(super) fn transactions(asked: &[Asked]) -> usize {
    let is_made = |asked: &&Asked| {
        matches!(
            &asked.end,
            Some((_, End::Answered { reply: Reply::Transacted(versions), .. })) if versions.iter().flatten().next().is_some()
        )
    };
    asked.iter().filter(is_made).count()
}

/// Returns the number of purged tombstones.
pub(super) fn purged(engine: &Engine) -> usize {
    let changes = engine.log.iter().flat_map(|logged| &logged.changes);
    changes.filter(|(_, put)| *put == Put::Nothing).count()
}
