//! When the PUBACKs of responses leave: with the next request, if one comes soon.
//!
//! By itself a PUBACK costs both sides as much as a request: a call to send, a wake-up, a call to receive. The caller that got a
//! response often asks again at once, but from another thread, or when somebody else has asked it.

/// How long PUBACKs wait for a request at most, in milliseconds.
pub(crate) const PATIENCE_MS: u64 = 10;

/// Whether the PUBACKs that are to be sent may wait.
#[derive(Debug, Default)]
pub(super) struct Acknowledgements {
    /// Until when; 0 if they may not.
    until_ms: u64,
}

impl Acknowledgements {
    /// Packets have come. Some of what is to be sent is there already, or nothing yet.
    pub(super) fn begin(&mut self, has_output: bool, now_ms: u64) {
        if !has_output {
            self.until_ms = now_ms + PATIENCE_MS;
        }
    }

    /// One is to be sent for which the broker may be waiting with the next message.
    pub(super) fn owe_at_once(&mut self) {
        self.until_ms = 0;
    }

    /// Time has passed.
    pub(super) fn advance(&mut self, now_ms: u64) {
        if now_ms >= self.until_ms {
            self.until_ms = 0;
        }
    }

    /// Until when they may wait, if they may.
    pub(super) fn until_ms(&self) -> Option<u64> {
        (self.until_ms > 0).then_some(self.until_ms)
    }
}
