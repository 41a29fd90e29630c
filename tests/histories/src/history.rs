//! The calls on keys, and whether their results are possible.
use crate::call::Call;
use crate::register::Register;
use simulation::linearizability::{self, CheckResult, Interval};
use std::collections::BTreeMap;

/// Maximum number of configurations in a search for an order.
const MAX_VISITS: usize = 20_000_000;

/// All calls.
#[derive(Debug, Default)]
pub struct CallHistory {
    by_key: BTreeMap<String, Vec<Interval<Call>>>,
    calls: usize,
    unknown: usize,
}

impl CallHistory {
    /// Records a call on a key, with its start and end. Calls that certainly did not happen must not be recorded.
    pub fn add(&mut self, key: String, from: u64, to: u64, call: Call) {
        let is_certain = call.result.is_some();
        self.calls += 1;
        self.unknown += usize::from(!is_certain);
        let interval = Interval {
            from,
            // A call of unknown outcome may take effect at any time.
            to: if is_certain { to } else { u64::MAX },
            is_certain,
            step: call,
        };
        self.by_key.entry(key).or_default().push(interval);
    }

    /// Returns the number of calls that ended, and of those with an unknown outcome.
    pub fn counts(&self) -> (usize, usize) {
        (self.calls, self.unknown)
    }

    /// Checks the calls on the keys that are over, and drops them. Returns the number of these keys.
    ///
    /// # Errors
    /// A history that a single store could not have produced, or a key whose search would take too long.
    pub fn check_finished(&mut self, is_over: impl Fn(&str) -> bool) -> Result<usize, String> {
        let mut settled = 0;
        let keys: Vec<_> = self
            .by_key
            .keys()
            .filter(|key| is_over(key))
            .cloned()
            .collect();
        for key in keys {
            let intervals = self.by_key.remove(&key).unwrap_or_default();
            match linearizability::check(&Register, &intervals, MAX_VISITS) {
                CheckResult::Linearizable => settled += 1,
                CheckResult::Undecided => {
                    return Err(format!(
                        "{key}: it would take too long to know: {intervals:#?}"
                    ));
                }
                CheckResult::Violated(order) => {
                    return Err(format!(
                        "{key}: no order explains this, at most {order:?}: {intervals:#?}"
                    ));
                }
            }
        }
        Ok(settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{CallResult, Invocation};
    use statestore::Hlc;

    fn completed_call(told: CallResult) -> Call {
        let asked = match told {
            CallResult::Applied(_) => Invocation::Set(1, None),
            _ => Invocation::Get,
        };
        let told = Some(told);
        Call {
            invocation: asked,
            result: told,
        }
    }

    #[test]
    fn keys_are_checked_independently_and_dropped() {
        let version = Hlc::new(1, 0, "s").expect("a clock");
        let mut history = CallHistory::default();
        history.add(
            "good".into(),
            1,
            2,
            completed_call(CallResult::Applied(version)),
        );
        history.add("bad".into(), 1, 2, completed_call(CallResult::Read(None)));
        let version = Hlc::new(2, 0, "s").expect("a clock");
        history.add(
            "bad".into(),
            3,
            4,
            completed_call(CallResult::Read(Some((9, version)))),
        );
        let unknown = Call {
            invocation: Invocation::Del,
            result: None,
        };
        history.add("good".into(), 3, 4, unknown);
        assert_eq!(history.counts(), (4, 1));
        assert_eq!(history.check_finished(|key| key == "good"), Ok(1));
        assert_eq!(history.check_finished(|key| key == "good"), Ok(0));
        let problem = history
            .check_finished(|_| true)
            .expect_err("nobody has set 9");
        assert!(
            problem.starts_with("bad: no order explains this"),
            "{problem}"
        );
        assert_eq!(history.check_finished(|_| true), Ok(0));
    }
}
