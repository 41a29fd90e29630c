//! Recovery of requests after the loss of their connection or session.
use super::super::{EncodedRequest, Failure, ResendPolicy};
use super::{Completion, RequestId, RequestTable, Slot, State};
use crate::error::{ErrorKind, Outcome};
use std::task::Waker;

impl RequestTable {
    /// Handles the loss of a session, and with it of all pending responses. `unsent` are the requests that certainly did not
    /// reach the broker. Requests that may be sent again go to the front of the queue, in the order of the calls. The rest ends
    /// with an unknown outcome. Returns the number of requests that are sent again.
    pub(crate) fn session_lost(
        &mut self,
        unsent: impl IntoIterator<Item = (RequestId, Box<EncodedRequest>)>,
        wakers: &mut Vec<Waker>,
    ) -> usize {
        let mut in_front = Vec::new();
        let mut count = 0;
        let mut requeue = |table: &mut Self, id, packed, wakers: &mut Vec<Waker>| {
            let requeued = table.requeue(id, packed, wakers);
            count += usize::from(!matches!(requeued, RequeueOutcome::NotQueued));
            if let RequeueOutcome::Queued = requeued {
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
            if slot.resend_policy == ResendPolicy::Never {
                let reason = "the session was lost before the response came";
                let failure = Failure::new(ErrorKind::SessionLost, Outcome::Unknown, reason);
                self.complete(id, Completion::Failed(failure), wakers);
                continue;
            }
            self.slots[index].repeated |= slot.resend_policy == ResendPolicy::Risky;
            let kept = self.slots[index].kept_encoding.take();
            requeue(self, id, kept, wakers);
        }
        // Neither their slots nor their state give the order of the calls.
        in_front.sort_unstable_by_key(|id| self.slots[id.index as usize].number);
        self.push_front(&in_front);
        count
    }

    /// Returns whether a caller waits for a request that was sent and could not safely be sent in another session.
    pub(crate) fn needs_session(&self) -> bool {
        let needs = |slot: &Slot| {
            matches!(slot.state, State::Sent { .. })
                && slot.resend_policy != ResendPolicy::Idempotent
        };
        self.slots.iter().any(needs)
    }

    /// Queues a request of a lost session again. Its caller is woken if it must be encoded again. Such a request is not queued
    /// yet, so that a caller that does not poll blocks no other request.
    fn requeue(
        &mut self,
        id: RequestId,
        packed: Option<Box<EncodedRequest>>,
        wakers: &mut Vec<Waker>,
    ) -> RequeueOutcome {
        let Some(slot) = self.slot(id) else {
            return RequeueOutcome::NotQueued;
        };
        match slot.state {
            State::Sent { .. } => {}
            State::Abandoned => {
                self.discard(id);
                return RequeueOutcome::NotQueued;
            }
            _ => return RequeueOutcome::NotQueued,
        }
        slot.kept_encoding = None;
        if packed.is_none() {
            wakers.extend(slot.waker.take());
        }
        let deadline_ms = self.deadlines[id.index as usize];
        self.remove_from_counts(id);
        self.deadlines[id.index as usize] = deadline_ms;
        self.earliest_deadline_ms = self.earliest_deadline_ms.min(deadline_ms);
        let state = &mut self.slots[id.index as usize].state;
        if packed.is_none() {
            *state = State::AwaitingEncoding;
            self.awaiting_encoding += 1;
            return RequeueOutcome::AwaitingEncoding;
        }
        // It was sent before, so it does not count against the limit.
        *state = State::Queued { bytes: 0, packed };
        self.queued += 1;
        RequeueOutcome::Queued
    }

    /// Moves requests that were just queued again to the front of the queue.
    fn push_front(&mut self, ids: &[RequestId]) {
        for &id in ids.iter().rev() {
            self.queue.push_front(id);
        }
    }
}

/// Result of queueing a request of a lost session again.
enum RequeueOutcome {
    /// The request has ended or has no caller.
    NotQueued,
    /// The request is in the queue.
    Queued,
    /// The request is queued when its caller polls it.
    AwaitingEncoding,
}
