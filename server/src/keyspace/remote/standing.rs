//! The health of the engine, as its answers show it.
use super::clocks;
use super::engine::{EngineError, News, Verdict};
use crate::clock::Now;
use crate::keyspace::rules::Version;
use std::time::Duration;

/// Time in milliseconds without any answer after which the engine counts as away. The election of another leader takes about a second.
const AWAY_MS: u64 = 1_500;

/// Maximum lead of the latest version over the own clock. Clocks differ, and requests contain versions of their clients' clocks.
const MOST_AHEAD_MS: u64 = 60_000;

/// The reason why some operations fail at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The engine does not answer.
    Away,
    /// The engine holds data that cannot be read.
    Unreadable,
    /// The engine is not the one with which the server began.
    Replaced,
    /// The engine is full.
    Full,
    /// Too few replicas follow the engine, so that it accepts no changes.
    Unreplicated,
    /// The wall clock of this machine is, or may be, ahead of most others.
    Clock,
    /// Some changes of the engine are not known.
    Unwatched,
}

/// The kind of an engine request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
pub enum Result {
    /// The request was executed.
    Done,
    /// A commit's comparison failed.
    Refused,
    /// The request will not be executed.
    Failed,
    /// No answer arrived in time.
    Unanswered,
}

/// Metrics of the engine: its requests and its health.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineFigures {
    counts: [[u64; Result::ALL.len()]; Kind::ALL.len()],
    /// Number of engine requests that have no answer yet.
    pub under_way: u64,
    /// Whether all changes are known as they happen.
    pub is_watched: bool,
    /// The reason why some operations fail at the moment.
    pub trouble: Option<Trouble>,
    /// Number of eventual reads answered from the record cache.
    pub remembered: u64,
    /// Number of reads answered from the record cache after the engine had confirmed that all changes are known.
    pub confirmed: u64,
    /// Number of times that the engine continued from an earlier state.
    pub reversions: u64,
    /// Lead of the latest version over this process's clock in milliseconds. A version is made of some node's or client's clock, and
    /// versions never go back.
    pub versions_ahead_ms: u64,
    /// Approximate lead of this machine's clock over most others in milliseconds. The engine's clock counts if it has one.
    pub clock_ahead_ms: u64,
}

impl Kind {
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

impl Result {
    /// All results.
    pub const ALL: [Self; 4] = [Self::Done, Self::Refused, Self::Failed, Self::Unanswered];

    /// Returns the name in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
        }
    }
}

impl EngineFigures {
    /// Returns how many engine requests of this kind had this result.
    pub fn count(&self, kind: Kind, result: Result) -> u64 {
        self.counts[kind as usize][result as usize]
    }
}

#[derive(Debug, Default)]
pub(super) struct Standing {
    figures: EngineFigures,
    /// Time since when no request was answered.
    silent_since_ms: Option<u64>,
    /// Time at which requests were last refused for that reason.
    gave_up_ms: u64,
    /// The reason why the engine accepts no changes.
    unwritable: Option<Trouble>,
    is_replaced: bool,
    is_behind: bool,
    unreadable: Unreadable,
}

/// Whether the last event of each kind contained data that this program cannot read.
#[derive(Debug, Default)]
struct Unreadable {
    answer: bool,
    watch: bool,
}

impl Standing {
    pub(super) fn asked(&mut self) {
        self.figures.under_way += 1;
    }

    pub(super) fn remembered(&mut self) {
        self.figures.remembered += 1;
    }

    pub(super) fn confirmed(&mut self, count: u64) {
        self.figures.confirmed += count;
    }

    pub(super) fn heard(&mut self, news: &News, now: Now) {
        let (kind, result) = match news {
            News::Read(_, Ok(_)) => (Kind::Read, Result::Done),
            News::Read(_, Err(Some(error))) => (Kind::Read, self.failed(error)),
            News::Read(_, Err(None)) => (Kind::Read, Result::Unanswered),
            News::Revision(_, Ok(_)) => (Kind::Revision, Result::Done),
            News::Revision(_, Err(Some(error))) => (Kind::Revision, self.failed(error)),
            News::Revision(_, Err(None)) => (Kind::Revision, Result::Unanswered),
            News::Committed(_, Verdict::Done(_)) => {
                self.unwritable = None;
                (Kind::Commit, Result::Done)
            }
            News::Committed(_, Verdict::Refused(_) | Verdict::Answered(_)) => {
                (Kind::Commit, Result::Refused)
            }
            News::Committed(_, Verdict::Failed(error)) => (Kind::Commit, self.failed(error)),
            News::Committed(_, Verdict::Unclear | Verdict::Unsent) => {
                (Kind::Commit, Result::Unanswered)
            }
            News::Page(_, Ok(_)) => (Kind::Page, Result::Done),
            News::Page(_, Err(Some(error))) => (Kind::Page, self.failed(error)),
            News::Page(_, Err(None)) => (Kind::Page, Result::Unanswered),
            News::Snapshot(..) | News::Synced(..) | News::Changes(..) | News::WatchResumed(..) => {
                if matches!(news, News::Synced(..)) {
                    self.unreadable.watch = false;
                }
                self.silent_since_ms = None;
                return;
            }
            // A watch shows nothing about the answers to requests.
            News::Watching(..) => return,
            News::Reverted => {
                self.figures.reversions += 1;
                self.silent_since_ms = None;
                return;
            }
            News::WatchBroken(_) | News::WatchLost(_, None) | News::Clocks(_, Err(None)) => {
                self.silent(now);
                return;
            }
            News::Writable(taken) => {
                match taken {
                    Ok(()) => self.unwritable = None,
                    Err(error) => _ = self.failed(error),
                }
                return;
            }
            News::Clocks(_, found) => {
                if let Err(Some(error)) = found {
                    self.failed(error);
                }
                self.silent_since_ms = None;
                return;
            }
            News::WatchLost(_, Some(error)) => {
                match error {
                    EngineError::Foreign(_) => self.unreadable.watch = true,
                    error => _ = self.failed(error),
                }
                self.silent_since_ms = None;
                return;
            }
        };
        self.figures.under_way = self.figures.under_way.saturating_sub(1);
        self.figures.counts[kind as usize][result as usize] += 1;
        match result {
            Result::Done | Result::Refused => {
                self.silent_since_ms = None;
                self.unreadable.answer = false;
            }
            Result::Failed => self.silent_since_ms = None,
            Result::Unanswered => self.silent(now),
        }
    }

    fn failed(&mut self, error: &EngineError) -> Result {
        match error {
            EngineError::Full => self.unwritable = Some(Trouble::Full),
            EngineError::Unreplicated => self.unwritable = Some(Trouble::Unreplicated),
            EngineError::Foreign(_) => self.unreadable.answer = true,
            EngineError::Replaced(_) => self.is_replaced = true,
            EngineError::TooLarge(most_bytes) => {
                tracing::warn!(
                    most_bytes,
                    "a change was refused: it is larger than the storage takes"
                );
            }
            EngineError::TooMuch => tracing::warn!("a change was refused: {error}"),
        }
        Result::Failed
    }

    fn silent(&mut self, now: Now) {
        self.silent_since_ms.get_or_insert(now.mono_ms);
    }

    pub(super) fn is_away(&self, now: Now) -> bool {
        let silent_ms = self
            .silent_since_ms
            .map(|since| now.mono_ms.saturating_sub(since));
        silent_ms.is_some_and(|ms| ms >= AWAY_MS)
    }

    /// Returns whether the last event reported the lack of an answer.
    pub(super) fn is_silent(&self) -> bool {
        self.silent_since_ms.is_some()
    }

    /// Records that requests were refused because the engine is away.
    pub(super) fn gave_up(&mut self, now: Now) {
        self.gave_up_ms = now.mono_ms;
    }

    /// Returns when requests are refused next, even if no event arrives.
    pub(super) fn gives_up_ms(&self) -> Option<u64> {
        let since_ms = self.silent_since_ms?.max(self.gave_up_ms);
        Some(since_ms + AWAY_MS)
    }

    /// Updates the health, and logs its changes.
    pub(super) fn pass(
        &mut self,
        is_watched: bool,
        (latest_ms, _): Version,
        (clock, clock_ahead_ms): (clocks::Standing, u64),
        now: Now,
    ) {
        self.figures.is_watched = is_watched;
        self.figures.clock_ahead_ms = clock_ahead_ms;
        self.compare_clocks(latest_ms.saturating_sub(now.wall_ms));
        let trouble = if self.is_replaced {
            Some(Trouble::Replaced)
        } else if self.is_away(now) {
            Some(Trouble::Away)
        } else if self.unreadable.answer || self.unreadable.watch {
            Some(Trouble::Unreadable)
        } else if let Some(unwritable) = self.unwritable {
            Some(unwritable)
        } else if matches!(clock, clocks::Standing::Ahead(_)) {
            Some(Trouble::Clock)
        } else {
            (!is_watched).then_some(Trouble::Unwatched)
        };
        let former = std::mem::replace(&mut self.figures.trouble, trouble);
        if former == trouble {
            return;
        }
        match trouble {
            Some(Trouble::Away) => tracing::error!(
                "the storage does not answer: requests are refused until it does, and nothing is lost"
            ),
            Some(Trouble::Unreadable) => {
                tracing::error!("the storage holds what this program cannot read");
            }
            Some(Trouble::Replaced) => tracing::error!(
                "the storage is not the one any more that this server began with: everything is refused until it is started anew"
            ),
            Some(Trouble::Full) => {
                tracing::error!("the storage is full: entries can be read but not changed");
            }
            Some(Trouble::Unreplicated) => tracing::error!(
                "too few replicas of the storage follow it: entries can be read but not changed"
            ),
            Some(Trouble::Clock) => tracing::error!(
                ahead = ?Duration::from_millis(clock_ahead_ms),
                "the clock of this machine is ahead of most others, or may be: entries can be read but not changed until it is right"
            ),
            Some(Trouble::Unwatched) => tracing::info!("catching up with what others have changed"),
            None => tracing::info!("the storage answers, and all changes are known"),
        }
    }

    fn compare_clocks(&mut self, ahead_ms: u64) {
        self.figures.versions_ahead_ms = ahead_ms;
        let is_behind = ahead_ms > MOST_AHEAD_MS;
        if is_behind == std::mem::replace(&mut self.is_behind, is_behind) {
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

    pub(super) fn figures(&self) -> EngineFigures {
        self.figures
    }
}
