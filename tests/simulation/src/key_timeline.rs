//! The course of a key according to the store, and whether the calls fit along it.
//!
//! The log of the store makes the search short: each change belongs to one call, and each answer comes between two changes. An
//! order that is found along it is also allowed by the [register], so it is a valid result. This helps where
//! identical calls of unknown outcome make the usual search long.
use crate::ground_truth::{GroundTruth, StoredChange};
use crate::history::Version;
use crate::linearizability::{CheckResult, Interval, Model, check};
use crate::register::{self, Register, RegisterStep};
use bytes::Bytes;

/// The changes of a key, in their order.
#[derive(Debug)]
pub(crate) struct KeyTimeline {
    register: Register,
    changes: Vec<TimelineChange>,
}

#[derive(Debug)]
struct TimelineChange {
    /// Span of the change in the order of all events: not before the first, nor after the second.
    span: (u64, u64),
    kind: ChangeKind,
}

#[derive(Debug)]
enum ChangeKind {
    Entry {
        value: Bytes,
        version: Version,
        /// The stored part, with the fencing token; `None` without a disk.
        stored: Option<StoredChange>,
    },
    Removed,
    Expired,
    Lost,
}

/// The number of changes that have happened, and the state of the key after them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TimelinePosition {
    changes: usize,
    state: register::State,
}

/// A step with the time span of its effect.
#[derive(Debug)]
pub(crate) struct TimedStep {
    from: u64,
    to: u64,
    step: RegisterStep,
}

impl KeyTimeline {
    /// Creates the course of this key.
    pub(crate) fn new(truth: &GroundTruth, key: &[u8]) -> Self {
        let mut changes: Vec<_> = truth
            .changes_of(key)
            .map(|change| TimelineChange {
                span: change.span,
                kind: match (&change.value, change.version) {
                    (Some(value), Some(version)) => ChangeKind::Entry {
                        value: value.clone(),
                        version,
                        stored: change.stored.clone(),
                    },
                    _ if change.expired.is_some() => ChangeKind::Expired,
                    _ => ChangeKind::Removed,
                },
            })
            .collect();
        changes.extend(truth.losses.iter().map(|(_, stamp)| TimelineChange {
            span: (*stamp, *stamp),
            kind: ChangeKind::Lost,
        }));
        // The last observation before a loss happened before that loss.
        changes.sort_by_key(|change| change.span.1);
        let may_be_lost = !truth.losses.is_empty();
        Self {
            register: Register { may_be_lost },
            changes,
        }
    }

    /// Whether some order of the calls fits along the course. The search visits a limited number of configurations.
    pub(crate) fn allows(&self, intervals: &[Interval<RegisterStep>], max_visits: usize) -> bool {
        let timed: Vec<_> = intervals
            .iter()
            .map(|interval| Interval {
                from: interval.from,
                to: interval.to,
                is_certain: interval.is_certain,
                step: TimedStep {
                    from: interval.from,
                    to: interval.to,
                    step: interval.step.clone(),
                },
            })
            .collect();
        check(self, &timed, max_visits) == CheckResult::Linearizable
    }

    /// Returns the place after the next change, if a step that leaves the key in this state can have made that change.
    fn advance(
        &self,
        passed: usize,
        timed: &TimedStep,
        next: register::State,
    ) -> Option<TimelinePosition> {
        let TimelineChange { span, kind: made } = self.changes.get(passed)?;
        if timed.from > span.1 || timed.to < span.0 {
            return None;
        }
        let state = match (made, &timed.step, &next.entry) {
            (
                ChangeKind::Entry {
                    value,
                    version,
                    stored,
                },
                RegisterStep::Call(..),
                Some(entry),
            ) if entry.value == *value
                && stored
                    .as_ref()
                    .is_none_or(|stored| stored.token == entry.token) =>
            {
                register::learn_version(&next, *version)?
            }
            (ChangeKind::Removed, RegisterStep::Call(..), None)
            | (ChangeKind::Expired, RegisterStep::Expired { .. }, None)
            | (ChangeKind::Lost, RegisterStep::Lost, None) => next,
            _ => return None,
        };
        Some(TimelinePosition {
            changes: passed + 1,
            state,
        })
    }
}

impl Model for KeyTimeline {
    type State = TimelinePosition;
    type Step = TimedStep;

    fn initial(&self) -> TimelinePosition {
        TimelinePosition {
            changes: 0,
            state: self.register.initial(),
        }
    }

    fn apply(&self, place: &TimelinePosition, timed: &TimedStep) -> Option<TimelinePosition> {
        let next = self.register.apply(&place.state, &timed.step)?;
        if register::is_change(&place.state, &timed.step) {
            return self.advance(place.changes, timed, next);
        }
        // The step must be able to happen before the next change.
        let following = self.changes.get(place.changes);
        let is_in_time = following.is_none_or(|change| timed.from <= change.span.1);
        is_in_time.then(|| TimelinePosition {
            changes: place.changes,
            state: next,
        })
    }

    fn is_read(&self, timed: &TimedStep) -> bool {
        self.register.is_read(&timed.step)
    }

    fn is_outdated(&self, place: &TimelinePosition, timed: &TimedStep) -> bool {
        let last = place.changes.checked_sub(1).map(|last| &self.changes[last]);
        last.is_some_and(|change| timed.to < change.span.0)
            || self.register.is_outdated(&place.state, &timed.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{CallResult, Invocation, token};
    use statestore::Condition;

    const KEY: &str = "k";
    /// Number of identical calls; only their tokens differ.
    const CALLS: u64 = 60;

    fn interval(
        from: u64,
        to: u64,
        action: Invocation,
        answer: Option<CallResult>,
    ) -> Interval<RegisterStep> {
        Interval {
            from,
            to,
            is_certain: answer.is_some(),
            step: RegisterStep::Call(action, answer),
        }
    }

    fn lease(number: u64) -> Invocation {
        Invocation::Set {
            key: KEY.into(),
            value: "lease".into(),
            condition: Condition::IfAbsentOrEqual,
            px: None,
            token: token(usize::try_from(number).unwrap(), number),
        }
    }

    fn got(version: u64) -> CallResult {
        CallResult::Read(Some(("lease".into(), (version, 0))))
    }

    /// Returns the calls of a lease that every third of many calls renewed. The outcome of the renewals is unknown, and each of
    /// them may have happened at any time. Reads happened in the meantime.
    fn renewals(read: impl Fn(u64) -> u64) -> (GroundTruth, Vec<Interval<RegisterStep>>) {
        let (mut truth, mut intervals) = (GroundTruth::default(), Vec::new());
        for number in 0..CALLS {
            intervals.push(interval(number, 1000, lease(number), None));
        }
        for number in (0..CALLS).step_by(3) {
            truth.start_span(100 + number);
            let stored = StoredChange {
                token: token(usize::try_from(number).unwrap(), number),
                batch: (1, number),
            };
            let version = (number, 0);
            truth.put(0, KEY.into(), "lease".into(), version, None, Some(stored));
            truth.start_span(101 + number);
            let get = Invocation::Get { key: KEY.into() };
            let answer = Some(got(read(number)));
            intervals.push(interval(101 + number, 102 + number, get, answer));
        }
        (truth, intervals)
    }

    #[test]
    fn calls_that_differ_only_in_their_tokens_are_distinguished() {
        let (truth, intervals) = renewals(|number| number);
        assert!(KeyTimeline::new(&truth, KEY.as_bytes()).allows(&intervals, 2000));
    }

    #[test]
    fn a_result_that_the_store_never_had_is_rejected() {
        let (truth, intervals) = renewals(|number| number / 2);
        assert!(!KeyTimeline::new(&truth, KEY.as_bytes()).allows(&intervals, 100_000));
        let (truth, intervals) = renewals(|number| number + u64::from(number == 33));
        assert!(!KeyTimeline::new(&truth, KEY.as_bytes()).allows(&intervals, 100_000));
    }

    #[test]
    fn a_read_lies_between_two_changes() {
        let mut truth = GroundTruth::default();
        let set = |value: &'static str| Invocation::Set {
            key: KEY.into(),
            value: value.into(),
            condition: Condition::Always,
            px: None,
            token: None,
        };
        let applied = |version| CallResult::Set {
            applied: true,
            version: (version, 0),
        };
        truth.start_span(2);
        truth.put(0, KEY.into(), "a".into(), (1, 0), None, None);
        truth.start_span(10);
        truth.put(0, KEY.into(), "b".into(), (2, 0), None, None);
        let writes = [
            interval(0, 2, set("a"), Some(applied(1))),
            interval(0, 10, set("b"), Some(applied(2))),
        ];
        let holds = |from, to, answer| {
            let get = Invocation::Get { key: KEY.into() };
            let read = interval(from, to, get, Some(CallResult::Read(answer)));
            let intervals = [&writes[..], &[read]].concat();
            KeyTimeline::new(&truth, KEY.as_bytes()).allows(&intervals, 1000)
        };
        let (a, b) = (Some(("a".into(), (1, 0))), Some((Bytes::from("b"), (2, 0))));
        assert!(holds(0, 1, None));
        assert!(!holds(3, 4, None));
        assert!(holds(3, 9, a.clone()));
        assert!(!holds(11, 12, a));
        assert!(holds(3, 9, b.clone()));
        assert!(!holds(0, 1, b));
    }
}
