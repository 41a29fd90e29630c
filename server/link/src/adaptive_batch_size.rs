//! Size of the requests to an engine.
//!
//! The size of an answer is not known in advance. If an answer was too large or too late, the portion is halved. It grows again gradually
//! while answers arrive soon. A repeated request therefore succeeds in the end, however large the neighbouring entries are and however slow
//! the network is.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Time within which an answer is soon, well below the time limit.
const FAST: Duration = Duration::from_millis(500);

/// Time from which on an answer is late.
const SLOW: Duration = Duration::from_millis(1_500);

/// The maximum size of a request, adapted to how its answers arrive.
#[derive(Debug)]
pub struct AdaptiveBatchSize {
    max: usize,
    current: AtomicUsize,
}

impl AdaptiveBatchSize {
    /// Creates a size that begins at its maximum.
    pub const fn new(most: usize) -> Self {
        Self {
            max: most,
            current: AtomicUsize::new(most),
        }
    }

    /// Creates a portion that begins smaller, because the size of the answers is still unknown.
    pub const fn starting_at(now: usize, most: usize) -> Self {
        Self {
            max: most,
            current: AtomicUsize::new(now),
        }
    }

    /// Returns the size of the next request, at least 1.
    pub fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Records that the answer to a request of size `of` arrived after this time. The answer to a much smaller request than allowed shows
    /// nothing.
    pub fn answered(&self, of: usize, took: Duration) {
        let now = self.current();
        if took < FAST && now < self.max && 2 * of >= now {
            let more = self.max.min(now + now / 4 + 1);
            self.current.store(more, Ordering::Relaxed);
        }
    }

    /// Records that a request of size `of` was answered or abandoned after this time.
    pub fn finished(&self, of: usize, took: Duration) {
        if took >= SLOW {
            self.too_large(of);
        } else {
            self.answered(of, took);
        }
    }

    /// Records that a request of size `of` was too large.
    pub fn too_large(&self, of: usize) {
        self.current.fetch_min((of / 2).max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_halved_when_too_large_and_grows_while_replies_are_fast() {
        let portion = AdaptiveBatchSize::new(100);
        portion.too_large(60);
        assert_eq!(portion.current(), 30);
        // Requests that were sent before have no further effect.
        portion.too_large(80);
        assert_eq!(portion.current(), 30);
        portion.answered(30, FAST);
        portion.answered(14, Duration::ZERO);
        assert_eq!(portion.current(), 30);
        portion.answered(15, Duration::ZERO);
        assert_eq!(portion.current(), 38);
        for _ in 0..10 {
            portion.answered(100, Duration::ZERO);
        }
        assert_eq!(portion.current(), 100);
        for _ in 0..10 {
            portion.too_large(portion.current());
        }
        assert_eq!(portion.current(), 1);
    }
}
