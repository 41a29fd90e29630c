//! What becomes of requests when their connection or their session is lost.
use super::super::Failure;
use super::{Again, Completion, Ledger, RequestId, Slot, State};
use crate::error::{ErrorKind, Outcome};
use std::task::Waker;

impl Ledger {
    /// The session in which these requests were sent is lost, and with it the response of each. `unsent` are the ones
    /// that certainly did not reach the broker, in their order. What may be sent again gets the first turns; the rest
    /// ends with an unknown outcome. How many are sent again.
    pub(crate) fn session_lost(&mut self, unsent: &[RequestId], wakers: &mut Vec<Waker>) -> usize {
        let mut again = Vec::new();
        for &id in unsent {
            if self.requeue(id) {
                again.push(id);
            }
        }
        for index in 0..self.slots.len() {
            let id = self.id_at(index);
            let slot = &self.slots[index];
            if !matches!(slot.state, State::Sent { .. } | State::Abandoned) {
                continue;
            }
            if slot.again == Again::No {
                let reason = "the session was lost before the response came";
                let failure = Failure::new(ErrorKind::SessionLost, Outcome::Unknown, reason);
                self.complete(id, Completion::Failed(failure), wakers);
                continue;
            }
            self.slots[index].repeated |= slot.again == Again::Risky;
            if self.requeue(id) {
                again.push(id);
            }
        }
        self.queue_first(&again);
        again.len()
    }

    /// Whether somebody waits for a request that was sent and could not be sent to another session without doubt.
    pub(crate) fn needs_session(&self) -> bool {
        let needs =
            |slot: &Slot| matches!(slot.state, State::Sent { .. }) && slot.again != Again::Harmless;
        self.slots.iter().any(needs)
    }

    /// The connection is gone: turns that were not used yet are taken back.
    pub(crate) fn revoke(&mut self) {
        let mut again = Vec::new();
        for index in 0..self.slots.len() {
            let id = self.id_at(index);
            if matches!(self.slots[index].state, State::Granted { .. }) && self.requeue(id) {
                again.push(id);
            }
        }
        self.queue_first(&again);
    }

    /// Puts a request that had its turn back among those that wait; `false` if nobody wants it.
    fn requeue(&mut self, id: RequestId) -> bool {
        let Some(slot) = self.slot(id) else {
            return false;
        };
        let bytes = match slot.state {
            State::Granted { bytes } => bytes,
            // Its size is known no more; it was sent before, so it is not over the limit.
            State::Sent { .. } => 0,
            State::Abandoned => {
                self.leave(id);
                self.free(id);
                return false;
            }
            State::Free | State::Queued { .. } | State::Done(_) => return false,
        };
        let deadline_ms = self.deadlines[id.index as usize];
        self.leave(id);
        self.slots[id.index as usize].state = State::Queued { bytes };
        self.deadlines[id.index as usize] = deadline_ms;
        self.earliest_ms = self.earliest_ms.min(deadline_ms);
        self.queued += 1;
        true
    }

    /// Lets requests that were just requeued wait in front of all others.
    fn queue_first(&mut self, ids: &[RequestId]) {
        for &id in ids.iter().rev() {
            self.queue.push_front(id);
        }
    }
}
