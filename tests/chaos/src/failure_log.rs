//! The failures that a run has found.
use std::cell::RefCell;
use std::time::Instant;

/// All failures of a run. The first one ends the run.
#[derive(Debug)]
pub struct FailureLog {
    started: Instant,
    failures: RefCell<Vec<String>>,
}

impl Default for FailureLog {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            failures: RefCell::default(),
        }
    }
}

impl FailureLog {
    /// Records a failure and the time until it was found.
    pub fn add(&self, what: impl std::fmt::Display) {
        let after = self.started.elapsed().as_secs_f32();
        self.failures
            .borrow_mut()
            .push(format!("after {after:.1} s: {what}"));
    }

    /// Records the failure of a check, or returns its result.
    pub fn check<T>(&self, checked: Result<T, String>) -> Option<T> {
        checked.map_err(|problem| self.add(problem)).ok()
    }

    /// Whether there are no failures.
    pub fn is_empty(&self) -> bool {
        self.failures.borrow().is_empty()
    }

    /// Returns all failures.
    pub fn all(&self) -> Vec<String> {
        self.failures.borrow().clone()
    }
}
