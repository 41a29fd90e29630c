//! Comparison of this node's wall clock with those of the other nodes, and with the engine's if it has one. A node whose clock is
//! ahead of most others assigns no versions, because versions are permanent.
//!
//! Every few seconds, each node reports its clock to the engine and queries the readings of the others. The node compares its clock
//! with readings that were reported between two of its queries. The delay of an answer and the age of a reading then do not matter:
//!
//! ```text
//!   this node   ── query ──────────────────── query ─▶     a reading that is new in the second query was reported in
//!   another one ────────────── report ───────────────▶     between, so this clock's lead is between the two ends
//! ```
//!
//! The known leads move with the node's own clock: the monotonic clock shows a step at once.
use super::sights::Age;
use crate::clock::Now;
use std::collections::HashMap;
use std::time::Duration;

/// Time for which a node with no other clocks to compare distrusts a step of its clock. A step made by mistake is usually corrected by
/// then.
const DOUBT_MS: u64 = 60_000;

/// Readings of the wall clocks, as the engine has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundClocks {
    /// The engine's own clock, if it has one.
    pub engine_ms: Option<u64>,
    /// The last reading of each node, identified by its process.
    pub nodes: Vec<(u128, u64)>,
}

/// The owner of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Whose {
    Engine,
    Node(u128),
}

/// The lead of the own clock over another one.
#[derive(Debug, Clone, Copy)]
#[allow(
    clippy::struct_field_names,
    reason = "they are all milliseconds, which has to be said"
)]
struct Lead {
    /// The last reading of the other clock.
    shown_ms: u64,
    /// Lower bound of the lead; `None` as long as the age of the reading is unknown.
    least_ms: Option<i64>,
    /// Upper bound of the lead.
    most_ms: i64,
    /// Difference between the own wall clock and the monotonic clock at that time.
    base_ms: i64,
}

/// The result of the comparison of the own clock with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The clock was not compared yet.
    Unknown,
    Right,
    /// The clock is, or may be, ahead of most others by this many milliseconds.
    Ahead(u64),
}

#[derive(Debug)]
pub(super) struct Clocks {
    process: u128,
    limit_ms: i64,
    every_ms: u64,
    next_ms: u64,
    /// Times of this node's last query of the clocks, and of the one before.
    looked: Option<Now>,
    former: Option<Now>,
    leads: HashMap<Whose, Lead>,
    /// Offset of the own clock when it was last trusted, and the distrusted step with its time.
    own_ms: Option<i64>,
    stepped: Option<(i64, u64)>,
    is_compared: bool,
    is_right: bool,
    /// Result of the last call of [`pass`](Self::pass), which all requests of a turn share.
    passed: Option<Passed>,
}

#[derive(Debug, Clone, Copy)]
struct Passed {
    now: Now,
    earliest_ms: u64,
    latest_ms: u64,
}

impl Clocks {
    pub(super) fn new(process: u128, limit_ms: u64, every_ms: u64) -> Self {
        Self {
            process,
            limit_ms: i64::try_from(limit_ms).unwrap_or(i64::MAX),
            every_ms,
            next_ms: 0,
            looked: None,
            former: None,
            leads: HashMap::new(),
            own_ms: None,
            stepped: None,
            is_compared: false,
            is_right: false,
            passed: None,
        }
    }

    /// Returns whether it is time to report and query the clocks. If so, the answer to an earlier query is no longer awaited.
    pub(super) fn take_due(&mut self, now: Now) -> bool {
        if self.next_ms > now.mono_ms {
            return false;
        }
        self.next_ms = now.mono_ms.saturating_add(self.every_ms);
        self.looked = Some(now);
        true
    }

    pub(super) fn is_compared(&self) -> bool {
        self.is_compared
    }

    pub(super) fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// Records that a query got no answer. The next one is due at `again_ms`.
    pub(super) fn unanswered(&mut self, again_ms: u64) {
        self.next_ms = self.next_ms.min(again_ms);
    }

    /// Records that the engine refuses the query.
    pub(super) fn refused(&mut self) {
        self.passed = None;
        self.is_compared = true;
    }

    /// Records the readings that the engine had at this node's last query.
    pub(super) fn found(&mut self, found: &FoundClocks, now: Now) {
        let Some(looked) = self.looked else { return };
        self.passed = None;
        let base_ms = base(now);
        // The engine's own clock is read between the query and its answer.
        let told = found.nodes.iter();
        let told = told
            .filter(|(process, _)| *process != self.process)
            .map(|(process, shown_ms)| (Whose::Node(*process), *shown_ms, self.former));
        let own = found
            .engine_ms
            .map(|shown_ms| (Whose::Engine, shown_ms, Some(looked)));
        let mut leads = HashMap::with_capacity(found.nodes.len() + 1);
        for (whose, shown_ms, since) in told.chain(own) {
            let known = self.leads.get(&whose);
            if let Some(known) = known.filter(|known| known.shown_ms == shown_ms) {
                leads.insert(whose, *known);
                continue;
            }
            let is_new = known.is_some() || whose == Whose::Engine;
            let earliest = since.filter(|_| is_new).map(|since| {
                // The clock may have stepped since then, or this machine may have slept.
                let by_steady = base_ms.saturating_add(milliseconds(since.mono_ms));
                milliseconds(since.wall_ms).min(by_steady)
            });
            let shown = milliseconds(shown_ms);
            let lead = Lead {
                shown_ms,
                least_ms: earliest.map(|earliest| earliest.saturating_sub(shown)),
                most_ms: milliseconds(now.wall_ms).saturating_sub(shown),
                base_ms,
            };
            leads.insert(whose, lead);
        }
        if leads.is_empty() {
            // A clock that was found wrong does not become right because the nodes that showed it are gone.
            self.leads.retain(|_, lead| {
                lead.least(base_ms)
                    .is_some_and(|least| least > self.limit_ms)
            });
        } else {
            self.leads = leads;
        }
        self.former = Some(looked);
        self.is_compared = true;
    }

    /// Judges the clock at this time.
    pub(super) fn pass(&mut self, now: Now) {
        if self.passed.is_some_and(|passed| passed.now == now) {
            return;
        }
        self.judge(now);
        self.passed = Some(Passed {
            now,
            earliest_ms: self.earliest(now),
            latest_ms: self.latest(now),
        });
    }

    fn judge(&mut self, now: Now) {
        let base_ms = base(now);
        let believed_ms = *self.own_ms.get_or_insert(base_ms);
        if base_ms.saturating_sub(believed_ms) > self.limit_ms {
            let is_new = self
                .stepped
                .is_none_or(|(to_ms, _)| base_ms.abs_diff(to_ms) > 1_000);
            if is_new {
                self.stepped = Some((base_ms, now.mono_ms));
                // The other clocks may decide about the step.
                self.next_ms = now.mono_ms;
                let ahead = Duration::from_millis(base_ms.abs_diff(believed_ms));
                tracing::warn!(?ahead, "the clock of this machine was set forward");
            }
        } else {
            self.own_ms = Some(base_ms);
            self.stepped = None;
        }
        let doubted_ms = self.stepped.map(|(_, at_ms)| at_ms + DOUBT_MS);
        if doubted_ms.is_some_and(|until_ms| until_ms <= now.mono_ms) {
            self.own_ms = Some(base_ms);
            self.stepped = None;
        }
        if self.leads.is_empty() {
            // No other clock was there at the last query.
            self.is_right = self.is_compared && self.stepped.is_none();
            return;
        }
        let is_perhaps = |lead: &&Lead| lead.most(base_ms) > self.limit_ms;
        let is_surely = |least: &i64| *least > self.limit_ms;
        let live = self.leads.values().filter(|it| it.least_ms.is_some());
        let count = live.clone().count();
        let surely = live.clone().filter_map(|it| it.least(base_ms));
        // Readings of unknown age, perhaps of a former process of this machine, are enough only if no other reading contradicts.
        let engine = self.leads.get(&Whose::Engine);
        let is_outvoted = |all: usize, perhaps: usize| {
            2 * perhaps > all || 2 * perhaps == all && engine.is_some_and(|it| is_perhaps(&it))
        };
        let perhaps = self.leads.values().filter(is_perhaps).count();
        let is_right = !is_outvoted(self.leads.len(), perhaps)
            && (perhaps == 0 || count > 0 && !is_outvoted(count, live.filter(is_perhaps).count()));
        if 2 * surely.filter(is_surely).count() > count || !is_right && self.stepped.is_some() {
            self.is_right = false;
        } else if is_right {
            self.is_right = true;
            self.own_ms = Some(base_ms);
            self.stepped = None;
        }
    }

    pub(super) fn standing(&self, now: Now) -> Standing {
        match (self.is_compared, self.is_right) {
            (false, _) => Standing::Unknown,
            (true, true) => Standing::Right,
            (true, false) => Standing::Ahead(self.ahead_ms(now)),
        }
    }

    /// Returns the approximate lead of this clock over most others in milliseconds; zero if it is behind.
    pub(super) fn ahead_ms(&self, now: Now) -> u64 {
        let base_ms = base(now);
        let mut leads: Vec<_> = self.leads.values().map(|lead| lead.most(base_ms)).collect();
        leads.sort_unstable();
        let alone = || base_ms.saturating_sub(self.own_ms.unwrap_or(base_ms));
        let ahead_ms = leads.get(leads.len() / 2).copied();
        u64::try_from(ahead_ms.unwrap_or_else(alone)).unwrap_or_default()
    }

    /// Returns how old a record may be that was seen, by the wall clock that is furthest behind.
    pub(super) fn age(&self, now: Now) -> Age {
        match self.passed {
            _ if !self.is_compared => Age::Unknown,
            Some(passed) if passed.now == now => Age::By(passed.earliest_ms),
            _ => Age::By(self.earliest(now)),
        }
    }

    /// Returns the latest time that the wall clock furthest ahead may show.
    pub(super) fn latest_ms(&self, now: Now) -> u64 {
        match self.passed {
            Some(passed) if passed.now == now => passed.latest_ms,
            _ => self.latest(now),
        }
    }

    fn earliest(&self, now: Now) -> u64 {
        let leads = self.leads.values().map(|lead| lead.most(base(now)));
        let ahead = u64::try_from(leads.max().unwrap_or(0)).unwrap_or(0);
        now.wall_ms.saturating_sub(ahead)
    }

    fn latest(&self, now: Now) -> u64 {
        let base_ms = base(now);
        let leads = self.leads.values();
        let leads = leads.map(|lead| lead.least(base_ms).unwrap_or_else(|| lead.most(base_ms)));
        let behind = leads.min().map_or(0, i64::saturating_neg);
        let behind = u64::try_from(behind).unwrap_or(0);
        now.wall_ms.saturating_add(behind)
    }
}

impl Lead {
    fn least(&self, base_ms: i64) -> Option<i64> {
        let stepped_ms = base_ms.saturating_sub(self.base_ms);
        self.least_ms.map(|least| least.saturating_add(stepped_ms))
    }

    fn most(&self, base_ms: i64) -> i64 {
        let stepped_ms = base_ms.saturating_sub(self.base_ms);
        self.most_ms.saturating_add(stepped_ms)
    }
}

/// Returns the difference between the wall clock and the monotonic clock.
fn base(now: Now) -> i64 {
    milliseconds(now.wall_ms).saturating_sub(milliseconds(now.mono_ms))
}

fn milliseconds(milliseconds: u64) -> i64 {
    i64::try_from(milliseconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
