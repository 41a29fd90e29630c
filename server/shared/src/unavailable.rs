//! Refusal of requests while the engine does not answer.
use super::SharedKeyspace;
use super::engine::Link;
use statestored_common::ClockReading;
use statestored_store::keyspace::{Completion, EventSink};

impl<L: Link> SharedKeyspace<L> {
    /// Refuses all operations whose commits were not sent to the engine.
    pub(super) fn reject_unsent(&mut self, now: ClockReading, events: &mut dyn EventSink) {
        self.health.requests_rejected(now);
        self.tasks.reject_unsent();
        self.reject_unconfirmed();
        self.reject_pending_follows(&Completion::Unavailable, events);
        self.reject_pages(events);
    }

    /// Calls [`reject_unsent`](Self::reject_unsent) if it is due. The engine may not even let requests fail.
    pub(super) fn reject_unsent_if_due(&mut self, now: ClockReading, events: &mut dyn EventSink) {
        let due_ms = self.health.next_rejection_ms();
        if due_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            self.reject_unsent(now, events);
        }
    }

    pub(super) fn reject_pending_follows(&mut self, end: &Completion, events: &mut dyn EventSink) {
        let waiting = self.followed_keys.take_waiting().into_iter();
        for ticket in waiting.chain(self.followed_patterns.take_waiting()) {
            events.completed(ticket, end.clone());
        }
    }
}
