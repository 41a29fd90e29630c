//! The behaviour of a key that clients may expect, written a second time and independently of the server.
use crate::history::{CallResult, Invocation, Version};
use crate::linearizability::Model;
use bytes::Bytes;
use statestore::{Condition, ErrorKind, Hlc};

/// A key.
#[derive(Debug, Default)]
pub(crate) struct Register {
    /// Whether the store may lose everything, and restart with lower versions.
    pub(crate) may_be_lost: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    pub(crate) entry: Option<Entry>,
    /// The highest version so far; every later change has a higher one.
    highest: Option<Version>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) value: Bytes,
    /// `None` until the version was reported to a client.
    pub(crate) version: Option<Version>,
    pub(crate) token: Option<Hlc>,
}

/// An event of a key.
#[derive(Debug, Clone)]
pub(crate) enum RegisterStep {
    /// A call, and its result if there was one.
    Call(Invocation, Option<CallResult>),
    /// The entry has expired.
    Expired { value: Bytes },
    /// The store has lost everything.
    Lost,
}

/// The effect of a write.
enum WriteEffect {
    Put,
    Remove,
    NotApplied,
    Absent,
    Refused(ErrorKind),
}

impl Model for Register {
    type State = State;
    type Step = RegisterStep;

    fn initial(&self) -> State {
        State::default()
    }

    fn apply(&self, state: &State, step: &RegisterStep) -> Option<State> {
        match step {
            RegisterStep::Lost => Some(State::default()),
            RegisterStep::Expired { value } => {
                let entry = state.entry.as_ref()?;
                (entry.value == *value).then(|| State {
                    entry: None,
                    highest: state.highest,
                })
            }
            RegisterStep::Call(Invocation::Get { .. }, answer) => match answer {
                None => Some(state.clone()),
                Some(CallResult::Read(got)) => read(state, got.as_ref()),
                Some(_) => None,
            },
            RegisterStep::Call(action, answer) => write(state, action, answer.as_ref()),
        }
    }

    fn is_read(&self, step: &RegisterStep) -> bool {
        use CallResult::{Absent, Failed, Mismatch, Read, Set};
        matches!(
            step,
            RegisterStep::Call(
                _,
                Some(Read(_) | Set { applied: false, .. } | Absent | Mismatch | Failed { .. })
            )
        )
    }

    /// Whether a result is outdated: there has been a version above the reported one, which is not that of the entry.
    fn is_outdated(&self, state: &State, step: &RegisterStep) -> bool {
        use CallResult::{Deleted, Read, Set};
        let (is_change, told) = match step {
            RegisterStep::Call(_, Some(Read(Some((_, version))))) => (false, *version),
            RegisterStep::Call(_, Some(Set { applied, version })) => (*applied, *version),
            RegisterStep::Call(_, Some(Deleted(Some(version)))) => (true, *version),
            _ => return false,
        };
        let is_there = || matches!(&state.entry, Some(entry) if entry.version == Some(told));
        let is_over = state.highest.is_some_and(|highest| told <= highest);
        !self.may_be_lost && is_over && (is_change || !is_there())
    }

    fn is_equivalent(&self, one: &RegisterStep, other: &RegisterStep) -> bool {
        match (one, other) {
            (RegisterStep::Call(one, None), RegisterStep::Call(other, None)) => one == other,
            _ => false,
        }
    }
}

fn read(state: &State, got: Option<&(Bytes, Version)>) -> Option<State> {
    match (&state.entry, got) {
        (None, None) => Some(state.clone()),
        (Some(entry), Some((value, version))) if entry.value == *value => {
            learn_version(state, *version)
        }
        _ => None,
    }
}

/// Whether a step that is possible in this state changes the store.
pub(crate) fn is_change(state: &State, step: &RegisterStep) -> bool {
    match step {
        RegisterStep::Lost | RegisterStep::Expired { .. } => true,
        RegisterStep::Call(action, _) => {
            let effect = effect(state.entry.as_ref(), action);
            matches!(effect, Some(WriteEffect::Put | WriteEffect::Remove))
        }
    }
}

/// Returns the state with this version of the entry, or `None` if another version is known.
pub(crate) fn learn_version(state: &State, version: Version) -> Option<State> {
    let mut state = state.clone();
    let entry = state.entry.as_mut()?;
    if let Some(known) = entry.version {
        return (known == version).then_some(state);
    }
    entry.version = Some(version);
    raise_highest(state, version)
}

/// Returns the state with this version as the highest, or `None` if the version does not rise.
fn raise_highest(mut state: State, version: Version) -> Option<State> {
    let rises = state.highest.is_none_or(|highest| version > highest);
    state.highest = Some(version);
    rises.then_some(state)
}

fn write(state: &State, action: &Invocation, answer: Option<&CallResult>) -> Option<State> {
    let effect = effect(state.entry.as_ref(), action)?;
    let mut next = state.clone();
    match (&effect, action) {
        (WriteEffect::Put, Invocation::Set { value, token, .. }) => {
            next.entry = Some(Entry {
                value: value.clone(),
                version: None,
                token: token.clone(),
            });
        }
        (WriteEffect::Remove, _) => next.entry = None,
        _ => {}
    }
    let Some(answer) = answer else {
        return Some(next);
    };
    let as_set = matches!(action, Invocation::Set { .. });
    match (effect, answer) {
        (WriteEffect::Put, CallResult::Set { applied, version }) if *applied => {
            learn_version(&next, *version)
        }
        (WriteEffect::NotApplied, CallResult::Set { applied, version }) if !applied => {
            learn_version(&next, *version)
        }
        (WriteEffect::Remove, CallResult::Deleted(Some(version))) => raise_highest(next, *version),
        (WriteEffect::Remove, CallResult::Deleted(None))
        | (WriteEffect::Absent, CallResult::Absent) => Some(next),
        (WriteEffect::NotApplied, CallResult::Mismatch) => (!as_set).then_some(next),
        (WriteEffect::Refused(why), CallResult::Failed { kind, .. }) => {
            (why == *kind).then_some(next)
        }
        _ => None,
    }
}

fn effect(entry: Option<&Entry>, action: &Invocation) -> Option<WriteEffect> {
    let token = match action {
        Invocation::Set { token, .. }
        | Invocation::Del { token, .. }
        | Invocation::Vdel { token, .. } => token,
        Invocation::Get { .. } | Invocation::Scan { .. } => return None,
    };
    if let Some(stored) = entry.and_then(|entry| entry.token.as_ref()) {
        match token {
            None => return Some(WriteEffect::Refused(ErrorKind::FencingTokenRequired)),
            Some(token) if token < stored => {
                return Some(WriteEffect::Refused(ErrorKind::FencingTokenLower));
            }
            Some(_) => {}
        }
    }
    let effect = match (action, entry) {
        (
            Invocation::Set {
                condition, value, ..
            },
            Some(entry),
        ) => match condition {
            Condition::Always => WriteEffect::Put,
            Condition::IfAbsentOrEqual if entry.value == *value => WriteEffect::Put,
            _ => WriteEffect::NotApplied,
        },
        (Invocation::Set { .. }, None) => WriteEffect::Put,
        (_, None) => WriteEffect::Absent,
        (Invocation::Vdel { value, .. }, Some(entry)) if entry.value != *value => {
            WriteEffect::NotApplied
        }
        (_, Some(_)) => WriteEffect::Remove,
    };
    Some(effect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearizability::{CheckResult, Interval, check};
    use statestore::Outcome;

    fn set(value: &'static str, condition: Condition, token: Option<u64>) -> Invocation {
        Invocation::Set {
            key: "k".into(),
            value: value.into(),
            condition,
            px: None,
            token: token.map(|wall| Hlc::new(wall, 0, "t").unwrap()),
        }
    }
    fn put(value: &'static str) -> Invocation {
        set(value, Condition::Always, None)
    }
    fn applied(version: u64) -> CallResult {
        CallResult::Set {
            applied: true,
            version: (version, 0),
        }
    }
    fn got(value: &'static str, version: u64) -> CallResult {
        CallResult::Read(Some((value.into(), (version, 0))))
    }
    fn refused(kind: ErrorKind) -> CallResult {
        CallResult::Failed {
            kind,
            outcome: Outcome::NotDone,
            text: String::new(),
        }
    }
    fn get() -> Invocation {
        Invocation::Get { key: "k".into() }
    }
    fn del() -> Invocation {
        Invocation::Del {
            key: "k".into(),
            token: None,
        }
    }
    fn call(action: Invocation, answer: CallResult) -> RegisterStep {
        RegisterStep::Call(action, Some(answer))
    }

    /// Whether the steps can have happened one after the other.
    fn is_possible_sequence(steps: impl IntoIterator<Item = RegisterStep>) -> bool {
        let intervals: Vec<_> = steps
            .into_iter()
            .enumerate()
            .map(|(index, step)| Interval {
                from: index as u64 * 2,
                to: index as u64 * 2 + 1,
                is_certain: true,
                step,
            })
            .collect();
        let may_be_lost = intervals
            .iter()
            .any(|it| matches!(it.step, RegisterStep::Lost));
        check(&Register { may_be_lost }, &intervals, 1000) == CheckResult::Linearizable
    }

    #[test]
    fn reads_see_value_and_version_of_the_last_write() {
        assert!(is_possible_sequence([
            call(put("a"), applied(1)),
            call(get(), got("a", 1))
        ]));
        assert!(!is_possible_sequence([
            call(put("a"), applied(1)),
            call(get(), got("a", 2))
        ]));
        assert!(!is_possible_sequence([
            call(put("a"), applied(1)),
            call(get(), got("b", 1))
        ]));
        assert!(!is_possible_sequence([
            call(put("a"), applied(1)),
            call(get(), CallResult::Read(None))
        ]));
        assert!(!is_possible_sequence([call(get(), got("a", 1))]));
    }

    #[test]
    fn versions_rise_also_through_a_deletion() {
        let deleted = |version| call(del(), CallResult::Deleted(Some((version, 0))));
        assert!(is_possible_sequence([
            call(put("a"), applied(5)),
            deleted(6),
            call(put("b"), applied(7))
        ]));
        assert!(!is_possible_sequence([
            call(put("a"), applied(5)),
            call(put("b"), applied(5))
        ]));
        assert!(!is_possible_sequence([
            call(put("a"), applied(5)),
            deleted(5)
        ]));
        assert!(!is_possible_sequence([
            call(put("a"), applied(5)),
            deleted(7),
            call(put("b"), applied(6))
        ]));
        let lost = [
            call(put("a"), applied(5)),
            RegisterStep::Lost,
            call(put("b"), applied(1)),
        ];
        assert!(is_possible_sequence(lost));
    }

    #[test]
    fn the_version_of_an_unanswered_write_is_learned_once() {
        let unknown = RegisterStep::Call(put("a"), None);
        assert!(is_possible_sequence([
            unknown.clone(),
            call(get(), got("a", 3)),
            call(get(), got("a", 3))
        ]));
        assert!(!is_possible_sequence([
            unknown,
            call(get(), got("a", 3)),
            call(get(), got("a", 4))
        ]));
    }

    #[test]
    fn conditions_are_checked() {
        let nx = |value| set(value, Condition::IfAbsent, None);
        let nex = |value| set(value, Condition::IfAbsentOrEqual, None);
        let kept = CallResult::Set {
            applied: false,
            version: (1, 0),
        };
        assert!(is_possible_sequence([
            call(nx("a"), applied(1)),
            call(nx("b"), kept.clone())
        ]));
        assert!(!is_possible_sequence([
            call(nx("a"), applied(1)),
            call(nx("b"), applied(2))
        ]));
        assert!(!is_possible_sequence([call(nx("a"), kept.clone())]));
        assert!(is_possible_sequence([
            call(nex("a"), applied(1)),
            call(nex("a"), applied(2))
        ]));
        assert!(!is_possible_sequence([
            call(nex("a"), applied(1)),
            call(nex("a"), kept.clone())
        ]));
        assert!(is_possible_sequence([
            call(nex("a"), applied(1)),
            call(nex("b"), kept)
        ]));
        let vdel = |value: &'static str| Invocation::Vdel {
            key: "k".into(),
            value: value.into(),
            token: None,
        };
        assert!(is_possible_sequence([
            call(put("a"), applied(1)),
            call(vdel("b"), CallResult::Mismatch)
        ]));
        assert!(!is_possible_sequence([
            call(put("a"), applied(1)),
            call(vdel("a"), CallResult::Mismatch)
        ]));
        assert!(!is_possible_sequence([
            call(put("a"), applied(1)),
            call(vdel("a"), CallResult::Absent)
        ]));
        assert!(is_possible_sequence([
            call(vdel("a"), CallResult::Absent),
            call(del(), CallResult::Absent)
        ]));
        assert!(!is_possible_sequence([call(
            del(),
            CallResult::Deleted(None)
        )]));
    }

    #[test]
    fn a_lower_fencing_token_is_rejected() {
        let fenced = |value, token| set(value, Condition::Always, Some(token));
        let required = || refused(ErrorKind::FencingTokenRequired);
        let lower = || refused(ErrorKind::FencingTokenLower);
        assert!(is_possible_sequence([
            call(fenced("a", 5), applied(1)),
            call(put("b"), required())
        ]));
        assert!(!is_possible_sequence([
            call(fenced("a", 5), applied(1)),
            call(put("b"), applied(2))
        ]));
        assert!(is_possible_sequence([
            call(fenced("a", 5), applied(1)),
            call(fenced("b", 4), lower())
        ]));
        assert!(!is_possible_sequence([
            call(fenced("a", 5), applied(1)),
            call(fenced("b", 4), applied(2))
        ]));
        assert!(!is_possible_sequence([
            call(fenced("a", 5), applied(1)),
            call(fenced("b", 5), lower())
        ]));
        assert!(!is_possible_sequence([call(put("a"), required())]));
        assert!(is_possible_sequence([
            call(fenced("a", 5), applied(1)),
            call(del(), required())
        ]));
    }

    #[test]
    fn an_expiry_requires_the_value_that_expires() {
        let expired = || RegisterStep::Expired { value: "a".into() };
        let nothing = || call(get(), CallResult::Read(None));
        assert!(is_possible_sequence([
            call(put("a"), applied(1)),
            expired(),
            nothing()
        ]));
        assert!(!is_possible_sequence([expired()]));
        assert!(!is_possible_sequence([
            call(put("b"), applied(1)),
            expired()
        ]));
    }
}
