//! The health of the engine, as its answers show it.
use super::clock_comparison;
use super::engine::{CommitOutcome, EngineError, EngineEvent};
use statestored_common::ClockReading;
use statestored_store::keyspace::rules::Version;
use statestored_store::keyspace::{EngineMetrics, EngineProblem, RequestKind, RequestResult};
use std::time::Duration;

/// Time in milliseconds without any answer after which the engine counts as away. The election of another leader takes about a second.
const UNAVAILABLE_AFTER_MS: u64 = 1_500;

/// Maximum lead of the latest version over the own clock. Clocks differ, and requests contain versions of their clients' clocks.
const MAX_VERSION_LEAD_MS: u64 = 60_000;

#[derive(Debug, Default)]
pub(super) struct EngineHealth {
    metrics: EngineMetrics,
    /// Time since when no request was answered.
    unanswered_since_ms: Option<u64>,
    /// Time at which requests were last refused for that reason.
    rejected_ms: u64,
    /// The reason why the engine accepts no changes.
    write_problem: Option<EngineProblem>,
    is_replaced: bool,
    is_version_ahead: bool,
    unreadable: UnreadableData,
}

/// Whether the last event of each kind contained data that this program cannot read.
#[derive(Debug, Default)]
struct UnreadableData {
    reply: bool,
    watch: bool,
}

impl EngineHealth {
    pub(super) fn request_sent(&mut self) {
        self.metrics.in_flight += 1;
    }

    pub(super) fn add_eventual_cache_hit(&mut self) {
        self.metrics.eventual_cache_hits += 1;
    }

    pub(super) fn add_confirmed_cache_hits(&mut self, count: u64) {
        self.metrics.confirmed_cache_hits += count;
    }

    pub(super) fn record_event(&mut self, news: &EngineEvent, now: ClockReading) {
        let (kind, result) = match news {
            EngineEvent::Read(_, Ok(_)) => (RequestKind::Read, RequestResult::Done),
            EngineEvent::Read(_, Err(Some(error))) => (RequestKind::Read, self.record_error(error)),
            EngineEvent::Read(_, Err(None)) => (RequestKind::Read, RequestResult::Unanswered),
            EngineEvent::Revision(_, Ok(_)) => (RequestKind::Revision, RequestResult::Done),
            EngineEvent::Revision(_, Err(Some(error))) => {
                (RequestKind::Revision, self.record_error(error))
            }
            EngineEvent::Revision(_, Err(None)) => {
                (RequestKind::Revision, RequestResult::Unanswered)
            }
            EngineEvent::Committed(_, CommitOutcome::Committed(_)) => {
                self.write_problem = None;
                (RequestKind::Commit, RequestResult::Done)
            }
            EngineEvent::Committed(
                _,
                CommitOutcome::Conflict(_) | CommitOutcome::AlreadyAnswered(_),
            ) => (RequestKind::Commit, RequestResult::Conflict),
            EngineEvent::Committed(_, CommitOutcome::Failed(error)) => {
                (RequestKind::Commit, self.record_error(error))
            }
            EngineEvent::Committed(_, CommitOutcome::Unknown | CommitOutcome::NotSent) => {
                (RequestKind::Commit, RequestResult::Unanswered)
            }
            EngineEvent::Page(_, Ok(_)) => (RequestKind::Page, RequestResult::Done),
            EngineEvent::Page(_, Err(Some(error))) => (RequestKind::Page, self.record_error(error)),
            EngineEvent::Page(_, Err(None)) => (RequestKind::Page, RequestResult::Unanswered),
            EngineEvent::Snapshot(..)
            | EngineEvent::Synced(..)
            | EngineEvent::Changes(..)
            | EngineEvent::WatchResumed(..) => {
                if matches!(news, EngineEvent::Synced(..)) {
                    self.unreadable.watch = false;
                }
                self.unanswered_since_ms = None;
                return;
            }
            // A watch shows nothing about the answers to requests.
            EngineEvent::WatchProgress(..) => return,
            EngineEvent::Reverted => {
                self.metrics.reversions += 1;
                self.unanswered_since_ms = None;
                return;
            }
            EngineEvent::WatchInterrupted(_)
            | EngineEvent::WatchLost(_, None)
            | EngineEvent::Clocks(_, Err(None)) => {
                self.record_unanswered(now);
                return;
            }
            EngineEvent::Writable(taken) => {
                match taken {
                    Ok(()) => self.write_problem = None,
                    Err(error) => _ = self.record_error(error),
                }
                return;
            }
            EngineEvent::Members {
                configured,
                avoided,
            } => {
                self.metrics.members = Some((*configured, *avoided));
                return;
            }
            EngineEvent::Clocks(_, found) => {
                if let Err(Some(error)) = found {
                    self.record_error(error);
                }
                self.unanswered_since_ms = None;
                return;
            }
            EngineEvent::WatchLost(_, Some(error)) => {
                match error {
                    EngineError::Foreign(_) => self.unreadable.watch = true,
                    error => _ = self.record_error(error),
                }
                self.unanswered_since_ms = None;
                return;
            }
        };
        self.metrics.in_flight = self.metrics.in_flight.saturating_sub(1);
        self.metrics.record(kind, result);
        match result {
            RequestResult::Done | RequestResult::Conflict => {
                self.unanswered_since_ms = None;
                self.unreadable.reply = false;
            }
            RequestResult::Failed => self.unanswered_since_ms = None,
            RequestResult::Unanswered => self.record_unanswered(now),
        }
    }

    fn record_error(&mut self, error: &EngineError) -> RequestResult {
        match error {
            EngineError::Full => self.write_problem = Some(EngineProblem::Full),
            EngineError::Unreplicated => self.write_problem = Some(EngineProblem::Unreplicated),
            EngineError::Foreign(_) => self.unreadable.reply = true,
            EngineError::Replaced(_) => self.is_replaced = true,
            EngineError::TooLarge(most_bytes) => {
                tracing::warn!(
                    most_bytes,
                    "a change was rejected: it is larger than the storage accepts"
                );
            }
            EngineError::LimitExceeded => tracing::warn!("a change was rejected: {error}"),
        }
        RequestResult::Failed
    }

    fn record_unanswered(&mut self, now: ClockReading) {
        self.unanswered_since_ms.get_or_insert(now.mono_ms);
    }

    pub(super) fn is_unavailable(&self, now: ClockReading) -> bool {
        let silent_ms = self
            .unanswered_since_ms
            .map(|since| now.mono_ms.saturating_sub(since));
        silent_ms.is_some_and(|ms| ms >= UNAVAILABLE_AFTER_MS)
    }

    /// Returns whether the last event reported the lack of an answer.
    pub(super) fn is_unanswered(&self) -> bool {
        self.unanswered_since_ms.is_some()
    }

    /// Records that requests were refused because the engine is away.
    pub(super) fn requests_rejected(&mut self, now: ClockReading) {
        self.rejected_ms = now.mono_ms;
    }

    /// Returns when requests are refused next, even if no event arrives.
    pub(super) fn next_rejection_ms(&self) -> Option<u64> {
        let since_ms = self.unanswered_since_ms?.max(self.rejected_ms);
        Some(since_ms + UNAVAILABLE_AFTER_MS)
    }

    /// Updates the health, and logs its changes.
    pub(super) fn update(
        &mut self,
        is_watched: bool,
        (latest_ms, _): Version,
        (clock, clock_ahead_ms): (clock_comparison::ClockStatus, u64),
        now: ClockReading,
    ) {
        self.metrics.is_watched = is_watched;
        self.metrics.clock_ahead_ms = clock_ahead_ms;
        self.update_version_lead(latest_ms.saturating_sub(now.wall_ms));
        let trouble = if self.is_replaced {
            Some(EngineProblem::Replaced)
        } else if self.is_unavailable(now) {
            Some(EngineProblem::Unavailable)
        } else if self.unreadable.reply || self.unreadable.watch {
            Some(EngineProblem::Unreadable)
        } else if let Some(unwritable) = self.write_problem {
            Some(unwritable)
        } else if matches!(clock, clock_comparison::ClockStatus::Ahead(_)) {
            Some(EngineProblem::ClockAhead)
        } else {
            (!is_watched).then_some(EngineProblem::ChangesMissed)
        };
        let former = std::mem::replace(&mut self.metrics.problem, trouble);
        if former == trouble {
            return;
        }
        match trouble {
            Some(EngineProblem::Unavailable) => tracing::error!(
                "the storage does not answer: requests are rejected until it does, and nothing is lost"
            ),
            Some(EngineProblem::Unreadable) => {
                tracing::error!("the storage has data that this program cannot read");
            }
            Some(EngineProblem::Replaced) => tracing::error!(
                "the storage was replaced by another one: all requests are rejected until you restart the server"
            ),
            Some(EngineProblem::Full) => tracing::error!(
                "the storage is full: entries can be read but not changed; compact and defragment etcd and disarm its alarm with etcdctl, or \
                 give Redis more memory or disk"
            ),
            Some(EngineProblem::Unreplicated) => tracing::error!(
                "the storage has too few replicas: entries can be read but not changed"
            ),
            Some(EngineProblem::ClockAhead) => tracing::error!(
                ahead = ?Duration::from_millis(clock_ahead_ms),
                "the clock of this machine is ahead of most others, or may be: entries can be read but not changed until it is right"
            ),
            Some(EngineProblem::ChangesMissed) => {
                tracing::info!("reading the changes that other servers made");
            }
            None => tracing::info!("the storage answers, and all changes are known"),
        }
    }

    fn update_version_lead(&mut self, ahead_ms: u64) {
        self.metrics.versions_ahead_ms = ahead_ms;
        let is_behind = ahead_ms > MAX_VERSION_LEAD_MS;
        if is_behind == std::mem::replace(&mut self.is_version_ahead, is_behind) {
            return;
        }
        if is_behind {
            let ahead = Duration::from_millis(ahead_ms);
            tracing::warn!(
                ?ahead,
                "the latest version is ahead of the clock of this machine: this clock, or that of a machine that wrote, is wrong"
            );
        } else {
            tracing::info!("the clock of this machine has caught up with the latest version");
        }
    }

    pub(super) fn metrics(&self) -> EngineMetrics {
        self.metrics
    }
}
