//! A memory budget: the bytes that the server holds for its peers, each counted once by its owner.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The total bytes of all charges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauge(Arc<AtomicUsize>);

impl Gauge {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that an owner holds. They are subtracted from the gauge when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    gauge: Gauge,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(gauge: &Gauge, bytes: usize) -> Self {
        let mut charge = Self {
            gauge: gauge.clone(),
            bytes: 0,
        };
        charge.set(bytes);
        charge
    }

    /// Creates another charge of the same gauge.
    pub(crate) fn beside(&self, bytes: usize) -> Self {
        Self::new(&self.gauge, bytes)
    }

    /// Sets the bytes of the charge.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.gauge
                .0
                .fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.gauge
                .0
                .fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Sets the bytes of the charge if they have changed by more than `slack`. Sizes that change all the time need not
    /// be counted at every step.
    pub(crate) fn set_roughly(&mut self, bytes: usize, slack: usize) {
        if self.bytes.abs_diff(bytes) > slack {
            self.set(bytes);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the total bytes of all charges of the gauge.
    pub(crate) fn gauge_bytes(&self) -> usize {
        self.gauge.bytes()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_shows_what_its_charges_hold() {
        let gauge = Gauge::default();
        let mut first = Charge::new(&gauge, 10);
        let second = Charge::new(&gauge, 5);
        first.set(7);
        assert_eq!(gauge.bytes(), 12);
        first.set_roughly(17, 10);
        assert_eq!((gauge.bytes(), first.bytes()), (12, 7));
        first.set_roughly(18, 10);
        assert_eq!(gauge.bytes(), 23);
        drop(second);
        drop(first);
        assert_eq!(gauge.bytes(), 0);
    }
}
