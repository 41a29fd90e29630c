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
    pub fn new(gauge: &MemoryBudget, bytes: usize) -> Self {
        let mut charge = Self {
            budget: gauge.clone(),
            bytes: 0,
        };
        charge.resize(bytes);
        charge
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

    /// Returns the total bytes of all charges of the gauge.
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
        let gauge = MemoryBudget::default();
        let mut first = Reservation::new(&gauge, 10);
        let second = Reservation::new(&gauge, 5);
        first.resize(7);
        assert_eq!(gauge.bytes(), 12);
        first.resize_with_slack(17, 10);
        assert_eq!((gauge.bytes(), first.bytes()), (12, 7));
        first.resize_with_slack(18, 10);
        assert_eq!(gauge.bytes(), 23);
        drop(second);
        drop(first);
        assert_eq!(gauge.bytes(), 0);
    }
}
