//! Whether the wall clock of this node may be believed: it is compared with those of the other nodes, and with the engine's if that
//! has one. Who is ahead of most of them stamps no versions, as those would stay for ever.
//!
//! Each node tells the engine every few seconds what its clock shows, and looks what the others have told. A clock is compared with
//! what was told between two looks, so that nothing is made of how long an answer was on its way, or how long ago something was told:
//!
//! ```text
//!   this node   ── look ───────────────────── look ──▶     what is new in the second look was told in between, so
//!   another one ────────────── told ─────────────────▶     this clock is ahead by something between the two ends
//! ```
//!
//! What this node knows of the others moves with its own clock: a step shows at once, by the clock that never jumps.
use super::sights::Age;
use crate::clock::Now;
use std::collections::HashMap;
use std::time::Duration;

/// How long a step of the clock is not believed by a node that has nobody to ask: whoever set it by mistake sets it back by then.
const DOUBT_MS: u64 = 60_000;

/// What wall clocks show, as the engine has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundClocks {
    /// The engine's own, if it has one.
    pub engine_ms: Option<u64>,
    /// What each node, by its process, has told last.
    pub nodes: Vec<(u128, u64)>,
}

/// Whose clock it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Whose {
    Engine,
    Node(u128),
}

/// By how much the own clock is ahead of another one.
#[derive(Debug, Clone, Copy)]
#[allow(
    clippy::struct_field_names,
    reason = "they are all milliseconds, which has to be said"
)]
struct Lead {
    /// What the other one showed.
    shown_ms: u64,
    /// At least so much; `None` as long as nobody knows how long ago it was told.
    least_ms: Option<i64>,
    /// At most so much.
    most_ms: i64,
    /// Where the own clock stood above the one that never jumps.
    base_ms: i64,
}

/// Whether the own clock may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was not compared yet.
    Unknown,
    Right,
    /// It is ahead of most of the others, or may be, by so many milliseconds.
    Ahead(u64),
}

#[derive(Debug)]
pub(super) struct Clocks {
    process: u128,
    limit_ms: i64,
    every_ms: u64,
    next_ms: u64,
    /// When this node looked last, and before that.
    looked: Option<Now>,
    former: Option<Now>,
    leads: HashMap<Whose, Lead>,
    /// Where the own clock stood when it was last believed, and the step that is not believed so far, with its time.
    own_ms: Option<i64>,
    stepped: Option<(i64, u64)>,
    is_compared: bool,
    is_right: bool,
    /// What was found at the time of which notice was taken last: all requests of a turn have the same.
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

    /// Whether it is time to tell and to look. What was asked before is not waited for any more then.
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

    /// There was no answer: to be asked again then.
    pub(super) fn unanswered(&mut self, again_ms: u64) {
        self.next_ms = self.next_ms.min(again_ms);
    }

    /// The engine refuses to tell.
    pub(super) fn refused(&mut self) {
        self.passed = None;
        self.is_compared = true;
    }

    /// What the engine had when this node looked last.
    pub(super) fn found(&mut self, found: &FoundClocks, now: Now) {
        let Some(looked) = self.looked else { return };
        self.passed = None;
        let base_ms = base(now);
        // A look at the engine's own clock is answered with what it shows then.
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
                // The clock may have stepped since then, or this machine have slept.
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
            // Who was found wrong is not right because those are gone who said so.
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

    /// Takes notice of what the clocks show by now.
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
                // Others may have something to say to that.
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
            // Nobody was there when this node looked.
            self.is_right = self.is_compared && self.stepped.is_none();
            return;
        }
        let is_perhaps = |lead: &&Lead| lead.most(base_ms) > self.limit_ms;
        let is_surely = |least: &i64| *least > self.limit_ms;
        let live = self.leads.values().filter(|it| it.least_ms.is_some());
        let count = live.clone().count();
        let surely = live.clone().filter_map(|it| it.least(base_ms));
        // What was told some time ago, perhaps by a former process of this machine, is enough only if nothing speaks against it.
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

    /// By how much this clock is ahead of most of the others, about; zero if it is behind.
    pub(super) fn ahead_ms(&self, now: Now) -> u64 {
        let base_ms = base(now);
        let mut leads: Vec<_> = self.leads.values().map(|lead| lead.most(base_ms)).collect();
        leads.sort_unstable();
        let alone = || base_ms.saturating_sub(self.own_ms.unwrap_or(base_ms));
        let ahead_ms = leads.get(leads.len() / 2).copied();
        u64::try_from(ahead_ms.unwrap_or_else(alone)).unwrap_or_default()
    }

    /// How old a record may be that was seen: by the wall clock that is furthest behind.
    pub(super) fn age(&self, now: Now) -> Age {
        match self.passed {
            _ if !self.is_compared => Age::Unknown,
            Some(passed) if passed.now == now => Age::By(passed.earliest_ms),
            _ => Age::By(self.earliest(now)),
        }
    }

    /// What the wall clock that is furthest ahead may show.
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

/// How far the wall clock is above the one that never jumps.
fn base(now: Now) -> i64 {
    milliseconds(now.wall_ms).saturating_sub(milliseconds(now.mono_ms))
}

fn milliseconds(milliseconds: u64) -> i64 {
    i64::try_from(milliseconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
