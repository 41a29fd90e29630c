//! PUBLISHes without an acknowledgement: which of them their senders still want, and for how long.
use super::super::PacketId;
use super::super::outbox::PacketLocation;
use super::{NEVER, Session, SessionError};

/// The sender's terms for a PUBLISH.
#[derive(Debug, Clone, Copy)]
pub struct PublishOptions<T> {
    /// Name of the PUBLISH for its sender.
    pub tag: T,
    /// Time in milliseconds from which its sender no longer wants it.
    pub deadline_ms: u64,
    /// Whether late delivery does no harm.
    pub is_harmless: bool,
}

/// A PUBLISH that is not acknowledged.
#[derive(Debug)]
pub(super) struct UnacknowledgedPublish<T> {
    pub(super) options: PublishOptions<T>,
    pub(super) location: PacketLocation,
    /// Whether its sender has withdrawn it, whatever its deadline.
    pub(super) is_withdrawn: bool,
    /// Topic alias that it defines.
    pub(super) defined_alias: Option<u16>,
    /// Without an acknowledgement until then the broker counts as broken.
    pub(super) overdue_ms: u64,
    /// A former connection handed all of it to the transport.
    pub(super) maybe_delivered: bool,
}

impl<T> UnacknowledgedPublish<T> {
    pub(super) fn is_stale(&self, now_ms: u64) -> bool {
        self.is_withdrawn || self.options.deadline_ms <= now_ms
    }
}

impl<T: Copy> Session<T> {
    /// Returns whether resuming the session could do harm: it would send a PUBLISH again that its sender no longer
    /// wants, because it was sent and not acknowledged.
    pub fn would_resend_stale(&self, now_ms: u64) -> bool {
        self.window.iter().any(|(_, entry)| {
            entry.maybe_delivered && !entry.options.is_harmless && entry.is_stale(now_ms)
        })
    }

    /// Fails if the broker answers, but has not acknowledged a PUBLISH long after its deadline. Such a broker blocks
    /// the connection, because the slot in the window is never released.
    pub(super) fn check_overdue(&mut self, now_ms: u64) -> Result<(), SessionError> {
        const RECHECK_MS: u64 = 1_000;
        self.overdue_ms = NEVER;
        if !self.was_ready {
            return Ok(());
        }
        let Some(drained_ms) = self.keep_alive.drained_ms() else {
            // The PUBLISH may not have left yet.
            self.overdue_ms = now_ms.saturating_add(RECHECK_MS);
            return Ok(());
        };
        let drained_ms = drained_ms.saturating_add(self.config.ping_timeout_ms);
        for entry in self.window.sent_mut() {
            let at_ms = entry.overdue_ms.max(drained_ms);
            if at_ms <= now_ms {
                return Err(SessionError::Unacknowledged);
            }
            self.overdue_ms = self.overdue_ms.min(at_ms);
        }
        Ok(())
    }

    /// Returns when a PUBLISH that is sent now is overdue.
    pub(super) fn overdue_at(&mut self, deadline_ms: u64) -> u64 {
        let at_ms = deadline_ms.saturating_add(self.config.ping_timeout_ms);
        self.overdue_ms = self.overdue_ms.min(at_ms);
        at_ms
    }

    /// Withdraws a PUBLISH that its sender no longer wants. Returns true if it is certainly not sent and ends here,
    /// because the transport took none of it. A PUBLISH that was sent and not acknowledged is treated on the next
    /// connection like an expired one.
    pub fn withdraw(&mut self, id: PacketId, tag: T) -> bool
    where
        T: PartialEq,
    {
        let (is_sent, entry) = match self.window.get_mut(id) {
            Some((is_sent, entry)) if entry.options.tag == tag => {
                (is_sent && self.was_ready, entry)
            }
            _ => return false,
        };
        let is_pending = self.outbox.is_pending(entry.location);
        if entry.maybe_delivered || is_sent && !is_pending {
            entry.is_withdrawn = true;
            return false;
        }
        let Some(entry) = self.window.acknowledge(id) else {
            return false;
        };
        if is_sent {
            self.outbox.withdraw(entry.location);
            if let Some(alias) = entry.defined_alias {
                self.outbound.undefine(alias);
            }
        }
        self.outbox.release(entry.location);
        self.ids.release(id);
        true
    }
}
