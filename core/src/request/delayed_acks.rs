//! Delayed PUBACKs of responses: they are sent with the next request, if one follows soon.
//!
//! A separate PUBACK costs both sides as much as a request: a system call to send, a wake-up, and a system call to receive. A
//! caller that got a response often sends the next request at once, but from another thread, or on behalf of another caller.

/// Maximum time that PUBACKs wait for a request, in milliseconds.
pub(crate) const MAX_ACK_DELAY_MS: u64 = 10;

/// Delay of the pending PUBACKs.
#[derive(Debug, Default)]
pub(super) struct DelayedAcks {
    /// Time until which they may wait; 0 if they must not wait.
    until_ms: u64,
}

impl DelayedAcks {
    /// Starts the delay before a batch of received packets is handled, unless output is pending already.
    pub(super) fn start(&mut self, has_output: bool, now_ms: u64) {
        if !has_output {
            self.until_ms = now_ms + MAX_ACK_DELAY_MS;
        }
    }

    /// Ends the delay, because a PUBACK is due that the broker may need before it sends the next message.
    pub(super) fn send_now(&mut self) {
        self.until_ms = 0;
    }

    /// Ends the delay once its time has passed.
    pub(super) fn advance(&mut self, now_ms: u64) {
        if now_ms >= self.until_ms {
            self.until_ms = 0;
        }
    }

    /// Returns the time until which PUBACKs may wait, if they may.
    pub(super) fn until_ms(&self) -> Option<u64> {
        (self.until_ms > 0).then_some(self.until_ms)
    }
}
