//! A key as a store holds it.
use crate::call::{Call, CallResult, Condition, Invocation};
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
    fn learn_version(mut self, version: &Hlc) -> Option<Self> {
        let (_, known) = self.entry.as_mut()?;
        if let Some(known) = known {
            return (known == version).then_some(self);
        }
        *known = Some(version.clone());
        self.raise_highest(version)
    }

    fn raise_highest(mut self, version: &Hlc) -> Option<Self> {
        let rises = self
            .highest
            .as_ref()
            .is_none_or(|highest| highest < version);
        self.highest = Some(version.clone());
        rises.then_some(self)
    }

    /// Whether a condition holds; `None` if that depends on a version that no result has reported.
    fn meets_condition(&self, value: u64, condition: Option<&Condition>) -> Option<bool> {
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

    fn apply(
        &self,
        state: &State,
        Call {
            invocation: asked,
            result: told,
        }: &Call,
    ) -> Option<State> {
        let mut next = state.clone();
        match (asked, told) {
            (Invocation::Get, None) => Some(next),
            (Invocation::Get, Some(CallResult::Read(told))) => match (&state.entry, told) {
                (None, None) => Some(next),
                (Some((value, _)), Some((told, version))) if value == told => {
                    next.learn_version(version)
                }
                _ => None,
            },
            (Invocation::Set(value, condition), told) => {
                let meets = state.meets_condition(*value, condition.as_ref());
                match told {
                    None | Some(CallResult::Applied(_)) => {
                        // A version that no result has reported may be the expected one.
                        if meets == Some(false) {
                            return told.is_none().then_some(next);
                        }
                        next.entry = Some((*value, None));
                        match told {
                            Some(CallResult::Applied(version)) => next.learn_version(version),
                            _ => Some(next),
                        }
                    }
                    Some(CallResult::NotApplied(version)) if meets != Some(true) => {
                        match (&state.entry, version) {
                            (None, None) => Some(next),
                            (Some(_), Some(version)) => next.learn_version(version),
                            _ => None,
                        }
                    }
                    Some(_) => None,
                }
            }
            (Invocation::Del, told) => {
                next.entry = None;
                match (told, &state.entry) {
                    (None, _)
                    | (Some(CallResult::Absent), None)
                    | (Some(CallResult::Deleted(None)), Some(_)) => Some(next),
                    (Some(CallResult::Deleted(Some(version))), Some(_)) => {
                        next.raise_highest(version)
                    }
                    _ => None,
                }
            }
            (Invocation::Vdel(value), told) => match (told, &state.entry) {
                (Some(CallResult::Mismatch), Some((stored, _))) => {
                    (stored != value).then_some(next)
                }
                (None | Some(CallResult::Deleted(_)), Some((stored, _))) if stored == value => {
                    next.entry = None;
                    match told {
                        Some(CallResult::Deleted(Some(version))) => next.raise_highest(version),
                        _ => Some(next),
                    }
                }
                (None, _) | (Some(CallResult::Absent), None) => Some(next),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a result is outdated: there has been a version above the reported one, which is not that of the entry.
    fn is_outdated(&self, state: &State, Call { result: told, .. }: &Call) -> bool {
        let (is_change, version) = match told {
            Some(CallResult::Read(Some((_, version))) | CallResult::NotApplied(Some(version))) => {
                (false, version)
            }
            Some(CallResult::Applied(version) | CallResult::Deleted(Some(version))) => {
                (true, version)
            }
            _ => return false,
        };
        let is_there = || matches!(&state.entry, Some((_, Some(known))) if known == version);
        let is_over = state
            .highest
            .as_ref()
            .is_some_and(|highest| version <= highest);
        is_over && (is_change || !is_there())
    }

    fn is_read(&self, Call { result: told, .. }: &Call) -> bool {
        matches!(
            told,
            Some(
                CallResult::Read(_)
                    | CallResult::NotApplied(_)
                    | CallResult::Absent
                    | CallResult::Mismatch
            )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulation::linearizability::{CheckResult, Interval, check};

    fn version(wall: u64) -> Hlc {
        Hlc::new(wall, 0, "s").expect("a clock")
    }
    fn call(asked: Invocation, told: CallResult) -> (Invocation, Option<CallResult>) {
        (asked, Some(told))
    }
    fn set(value: u64, at: u64) -> (Invocation, Option<CallResult>) {
        call(
            Invocation::Set(value, None),
            CallResult::Applied(version(at)),
        )
    }
    fn got(value: u64, at: u64) -> (Invocation, Option<CallResult>) {
        call(
            Invocation::Get,
            CallResult::Read(Some((value, version(at)))),
        )
    }

    /// Whether the calls can have happened one after the other; calls of unknown outcome may happen later.
    fn is_possible_sequence<const N: usize>(calls: [(Invocation, Option<CallResult>); N]) -> bool {
        let interval = |(index, (asked, told)): (u64, (Invocation, Option<CallResult>))| Interval {
            from: index * 2,
            to: if told.is_some() {
                index * 2 + 1
            } else {
                u64::MAX
            },
            is_certain: told.is_some(),
            step: Call {
                invocation: asked,
                result: told,
            },
        };
        let intervals: Vec<_> = (0..).zip(calls).map(interval).collect();
        check(&Register, &intervals, 1000) == CheckResult::Linearizable
    }

    #[test]
    fn an_acknowledged_write_is_read_and_not_lost() {
        assert!(is_possible_sequence([
            set(1, 1),
            got(1, 1),
            set(2, 2),
            got(2, 2)
        ]));
        assert!(!is_possible_sequence([set(1, 1), set(2, 2), got(1, 1)]));
        assert!(!is_possible_sequence([
            set(1, 1),
            call(Invocation::Get, CallResult::Read(None))
        ]));
        assert!(!is_possible_sequence([set(1, 1), got(1, 2)]));
    }

    #[test]
    fn a_set_of_unknown_outcome_takes_effect_at_most_once() {
        let unknown = || (Invocation::Set(1, None), None);
        assert!(is_possible_sequence([unknown(), set(2, 2), got(2, 2)]));
        assert!(is_possible_sequence([
            unknown(),
            set(2, 2),
            got(2, 2),
            got(1, 3)
        ]));
        assert!(!is_possible_sequence([
            unknown(),
            got(1, 1),
            set(2, 2),
            got(1, 3)
        ]));
        assert!(!is_possible_sequence([set(3, 3), unknown(), got(1, 1)]));
    }

    #[test]
    fn conditions_are_checked() {
        let under = |condition| Invocation::Set(2, Some(condition));
        let applied = |asked| call(asked, CallResult::Applied(version(2)));
        let refused = |asked| call(asked, CallResult::NotApplied(Some(version(1))));
        let of = |at| Condition::IfVersion((&version(at)).into());
        assert!(is_possible_sequence([
            set(1, 1),
            refused(under(Condition::IfAbsent))
        ]));
        assert!(!is_possible_sequence([
            set(1, 1),
            applied(under(Condition::IfAbsent))
        ]));
        assert!(!is_possible_sequence([
            set(1, 1),
            applied(under(Condition::IfAbsentOrEqual))
        ]));
        assert!(is_possible_sequence([
            applied(under(Condition::IfAbsentOrEqual)),
            got(2, 2)
        ]));
        assert!(is_possible_sequence([set(1, 1), applied(under(of(1)))]));
        assert!(!is_possible_sequence([set(1, 1), refused(under(of(1)))]));
        assert!(!is_possible_sequence([set(1, 1), applied(under(of(3)))]));
    }

    #[test]
    fn a_deletion_removes_the_current_value() {
        let vdel = |told| call(Invocation::Vdel(1), told);
        let del = |told| call(Invocation::Del, told);
        assert!(is_possible_sequence([
            set(1, 1),
            vdel(CallResult::Deleted(None)),
            del(CallResult::Absent)
        ]));
        assert!(is_possible_sequence([
            set(2, 1),
            vdel(CallResult::Mismatch),
            got(2, 1)
        ]));
        assert!(!is_possible_sequence([
            set(1, 1),
            vdel(CallResult::Mismatch)
        ]));
        assert!(!is_possible_sequence([
            set(2, 1),
            vdel(CallResult::Deleted(None))
        ]));
        assert!(!is_possible_sequence([set(2, 1), vdel(CallResult::Absent)]));
        assert!(!is_possible_sequence([set(1, 1), del(CallResult::Absent)]));
        assert!(is_possible_sequence([
            set(1, 1),
            (Invocation::Vdel(1), None),
            got(1, 1)
        ]));
        assert!(!is_possible_sequence([
            set(2, 1),
            (Invocation::Vdel(1), None),
            call(Invocation::Get, CallResult::Read(None))
        ]));
    }
}
