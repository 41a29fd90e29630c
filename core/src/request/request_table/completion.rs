//! The end of requests: by a response, a rejection or a time-out, or because the caller dropped them.
use super::super::Failure;
use super::{Completion, NEVER, RequestId, RequestTable, State};
use crate::error::{ErrorKind, Outcome};
use statestore_protocol::mqtt::{PacketId, Publish, ReasonCode};
use std::task::Waker;

impl RequestTable {
    /// Handles a response. Returns whether a request was waiting for it.
    pub(crate) fn handle_response(
        &mut self,
        correlation: &[u8],
        response: Publish,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let Ok(correlation) = <&[u8; 16]>::try_from(correlation) else {
            return false;
        };
        let [rest @ .., g0, g1, g2, g3, i0, i1, i2, i3] = *correlation;
        if rest != self.origin {
            return false;
        }
        let id = RequestId {
            generation: u32::from_be_bytes([g0, g1, g2, g3]),
            index: u32::from_be_bytes([i0, i1, i2, i3]),
        };
        let repeated = self.slot(id).is_some_and(|slot| slot.repeated);
        let completion = Completion::Response {
            publish: response,
            repeated,
        };
        self.complete(id, completion, wakers)
    }

    /// Handles the PUBACK of a request. `resent` is whether the request was sent on an earlier connection as well.
    pub(crate) fn handle_puback(
        &mut self,
        id: RequestId,
        reason: ReasonCode,
        text: Option<&str>,
        resent: bool,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let (kind, problem) = if reason == ReasonCode::NO_MATCHING_SUBSCRIBERS {
            (
                ErrorKind::NoStore,
                "no state store listens behind the broker",
            )
        } else if reason.is_failure() {
            (ErrorKind::Rejected, "the broker did not take the request")
        } else {
            return false;
        };
        let text = text
            .map(|text| format!(", \"{}\"", text.escape_debug()))
            .unwrap_or_default();
        // The rejection concerns this delivery, not an earlier one. Two of the codes do not exclude that the request was
        // executed.
        let outcome = match reason {
            _ if resent => Outcome::Unknown,
            ReasonCode::UNSPECIFIED_ERROR | ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR => {
                Outcome::Unknown
            }
            _ => Outcome::NotDone,
        };
        let mut failure = Failure::new(kind, outcome, format!("{problem}: {reason}{text}"));
        failure.mqtt_reason = Some(reason);
        self.complete(id, Completion::Failed(failure), wakers)
    }

    /// Returns the outcome of a request that ends without being sent this time.
    pub(crate) fn unsent_outcome(&mut self, id: RequestId) -> Outcome {
        match self.slot(id) {
            Some(slot) if slot.repeated => Outcome::Unknown,
            _ => Outcome::NotDone,
        }
    }

    /// Ends a request. Returns `false` if it had ended before.
    pub(crate) fn complete(
        &mut self,
        id: RequestId,
        mut completion: Completion,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let Some(slot) = self.slot(id) else {
            return false;
        };
        if let Completion::Failed(failure) = &mut completion
            && slot.repeated
        {
            failure.outcome = Outcome::Unknown;
        }
        match slot.state {
            State::Free | State::Done(_) => return false,
            State::Abandoned => {
                self.remove_from_counts(id);
                self.free(id);
            }
            State::Queued { .. }
            | State::AwaitingEncoding
            | State::Granted
            | State::Sent { .. } => {
                self.remove_from_counts(id);
                if let Some(slot) = self.slot(id) {
                    slot.state = State::Done(completion);
                    wakers.extend(slot.waker.take());
                }
            }
        }
        self.wake_if_idle(wakers);
        true
    }

    /// Ends a queued request that a newer one replaces. Returns whether it was still queued.
    pub(crate) fn supersede(&mut self, id: RequestId, wakers: &mut Vec<Waker>) -> bool {
        if !self.is_queued(id) {
            return false;
        }
        let reason = "a newer SET of the key took its place before it was sent";
        let failure = Failure::new(ErrorKind::Superseded, Outcome::NotDone, reason);
        self.complete(id, Completion::Failed(failure), wakers)
    }

    /// Ends the requests whose deadline has passed, and returns their number. `connected` goes into their error. `withdraw`
    /// withdraws a request that was sent, and returns whether it certainly is not executed.
    pub(crate) fn expire(
        &mut self,
        now_ms: u64,
        connected: bool,
        wakers: &mut Vec<Waker>,
        mut withdraw: impl FnMut(RequestId, PacketId) -> bool,
    ) -> usize {
        if now_ms < self.earliest_deadline_ms {
            return 0;
        }
        let mut expired = 0;
        self.earliest_deadline_ms = NEVER;
        for index in 0..self.deadlines.len() {
            if self.deadlines[index] > now_ms {
                self.earliest_deadline_ms = self.earliest_deadline_ms.min(self.deadlines[index]);
                continue;
            }
            let id = self.id_at(index);
            let is_sent = match self.slots[index].state {
                State::Queued { .. } | State::AwaitingEncoding | State::Granted => false,
                State::Sent { packet_id } => !withdraw(id, packet_id),
                _ => true,
            };
            let (outcome, reason) = match (is_sent, connected) {
                (true, _) => (Outcome::Unknown, "no response came"),
                (false, true) => (Outcome::NotDone, "it waited too long and was not sent"),
                (false, false) => (Outcome::NotDone, "there was no connection to the broker"),
            };
            let failure = Failure::new(ErrorKind::TimedOut, outcome, reason);
            self.complete(id, Completion::Failed(failure), wakers);
            expired += 1;
        }
        expired
    }

    /// Drops a request whose caller no longer waits. A request that was sent stays until its response or its deadline, so that
    /// its correlation data is not reused before. It goes at once if `withdraw` returns that it certainly is not executed.
    /// Returns whether it may be, or was, executed.
    pub(crate) fn abandon(
        &mut self,
        id: RequestId,
        withdraw: impl FnOnce(RequestId, PacketId) -> bool,
    ) -> Outcome {
        let Some(slot) = self.slot(id) else {
            return Outcome::Unknown;
        };
        slot.waker = None;
        let is_repeated = slot.repeated;
        let outcome = match &slot.state {
            State::Sent { packet_id } if !withdraw(id, *packet_id) => {
                slot.state = State::Abandoned;
                return Outcome::Unknown;
            }
            State::Done(Completion::Failed(failure)) => failure.outcome,
            State::Done(Completion::Response { .. }) => Outcome::Unknown,
            _ if is_repeated => Outcome::Unknown,
            _ => Outcome::NotDone,
        };
        self.discard(id);
        outcome
    }

    /// Ends a request that is not sent and has no caller.
    pub(crate) fn discard(&mut self, id: RequestId) {
        self.remove_from_counts(id);
        self.free(id);
    }

    /// Ends all requests and rejects new ones. `withdraw` is as for [`expire`](Self::expire).
    pub(crate) fn close(
        &mut self,
        kind: ErrorKind,
        reason: &str,
        wakers: &mut Vec<Waker>,
        mut withdraw: impl FnMut(RequestId, PacketId) -> bool,
    ) {
        let failure = |outcome| Failure::new(kind, outcome, reason.to_owned());
        self.closed.get_or_insert_with(|| failure(Outcome::NotDone));
        for index in 0..self.slots.len() {
            let id = self.id_at(index);
            let outcome = match self.slots[index].state {
                State::Queued { .. } | State::AwaitingEncoding | State::Granted => Outcome::NotDone,
                State::Sent { packet_id } if withdraw(id, packet_id) => Outcome::NotDone,
                State::Sent { .. } | State::Abandoned => Outcome::Unknown,
                State::Free | State::Done(_) => continue,
            };
            self.complete(id, Completion::Failed(failure(outcome)), wakers);
        }
    }
}
