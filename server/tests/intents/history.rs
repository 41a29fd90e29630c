//! The history of calls and their results. Checks whether some order of whole transactions and reads explains it.
use std::collections::HashSet;

pub(crate) const KEYS: [&str; 3] = ["a", "b", "c"];

/// Values of the keys.
pub(crate) type State = [Option<String>; 3];

/// When an operation of a transaction is to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Precondition {
    Always,
    Absent,
    /// NEX.
    AbsentOrSame,
    /// The key holds the value that it had with a version. A newer version with the same value is no fault.
    Holds(String),
}

/// An operation on a key.
#[derive(Debug, Clone)]
pub(crate) struct KeyOperation {
    pub(crate) key: usize,
    pub(crate) precondition: Precondition,
    /// `None` is a DEL.
    pub(crate) value: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportedOutcome {
    Applied,
    NotApplied(usize),
    /// The operation certainly did not happen.
    NotExecuted,
    /// The result is unknown, or the caller was gone before it arrived.
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) enum EventKind {
    Transaction(Vec<KeyOperation>, ReportedOutcome),
    Read(usize, Option<String>),
    /// A compare-and-set: what was there, and what was written.
    Update(usize, Option<String>, String, ReportedOutcome),
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) started: u64,
    /// `None` if it never ended.
    pub(crate) ended: Option<u64>,
    pub(crate) kind: EventKind,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) initial: State,
    pub(crate) events: Vec<Event>,
    /// Counts everything that happens.
    pub(crate) steps: u64,
}

impl History {
    pub(crate) fn begin(&mut self, what: EventKind) -> usize {
        self.steps += 1;
        self.events.push(Event {
            started: self.steps,
            ended: None,
            kind: what,
        });
        self.events.len() - 1
    }

    pub(crate) fn end(&mut self, event: usize, what: EventKind) {
        self.steps += 1;
        self.events[event].ended = Some(self.steps);
        self.events[event].kind = what;
    }

    /// Whether it can be explained.
    pub(crate) fn is_linearizable(&self) -> bool {
        let happened: Vec<_> = self.events.iter().filter(|it| it.may_happen()).collect();
        assert!(happened.len() <= 64);
        let mut seen = HashSet::new();
        linearize(&happened, 0, &self.initial, &mut seen)
    }
}

impl Event {
    fn may_happen(&self) -> bool {
        match &self.kind {
            EventKind::Transaction(_, told) | EventKind::Update(_, _, _, told) => {
                *told != ReportedOutcome::NotExecuted
            }
            EventKind::Read(..) => self.ended.is_some(),
        }
    }

    fn must_happen(&self) -> bool {
        match &self.kind {
            EventKind::Transaction(_, told) | EventKind::Update(_, _, _, told) => {
                *told != ReportedOutcome::Unknown
            }
            EventKind::Read(..) => true,
        }
    }

    /// When it was told that it had happened.
    fn until(&self) -> u64 {
        self.ended
            .filter(|_| self.must_happen())
            .unwrap_or(u64::MAX)
    }
}

fn linearize(
    events: &[&Event],
    taken: u64,
    state: &State,
    seen: &mut HashSet<(u64, State)>,
) -> bool {
    let left = || (0..events.len()).filter(|index| taken & (1 << index) == 0);
    if !left().any(|index| events[index].must_happen()) {
        return true;
    }
    if !seen.insert((taken, state.clone())) {
        return false;
    }
    let first_end = left().map(|index| events[index].until()).min().unwrap();
    left()
        .filter(|index| events[*index].started < first_end)
        .any(|index| {
            apply(state, &events[index].kind)
                .is_some_and(|next| linearize(events, taken | 1 << index, &next, seen))
        })
}

fn is_met(state: &State, change: &KeyOperation) -> bool {
    let held = &state[change.key];
    match &change.precondition {
        Precondition::Always => true,
        Precondition::Absent => held.is_none(),
        Precondition::AbsentOrSame => held.is_none() || *held == change.value,
        Precondition::Holds(value) => held.as_ref() == Some(value),
    }
}

fn apply(state: &State, what: &EventKind) -> Option<State> {
    let mut next = state.clone();
    match what {
        EventKind::Read(key, found) => return (state[*key] == *found).then_some(next),
        EventKind::Update(key, saw, new, _) => {
            if state[*key] != *saw {
                return None;
            }
            next[*key] = Some(new.clone());
        }
        EventKind::Transaction(changes, ReportedOutcome::NotApplied(index)) => {
            let change = &changes[*index];
            for earlier in &changes[..*index] {
                next[earlier.key].clone_from(&earlier.value);
            }
            let may_fail =
                matches!(change.precondition, Precondition::Holds(_)) || !is_met(&next, change);
            return may_fail.then(|| state.clone());
        }
        EventKind::Transaction(changes, _) => {
            for change in changes {
                if !is_met(&next, change) {
                    return None;
                }
                next[change.key].clone_from(&change.value);
            }
        }
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(from: u64, to: Option<u64>, told: ReportedOutcome) -> Event {
        let changes = [0, 1].map(|key| KeyOperation {
            key,
            precondition: Precondition::Always,
            value: Some("t".to_owned()),
        });
        let what = EventKind::Transaction(changes.into(), told);
        Event {
            started: from,
            ended: to,
            kind: what,
        }
    }

    fn read(from: u64, to: u64, key: usize, found: Option<&str>) -> Event {
        Event {
            started: from,
            ended: Some(to),
            kind: EventKind::Read(key, found.map(str::to_owned)),
        }
    }

    fn holds(events: &[Event]) -> bool {
        History {
            events: events.to_vec(),
            ..History::default()
        }
        .is_linearizable()
    }

    #[test]
    fn a_partial_transaction_is_not_linearizable() {
        for told in [ReportedOutcome::Applied, ReportedOutcome::Unknown] {
            let whole = transaction(1, Some(10), told);
            let (old, new) = (read(2, 3, 1, None), read(4, 5, 0, Some("t")));
            assert!(holds(&[whole.clone(), old.clone(), new]));
            let new_first = read(1, 2, 0, Some("t"));
            let old_then = read(3, 4, 1, None);
            assert!(!holds(&[whole, new_first, old_then]));
        }
    }

    #[test]
    fn reported_outcomes_constrain_the_history() {
        let old = read(11, 12, 0, None);
        let new = read(11, 12, 0, Some("t"));
        let told = |told: ReportedOutcome| transaction(1, Some(10), told);
        assert!(!holds(&[told(ReportedOutcome::Applied), old.clone()]));
        assert!(holds(&[told(ReportedOutcome::Applied), new.clone()]));
        assert!(holds(&[told(ReportedOutcome::NotExecuted), old.clone()]));
        assert!(!holds(&[told(ReportedOutcome::NotExecuted), new.clone()]));
        assert!(holds(&[told(ReportedOutcome::Unknown), old]));
        assert!(holds(&[told(ReportedOutcome::Unknown), new]));
    }
}
