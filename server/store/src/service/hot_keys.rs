//! The keys with most requests, found in a sample with bounded memory.
//!
//! The counters are those of the space-saving algorithm (Metwally et al., 2005): a key that is not counted yet replaces the one with the
//! lowest count, and takes over this count.
use bytes::Bytes;

/// Number of counted keys.
const MAX_KEYS: usize = 128;
/// Average number of requests of which one is counted.
const SAMPLE: u32 = 64;
/// Time after which the counters begin anew, in milliseconds. The last finished ones still count.
const PERIOD_MS: u64 = 60_000;
/// Maximum number of bytes of a key.
const MAX_KEY_BYTES: usize = 256;

/// A key, and about how often it was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotKey {
    /// The key, or its first 256 bytes.
    pub key: Bytes,
    /// Estimated number of requests in the last one to two minutes.
    pub requests: u64,
}

#[derive(Debug, Default)]
struct Sketch(Vec<(Vec<u8>, u64)>);

/// The counters of the present period, and of the one before it.
#[derive(Debug)]
pub struct HotKeys {
    current: Sketch,
    previous: Sketch,
    period: u64,
    /// Number of requests until the next one is counted.
    countdown: u32,
    random: u32,
}

impl Default for HotKeys {
    fn default() -> Self {
        Self {
            current: Sketch::default(),
            previous: Sketch::default(),
            period: 0,
            countdown: 1,
            random: 0x9E37_79B9,
        }
    }
}

impl Sketch {
    fn count(&mut self, key: &[u8]) {
        if let Some((_, count)) = self.0.iter_mut().find(|(its, _)| its == key) {
            *count += 1;
        } else if self.0.len() < MAX_KEYS {
            self.0.push((key.to_vec(), 1));
        } else if let Some((least, count)) = self.0.iter_mut().min_by_key(|(_, count)| *count) {
            least.clear();
            least.extend_from_slice(key);
            *count += 1;
        }
    }

    fn of(&self, key: &[u8]) -> u64 {
        let found = self.0.iter().find(|(its, _)| its == key);
        found.map_or(0, |(_, count)| *count)
    }
}

impl HotKeys {
    /// Returns whether the next request is to be counted.
    #[inline]
    pub fn samples_next(&mut self) -> bool {
        self.countdown -= 1;
        if self.countdown > 0 {
            return false;
        }
        // An irregular distance, so that no regular sequence of requests is counted wrongly.
        self.random = self
            .random
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        self.countdown = 1 + (self.random >> 16) % (2 * SAMPLE - 1);
        true
    }

    /// Counts a request for a key.
    #[cold]
    pub fn count(&mut self, key: &[u8], now_ms: u64) {
        self.begin_period(now_ms);
        self.current.count(&key[..key.len().min(MAX_KEY_BYTES)]);
    }

    fn begin_period(&mut self, now_ms: u64) {
        let period = now_ms / PERIOD_MS;
        match period.saturating_sub(self.period) {
            0 => return,
            1 => std::mem::swap(&mut self.previous, &mut self.current),
            _ => self.previous.0.clear(),
        }
        self.current.0.clear();
        self.period = period;
    }

    /// Returns the keys with most requests, the highest number first.
    pub fn list(&mut self, now_ms: u64) -> Vec<HotKey> {
        self.begin_period(now_ms);
        let (current, previous) = (&self.current, &self.previous);
        let only_before = previous.0.iter().filter(|(key, _)| current.of(key) == 0);
        let all = current.0.iter().chain(only_before);
        let mut keys: Vec<_> = all
            .map(|(key, _)| HotKey {
                requests: (current.of(key) + previous.of(key)) * u64::from(SAMPLE),
                key: Bytes::copy_from_slice(key),
            })
            .collect();
        keys.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.key.cmp(&b.key)));
        keys.truncate(MAX_KEYS);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_64_requests_is_counted() {
        let mut keys = HotKeys::default();
        let sampled = (0..640_000).filter(|_| keys.samples_next()).count();
        assert!((9_500..10_500).contains(&sampled), "{sampled}");
    }

    #[test]
    fn frequent_keys_are_found_among_many() {
        let mut keys = HotKeys::default();
        for number in 0..20_000_u32 {
            let key = match number % 4 {
                0 => "hot".to_owned(),
                1 if number % 8 == 1 => "warm".to_owned(),
                _ => format!("cold/{number}"),
            };
            keys.count(key.as_bytes(), 1_000);
        }
        let found = keys.list(1_000);
        assert_eq!(found.len(), MAX_KEYS);
        assert_eq!(found[0].key, "hot");
        assert!(found[..4].iter().any(|it| it.key == "warm"), "{found:?}");
        assert!(found[0].requests >= 5_000 * u64::from(SAMPLE));
    }

    #[test]
    fn counts_end_after_two_periods() {
        let mut keys = HotKeys::default();
        keys.count(b"old", PERIOD_MS);
        keys.count(b"old", 2 * PERIOD_MS);
        keys.count(b"new", 2 * PERIOD_MS);
        let names = |found: Vec<HotKey>| found.into_iter().map(|it| it.key).collect::<Vec<_>>();
        assert_eq!(names(keys.list(2 * PERIOD_MS)), ["old", "new"]);
        assert_eq!(names(keys.list(3 * PERIOD_MS)), ["new", "old"]);
        assert!(keys.list(4 * PERIOD_MS).is_empty());
    }
}
