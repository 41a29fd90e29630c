//! A limit of connections, including those in a handshake.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter of connections, shared by all threads.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    taken: AtomicUsize,
    most: AtomicUsize,
}

/// The place of a connection; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Counter>);

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Counter {
            taken: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
        }))
    }

    /// Changes the limit. Existing connections beyond it stay.
    pub(crate) fn set_most(&self, most: usize) {
        self.0.most.store(most, Ordering::Relaxed);
    }

    /// Takes a place; `None` if all are taken.
    pub(crate) fn take(&self) -> Option<Place> {
        let most = self.0.most.load(Ordering::Relaxed);
        let one_more = |taken: usize| (taken < most).then_some(taken + 1);
        // The value guards no other memory.
        self.0
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()
            .map(|_| Place(Arc::clone(&self.0)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_connection_is_gone() {
        let places = Places::new(2);
        let taken = [places.take(), places.take()];
        assert!(taken.iter().all(Option::is_some) && places.take().is_none());
        drop(taken);
        assert!(places.take().is_some());
    }
}
