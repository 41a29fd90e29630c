//! Timers, in order of their time.
use std::collections::BTreeSet;

/// Time of a timer. Its owner keeps it, so that the timer can be removed.
#[derive(Debug, Default)]
pub struct Timer(Option<u64>);

/// Timers of owners `O`, one each, ordered by time in milliseconds of the monotonic clock.
#[derive(Debug)]
pub struct TimerQueue<O> {
    due: BTreeSet<(u64, O)>,
}

impl<O> Default for TimerQueue<O> {
    fn default() -> Self {
        Self {
            due: BTreeSet::new(),
        }
    }
}

impl<O: Ord + Copy> TimerQueue<O> {
    /// Sets, moves or, with `None`, removes the timer of `owner`.
    pub fn set(&mut self, timer: &mut Timer, owner: O, at_ms: Option<u64>) {
        if let Some(old) = timer.0.take() {
            self.due.remove(&(old, owner));
        }
        if let Some(at_ms) = at_ms {
            self.due.insert((at_ms, owner));
        }
        timer.0 = at_ms;
    }

    /// Returns the time of the next timer.
    pub fn next_ms(&self) -> Option<u64> {
        self.due.first().map(|(at_ms, _)| *at_ms)
    }

    /// Removes a timer that is due, and returns its owner. The owner's [`Timer`] may be set again.
    pub fn pop(&mut self, now_ms: u64) -> Option<O> {
        if self.next_ms()? > now_ms {
            return None;
        }
        self.due.pop_first().map(|(_, owner)| owner)
    }
}
