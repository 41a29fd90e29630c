//! Whether a history of overlapping operations can be explained by some order of them.
//!
//! The search of Wing and Gong with Lowe's memory of visited configurations. Operations are taken one after the other. An
//! operation can be taken if the model allows its result, and if every operation that ended before it began has been taken.
use std::collections::HashSet;
use std::hash::Hash;

/// The object of the operations, as a sequential model.
pub trait Model {
    /// The state of the object.
    type State: Clone + Eq + Hash;
    /// An operation and its result.
    type Step;

    /// Returns the state before all operations.
    fn initial(&self) -> Self::State;

    /// Returns the state after a step with its result; `None` if that result is impossible in this state.
    fn apply(&self, state: &Self::State, step: &Self::Step) -> Option<Self::State>;

    /// Whether a step with this result only reads the state, in any state.
    fn is_read(&self, step: &Self::Step) -> bool;

    /// Whether the result of a step is impossible in this state and in all later ones, which shortens the search.
    fn is_outdated(&self, _state: &Self::State, _step: &Self::Step) -> bool {
        false
    }

    /// Whether two steps certainly have the same effect in every state, which shortens the search.
    fn is_equivalent(&self, _one: &Self::Step, _other: &Self::Step) -> bool {
        false
    }
}

/// An operation with the time span of its effect.
#[derive(Debug, Clone)]
pub struct Interval<S> {
    /// Earliest time of the effect.
    pub from: u64,
    /// Latest time of the effect.
    pub to: u64,
    /// Whether the operation certainly took effect.
    pub is_certain: bool,
    /// The operation and its result.
    pub step: S,
}

/// The result of the search.
#[derive(Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// A valid order exists.
    Linearizable,
    /// No valid order exists. The best attempt took these operations, in this order, and could not continue.
    Violated(Vec<usize>),
    /// The search would take too long.
    Undecided,
}

/// The set of taken operations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TakenSet(Box<[u64]>);

impl TakenSet {
    fn contains(&self, index: usize) -> bool {
        self.0[index / 64] & (1 << (index % 64)) != 0
    }
    fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }
    /// Adds an operation. Uncertain operations that ended before it began are marked as taken too.
    fn with<S>(&self, index: usize, intervals: &[Interval<S>]) -> Self {
        let mut taken = self.clone();
        taken.insert(index);
        let begun = intervals[index].from;
        for (other, interval) in intervals.iter().enumerate() {
            if !interval.is_certain && interval.to < begun {
                taken.insert(other);
            }
        }
        taken
    }
}

/// A configuration, with its next options.
struct Frame<S> {
    taken: TakenSet,
    next: std::vec::IntoIter<(usize, S)>,
}

/// Searches for an order, through at most `max_visits` configurations.
pub fn check<M: Model>(
    model: &M,
    intervals: &[Interval<M::Step>],
    max_visits: usize,
) -> CheckResult {
    let nothing = TakenSet(vec![0; intervals.len().div_ceil(64)].into());
    let Some(first) = options(model, intervals, &nothing, &model.initial()) else {
        return CheckResult::Linearizable;
    };
    let mut visited = HashSet::new();
    let mut order = Vec::new();
    let mut best = Vec::new();
    let mut stack = vec![Frame {
        taken: nothing,
        next: first.into_iter(),
    }];
    while let Some(frame) = stack.last_mut() {
        let Some((index, state)) = frame.next.next() else {
            stack.pop();
            order.pop();
            continue;
        };
        let taken = frame.taken.with(index, intervals);
        if !visited.insert((taken.clone(), state.clone())) {
            continue;
        }
        if visited.len() > max_visits {
            return CheckResult::Undecided;
        }
        order.push(index);
        if order.len() > best.len() {
            best.clone_from(&order);
        }
        match options(model, intervals, &taken, &state) {
            None => return CheckResult::Linearizable,
            Some(next) => stack.push(Frame {
                taken,
                next: next.into_iter(),
            }),
        }
    }
    CheckResult::Violated(best)
}

/// Returns the operations that can be taken next, each with the state after it; `None` if all certain operations are taken.
fn options<M: Model>(
    model: &M,
    intervals: &[Interval<M::Step>],
    taken: &TakenSet,
    state: &M::State,
) -> Option<Vec<(usize, M::State)>> {
    let left = || (0..intervals.len()).filter(|index| !taken.contains(*index));
    let mut first_end = None;
    for interval in left().map(|index| &intervals[index]) {
        if interval.is_certain {
            if model.is_outdated(state, &interval.step) {
                return Some(Vec::new());
            }
            first_end = Some(first_end.unwrap_or(u64::MAX).min(interval.to));
        }
    }
    let first_end = first_end?;
    let uncertain = left().filter(|index| !intervals[*index].is_certain);
    let first_missed = uncertain.map(|index| intervals[index].to).min();
    let first_missed = first_missed.unwrap_or(u64::MAX);
    // Two uncertain operations may be alike. The one that could only have happened earlier goes first: in every order with the
    // other one first, the two can be swapped.
    let goes_behind = |index: usize| {
        let this = &intervals[index];
        left().any(|other| {
            let before = &intervals[other];
            (before.from, before.to, other) < (this.from, this.to, index)
                && before.to <= this.to
                && !before.is_certain
                && model.is_equivalent(&before.step, &this.step)
        })
    };
    let mut options = Vec::new();
    for index in left() {
        let interval = &intervals[index];
        if interval.from > first_end || !interval.is_certain && goes_behind(index) {
            continue;
        }
        let Some(next) = model.apply(state, &interval.step) else {
            continue;
        };
        if next != *state {
            options.push((index, next));
        } else if interval.is_certain
            && interval.from <= first_missed
            && model.is_read(&interval.step)
        {
            // A read that is taken now does not rule out any other order.
            return Some(vec![(index, next)]);
        } else if interval.is_certain {
            options.push((index, next));
        }
    }
    // The operation with the earliest end is the best guess.
    options.sort_by_key(|(index, _)| intervals[*index].to);
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register of numbers with the initial value 0.
    struct Register;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum RegisterStep {
        Read(u32),
        Write(u32),
        /// A compare-and-set, and whether it was applied.
        Swap(u32, u32, bool),
    }
    use RegisterStep::{Read, Swap, Write};

    impl Model for Register {
        type State = u32;
        type Step = RegisterStep;

        fn initial(&self) -> u32 {
            0
        }
        fn apply(&self, state: &u32, step: &RegisterStep) -> Option<u32> {
            match *step {
                Read(value) => (value == *state).then_some(*state),
                Write(value) => Some(value),
                Swap(from, to, done) => {
                    ((*state == from) == done).then_some(if done { to } else { *state })
                }
            }
        }
        fn is_read(&self, step: &RegisterStep) -> bool {
            matches!(step, Read(_) | Swap(_, _, false))
        }
        fn is_equivalent(&self, one: &RegisterStep, other: &RegisterStep) -> bool {
            one == other
        }
    }

    fn check_history(history: &[(u64, u64, RegisterStep)]) -> CheckResult {
        let intervals: Vec<_> = history
            .iter()
            .map(|&(from, to, step)| Interval {
                from,
                to,
                is_certain: to != UNKNOWN,
                step,
            })
            .collect();
        check(&Register, &intervals, 100_000)
    }
    fn is_linearizable(history: &[(u64, u64, RegisterStep)]) -> bool {
        match check_history(history) {
            CheckResult::Linearizable => true,
            CheckResult::Violated(_) => false,
            CheckResult::Undecided => panic!("undecided"),
        }
    }
    const UNKNOWN: u64 = u64::MAX;

    #[test]
    fn an_empty_history_is_linearizable() {
        assert!(is_linearizable(&[]));
    }

    #[test]
    fn a_read_sees_the_last_write() {
        assert!(is_linearizable(&[(0, 1, Write(1)), (2, 3, Read(1))]));
        assert!(!is_linearizable(&[(0, 1, Write(1)), (2, 3, Read(0))]));
        assert!(!is_linearizable(&[(0, 1, Write(1)), (2, 3, Read(2))]));
        assert!(!is_linearizable(&[
            (0, 1, Write(1)),
            (2, 3, Write(2)),
            (4, 5, Read(1))
        ]));
    }

    #[test]
    fn a_read_that_overlaps_a_write_sees_the_old_value_or_the_new_one() {
        assert!(is_linearizable(&[
            (0, 10, Write(1)),
            (2, 3, Read(0)),
            (4, 5, Read(1))
        ]));
        assert!(!is_linearizable(&[
            (0, 10, Write(1)),
            (2, 3, Read(1)),
            (4, 5, Read(0))
        ]));
    }

    #[test]
    fn all_readers_agree_on_the_order_of_concurrent_writes() {
        let writes = [(0, 100, Write(1)), (0, 100, Write(2))];
        let agreed = [
            (1, 2, Read(1)),
            (1, 2, Read(1)),
            (5, 6, Read(2)),
            (5, 6, Read(2)),
        ];
        let disagreed = [(1, 2, Read(1)), (5, 6, Read(2)), (7, 8, Read(1))];
        assert!(is_linearizable(&[&writes[..], &agreed].concat()));
        assert!(!is_linearizable(&[&writes[..], &disagreed].concat()));
    }

    #[test]
    fn an_operation_of_unknown_outcome_may_take_effect_late_or_never_but_not_before_its_call() {
        assert!(is_linearizable(&[
            (5, UNKNOWN, Write(1)),
            (6, 7, Read(0)),
            (90, 91, Read(1))
        ]));
        assert!(is_linearizable(&[
            (5, UNKNOWN, Write(1)),
            (6, 7, Read(0)),
            (90, 91, Read(0))
        ]));
        assert!(!is_linearizable(&[(5, UNKNOWN, Write(1)), (1, 2, Read(1))]));
        let mut bounded =
            [(0, UNKNOWN, Write(1)), (3, 4, Read(0)), (10, 11, Read(1))].map(|(from, to, step)| {
                Interval {
                    from,
                    to,
                    is_certain: to != UNKNOWN,
                    step,
                }
            });
        assert_eq!(check(&Register, &bounded, 1000), CheckResult::Linearizable);
        bounded[0].to = 2;
        assert_eq!(
            check(&Register, &bounded, 1000),
            CheckResult::Violated(vec![0])
        );
        bounded[1].step = Read(1);
        assert_eq!(check(&Register, &bounded, 1000), CheckResult::Linearizable);
        // ... and at most once.
        assert!(!is_linearizable(&[
            (5, UNKNOWN, Write(1)),
            (10, 11, Read(1)),
            (12, 13, Write(2)),
            (14, 15, Read(2)),
            (16, 17, Read(1)),
        ]));
    }

    #[test]
    fn a_lost_update_is_found() {
        assert!(is_linearizable(&[
            (0, 9, Swap(0, 1, true)),
            (0, 9, Swap(1, 2, true)),
            (10, 11, Read(2))
        ]));
        assert!(!is_linearizable(&[
            (0, 9, Swap(0, 1, true)),
            (0, 9, Swap(0, 2, true)),
            (10, 11, Read(2))
        ]));
        assert!(!is_linearizable(&[(0, 1, Swap(0, 1, false))]));
    }

    #[test]
    fn equal_times_count_as_overlapping() {
        assert!(is_linearizable(&[(0, 5, Write(1)), (5, 9, Read(0))]));
        assert!(!is_linearizable(&[(0, 5, Write(1)), (6, 9, Read(0))]));
    }

    #[test]
    fn the_best_attempt_is_reported() {
        let history = [(0, 1, Write(7)), (2, 3, Read(7)), (4, 5, Read(8))];
        assert_eq!(check_history(&history), CheckResult::Violated(vec![0, 1]));
    }

    #[test]
    fn a_search_over_the_limit_is_undecided() {
        let mut history: Vec<_> = (1..=12).map(|value| (0, 100, Write(value))).collect();
        history.push((200, 201, Read(99)));
        let intervals: Vec<_> = history
            .into_iter()
            .map(|(from, to, step)| Interval {
                from,
                to,
                is_certain: true,
                step,
            })
            .collect();
        assert_eq!(check(&Register, &intervals, 1000), CheckResult::Undecided);
    }

    #[test]
    fn equivalent_operations_are_tried_in_one_order_only() {
        let mut history: Vec<_> = (0..40).map(|from| (from, UNKNOWN, Write(1))).collect();
        for round in 0..20 {
            let at = 100 + round * 10;
            history.push((at, at + 1, Read(1)));
            history.push((at + 2, at + 3, Write(2)));
        }
        assert!(is_linearizable(&history));
        history.push((900, 901, Read(3)));
        assert!(!is_linearizable(&history));
    }

    /// A register that only rises: lower numbers are outdated.
    struct RisingRegister;

    impl Model for RisingRegister {
        type State = u32;
        type Step = RegisterStep;

        fn initial(&self) -> u32 {
            0
        }
        fn apply(&self, state: &u32, step: &RegisterStep) -> Option<u32> {
            let next = Register.apply(state, step)?;
            (next >= *state).then_some(next)
        }
        fn is_read(&self, step: &RegisterStep) -> bool {
            Register.is_read(step)
        }
        fn is_outdated(&self, state: &u32, step: &RegisterStep) -> bool {
            match *step {
                Read(value) | Write(value) => value < *state,
                Swap(from, to, true) => from < *state || to < *state,
                Swap(..) => false,
            }
        }
    }

    /// Compares the search with trying all orders, on small random histories, right and wrong ones.
    #[test]
    fn the_search_agrees_with_trying_all_orders() {
        agrees_with_trying_all_orders(&Register, 1000);
    }

    #[test]
    fn outdated_results_do_not_change_the_result() {
        agrees_with_trying_all_orders(&RisingRegister, 500);
    }

    fn agrees_with_trying_all_orders(
        model: &impl Model<State = u32, Step = RegisterStep>,
        least: u32,
    ) {
        let mut chance = crate::seeded_rng::SeededRng::new(1);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..6000 {
            let history: Vec<_> = (0..chance.between(1, 6))
                .map(|_| {
                    let from = chance.below(12);
                    let value = u32::try_from(chance.below(3)).unwrap();
                    Interval {
                        from,
                        to: from + chance.below(6),
                        is_certain: chance.percent(75),
                        step: match chance.below(4) {
                            0 | 1 => Read(value),
                            2 => Write(value),
                            _ => Swap(value, 2 - value, chance.percent(50)),
                        },
                    }
                })
                .collect();
            let expected =
                some_order_is_valid(model, &history, 0, 0, &mut vec![false; history.len()]);
            let verdict = check(model, &history, 100_000);
            assert_eq!(
                verdict == CheckResult::Linearizable,
                expected,
                "{history:?}"
            );
            if expected { good += 1 } else { bad += 1 }
        }
        assert!(good > least && bad > least, "{good} {bad}");
    }

    fn some_order_is_valid(
        model: &impl Model<State = u32, Step = RegisterStep>,
        history: &[Interval<RegisterStep>],
        state: u32,
        begun: u64,
        taken: &mut [bool],
    ) -> bool {
        if (0..history.len()).all(|index| taken[index] || !history[index].is_certain) {
            return true;
        }
        for index in 0..history.len() {
            let this = &history[index];
            let is_passed = |other: usize| {
                !taken[other] && history[other].is_certain && history[other].to < this.from
            };
            if taken[index] || this.to < begun || (0..history.len()).any(is_passed) {
                continue;
            }
            if let Some(next) = model.apply(&state, &this.step) {
                taken[index] = true;
                let holds = some_order_is_valid(model, history, next, begun.max(this.from), taken);
                taken[index] = false;
                if holds {
                    return true;
                }
            }
        }
        false
    }
}
