//! What clients asked and were told, and whether one store could have told that.
use simulation::linearizability::{self, Interval, Model, Verdict};
use statestore::{Hlc, Version};
use std::collections::BTreeMap;
use std::time::Instant;

/// Through so many configurations an order is looked for.
const MAX_VISITS: usize = 20_000_000;

/// What was asked of a key.
#[derive(Debug, Clone)]
pub(crate) enum Asked {
    Get,
    /// A number that nobody else sets; under a condition, if there is one.
    Set(u64, Option<Condition>),
    Del,
}

#[derive(Debug, Clone)]
pub(crate) enum Condition {
    IfAbsent,
    IfVersion(Version),
}

/// What was told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Entry(Option<(u64, Hlc)>),
    Applied(Hlc),
    NotApplied(Option<Hlc>),
    Deleted(Option<Hlc>),
    Absent,
}

/// One call. `None`: nobody knows what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) asked: Asked,
    pub(crate) told: Option<Told>,
}

/// All calls.
#[derive(Debug)]
pub(crate) struct History {
    begun: Instant,
    by_key: BTreeMap<String, Vec<Interval<Call>>>,
}

impl History {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            by_key: BTreeMap::new(),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap()
    }

    pub(crate) fn add(&mut self, key: String, from: u64, call: Call) {
        let is_certain = call.told.is_some();
        let interval = Interval {
            from,
            // What nobody knows may happen at any time.
            to: if is_certain { self.now() } else { u64::MAX },
            is_certain,
            step: call,
        };
        self.by_key.entry(key).or_default().push(interval);
    }

    /// How many calls ended, and how many did so without anybody knowing how.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = self.by_key.values().flatten();
        let unknown = all.clone().filter(|it| !it.is_certain).count();
        (all.count(), unknown)
    }

    /// Panics if no single store could have told all this.
    pub(crate) fn check(&self) {
        for (key, intervals) in &self.by_key {
            match linearizability::check(&Register, intervals, MAX_VISITS) {
                Verdict::Linearizable => {}
                Verdict::Undecided => {
                    panic!("{key}: it would take too long to know: {intervals:#?}")
                }
                Verdict::Violated(order) => {
                    panic!("{key}: no order explains this, at most {order:?}: {intervals:#?}")
                }
            }
        }
    }
}

/// One key.
struct Register;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct State {
    /// Its version is not known as long as nobody was told.
    entry: Option<(u64, Option<Hlc>)>,
    /// The highest version that anybody was told.
    highest: Option<Hlc>,
}

impl State {
    /// The entry has this version, which is above all before unless it was known.
    fn learn(mut self, version: &Hlc) -> Option<Self> {
        let (_, known) = self.entry.as_mut()?;
        if let Some(known) = known {
            return (known == version).then_some(self);
        }
        *known = Some(version.clone());
        self.rise(version)
    }

    fn rise(mut self, version: &Hlc) -> Option<Self> {
        let rises = self
            .highest
            .as_ref()
            .is_none_or(|highest| highest < version);
        self.highest = Some(version.clone());
        rises.then_some(self)
    }

    /// Whether a condition holds; `None` if that depends on a version that nobody was told.
    fn meets(&self, condition: Option<&Condition>) -> Option<bool> {
        match (condition, &self.entry) {
            (None, _) | (Some(Condition::IfAbsent), None) => Some(true),
            (Some(Condition::IfAbsent), Some(_)) | (Some(Condition::IfVersion(_)), None) => {
                Some(false)
            }
            (Some(Condition::IfVersion(wanted)), Some((_, Some(version)))) => {
                Some(Version::from(version) == *wanted)
            }
            (Some(Condition::IfVersion(_)), Some((_, None))) => None,
        }
    }
}

impl Model for Register {
    type State = State;
    type Step = Call;

    fn initial(&self) -> State {
        State::default()
    }

    fn apply(&self, state: &State, Call { asked, told }: &Call) -> Option<State> {
        let mut next = state.clone();
        match (asked, told) {
            (Asked::Get, None) => Some(next),
            (Asked::Get, Some(Told::Entry(told))) => match (&state.entry, told) {
                (None, None) => Some(next),
                (Some((value, _)), Some((told, version))) if value == told => next.learn(version),
                _ => None,
            },
            (Asked::Set(value, condition), told) => {
                let meets = state.meets(condition.as_ref());
                match told {
                    None | Some(Told::Applied(_)) => {
                        // A version that nobody was told may be the one that was wanted.
                        if meets == Some(false) {
                            return told.is_none().then_some(next);
                        }
                        next.entry = Some((*value, None));
                        match told {
                            Some(Told::Applied(version)) => next.learn(version),
                            _ => Some(next),
                        }
                    }
                    Some(Told::NotApplied(version)) if meets != Some(true) => {
                        match (&state.entry, version) {
                            (None, None) => Some(next),
                            (Some(_), Some(version)) => next.learn(version),
                            _ => None,
                        }
                    }
                    Some(_) => None,
                }
            }
            (Asked::Del, told) => {
                next.entry = None;
                match (told, &state.entry) {
                    (None, _)
                    | (Some(Told::Absent), None)
                    | (Some(Told::Deleted(None)), Some(_)) => Some(next),
                    (Some(Told::Deleted(Some(version))), Some(_)) => next.rise(version),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn is_read(&self, Call { told, .. }: &Call) -> bool {
        matches!(
            told,
            Some(Told::Entry(_) | Told::NotApplied(_) | Told::Absent)
        )
    }
}
