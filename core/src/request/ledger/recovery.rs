//! What becomes of requests when their connection or their session is lost.
use super::super::{Failure, Packed};
use super::{Again, Completion, Ledger, RequestId, Slot, State};
use crate::error::{ErrorKind, Outcome};
use std::task::Waker;

impl Ledger {
    /// The session in which these requests were sent is lost, and with it the response of each. `unsent` are the ones
    /// that certainly did not reach the broker. What may be sent again gets the first turns, in the order of the calls; the
    /// rest ends with an unknown outcome. How many are sent again.
    pub(crate) fn session_lost(
        &mut self,
        unsent: impl IntoIterator<Item = (RequestId, Box<Packed>)>,
        wakers: &mut Vec<Waker>,
    ) -> usize {
        let mut in_front = Vec::new();
        let mut again = 0;
        let mut requeue = |ledger: &mut Self, id, packed, wakers: &mut Vec<Waker>| {
            let requeued = ledger.requeue(id, packed, wakers);
            again += usize::from(!matches!(requeued, Requeued::No));
            if let Requeued::InFront = requeued {
                in_front.push(id);
            }
        };
        for (id, packed) in unsent {
            requeue(self, id, Some(packed), wakers);
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
            let kept = self.slots[index].kept.take();
            requeue(self, id, kept, wakers);
        }
        // Neither their places nor how far they came say which was first.
        in_front.sort_unstable_by_key(|id| self.slots[id.index as usize].number);
        self.queue_first(&in_front);
        again
    }

    /// Whether somebody waits for a request that was sent and could not be sent to another session without doubt.
    pub(crate) fn needs_session(&self) -> bool {
        let needs =
            |slot: &Slot| matches!(slot.state, State::Sent { .. }) && slot.again != Again::Harmless;
        self.slots.iter().any(needs)
    }

    /// Lets a request of a lost session wait for its turn again; whether it stands in the queue. Its caller is woken if what
    /// is to be sent has to be made anew: it may be one that is not looked after, and stop nobody.
    fn requeue(
        &mut self,
        id: RequestId,
        packed: Option<Box<Packed>>,
        wakers: &mut Vec<Waker>,
    ) -> Requeued {
        let Some(slot) = self.slot(id) else {
            return Requeued::No;
        };
        match slot.state {
            State::Sent { .. } => {}
            State::Abandoned => {
                self.give_up(id);
                return Requeued::No;
            }
            _ => return Requeued::No,
        }
        slot.kept = None;
        if packed.is_none() {
            wakers.extend(slot.waker.take());
        }
        let deadline_ms = self.deadlines[id.index as usize];
        self.leave(id);
        self.deadlines[id.index as usize] = deadline_ms;
        self.earliest_ms = self.earliest_ms.min(deadline_ms);
        let state = &mut self.slots[id.index as usize].state;
        if packed.is_none() {
            *state = State::Recalled;
            self.recalled += 1;
            return Requeued::Recalled;
        }
        // It was sent before, so it is not over the limit.
        *state = State::Queued { bytes: 0, packed };
        self.queued += 1;
        Requeued::InFront
    }

    /// Lets requests that were just requeued wait in front of all others.
    fn queue_first(&mut self, ids: &[RequestId]) {
        for &id in ids.iter().rev() {
            self.queue.push_front(id);
        }
    }
}

/// What became of a request of a lost session.
enum Requeued {
    /// Nobody wants it.
    No,
    /// It has a place in the queue.
    InFront,
    /// It gets one when its caller looks after it.
    Recalled,
}
