//! Refusal of requests while the engine does not answer.
use super::Remote;
use super::engine::Link;
use crate::clock::Now;
use crate::keyspace::{End, Told};

impl<L: Link> Remote<L> {
    /// Refuses all operations whose commits were not sent to the engine.
    pub(super) fn give_up(&mut self, now: Now, told: &mut dyn Told) {
        self.standing.gave_up(now);
        self.tasks.give_up();
        self.give_up_confirming();
        self.give_up_following(&End::Away, told);
        self.give_up_pages(told);
    }

    /// Calls [`give_up`](Self::give_up) if it is due. The engine may not even let requests fail.
    pub(super) fn give_up_due(&mut self, now: Now, told: &mut dyn Told) {
        let due_ms = self.standing.gives_up_ms();
        if due_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            self.give_up(now, told);
        }
    }

    pub(super) fn give_up_following(&mut self, end: &End, told: &mut dyn Told) {
        for ticket in self.following.give_up() {
            told.ended(ticket, end.clone());
        }
    }
}
