//! A key as a store holds it.
use crate::history::{Asked, Call, Condition, Told};
use simulation::linearizability::Model;
use statestore::{Hlc, Version};

/// A key.
pub(crate) struct Register;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    /// The value and its version, which is unknown until a result reports it.
    entry: Option<(u64, Option<Hlc>)>,
    /// The highest reported version.
    highest: Option<Hlc>,
}

impl State {
    /// Returns the state with this version of the entry. An unknown version has to be above all earlier ones.
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

    /// Whether a condition holds; `None` if that depends on a version that no result has reported.
    fn meets(&self, value: u64, condition: Option<&Condition>) -> Option<bool> {
        match (condition, &self.entry) {
            (None, _) | (Some(Condition::IfAbsent | Condition::IfAbsentOrEqual), None) => {
                Some(true)
            }
            (Some(Condition::IfAbsentOrEqual), Some((stored, _))) => Some(*stored == value),
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
                let meets = state.meets(*value, condition.as_ref());
                match told {
                    None | Some(Told::Applied(_)) => {
                        // A version that no result has reported may be the expected one.
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
            (Asked::Vdel(value), told) => match (told, &state.entry) {
                (Some(Told::Mismatch), Some((stored, _))) => (stored != value).then_some(next),
                (None | Some(Told::Deleted(_)), Some((stored, _))) if stored == value => {
                    next.entry = None;
                    match told {
                        Some(Told::Deleted(Some(version))) => next.rise(version),
                        _ => Some(next),
                    }
                }
                (None, _) | (Some(Told::Absent), None) => Some(next),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a result is outdated: there has been a version above the reported one, which is not that of the entry.
    fn is_past(&self, state: &State, Call { told, .. }: &Call) -> bool {
        let (is_change, version) = match told {
            Some(Told::Entry(Some((_, version))) | Told::NotApplied(Some(version))) => {
                (false, version)
            }
            Some(Told::Applied(version) | Told::Deleted(Some(version))) => (true, version),
            _ => return false,
        };
        let is_there = || matches!(&state.entry, Some((_, Some(known))) if known == version);
        let is_over = state
            .highest
            .as_ref()
            .is_some_and(|highest| version <= highest);
        is_over && (is_change || !is_there())
    }

    fn is_read(&self, Call { told, .. }: &Call) -> bool {
        matches!(
            told,
            Some(Told::Entry(_) | Told::NotApplied(_) | Told::Absent | Told::Mismatch)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulation::linearizability::{Interval, Verdict, check};

    fn version(wall: u64) -> Hlc {
        Hlc::new(wall, 0, "s").expect("a clock")
    }
    fn call(asked: Asked, told: Told) -> (Asked, Option<Told>) {
        (asked, Some(told))
    }
    fn set(value: u64, at: u64) -> (Asked, Option<Told>) {
        call(Asked::Set(value, None), Told::Applied(version(at)))
    }
    fn got(value: u64, at: u64) -> (Asked, Option<Told>) {
        call(Asked::Get, Told::Entry(Some((value, version(at)))))
    }

    /// Whether the calls can have happened one after the other; calls of unknown outcome may happen later.
    fn in_turn<const N: usize>(calls: [(Asked, Option<Told>); N]) -> bool {
        let interval = |(index, (asked, told)): (u64, (Asked, Option<Told>))| Interval {
            from: index * 2,
            to: if told.is_some() {
                index * 2 + 1
            } else {
                u64::MAX
            },
            is_certain: told.is_some(),
            step: Call { asked, told },
        };
        let intervals: Vec<_> = (0..).zip(calls).map(interval).collect();
        check(&Register, &intervals, 1000) == Verdict::Linearizable
    }

    #[test]
    fn what_was_acknowledged_is_read_and_not_lost() {
        assert!(in_turn([set(1, 1), got(1, 1), set(2, 2), got(2, 2)]));
        assert!(!in_turn([set(1, 1), set(2, 2), got(1, 1)]));
        assert!(!in_turn([set(1, 1), call(Asked::Get, Told::Entry(None))]));
        assert!(!in_turn([set(1, 1), got(1, 2)]));
    }

    #[test]
    fn a_set_of_unknown_outcome_happens_once_or_never() {
        let unknown = || (Asked::Set(1, None), None);
        assert!(in_turn([unknown(), set(2, 2), got(2, 2)]));
        assert!(in_turn([unknown(), set(2, 2), got(2, 2), got(1, 3)]));
        assert!(!in_turn([unknown(), got(1, 1), set(2, 2), got(1, 3)]));
        assert!(!in_turn([set(3, 3), unknown(), got(1, 1)]));
    }

    #[test]
    fn conditions_decide() {
        let under = |condition| Asked::Set(2, Some(condition));
        let applied = |asked| call(asked, Told::Applied(version(2)));
        let refused = |asked| call(asked, Told::NotApplied(Some(version(1))));
        let of = |at| Condition::IfVersion((&version(at)).into());
        assert!(in_turn([set(1, 1), refused(under(Condition::IfAbsent))]));
        assert!(!in_turn([set(1, 1), applied(under(Condition::IfAbsent))]));
        assert!(!in_turn([
            set(1, 1),
            applied(under(Condition::IfAbsentOrEqual))
        ]));
        assert!(in_turn([
            applied(under(Condition::IfAbsentOrEqual)),
            got(2, 2)
        ]));
        assert!(in_turn([set(1, 1), applied(under(of(1)))]));
        assert!(!in_turn([set(1, 1), refused(under(of(1)))]));
        assert!(!in_turn([set(1, 1), applied(under(of(3)))]));
    }

    #[test]
    fn deletions_take_what_is_there() {
        let vdel = |told| call(Asked::Vdel(1), told);
        let del = |told| call(Asked::Del, told);
        assert!(in_turn([
            set(1, 1),
            vdel(Told::Deleted(None)),
            del(Told::Absent)
        ]));
        assert!(in_turn([set(2, 1), vdel(Told::Mismatch), got(2, 1)]));
        assert!(!in_turn([set(1, 1), vdel(Told::Mismatch)]));
        assert!(!in_turn([set(2, 1), vdel(Told::Deleted(None))]));
        assert!(!in_turn([set(2, 1), vdel(Told::Absent)]));
        assert!(!in_turn([set(1, 1), del(Told::Absent)]));
        assert!(in_turn([set(1, 1), (Asked::Vdel(1), None), got(1, 1)]));
        assert!(!in_turn([
            set(2, 1),
            (Asked::Vdel(1), None),
            call(Asked::Get, Told::Entry(None))
        ]));
    }
}
