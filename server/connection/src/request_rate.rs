//! The number of requests of a connection, and their recent rate.

/// Length of a window, in milliseconds.
const WINDOW_MS: u64 = 5_000;

/// A counter of requests: all of them, and those of the last two windows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestRate {
    total: u64,
    /// Number of the window of the last request.
    window: u64,
    current: u32,
    previous: u32,
}

impl RequestRate {
    pub(crate) fn record(&mut self, now_ms: u64) {
        let window = now_ms / WINDOW_MS;
        if window != self.window {
            (self.current, self.previous) = (0, self.counts_at(window).1);
            self.window = window;
        }
        self.total += 1;
        self.current = self.current.saturating_add(1);
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the requests per 1,000 seconds over about one window.
    pub(crate) fn per_1000_s(&self, now_ms: u64) -> u64 {
        let (current, previous) = self.counts_at(now_ms / WINDOW_MS);
        let rest_ms = WINDOW_MS - now_ms % WINDOW_MS;
        let weighted = u64::from(current) * WINDOW_MS + u64::from(previous) * rest_ms;
        weighted / (WINDOW_MS * WINDOW_MS / 1_000_000)
    }

    /// Returns the numbers of requests in a window and in the one before it.
    fn counts_at(&self, window: u64) -> (u32, u32) {
        match window.saturating_sub(self.window) {
            0 => (self.current, self.previous),
            1 => (0, self.current),
            _ => (0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_covers_about_one_window() {
        let mut rate = RequestRate::default();
        assert_eq!((rate.total(), rate.per_1000_s(7_000)), (0, 0));
        for _ in 0..100 {
            rate.record(12_000);
        }
        assert_eq!(rate.per_1000_s(12_000), 20_000);
        assert_eq!(rate.per_1000_s(15_000), 20_000, "the window before");
        assert_eq!(rate.per_1000_s(17_500), 10_000, "half of it");
        assert_eq!(rate.per_1000_s(20_000), 0);
        rate.record(17_500);
        assert_eq!((rate.total(), rate.per_1000_s(17_500)), (101, 10_200));
        rate.record(60_000);
        assert_eq!((rate.total(), rate.per_1000_s(60_000)), (102, 200));
    }
}
