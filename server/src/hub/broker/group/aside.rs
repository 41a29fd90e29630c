//! What the keeper has to publish, as a server knows it that is not the keeper: kept for a while, for the case that it becomes it.
use super::super::outgoing::Outgoing;
use std::collections::VecDeque;

/// So long what another server keeps may be of use, in milliseconds.
const MOST_MS: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Aside {
    /// Each with its time.
    waiting: VecDeque<(u64, Outgoing)>,
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

impl Aside {
    /// Room for so many messages of so many bytes.
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

    /// Sets something aside. How much of what was there had to give way.
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

    /// Another server keeps: what is old has been published by it.
    pub(super) fn forget_old(&mut self, now_ms: u64) {
        self.forget_before(now_ms.saturating_sub(MOST_MS));
    }

    /// Forgets what is like this.
    pub(super) fn forget(&mut self, is_it: impl Fn(&Outgoing) -> bool) {
        self.waiting.retain(|(_, outgoing)| !is_it(outgoing));
        let bytes = self.waiting.iter().map(|(_, it)| it.message.bytes());
        self.bytes = bytes.sum();
    }

    /// Forgets what was set aside before.
    pub(super) fn forget_before(&mut self, since_ms: u64) {
        while let Some((at_ms, _)) = self.waiting.front()
            && *at_ms < since_ms
        {
            self.drop_first();
        }
    }

    /// Takes all, in the order in which it came up.
    pub(super) fn take(&mut self) -> Vec<Outgoing> {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let mut all: Vec<_> = waiting.map(|(_, outgoing)| outgoing).collect();
        all.sort_by_key(|outgoing| outgoing.number);
        all
    }
}
