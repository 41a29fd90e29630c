//! Delays between attempts to reach the broker.
use std::time::Duration;

const MIN_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// The delays between consecutive failures.
#[derive(Debug)]
pub(crate) struct Backoff {
    bound: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { bound: MIN_DELAY }
    }
}

impl Backoff {
    /// Returns the next delay: between half of a bound and the bound, which doubles. `random` must be uniformly
    /// distributed.
    pub(crate) fn next(&mut self, random: u32) -> Duration {
        let bound = self.bound;
        self.bound = (bound * 2).min(MAX_DELAY);
        bound / 2 + (bound / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_ten_seconds_with_jitter() {
        let longest = |backoff: &mut Backoff| backoff.next(u32::MAX).as_millis();
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..7).map(|_| longest(&mut backoff)).collect();
        assert_eq!(delays, [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(backoff.next(0), MAX_DELAY / 2);
        assert_eq!(longest(&mut Backoff::default()), 500);
    }
}
