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
use super::engine::ClockReadings;
use super::expiry_index::RecordAge;
use statestored_common::ClockReading;
use std::collections::HashMap;
use std::time::Duration;

/// Time for which a node with no other clocks to compare distrusts a step of its clock. A step made by mistake is usually corrected by
/// then.
const DISTRUST_MS: u64 = 60_000;

/// The owner of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ClockSource {
    Engine,
    Node(u128),
}

/// The lead of the own clock over another one.
#[derive(Debug, Clone, Copy)]
#[allow(
    clippy::struct_field_names,
    reason = "they are all milliseconds, which has to be said"
)]
struct ClockLead {
    /// The last reading of the other clock.
    reading_ms: u64,
    /// Lower bound of the lead; `None` as long as the age of the reading is unknown.
    min_ms: Option<i64>,
    /// Upper bound of the lead.
    max_ms: i64,
    /// Difference between the own wall clock and the monotonic clock at that time.
    base_ms: i64,
}

/// The result of the comparison of the own clock with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockStatus {
    /// The clock was not compared yet.
    Unknown,
    Trusted,
    /// The clock is, or may be, ahead of most others by this many milliseconds.
    Ahead(u64),
}

#[derive(Debug)]
pub(super) struct ClockComparison {
    process: u128,
    max_lead_ms: i64,
    interval_ms: u64,
    next_ms: u64,
    /// Times of this node's last query of the clocks, and of the one before.
    last_query: Option<ClockReading>,
    previous_query: Option<ClockReading>,
    leads: HashMap<ClockSource, ClockLead>,
    /// Offset of the own clock when it was last trusted, and the distrusted step with its time.
    trusted_base_ms: Option<i64>,
    distrusted_step: Option<(i64, u64)>,
    is_compared: bool,
    is_trusted: bool,
    /// Result of the last call of [`update`](Self::update), which all requests of a turn share.
    bounds: Option<ClockBounds>,
}

#[derive(Debug, Clone, Copy)]
struct ClockBounds {
    now: ClockReading,
    earliest_ms: u64,
    latest_ms: u64,
}

impl ClockComparison {
    pub(super) fn new(process: u128, limit_ms: u64, every_ms: u64) -> Self {
        Self {
            process,
            max_lead_ms: i64::try_from(limit_ms).unwrap_or(i64::MAX),
            interval_ms: every_ms,
            next_ms: 0,
            last_query: None,
            previous_query: None,
            leads: HashMap::new(),
            trusted_base_ms: None,
            distrusted_step: None,
            is_compared: false,
            is_trusted: false,
            bounds: None,
        }
    }

    /// Returns whether it is time to report and query the clocks. If so, the answer to an earlier query is no longer awaited.
    pub(super) fn take_due(&mut self, now: ClockReading) -> bool {
        if self.next_ms > now.mono_ms {
            return false;
        }
        self.next_ms = now.mono_ms.saturating_add(self.interval_ms);
        self.last_query = Some(now);
        true
    }

    pub(super) fn is_compared(&self) -> bool {
        self.is_compared
    }

    pub(super) fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// Records that a query got no answer. The next one is due at `again_ms`.
    pub(super) fn query_unanswered(&mut self, again_ms: u64) {
        self.next_ms = self.next_ms.min(again_ms);
    }

    /// Records that the engine refuses the query.
    pub(super) fn query_rejected(&mut self) {
        self.bounds = None;
        self.is_compared = true;
    }

    /// Records the readings that the engine had at this node's last query.
    pub(super) fn readings_received(&mut self, found: &ClockReadings, now: ClockReading) {
        let Some(looked) = self.last_query else {
            return;
        };
        self.bounds = None;
        let base_ms = base(now);
        // The engine's own clock is read between the query and its answer.
        let events = found.nodes.iter();
        let events =
            events
                .filter(|(process, _)| *process != self.process)
                .map(|(process, shown_ms)| {
                    (ClockSource::Node(*process), *shown_ms, self.previous_query)
                });
        let own = found
            .engine_ms
            .map(|shown_ms| (ClockSource::Engine, shown_ms, Some(looked)));
        let mut leads = HashMap::with_capacity(found.nodes.len() + 1);
        for (whose, shown_ms, since) in events.chain(own) {
            let known = self.leads.get(&whose);
            if let Some(known) = known.filter(|known| known.reading_ms == shown_ms) {
                leads.insert(whose, *known);
                continue;
            }
            let is_new = known.is_some() || whose == ClockSource::Engine;
            let earliest = since.filter(|_| is_new).map(|since| {
                // The clock may have stepped since then, or this machine may have slept.
                let by_steady = base_ms.saturating_add(milliseconds(since.mono_ms));
                milliseconds(since.wall_ms).min(by_steady)
            });
            let shown = milliseconds(shown_ms);
            let lead = ClockLead {
                reading_ms: shown_ms,
                min_ms: earliest.map(|earliest| earliest.saturating_sub(shown)),
                max_ms: milliseconds(now.wall_ms).saturating_sub(shown),
                base_ms,
            };
            leads.insert(whose, lead);
        }
        if leads.is_empty() {
            // A clock that was found wrong does not become right because the nodes that showed it are gone.
            self.leads.retain(|_, lead| {
                lead.lower_bound(base_ms)
                    .is_some_and(|least| least > self.max_lead_ms)
            });
        } else {
            self.leads = leads;
        }
        self.previous_query = Some(looked);
        self.is_compared = true;
    }

    /// Judges the clock at this time.
    pub(super) fn update(&mut self, now: ClockReading) {
        if self.bounds.is_some_and(|passed| passed.now == now) {
            return;
        }
        self.evaluate(now);
        self.bounds = Some(ClockBounds {
            now,
            earliest_ms: self.earliest_wall_ms(now),
            latest_ms: self.latest_wall_ms(now),
        });
    }

    fn evaluate(&mut self, now: ClockReading) {
        let base_ms = base(now);
        let believed_ms = *self.trusted_base_ms.get_or_insert(base_ms);
        if base_ms.saturating_sub(believed_ms) > self.max_lead_ms {
            let is_new = self
                .distrusted_step
                .is_none_or(|(to_ms, _)| base_ms.abs_diff(to_ms) > 1_000);
            if is_new {
                self.distrusted_step = Some((base_ms, now.mono_ms));
                // The other clocks may decide about the step.
                self.next_ms = now.mono_ms;
                let ahead = Duration::from_millis(base_ms.abs_diff(believed_ms));
                tracing::warn!(?ahead, "the clock of this machine was set forward");
            }
        } else {
            self.trusted_base_ms = Some(base_ms);
            self.distrusted_step = None;
        }
        let doubted_ms = self.distrusted_step.map(|(_, at_ms)| at_ms + DISTRUST_MS);
        if doubted_ms.is_some_and(|until_ms| until_ms <= now.mono_ms) {
            self.trusted_base_ms = Some(base_ms);
            self.distrusted_step = None;
        }
        if self.leads.is_empty() {
            // No other clock was there at the last query.
            self.is_trusted = self.is_compared && self.distrusted_step.is_none();
            return;
        }
        let is_perhaps = |lead: &&ClockLead| lead.upper_bound(base_ms) > self.max_lead_ms;
        let is_surely = |least: &i64| *least > self.max_lead_ms;
        let live = self.leads.values().filter(|it| it.min_ms.is_some());
        let count = live.clone().count();
        let surely = live.clone().filter_map(|it| it.lower_bound(base_ms));
        // Readings of unknown age, perhaps of a former process of this machine, are enough only if no other reading contradicts.
        let engine = self.leads.get(&ClockSource::Engine);
        let is_outvoted = |all: usize, perhaps: usize| {
            2 * perhaps > all || 2 * perhaps == all && engine.is_some_and(|it| is_perhaps(&it))
        };
        let perhaps = self.leads.values().filter(is_perhaps).count();
        let is_right = !is_outvoted(self.leads.len(), perhaps)
            && (perhaps == 0 || count > 0 && !is_outvoted(count, live.filter(is_perhaps).count()));
        if 2 * surely.filter(is_surely).count() > count
            || !is_right && self.distrusted_step.is_some()
        {
            self.is_trusted = false;
        } else if is_right {
            self.is_trusted = true;
            self.trusted_base_ms = Some(base_ms);
            self.distrusted_step = None;
        }
    }

    pub(super) fn status(&self, now: ClockReading) -> ClockStatus {
        match (self.is_compared, self.is_trusted) {
            (false, _) => ClockStatus::Unknown,
            (true, true) => ClockStatus::Trusted,
            (true, false) => ClockStatus::Ahead(self.ahead_ms(now)),
        }
    }

    /// Returns the approximate lead of this clock over most others in milliseconds; zero if it is behind.
    pub(super) fn ahead_ms(&self, now: ClockReading) -> u64 {
        let base_ms = base(now);
        let mut leads: Vec<_> = self
            .leads
            .values()
            .map(|lead| lead.upper_bound(base_ms))
            .collect();
        leads.sort_unstable();
        let alone = || base_ms.saturating_sub(self.trusted_base_ms.unwrap_or(base_ms));
        let ahead_ms = leads.get(leads.len() / 2).copied();
        u64::try_from(ahead_ms.unwrap_or_else(alone)).unwrap_or_default()
    }

    /// Returns how old a record may be that was seen, by the wall clock that is furthest behind.
    pub(super) fn age(&self, now: ClockReading) -> RecordAge {
        match self.bounds {
            _ if !self.is_compared => RecordAge::Unknown,
            Some(passed) if passed.now == now => RecordAge::PossiblyOld(passed.earliest_ms),
            _ => RecordAge::PossiblyOld(self.earliest_wall_ms(now)),
        }
    }

    /// Returns the latest time that the wall clock furthest ahead may show.
    pub(super) fn latest_ms(&self, now: ClockReading) -> u64 {
        match self.bounds {
            Some(passed) if passed.now == now => passed.latest_ms,
            _ => self.latest_wall_ms(now),
        }
    }

    fn earliest_wall_ms(&self, now: ClockReading) -> u64 {
        let leads = self.leads.values().map(|lead| lead.upper_bound(base(now)));
        let ahead = u64::try_from(leads.max().unwrap_or(0)).unwrap_or(0);
        now.wall_ms.saturating_sub(ahead)
    }

    fn latest_wall_ms(&self, now: ClockReading) -> u64 {
        let base_ms = base(now);
        let leads = self.leads.values();
        let leads = leads.map(|lead| {
            lead.lower_bound(base_ms)
                .unwrap_or_else(|| lead.upper_bound(base_ms))
        });
        let behind = leads.min().map_or(0, i64::saturating_neg);
        let behind = u64::try_from(behind).unwrap_or(0);
        now.wall_ms.saturating_add(behind)
    }
}

impl ClockLead {
    fn lower_bound(&self, base_ms: i64) -> Option<i64> {
        let stepped_ms = base_ms.saturating_sub(self.base_ms);
        self.min_ms.map(|least| least.saturating_add(stepped_ms))
    }

    fn upper_bound(&self, base_ms: i64) -> i64 {
        let stepped_ms = base_ms.saturating_sub(self.base_ms);
        self.max_ms.saturating_add(stepped_ms)
    }
}

/// Returns the difference between the wall clock and the monotonic clock.
fn base(now: ClockReading) -> i64 {
    milliseconds(now.wall_ms).saturating_sub(milliseconds(now.mono_ms))
}

fn milliseconds(milliseconds: u64) -> i64 {
    i64::try_from(milliseconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
