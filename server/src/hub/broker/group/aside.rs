//! Standby buffer: the messages that the keeper publishes, as another server would publish them. The server keeps them for a while, in case
//! it becomes the keeper.
use super::super::outgoing::Outgoing;
use std::collections::VecDeque;

/// Time for which the messages of another keeper may be of use, in milliseconds.
const MOST_MS: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Aside {
    /// Messages, each with the time at which it was set aside.
    waiting: VecDeque<(u64, Outgoing)>,
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

impl Aside {
    /// Creates an empty buffer for `most` messages of `most_bytes` bytes together.
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            most,
            most_bytes,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a message. Returns the number of older messages that were dropped to make room.
    pub(super) fn put(&mut self, outgoing: Outgoing, now_ms: u64) -> u64 {
        self.bytes += outgoing.message.bytes();
        self.waiting.push_back((now_ms, outgoing));
        let mut dropped = 0;
        while self.waiting.len() > self.most
            || self.bytes > self.most_bytes && self.waiting.len() > 1
        {
            self.drop_first();
            dropped += 1;
        }
        dropped
    }

    fn drop_first(&mut self) {
        if let Some((_, outgoing)) = self.waiting.pop_front() {
            self.bytes -= outgoing.message.bytes();
        }
    }

    /// Drops old messages, which the keeper has published.
    pub(super) fn forget_old(&mut self, now_ms: u64) {
        self.forget_before(now_ms.saturating_sub(MOST_MS));
    }

    /// Drops the messages for which `is_it` returns true.
    pub(super) fn forget(&mut self, is_it: impl Fn(&Outgoing) -> bool) {
        self.waiting.retain(|(_, outgoing)| !is_it(outgoing));
        let bytes = self.waiting.iter().map(|(_, it)| it.message.bytes());
        self.bytes = bytes.sum();
    }

    /// Drops the messages that were set aside before `since_ms`.
    pub(super) fn forget_before(&mut self, since_ms: u64) {
        while let Some((at_ms, _)) = self.waiting.front()
            && *at_ms < since_ms
        {
            self.drop_first();
        }
    }

    /// Takes all messages, in the order of their numbers.
    pub(super) fn take(&mut self) -> Vec<Outgoing> {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let mut all: Vec<_> = waiting.map(|(_, outgoing)| outgoing).collect();
        all.sort_by_key(|outgoing| outgoing.number);
        all
    }
}
