//! A memory budget: the bytes that the server holds for its peers, each counted once by its owner.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The total bytes of all reservations.
#[derive(Debug, Clone, Default)]
pub struct MemoryBudget(Arc<AtomicUsize>);

impl MemoryBudget {
    /// Returns the sum of all reservations.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that an owner holds. They are subtracted from the budget when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    bytes: usize,
}

impl Reservation {
    /// Adds `bytes` bytes to the budget.
    pub fn new(budget: &MemoryBudget, bytes: usize) -> Self {
        let mut reservation = Self {
            budget: budget.clone(),
            bytes: 0,
        };
        reservation.resize(bytes);
        reservation
    }

    /// Creates another reservation in the same budget.
    #[must_use]
    pub fn new_sibling(&self, bytes: usize) -> Self {
        Self::new(&self.budget, bytes)
    }

    /// Sets the bytes of the reservation.
    pub fn resize(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.budget
                .0
                .fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.budget
                .0
                .fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Sets the bytes of the reservation if they have changed by more than `slack`. Sizes that change all the time need not
    /// be counted at every step.
    pub fn resize_with_slack(&mut self, bytes: usize, slack: usize) {
        if self.bytes.abs_diff(bytes) > slack {
            self.resize(bytes);
        }
    }

    /// Returns the bytes of the reservation.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the total bytes of all reservations of the budget.
    pub fn budget_bytes(&self) -> usize {
        self.budget.bytes()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_counts_the_bytes_of_its_reservations() {
        let budget = MemoryBudget::default();
        let mut first = Reservation::new(&budget, 10);
        let second = Reservation::new(&budget, 5);
        first.resize(7);
        assert_eq!(budget.bytes(), 12);
        first.resize_with_slack(17, 10);
        assert_eq!((budget.bytes(), first.bytes()), (12, 7));
        first.resize_with_slack(18, 10);
        assert_eq!(budget.bytes(), 23);
        drop(second);
        drop(first);
        assert_eq!(budget.bytes(), 0);
    }
}
