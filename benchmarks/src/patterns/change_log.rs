//! The changes of a round, with the time until the watcher of each is notified.

use crate::load::{LoadResult, key};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Number of watchers.
pub const WATCHERS: usize = 1_000;
/// Number of keys. Each of them has one watcher.
pub const KEYS: u64 = 100_000;
/// Number of keys of each watcher: those that differ in the last two digits.
const KEYS_EACH: u64 = KEYS / WATCHERS as u64;
/// Length of the prefix that the keys of a watcher share.
pub const PREFIX_BYTES: usize = 14;
/// Number of changes per second.
pub const RATE: u64 = 10_000;
/// Maximum number of changes without an answer or a notification. A server that is slower than [`RATE`] sets the pace by it.
pub const MAX_UNDER_WAY: u64 = 256;
/// Maximum time without any progress.
const SILENCE: Duration = Duration::from_secs(30);

/// Returns the prefix of the keys of a watcher.
pub fn prefix(watcher: usize) -> Vec<u8> {
    key(watcher as u64 * KEYS_EACH)[..PREFIX_BYTES].to_vec()
}

/// The changes of a round.
#[derive(Debug)]
pub struct ChangeLog {
    /// Number of the next change. Consecutive changes have different watchers.
    number: u64,
    start: Instant,
    /// Time of the last answer or notification.
    last_progress: Instant,
    sent: u64,
    answered: u64,
    notified: u64,
    /// Times at which the changes were sent whose notifications are due, in their order, for each watcher.
    waiting: Vec<VecDeque<Instant>>,
    /// Time from the request to the notification, in nanoseconds.
    latencies: Vec<u64>,
}

impl Default for ChangeLog {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            number: 0,
            start: now,
            last_progress: now,
            sent: 0,
            answered: 0,
            notified: 0,
            waiting: vec![VecDeque::new(); WATCHERS],
            latencies: Vec::new(),
        }
    }
}

impl ChangeLog {
    /// Starts a round.
    pub fn start(&mut self) {
        let now = Instant::now();
        (self.start, self.last_progress) = (now, now);
        (self.sent, self.answered, self.notified) = (0, 0, 0);
    }

    /// Returns the number of changes to send now, in a round that sends changes for this `time`. Panics if the server makes no
    /// progress.
    pub fn due(&self, time: Duration) -> u64 {
        let now = Instant::now();
        assert!(
            self.is_done() || now - self.last_progress < SILENCE,
            "{} changes: {} answered, {} notified",
            self.sent,
            self.answered,
            self.notified
        );
        let elapsed = now - self.start;
        if elapsed >= time {
            return 0;
        }
        let scheduled = (elapsed.as_secs_f64() * RATE as f64) as u64;
        let allowed = self.answered.min(self.notified) + MAX_UNDER_WAY;
        scheduled.min(allowed).saturating_sub(self.sent)
    }

    /// Records that a change is sent now, and returns its key.
    pub fn send(&mut self) -> [u8; 16] {
        let now = Instant::now();
        if self.is_done() {
            self.last_progress = now;
        }
        let watcher = self.number % WATCHERS as u64;
        let index = self.number / WATCHERS as u64 % KEYS_EACH;
        self.number += 1;
        self.sent += 1;
        self.waiting[watcher as usize].push_back(now);
        key(watcher * KEYS_EACH + index)
    }

    /// Records the answer to a change.
    pub fn record_answer(&mut self) {
        self.answered += 1;
        self.last_progress = Instant::now();
    }

    /// Records that a watcher is notified of a change.
    pub fn record_notification(&mut self, watcher: usize) {
        let sent = self.waiting[watcher].pop_front();
        let sent = sent.expect("a watcher is notified once of each change");
        let now = Instant::now();
        self.latencies.push((now - sent).as_nanos() as u64);
        self.notified += 1;
        self.last_progress = now;
    }

    /// Returns the result if the `time` of the round is over and all its changes are done.
    pub fn finish(&mut self, time: Duration) -> Option<LoadResult> {
        let is_over = self.start.elapsed() >= time && self.is_done();
        is_over.then(|| LoadResult {
            elapsed: self.last_progress - self.start,
            latencies: std::mem::take(&mut self.latencies),
        })
    }

    /// Whether all changes are answered and notified.
    fn is_done(&self) -> bool {
        self.answered == self.sent && self.notified == self.sent
    }
}
