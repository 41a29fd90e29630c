//! How much of an engine is asked for at once.
//!
//! What the answers hold is not known before they come. A portion whose answer was too large, or did not come in time, is halved, and grows again by
//! and by while answers come soon: what is asked again gets through in the end, however large the neighbours are and however slow the way is.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Within such a time an answer has come soon: well before it is not waited for any longer.
const SOON: Duration = Duration::from_millis(500);

/// After such a time one has come late.
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

    /// A portion that begins smaller, since nothing is known of the size of the answers yet.
    pub(super) const fn beginning_with(now: usize, most: usize) -> Self {
        Self {
            most,
            now: AtomicUsize::new(now),
        }
    }

    /// How much may go into the next message, one at least.
    pub(super) fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// The answer to so much has come, after such a time. That of far less than there may be shows nothing.
    pub(super) fn came(&self, of: usize, took: Duration) {
        let now = self.now();
        if took < SOON && now < self.most && 2 * of >= now {
            let more = self.most.min(now + now / 4 + 1);
            self.now.store(more, Ordering::Relaxed);
        }
    }

    /// What was asked with so much was answered, or given up, after such a time.
    #[cfg(feature = "redis")]
    pub(super) fn took(&self, of: usize, took: Duration) {
        if took >= LATE {
            self.was_too_much(of);
        } else {
            self.came(of, took);
        }
    }

    /// A message with so much was too much.
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
        // What was sent before that says nothing more.
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
