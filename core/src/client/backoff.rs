//! Delays between attempts to reconnect or to take a lock: exponential, with full jitter.
use std::time::Duration;

/// Delays of consecutive failures.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    /// Upper bound of the next delay; zero before the first attempt.
    bound: Duration,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self {
            min,
            max,
            bound: Duration::ZERO,
        }
    }

    /// Resets the delay after a connection that held.
    pub(crate) fn reset(&mut self) {
        self.bound = Duration::ZERO;
    }

    /// Returns the delay before the next attempt: zero before the first, then random below a bound that doubles. `random` must
    /// be distributed uniformly over `u64`.
    pub(crate) fn next(&mut self, random: u64) -> Duration {
        let bound = self.bound;
        self.bound = bound.saturating_mul(2).clamp(self.min, self.max);
        // Delays are limited to 584 years, so that the product fits.
        let nanos = bound.as_nanos().min(u128::from(u64::MAX));
        let nanos = (u128::from(random) * nanos) >> 64;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_immediate_and_the_bound_doubles_up_to_the_maximum() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(500));
        // The largest random number is just below one.
        let mut longest = || backoff.next(u64::MAX).as_nanos().div_ceil(1_000_000);
        assert_eq!(
            [longest(), longest(), longest(), longest(), longest()],
            [0, 100, 200, 400, 500]
        );
        assert_eq!(backoff.next(0), Duration::ZERO);
        backoff.reset();
        assert_eq!(backoff.next(u64::MAX), Duration::ZERO);
    }

    #[test]
    fn bounds_may_be_of_any_length() {
        let mut backoff = Backoff::new(Duration::MAX / 3 * 2, Duration::MAX);
        let delays: Vec<_> = (0..4).map(|_| backoff.next(u64::MAX)).collect();
        assert!(delays[1] <= delays[3] && delays[1] > Duration::from_secs(1 << 34));
    }
}
