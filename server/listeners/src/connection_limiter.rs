//! A limit of connections, including those in a handshake.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter of connections, shared by all threads.
#[derive(Debug, Clone)]
pub struct ConnectionLimiter(Arc<LimiterState>);

#[derive(Debug)]
struct LimiterState {
    taken: AtomicUsize,
    max: AtomicUsize,
}

/// A permit for one connection; returned when it is dropped.
#[derive(Debug)]
pub struct ConnectionPermit(Arc<LimiterState>);

impl ConnectionLimiter {
    /// Creates a limiter of this number of connections.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(LimiterState {
            taken: AtomicUsize::new(0),
            max: AtomicUsize::new(max),
        }))
    }

    /// Changes the limit. Existing connections beyond it stay.
    pub fn set_max(&self, max: usize) {
        self.0.max.store(max, Ordering::Relaxed);
    }

    /// Returns a permit; `None` if all are taken.
    pub fn try_acquire(&self) -> Option<ConnectionPermit> {
        let max = self.0.max.load(Ordering::Relaxed);
        let one_more = |taken: usize| (taken < max).then_some(taken + 1);
        // The value guards no other memory.
        self.0
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()
            .map(|_| ConnectionPermit(Arc::clone(&self.0)))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_permit_can_be_acquired_again() {
        let limiter = ConnectionLimiter::new(2);
        let permits = [limiter.try_acquire(), limiter.try_acquire()];
        assert!(permits.iter().all(Option::is_some) && limiter.try_acquire().is_none());
        drop(permits);
        assert!(limiter.try_acquire().is_some());
    }
}
