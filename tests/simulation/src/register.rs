//! The behaviour of a key that clients may expect, written a second time and independently of the server.
use crate::history::{Action, Answer, Version};
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
pub(crate) enum Step {
    /// A call, and its result if there was one.
    Call(Action, Option<Answer>),
    /// The entry has expired.
    Expired { value: Bytes },
    /// The store has lost everything.
    Lost,
}

/// The effect of a write.
enum Effect {
    Put,
    Remove,
    NotApplied,
    Absent,
    Refused(ErrorKind),
}

impl Model for Register {
    type State = State;
    type Step = Step;

    fn initial(&self) -> State {
        State::default()
    }

    fn apply(&self, state: &State, step: &Step) -> Option<State> {
        match step {
            Step::Lost => Some(State::default()),
            Step::Expired { value } => {
                let entry = state.entry.as_ref()?;
                (entry.value == *value).then(|| State {
                    entry: None,
                    highest: state.highest,
                })
            }
            Step::Call(Action::Get { .. }, answer) => match answer {
                None => Some(state.clone()),
                Some(Answer::Got(got)) => read(state, got.as_ref()),
                Some(_) => None,
            },
            Step::Call(action, answer) => write(state, action, answer.as_ref()),
        }
    }

    fn is_read(&self, step: &Step) -> bool {
        use Answer::{Absent, Failed, Got, Mismatch, Set};
        matches!(
            step,
            Step::Call(
                _,
                Some(Got(_) | Set { applied: false, .. } | Absent | Mismatch | Failed { .. })
            )
        )
    }

    /// Whether a result is outdated: there has been a version above the reported one, which is not that of the entry.
    fn is_past(&self, state: &State, step: &Step) -> bool {
        use Answer::{Deleted, Got, Set};
        let (is_change, told) = match step {
            Step::Call(_, Some(Got(Some((_, version))))) => (false, *version),
            Step::Call(_, Some(Set { applied, version })) => (*applied, *version),
            Step::Call(_, Some(Deleted(Some(version)))) => (true, *version),
            _ => return false,
        };
        let is_there = || matches!(&state.entry, Some(entry) if entry.version == Some(told));
        let is_over = state.highest.is_some_and(|highest| told <= highest);
        !self.may_be_lost && is_over && (is_change || !is_there())
    }

    fn is_alike(&self, one: &Step, other: &Step) -> bool {
        match (one, other) {
            (Step::Call(one, None), Step::Call(other, None)) => one == other,
            _ => false,
        }
    }
}

fn read(state: &State, got: Option<&(Bytes, Version)>) -> Option<State> {
    match (&state.entry, got) {
        (None, None) => Some(state.clone()),
        (Some(entry), Some((value, version))) if entry.value == *value => learn(state, *version),
        _ => None,
    }
}

/// Whether a step that is possible in this state changes the store.
pub(crate) fn is_change(state: &State, step: &Step) -> bool {
    match step {
        Step::Lost | Step::Expired { .. } => true,
        Step::Call(action, _) => {
            let effect = effect(state.entry.as_ref(), action);
            matches!(effect, Some(Effect::Put | Effect::Remove))
        }
    }
}

/// Returns the state with this version of the entry, or `None` if another version is known.
pub(crate) fn learn(state: &State, version: Version) -> Option<State> {
    let mut state = state.clone();
    let entry = state.entry.as_mut()?;
    if let Some(known) = entry.version {
        return (known == version).then_some(state);
    }
    entry.version = Some(version);
    rise(state, version)
}

/// Returns the state with this version as the highest, or `None` if the version does not rise.
fn rise(mut state: State, version: Version) -> Option<State> {
    let rises = state.highest.is_none_or(|highest| version > highest);
    state.highest = Some(version);
    rises.then_some(state)
}

fn write(state: &State, action: &Action, answer: Option<&Answer>) -> Option<State> {
    let effect = effect(state.entry.as_ref(), action)?;
    let mut next = state.clone();
    match (&effect, action) {
        (Effect::Put, Action::Set { value, token, .. }) => {
            next.entry = Some(Entry {
                value: value.clone(),
                version: None,
                token: token.clone(),
            });
        }
        (Effect::Remove, _) => next.entry = None,
        _ => {}
    }
    let Some(answer) = answer else {
        return Some(next);
    };
    let as_set = matches!(action, Action::Set { .. });
    match (effect, answer) {
        (Effect::Put, Answer::Set { applied, version }) if *applied => learn(&next, *version),
        (Effect::NotApplied, Answer::Set { applied, version }) if !applied => {
            learn(&next, *version)
        }
        (Effect::Remove, Answer::Deleted(Some(version))) => rise(next, *version),
        (Effect::Remove, Answer::Deleted(None)) | (Effect::Absent, Answer::Absent) => Some(next),
        (Effect::NotApplied, Answer::Mismatch) => (!as_set).then_some(next),
        (Effect::Refused(why), Answer::Failed { kind, .. }) => (why == *kind).then_some(next),
        _ => None,
    }
}

fn effect(entry: Option<&Entry>, action: &Action) -> Option<Effect> {
    let token = match action {
        Action::Set { token, .. } | Action::Del { token, .. } | Action::Vdel { token, .. } => token,
        Action::Get { .. } | Action::Scan { .. } => return None,
    };
    if let Some(stored) = entry.and_then(|entry| entry.token.as_ref()) {
        match token {
            None => return Some(Effect::Refused(ErrorKind::FencingTokenRequired)),
            Some(token) if token < stored => {
                return Some(Effect::Refused(ErrorKind::FencingTokenLower));
            }
            Some(_) => {}
        }
    }
    let effect = match (action, entry) {
        (
            Action::Set {
                condition, value, ..
            },
            Some(entry),
        ) => match condition {
            Condition::Always => Effect::Put,
            Condition::IfAbsentOrEqual if entry.value == *value => Effect::Put,
            _ => Effect::NotApplied,
        },
        (Action::Set { .. }, None) => Effect::Put,
        (_, None) => Effect::Absent,
        (Action::Vdel { value, .. }, Some(entry)) if entry.value != *value => Effect::NotApplied,
        (_, Some(_)) => Effect::Remove,
    };
    Some(effect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearizability::{Interval, Verdict, check};
    use statestore::Outcome;

    fn set(value: &'static str, condition: Condition, token: Option<u64>) -> Action {
        Action::Set {
            key: "k".into(),
            value: value.into(),
            condition,
            px: None,
            token: token.map(|wall| Hlc::new(wall, 0, "t").unwrap()),
        }
    }
    fn put(value: &'static str) -> Action {
        set(value, Condition::Always, None)
    }
    fn applied(version: u64) -> Answer {
        Answer::Set {
            applied: true,
            version: (version, 0),
        }
    }
    fn got(value: &'static str, version: u64) -> Answer {
        Answer::Got(Some((value.into(), (version, 0))))
    }
    fn refused(kind: ErrorKind) -> Answer {
        Answer::Failed {
            kind,
            outcome: Outcome::NotDone,
            text: String::new(),
        }
    }
    fn get() -> Action {
        Action::Get { key: "k".into() }
    }
    fn del() -> Action {
        Action::Del {
            key: "k".into(),
            token: None,
        }
    }
    fn call(action: Action, answer: Answer) -> Step {
        Step::Call(action, Some(answer))
    }

    /// Whether the steps can have happened one after the other.
    fn in_turn(steps: impl IntoIterator<Item = Step>) -> bool {
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
        let may_be_lost = intervals.iter().any(|it| matches!(it.step, Step::Lost));
        check(&Register { may_be_lost }, &intervals, 1000) == Verdict::Linearizable
    }

    #[test]
    fn reads_see_value_and_version_of_the_last_write() {
        assert!(in_turn([
            call(put("a"), applied(1)),
            call(get(), got("a", 1))
        ]));
        assert!(!in_turn([
            call(put("a"), applied(1)),
            call(get(), got("a", 2))
        ]));
        assert!(!in_turn([
            call(put("a"), applied(1)),
            call(get(), got("b", 1))
        ]));
        assert!(!in_turn([
            call(put("a"), applied(1)),
            call(get(), Answer::Got(None))
        ]));
        assert!(!in_turn([call(get(), got("a", 1))]));
    }

    #[test]
    fn versions_rise_also_through_a_deletion() {
        let deleted = |version| call(del(), Answer::Deleted(Some((version, 0))));
        assert!(in_turn([
            call(put("a"), applied(5)),
            deleted(6),
            call(put("b"), applied(7))
        ]));
        assert!(!in_turn([
            call(put("a"), applied(5)),
            call(put("b"), applied(5))
        ]));
        assert!(!in_turn([call(put("a"), applied(5)), deleted(5)]));
        assert!(!in_turn([
            call(put("a"), applied(5)),
            deleted(7),
            call(put("b"), applied(6))
        ]));
        let lost = [
            call(put("a"), applied(5)),
            Step::Lost,
            call(put("b"), applied(1)),
        ];
        assert!(in_turn(lost));
    }

    #[test]
    fn the_version_of_an_unanswered_write_is_learned_once() {
        let unknown = Step::Call(put("a"), None);
        assert!(in_turn([
            unknown.clone(),
            call(get(), got("a", 3)),
            call(get(), got("a", 3))
        ]));
        assert!(!in_turn([
            unknown,
            call(get(), got("a", 3)),
            call(get(), got("a", 4))
        ]));
    }

    #[test]
    fn conditions_hold() {
        let nx = |value| set(value, Condition::IfAbsent, None);
        let nex = |value| set(value, Condition::IfAbsentOrEqual, None);
        let kept = Answer::Set {
            applied: false,
            version: (1, 0),
        };
        assert!(in_turn([
            call(nx("a"), applied(1)),
            call(nx("b"), kept.clone())
        ]));
        assert!(!in_turn([
            call(nx("a"), applied(1)),
            call(nx("b"), applied(2))
        ]));
        assert!(!in_turn([call(nx("a"), kept.clone())]));
        assert!(in_turn([
            call(nex("a"), applied(1)),
            call(nex("a"), applied(2))
        ]));
        assert!(!in_turn([
            call(nex("a"), applied(1)),
            call(nex("a"), kept.clone())
        ]));
        assert!(in_turn([call(nex("a"), applied(1)), call(nex("b"), kept)]));
        let vdel = |value: &'static str| Action::Vdel {
            key: "k".into(),
            value: value.into(),
            token: None,
        };
        assert!(in_turn([
            call(put("a"), applied(1)),
            call(vdel("b"), Answer::Mismatch)
        ]));
        assert!(!in_turn([
            call(put("a"), applied(1)),
            call(vdel("a"), Answer::Mismatch)
        ]));
        assert!(!in_turn([
            call(put("a"), applied(1)),
            call(vdel("a"), Answer::Absent)
        ]));
        assert!(in_turn([
            call(vdel("a"), Answer::Absent),
            call(del(), Answer::Absent)
        ]));
        assert!(!in_turn([call(del(), Answer::Deleted(None))]));
    }

    #[test]
    fn fences_hold() {
        let fenced = |value, token| set(value, Condition::Always, Some(token));
        let required = || refused(ErrorKind::FencingTokenRequired);
        let lower = || refused(ErrorKind::FencingTokenLower);
        assert!(in_turn([
            call(fenced("a", 5), applied(1)),
            call(put("b"), required())
        ]));
        assert!(!in_turn([
            call(fenced("a", 5), applied(1)),
            call(put("b"), applied(2))
        ]));
        assert!(in_turn([
            call(fenced("a", 5), applied(1)),
            call(fenced("b", 4), lower())
        ]));
        assert!(!in_turn([
            call(fenced("a", 5), applied(1)),
            call(fenced("b", 4), applied(2))
        ]));
        assert!(!in_turn([
            call(fenced("a", 5), applied(1)),
            call(fenced("b", 5), lower())
        ]));
        assert!(!in_turn([call(put("a"), required())]));
        assert!(in_turn([
            call(fenced("a", 5), applied(1)),
            call(del(), required())
        ]));
    }

    #[test]
    fn an_expiry_needs_the_value_that_expires() {
        let expired = || Step::Expired { value: "a".into() };
        let nothing = || call(get(), Answer::Got(None));
        assert!(in_turn([call(put("a"), applied(1)), expired(), nothing()]));
        assert!(!in_turn([expired()]));
        assert!(!in_turn([call(put("b"), applied(1)), expired()]));
    }
}
