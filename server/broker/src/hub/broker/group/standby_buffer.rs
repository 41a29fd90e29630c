//! Standby buffer: the messages that the leader publishes, as another server would publish them. The server keeps them for a while, in case
//! it becomes the leader.
use super::super::outgoing_message::OutgoingMessage;
use std::collections::VecDeque;

/// Time for which the messages of another leader may be of use, in milliseconds.
const RETENTION_MS: u64 = 10_000;

#[derive(Debug)]
pub(super) struct StandbyBuffer {
    /// Messages, each with the time at which it was set aside.
    messages: VecDeque<(u64, OutgoingMessage)>,
    bytes: usize,
    max_messages: usize,
    max_bytes: usize,
}

impl StandbyBuffer {
    /// Creates an empty buffer for `max_messages` messages of `max_bytes` bytes together.
    pub(super) fn new(max_messages: usize, max_bytes: usize) -> Self {
        Self {
            messages: VecDeque::new(),
            bytes: 0,
            max_messages,
            max_bytes,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds a message. Returns the number of older messages that were dropped to make room.
    pub(super) fn push(&mut self, outgoing: OutgoingMessage, now_ms: u64) -> u64 {
        self.bytes += outgoing.message.bytes();
        self.messages.push_back((now_ms, outgoing));
        let mut dropped = 0;
        while self.messages.len() > self.max_messages
            || self.bytes > self.max_bytes && self.messages.len() > 1
        {
            self.drop_oldest();
            dropped += 1;
        }
        dropped
    }

    fn drop_oldest(&mut self) {
        if let Some((_, outgoing)) = self.messages.pop_front() {
            self.bytes -= outgoing.message.bytes();
        }
    }

    /// Drops old messages, which the leader has published.
    pub(super) fn drop_expired(&mut self, now_ms: u64) {
        self.drop_before(now_ms.saturating_sub(RETENTION_MS));
    }

    /// Drops the messages for which `is_it` returns true.
    pub(super) fn drop_matching(&mut self, mut is_it: impl FnMut(&OutgoingMessage) -> bool) {
        self.messages.retain(|(_, outgoing)| !is_it(outgoing));
        let bytes = self.messages.iter().map(|(_, it)| it.message.bytes());
        self.bytes = bytes.sum();
    }

    /// Drops the messages that were set aside before `since_ms`.
    pub(super) fn drop_before(&mut self, since_ms: u64) {
        while let Some((at_ms, _)) = self.messages.front()
            && *at_ms < since_ms
        {
            self.drop_oldest();
        }
    }

    /// Takes all messages, in the order of their numbers.
    pub(super) fn take(&mut self) -> Vec<OutgoingMessage> {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.messages).into_iter();
        let mut all: Vec<_> = waiting.map(|(_, outgoing)| outgoing).collect();
        all.sort_by_key(|outgoing| outgoing.number);
        all
    }
}
