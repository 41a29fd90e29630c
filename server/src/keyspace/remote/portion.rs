//! Size of the requests to an engine.
//!
//! The size of an answer is not known in advance. If an answer was too large or too late, the portion is halved. It grows again gradually
//! while answers arrive soon. A repeated request therefore succeeds in the end, however large the neighbouring entries are and however slow
//! the network is.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Time within which an answer is soon, well below the time limit.
const SOON: Duration = Duration::from_millis(500);

/// Time from which on an answer is late.
#[cfg(feature = "redis")]
const LATE: Duration = Duration::from_millis(1_500);

#[derive(Debug)]
pub(super) struct Portion {
    most: usize,
    now: AtomicUsize,
}

impl Portion {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            most,
            now: AtomicUsize::new(most),
        }
    }

    /// Creates a portion that begins smaller, because the size of the answers is still unknown.
    pub(super) const fn beginning_with(now: usize, most: usize) -> Self {
        Self {
            most,
            now: AtomicUsize::new(now),
        }
    }

    /// Returns the size of the next request, at least 1.
    pub(super) fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Records that the answer to a request of size `of` arrived after this time. The answer to a much smaller request than allowed shows
    /// nothing.
    pub(super) fn came(&self, of: usize, took: Duration) {
        let now = self.now();
        if took < SOON && now < self.most && 2 * of >= now {
            let more = self.most.min(now + now / 4 + 1);
            self.now.store(more, Ordering::Relaxed);
        }
    }

    /// Records that a request of size `of` was answered or abandoned after this time.
    #[cfg(feature = "redis")]
    pub(super) fn took(&self, of: usize, took: Duration) {
        if took >= LATE {
            self.was_too_much(of);
        } else {
            self.came(of, took);
        }
    }

    /// Records that a request of size `of` was too large.
    pub(super) fn was_too_much(&self, of: usize) {
        self.now.fetch_min((of / 2).max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_too_much_is_halved_and_grows_again_while_answers_come_soon() {
        let portion = Portion::new(100);
        portion.was_too_much(60);
        assert_eq!(portion.now(), 30);
        // Requests that were sent before have no further effect.
        portion.was_too_much(80);
        assert_eq!(portion.now(), 30);
        portion.came(30, SOON);
        portion.came(14, Duration::ZERO);
        assert_eq!(portion.now(), 30);
        portion.came(15, Duration::ZERO);
        assert_eq!(portion.now(), 38);
        for _ in 0..10 {
            portion.came(100, Duration::ZERO);
        }
        assert_eq!(portion.now(), 100);
        for _ in 0..10 {
            portion.was_too_much(portion.now());
        }
        assert_eq!(portion.now(), 1);
    }
}
