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
    pub const fn new(max: usize) -> Self {
        Self {
            max,
            current: AtomicUsize::new(max),
        }
    }

    /// Creates a size that begins smaller, because the size of the answers is still unknown.
    pub const fn starting_at(initial: usize, max: usize) -> Self {
        Self {
            max,
            current: AtomicUsize::new(initial),
        }
    }

    /// Returns the size of the next request, at least 1.
    pub fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Records that the answer to a request of this `size` arrived after this time. The answer to a much smaller request than allowed shows
    /// nothing.
    pub fn answered(&self, size: usize, elapsed: Duration) {
        let now = self.current();
        if elapsed < FAST && now < self.max && 2 * size >= now {
            let more = self.max.min(now + now / 4 + 1);
            self.current.store(more, Ordering::Relaxed);
        }
    }

    /// Records that a request of this `size` was answered or abandoned after this time.
    pub fn finished(&self, size: usize, elapsed: Duration) {
        if elapsed >= SLOW {
            self.too_large(size);
        } else {
            self.answered(size, elapsed);
        }
    }

    /// Records that a request of this `size` was too large.
    pub fn too_large(&self, size: usize) {
        self.current.fetch_min((size / 2).max(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_halved_when_too_large_and_grows_while_replies_are_fast() {
        let batch_size = AdaptiveBatchSize::new(100);
        batch_size.too_large(60);
        assert_eq!(batch_size.current(), 30);
        // Requests that were sent before have no further effect.
        batch_size.too_large(80);
        assert_eq!(batch_size.current(), 30);
        batch_size.answered(30, FAST);
        batch_size.answered(14, Duration::ZERO);
        assert_eq!(batch_size.current(), 30);
        batch_size.answered(15, Duration::ZERO);
        assert_eq!(batch_size.current(), 38);
        for _ in 0..10 {
            batch_size.answered(100, Duration::ZERO);
        }
        assert_eq!(batch_size.current(), 100);
        for _ in 0..10 {
            batch_size.too_large(batch_size.current());
        }
        assert_eq!(batch_size.current(), 1);
    }
}
