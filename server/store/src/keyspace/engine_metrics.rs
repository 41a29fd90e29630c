//! Metrics of an engine that has the entries.

/// The reason why some operations fail at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineProblem {
    /// The engine does not answer.
    Unavailable,
    /// The engine holds data that cannot be read.
    Unreadable,
    /// The engine is not the one with which the server began.
    Replaced,
    /// The engine is full.
    Full,
    /// Too few replicas follow the engine, so that it accepts no changes.
    Unreplicated,
    /// The wall clock of this machine is, or may be, ahead of most others.
    ClockAhead,
    /// Some changes of the engine are not known.
    ChangesMissed,
}

/// The kind of an engine request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// The state of keys.
    Read,
    /// The engine's revision.
    Revision,
    /// A commit.
    Commit,
    /// A page of keys.
    Page,
}

/// The result of an engine request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestResult {
    /// The request was executed.
    Done,
    /// A commit's comparison failed.
    Conflict,
    /// The request will not be executed.
    Failed,
    /// No answer arrived in time.
    Unanswered,
}

/// Metrics of the engine: its requests and its health.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineMetrics {
    counts: [[u64; RequestResult::ALL.len()]; RequestKind::ALL.len()],
    /// Number of engine requests that have no answer yet.
    pub in_flight: u64,
    /// Whether all changes are known as they happen.
    pub is_watched: bool,
    /// The reason why some operations fail at the moment.
    pub problem: Option<EngineProblem>,
    /// Number of members of the engine, and of those that are avoided because they do not answer; `None` if the server does not choose
    /// among members.
    pub members: Option<(u64, u64)>,
    /// Number of eventual reads answered from the record cache.
    pub eventual_cache_hits: u64,
    /// Number of reads answered from the record cache after the engine had confirmed that all changes are known.
    pub confirmed_cache_hits: u64,
    /// Number of times that the engine continued from an earlier state.
    pub reversions: u64,
    /// Lead of the latest version over this process's clock in milliseconds. A version is made of some node's or client's clock, and
    /// versions never go back.
    pub versions_ahead_ms: u64,
    /// Approximate lead of this machine's clock over most others in milliseconds. The engine's clock counts if it has one.
    pub clock_ahead_ms: u64,
}

impl RequestKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Read, Self::Revision, Self::Commit, Self::Page];

    /// Returns the name in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Revision => "revision",
            Self::Commit => "commit",
            Self::Page => "page",
        }
    }
}

impl RequestResult {
    /// All results.
    pub const ALL: [Self; 4] = [Self::Done, Self::Conflict, Self::Failed, Self::Unanswered];

    /// Returns the name in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Conflict => "refused",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
        }
    }
}

impl EngineMetrics {
    /// Counts an engine request of this kind with this result.
    pub fn record(&mut self, kind: RequestKind, result: RequestResult) {
        self.counts[kind as usize][result as usize] += 1;
    }

    /// Returns how many engine requests of this kind had this result.
    pub fn count(&self, kind: RequestKind, result: RequestResult) -> u64 {
        self.counts[kind as usize][result as usize]
    }
}
