//! Outcomes of requests whose future was dropped.
use crate::error::Outcome;
use std::cell::Cell;

thread_local! {
    /// Outcome of the requests dropped on this thread since the innermost [`CancellationRecorder::begin`].
    static NOTED: Cell<Option<Outcome>> = const { Cell::new(None) };
}

/// Recorder of the outcome of requests whose futures are dropped before they complete. It serves bindings to other languages,
/// whose callers can cancel a call.
///
/// ```
/// use statestore::{CancellationRecorder, Outcome};
///
/// # let future = std::future::pending::<()>();
/// let recorder = CancellationRecorder::begin();
/// drop(future);
/// // No request was under way in it, so nothing is known.
/// assert_eq!(recorder.outcome(), None);
/// ```
#[derive(Debug)]
pub struct CancellationRecorder {
    /// Outcome recorded so far by an enclosing recorder; restored on drop.
    previous: Option<Outcome>,
}

impl CancellationRecorder {
    /// Starts recording the outcome of requests that are dropped on this thread.
    pub fn begin() -> Self {
        Self {
            previous: NOTED.try_with(Cell::take).unwrap_or_default(),
        }
    }

    /// Returns the outcome of the requests dropped on this thread since the last [`begin`](Self::begin).
    ///
    /// - [`Outcome::NotDone`]: no request was or will be executed, or the executed ones are harmless, such as reads.
    /// - [`Outcome::Unknown`]: at least one request may have changed something.
    /// - `None`: no request was dropped.
    pub fn outcome(&self) -> Option<Outcome> {
        Self::recorded()
    }

    /// Returns the same as [`outcome`](Self::outcome), for use in a `Drop` implementation.
    pub fn recorded() -> Option<Outcome> {
        NOTED.try_with(Cell::get).unwrap_or_default()
    }
}

impl Drop for CancellationRecorder {
    fn drop(&mut self) {
        let before = self.previous;
        // The recorder of an ending thread may be gone.
        let _ = NOTED.try_with(|noted| noted.set(before));
    }
}

/// Records the outcome of a dropped request.
pub(super) fn record(outcome: Outcome) {
    let _ = NOTED.try_with(|noted| {
        if noted.get() != Some(Outcome::Unknown) {
            noted.set(Some(outcome));
        }
    });
}

/// Guard of a call of several requests that may already have changed something. If it is dropped before [`disarm`](Self::disarm), the
/// outcome of the call is recorded as unknown, whatever happens to the current request.
#[derive(Debug, Default)]
pub(super) struct UnknownOutcomeGuard {
    is_armed: bool,
}

impl UnknownOutcomeGuard {
    /// Marks that a request was executed, or may have been.
    pub(super) fn arm(&mut self) {
        self.is_armed = true;
    }

    /// Disarms the guard: the call has ended and reports its own outcome.
    pub(super) fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for UnknownOutcomeGuard {
    fn drop(&mut self) {
        if self.is_armed {
            record(Outcome::Unknown);
        }
    }
}
