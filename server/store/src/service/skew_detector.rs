//! Signs that the wall clock of this machine is wrong.
//!
//! With a clock that is behind, the server rejects every SET, since the timestamps of clients seem to be too far ahead. With a
//! clock that is ahead, it accepts them, and gives versions that stay ahead after the correction. Neither can be distinguished
//! from a wrong clock of a single client, so the timestamps of all sources within two minutes are compared. A source is a user,
//! or the address of clients without a user name: any client can take as many client ids as it likes.
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

/// Difference between a timestamp and the clock from which on they disagree.
pub const TOLERANCE_MS: u64 = 60_000;
/// Length of a window.
const WINDOW_MS: u64 = 60_000;
/// Maximum number of sources that are counted separately.
const MAX_SOURCES: usize = 8;
/// Number of timestamps of a single source that count as a sign if no other source has set anything.
const MIN_COUNT_OF_ONE_SOURCE: u64 = 3;

/// Number of timestamps of a window whose differences are remembered: the latest ones.
const MAX_DIFFERENCES: usize = 32;

/// Number of sources that have to agree before the clock of this machine counts as wrong: one party must not decide that.
const AGREEING_SOURCES: usize = 3;

/// Origin of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimestampSource<'a> {
    User(&'a str),
    Address(IpAddr),
    /// A client whose address is not known, since it came through a broker.
    Client(&'a str),
}

impl fmt::Display for TimestampSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user {name}"),
            Self::Address(address) => write!(f, "address {address}"),
            Self::Client(id) => write!(f, "client {id}"),
        }
    }
}

/// A sign of timestamps, and its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkewEvidence {
    /// Direction in which the clock seems to be wrong.
    pub skew: ClockSkew,
    /// Whether several independent sources agree. Otherwise it can as well be their own clocks that are wrong.
    pub is_agreed: bool,
}

/// A sign that the clock of this machine is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSkew {
    /// The clock is behind: timestamps are more than a minute ahead of it.
    Behind,
    /// The clock is ahead: timestamps are more than a minute behind it.
    Ahead,
}

/// The timestamps on one side of the clock.
#[derive(Debug, Clone, Default)]
struct SkewSide {
    count: u64,
    sources: Vec<Box<str>>,
}

#[derive(Debug, Clone, Default)]
struct Window {
    start_ms: u64,
    in_range: u64,
    /// Ahead of the clock, and behind it.
    sides: [SkewSide; 2],
    /// Differences of the latest timestamps from the clock, in milliseconds; positive ones are ahead.
    differences_ms: [i64; MAX_DIFFERENCES],
    /// Number of timestamps.
    count: usize,
}

impl Window {
    #[inline]
    fn record_difference(&mut self, difference_ms: i64) {
        self.differences_ms[self.count % MAX_DIFFERENCES] = difference_ms;
        self.count = self.count.wrapping_add(1);
    }

    fn differences_ms(&self) -> &[i64] {
        &self.differences_ms[..self.count.min(MAX_DIFFERENCES)]
    }
}

/// The timestamps of SETs and TXNs within the last two windows.
#[derive(Debug, Clone, Default)]
pub(super) struct SkewDetector {
    current_window: Window,
    previous_window: Window,
    /// Timestamps ahead of and behind the clock since the start.
    pub(super) skewed: [u64; 2],
}

impl SkewDetector {
    /// Records the timestamp of a change.
    #[inline]
    pub(super) fn observe(
        &mut self,
        source: TimestampSource<'_>,
        at_ms: u64,
        wall_ms: u64,
        mono_ms: u64,
    ) {
        if mono_ms >= self.current_window.start_ms + WINDOW_MS {
            self.rotate_windows(mono_ms);
        }
        let difference_ms = at_ms.cast_signed().wrapping_sub(wall_ms.cast_signed());
        self.current_window.record_difference(difference_ms);
        if at_ms.abs_diff(wall_ms) <= TOLERANCE_MS {
            self.current_window.in_range += 1;
        } else {
            self.record_skewed(source, usize::from(at_ms < wall_ms));
        }
    }

    #[cold]
    fn record_skewed(&mut self, source: TimestampSource<'_>, side: usize) {
        self.skewed[side] += 1;
        let side = &mut self.current_window.sides[side];
        side.count += 1;
        if side.sources.len() < MAX_SOURCES {
            let source = source.to_string().into_boxed_str();
            if !side.sources.contains(&source) {
                side.sources.push(source);
            }
        }
    }

    fn rotate_windows(&mut self, mono_ms: u64) {
        let is_next = mono_ms < self.current_window.start_ms + 2 * WINDOW_MS;
        let former = std::mem::take(&mut self.current_window);
        self.previous_window = if is_next { former } else { Window::default() };
        self.current_window.start_ms = mono_ms - mono_ms % WINDOW_MS;
    }

    /// Returns the sign that the timestamps of the last two windows give, if they give one.
    pub(super) fn evidence(&mut self, mono_ms: u64) -> Option<SkewEvidence> {
        if mono_ms >= self.current_window.start_ms + WINDOW_MS {
            self.rotate_windows(mono_ms);
        }
        let windows = [&self.previous_window, &self.current_window];
        let in_range: u64 = windows.iter().map(|it| it.in_range).sum();
        let sign = |skew, side: usize| {
            let count: u64 = windows.iter().map(|it| it.sides[side].count).sum();
            let sources = windows.iter().flat_map(|it| &it.sides[side].sources);
            let sources = sources.collect::<HashSet<_>>().len();
            let is_sign = if sources > 1 {
                count > in_range
            } else {
                in_range == 0 && count >= MIN_COUNT_OF_ONE_SOURCE
            };
            let is_agreed = sources >= AGREEING_SOURCES;
            is_sign.then_some(SkewEvidence { skew, is_agreed })
        };
        sign(ClockSkew::Behind, 0).or_else(|| sign(ClockSkew::Ahead, 1))
    }

    /// Returns the median difference of the latest timestamps from the clock in milliseconds, positive if they are ahead; `None`
    /// without timestamps in the last two windows.
    pub(super) fn median_difference_ms(&mut self, mono_ms: u64) -> Option<i64> {
        if mono_ms >= self.current_window.start_ms + WINDOW_MS {
            self.rotate_windows(mono_ms);
        }
        let former = self.previous_window.differences_ms();
        let current = self.current_window.differences_ms();
        let mut differences = [former, current].concat();
        differences.sort_unstable();
        differences.get(differences.len() / 2).copied()
    }

    /// Returns when the sign may change without a further timestamp, if it may.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let windows = [&self.previous_window, &self.current_window];
        let is_empty = windows
            .iter()
            .all(|it| it.sides.iter().all(|side| side.count == 0));
        (!is_empty).then_some(self.current_window.start_ms + WINDOW_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_MS: u64 = 1_700_000_000_000;

    fn observe(watch: &mut SkewDetector, user: &str, offset_ms: i64, mono_ms: u64, times: usize) {
        for _ in 0..times {
            let at_ms = WALL_MS.saturating_add_signed(offset_ms);
            watch.observe(TimestampSource::User(user), at_ms, WALL_MS, mono_ms);
        }
    }

    fn sign(skew: ClockSkew, is_agreed: bool) -> SkewEvidence {
        SkewEvidence { skew, is_agreed }
    }

    #[test]
    fn one_skewed_user_among_others_is_no_evidence() {
        let mut watch = SkewDetector::default();
        observe(&mut watch, "wrong", 3_600_000, 0, 100);
        observe(&mut watch, "right", 0, 0, 1);
        assert_eq!(watch.evidence(0), None);
        assert_eq!(watch.skewed, [100, 0]);
    }

    #[test]
    fn several_users_or_the_only_one_are_evidence_until_it_expires() {
        let mut watch = SkewDetector::default();
        observe(&mut watch, "a", 3_600_000, 1_000, 2);
        assert_eq!(watch.evidence(1_000), None);
        observe(&mut watch, "a", 3_600_000, 1_000, 1);
        assert_eq!(watch.evidence(1_000), Some(sign(ClockSkew::Behind, false)));
        assert_eq!(watch.evidence(60_000), Some(sign(ClockSkew::Behind, false)));
        assert_eq!(watch.evidence(120_000), None);
        assert_eq!(watch.next_ms(), None);
        observe(&mut watch, "a", -61_000, 130_000, 1);
        observe(&mut watch, "b", -61_000, 130_000, 1);
        assert_eq!(watch.evidence(130_000), Some(sign(ClockSkew::Ahead, false)));
        observe(&mut watch, "c", -61_000, 130_000, 1);
        assert_eq!(watch.evidence(130_000), Some(sign(ClockSkew::Ahead, true)));
        observe(&mut watch, "a", 100, 130_000, 3);
        assert_eq!(watch.evidence(130_000), None);
    }

    #[test]
    fn the_median_difference_is_that_of_most_timestamps_of_two_windows() {
        let mut watch = SkewDetector::default();
        assert_eq!(watch.median_difference_ms(0), None);
        observe(&mut watch, "right", 5, 0, 3);
        observe(&mut watch, "wrong", 3_600_000, 0, 2);
        assert_eq!(watch.median_difference_ms(0), Some(5));
        observe(&mut watch, "wrong", -3_600_000, 61_000, MAX_DIFFERENCES + 1);
        assert_eq!(watch.median_difference_ms(61_000), Some(-3_600_000));
        assert_eq!(watch.median_difference_ms(200_000), None);
    }

    #[test]
    fn a_user_and_an_address_of_the_same_text_are_two_sources() {
        let mut watch = SkewDetector::default();
        let address = TimestampSource::Address(IpAddr::from([127, 0, 0, 1]));
        for source in [
            address,
            TimestampSource::User("127.0.0.1"),
            TimestampSource::Client("127.0.0.1"),
        ] {
            watch.observe(source, 0, WALL_MS, 0);
        }
        assert_eq!(watch.evidence(0), Some(sign(ClockSkew::Ahead, true)));
    }
}
