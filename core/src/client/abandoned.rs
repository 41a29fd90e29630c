//! What became of calls whose future was dropped.
use crate::error::Outcome;
use std::cell::Cell;

thread_local! {
    /// Of the requests that were dropped on this thread.
    static NOTED: Cell<Option<Outcome>> = const { Cell::new(None) };
}

/// What is known about requests whose futures are dropped before their end, for those who have to say so: a binding to
/// another language whose caller cancels.
///
/// ```
/// use statestore::{Abandoned, Outcome};
///
/// # let future = std::future::pending::<()>();
/// let abandoned = Abandoned::begin();
/// drop(future);
/// // No request was under way in it, so nothing is known.
/// assert_eq!(abandoned.outcome(), None);
/// ```
#[derive(Debug)]
pub struct Abandoned {
    /// Of whoever looks at more than this.
    before: Option<Outcome>,
}

impl Abandoned {
    /// From now on it is noted what becomes of requests that are dropped on this thread.
    pub fn begin() -> Self {
        Self {
            before: NOTED.try_with(Cell::take).unwrap_or_default(),
        }
    }

    /// Of the requests that were dropped on this thread since the last [`begin`](Self::begin): [`Outcome::NotDone`] if none of
    /// them was or will be carried out, or those that are do no harm, as reading does; [`Outcome::Unknown`] otherwise;
    /// `None` if there were none.
    pub fn outcome(&self) -> Option<Outcome> {
        Self::noted()
    }

    /// [`outcome`](Self::outcome), for what is itself being dropped.
    pub fn noted() -> Option<Outcome> {
        NOTED.try_with(Cell::get).unwrap_or_default()
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let before = self.before;
        // A thread that is ending looks at nothing any more.
        let _ = NOTED.try_with(|noted| noted.set(before));
    }
}

/// A request was dropped.
pub(super) fn note(outcome: Outcome) {
    let _ = NOTED.try_with(|noted| {
        if noted.get() != Some(Outcome::Unknown) {
            noted.set(Some(outcome));
        }
    });
}

/// That a call of several requests may have done something already. If the call is dropped then, nothing is known of it as a whole,
/// whatever becomes of the request that is under way.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    is_there: bool,
}

impl Doubt {
    /// Something was carried out, or may have been.
    pub(crate) fn begin(&mut self) {
        self.is_there = true;
    }

    /// The call has ended, and says itself what became of it.
    pub(crate) fn end(mut self) {
        self.is_there = false;
    }
}

impl Drop for Doubt {
    fn drop(&mut self) {
        if self.is_there {
            note(Outcome::Unknown);
        }
    }
}
