//! The history of calls and their results. Checks whether some order of whole transactions and reads explains it.
use std::collections::HashSet;

pub(crate) const KEYS: [&str; 3] = ["a", "b", "c"];

/// Values of the keys.
pub(crate) type State = [Option<String>; 3];

/// When an operation of a transaction is to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Absent,
    /// NEX.
    AbsentOrSame,
    /// The key holds the value that it had with a version. A newer version with the same value is no fault.
    Holds(String),
}

/// An operation on a key.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) key: usize,
    pub(crate) when: When,
    /// `None` is a DEL.
    pub(crate) new: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Applied,
    NotApplied(usize),
    /// The operation certainly did not happen.
    NotDone,
    /// The result is unknown, or the caller was gone before it arrived.
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Transaction(Vec<Change>, Told),
    Read(usize, Option<String>),
    /// A compare-and-set: what was there, and what was written.
    Update(usize, Option<String>, String, Told),
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) from: u64,
    /// `None` if it never ended.
    pub(crate) to: Option<u64>,
    pub(crate) what: What,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) initial: State,
    pub(crate) events: Vec<Event>,
    /// Counts everything that happens.
    pub(crate) steps: u64,
}

impl History {
    pub(crate) fn begin(&mut self, what: What) -> usize {
        self.steps += 1;
        self.events.push(Event {
            from: self.steps,
            to: None,
            what,
        });
        self.events.len() - 1
    }

    pub(crate) fn end(&mut self, event: usize, what: What) {
        self.steps += 1;
        self.events[event].to = Some(self.steps);
        self.events[event].what = what;
    }

    /// Whether it can be explained.
    pub(crate) fn is_linearizable(&self) -> bool {
        let happened: Vec<_> = self.events.iter().filter(|it| it.may_happen()).collect();
        assert!(happened.len() <= 64);
        let mut seen = HashSet::new();
        explain(&happened, 0, &self.initial, &mut seen)
    }
}

impl Event {
    fn may_happen(&self) -> bool {
        match &self.what {
            What::Transaction(_, told) | What::Update(_, _, _, told) => *told != Told::NotDone,
            What::Read(..) => self.to.is_some(),
        }
    }

    fn must_happen(&self) -> bool {
        match &self.what {
            What::Transaction(_, told) | What::Update(_, _, _, told) => *told != Told::Unknown,
            What::Read(..) => true,
        }
    }

    /// When it was told that it had happened.
    fn until(&self) -> u64 {
        self.to.filter(|_| self.must_happen()).unwrap_or(u64::MAX)
    }
}

fn explain(events: &[&Event], taken: u64, state: &State, seen: &mut HashSet<(u64, State)>) -> bool {
    let left = || (0..events.len()).filter(|index| taken & (1 << index) == 0);
    if !left().any(|index| events[index].must_happen()) {
        return true;
    }
    if !seen.insert((taken, state.clone())) {
        return false;
    }
    let first_end = left().map(|index| events[index].until()).min().unwrap();
    left()
        .filter(|index| events[*index].from < first_end)
        .any(|index| {
            apply(state, &events[index].what)
                .is_some_and(|next| explain(events, taken | 1 << index, &next, seen))
        })
}

fn is_met(state: &State, change: &Change) -> bool {
    let held = &state[change.key];
    match &change.when {
        When::Always => true,
        When::Absent => held.is_none(),
        When::AbsentOrSame => held.is_none() || *held == change.new,
        When::Holds(value) => held.as_ref() == Some(value),
    }
}

fn apply(state: &State, what: &What) -> Option<State> {
    let mut next = state.clone();
    match what {
        What::Read(key, found) => return (state[*key] == *found).then_some(next),
        What::Update(key, saw, new, _) => {
            if state[*key] != *saw {
                return None;
            }
            next[*key] = Some(new.clone());
        }
        What::Transaction(changes, Told::NotApplied(index)) => {
            let change = &changes[*index];
            for earlier in &changes[..*index] {
                next[earlier.key].clone_from(&earlier.new);
            }
            let may_fail = matches!(change.when, When::Holds(_)) || !is_met(&next, change);
            return may_fail.then(|| state.clone());
        }
        What::Transaction(changes, _) => {
            for change in changes {
                if !is_met(&next, change) {
                    return None;
                }
                next[change.key].clone_from(&change.new);
            }
        }
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(from: u64, to: Option<u64>, told: Told) -> Event {
        let changes = [0, 1].map(|key| Change {
            key,
            when: When::Always,
            new: Some("t".to_owned()),
        });
        let what = What::Transaction(changes.into(), told);
        Event { from, to, what }
    }

    fn read(from: u64, to: u64, key: usize, found: Option<&str>) -> Event {
        Event {
            from,
            to: Some(to),
            what: What::Read(key, found.map(str::to_owned)),
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
    fn a_part_of_a_transaction_is_no_state() {
        for told in [Told::Applied, Told::Unknown] {
            let whole = transaction(1, Some(10), told);
            let (old, new) = (read(2, 3, 1, None), read(4, 5, 0, Some("t")));
            assert!(holds(&[whole.clone(), old.clone(), new]));
            let new_first = read(1, 2, 0, Some("t"));
            let old_then = read(3, 4, 1, None);
            assert!(!holds(&[whole, new_first, old_then]));
        }
    }

    #[test]
    fn what_was_told_to_have_happened_did_and_what_was_told_not_to_have_did_not() {
        let old = read(11, 12, 0, None);
        let new = read(11, 12, 0, Some("t"));
        let told = |told: Told| transaction(1, Some(10), told);
        assert!(!holds(&[told(Told::Applied), old.clone()]));
        assert!(holds(&[told(Told::Applied), new.clone()]));
        assert!(holds(&[told(Told::NotDone), old.clone()]));
        assert!(!holds(&[told(Told::NotDone), new.clone()]));
        assert!(holds(&[told(Told::Unknown), old]));
        assert!(holds(&[told(Told::Unknown), new]));
    }
}
