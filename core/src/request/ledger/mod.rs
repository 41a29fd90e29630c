//! The ledger of requests: a slab of slots, the queue of those that may not be sent yet, and all deadlines.
mod recovery;
#[cfg(test)]
mod tests;

use super::Failure;
use crate::error::{ErrorKind, Outcome};
use crate::mqtt::{PacketId, Publish, ReasonCode};
use std::collections::VecDeque;
use std::task::{Poll, Waker};

/// Names one request: its slot, and which of the requests that used the slot it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId {
    index: u32,
    generation: u32,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Completion {
    Response {
        publish: Publish,
        /// An earlier session may have executed the request as well.
        repeated: bool,
    },
    Failed(Failure),
}

/// Whether a request is sent a second time, to another session, if what became of the first time is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    No,
    /// Twice is as good as once.
    Harmless,
    /// Even though it may be executed twice.
    Risky,
}

/// A request to be entered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission {
    /// About how many bytes it has.
    pub(crate) bytes: usize,
    pub(crate) again: Again,
    /// It may wait for its turn.
    pub(crate) waits: bool,
    pub(crate) deadline_ms: u64,
}

/// Whether a request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    Later,
}

/// What the session has room for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) publishes: usize,
    /// Bytes that wait to be written.
    pub(crate) unsent_bytes: usize,
    pub(crate) max_unsent_bytes: usize,
    /// Bytes that wait to be written or acknowledged.
    pub(crate) buffered_bytes: usize,
    pub(crate) max_buffered_bytes: usize,
}

#[derive(Debug)]
enum State {
    Free,
    /// Waits for its turn, about this many bytes long.
    Queued {
        bytes: usize,
    },
    /// Has its turn and did not use it yet; what it will take is set aside.
    Granted {
        bytes: usize,
    },
    /// Waits for its response.
    Sent {
        packet_id: PacketId,
    },
    /// Sent, and its caller does not wait any more.
    Abandoned,
    Done(Completion),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    state: State,
    again: Again,
    /// A lost session may have executed it.
    repeated: bool,
    waker: Option<Waker>,
}

const NEVER: u64 = u64::MAX;

/// All requests that have not ended, or whose end was not seen yet.
///
/// Looking a request up by its correlation data is indexing. Deadlines stand in an array of their own, which is searched
/// when the earliest one may have passed: requests usually end long before their deadline, and then cost nothing here.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Tells this ledger's correlation data from any other's.
    origin: [u8; 8],
    slots: Vec<Slot>,
    /// When each slot's request is given up, in milliseconds; [`NEVER`] if nothing runs.
    deadlines: Vec<u64>,
    /// No deadline is earlier.
    earliest_ms: u64,
    free: Vec<u32>,
    /// In the order of their turns; those that are no longer queued are skipped.
    queue: VecDeque<RequestId>,
    queued: usize,
    granted: usize,
    granted_bytes: usize,
    sent: usize,
    max_sent: usize,
    max_queued: usize,
    closed: Option<Failure>,
}

impl Ledger {
    pub(crate) fn new(origin: [u8; 8], max_sent: usize, max_queued: usize) -> Self {
        Self {
            origin,
            slots: Vec::new(),
            deadlines: Vec::new(),
            earliest_ms: NEVER,
            free: Vec::new(),
            queue: VecDeque::new(),
            queued: 0,
            granted: 0,
            granted_bytes: 0,
            sent: 0,
            max_sent,
            max_queued,
            closed: None,
        }
    }

    /// Enters a request. With [`Turn::Now`] the caller must send it or forget it at once.
    pub(crate) fn submit(
        &mut self,
        submission: Submission,
        room: Room,
        waker: &Waker,
    ) -> Result<(RequestId, Turn), Failure> {
        let Submission {
            bytes,
            again,
            waits,
            deadline_ms,
        } = submission;
        if let Some(failure) = &self.closed {
            return Err(failure.clone());
        }
        let turn = if self.queued == 0 && self.fits(bytes, room) {
            Turn::Now
        } else {
            Turn::Later
        };
        if turn == Turn::Later && self.queued >= self.max_queued {
            let reason = "as many requests wait as may wait";
            return Err(Failure::new(ErrorKind::QueueFull, Outcome::NotDone, reason));
        }
        if turn == Turn::Later && !waits {
            let reason = "it cannot be sent at once";
            return Err(Failure::new(ErrorKind::QueueFull, Outcome::NotDone, reason));
        }
        let state = match turn {
            Turn::Now => self.grant_one(bytes),
            Turn::Later => State::Queued { bytes },
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                state: State::Free,
                again,
                repeated: false,
                waker: None,
            });
            self.deadlines.push(NEVER);
            // Fewer than 2^32 requests fit into the memory.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut self.slots[index as usize];
        slot.state = state;
        slot.again = again;
        slot.repeated = false;
        slot.waker = Some(waker.clone());
        let id = RequestId {
            index,
            generation: slot.generation,
        };
        if turn == Turn::Later {
            self.queued += 1;
            self.queue.push_back(id);
        }
        self.deadlines[index as usize] = deadline_ms;
        self.earliest_ms = self.earliest_ms.min(deadline_ms);
        Ok((id, turn))
    }

    /// What became of a request: its end, which frees it, or its turn.
    pub(crate) fn poll(&mut self, id: RequestId, waker: &Waker) -> Poll<Result<Turn, Completion>> {
        let Some(slot) = self.slot(id) else {
            let failure = Failure::new(
                ErrorKind::Closed,
                Outcome::Unknown,
                "it was polled after its end",
            );
            return Poll::Ready(Err(Completion::Failed(failure)));
        };
        match slot.state {
            State::Done(_) => match std::mem::replace(&mut slot.state, State::Free) {
                State::Done(completion) => {
                    self.free(id);
                    Poll::Ready(Err(completion))
                }
                _ => Poll::Pending,
            },
            State::Granted { .. } => Poll::Ready(Ok(Turn::Now)),
            _ => {
                match &mut slot.waker {
                    Some(known) => known.clone_from(waker),
                    none => *none = Some(waker.clone()),
                }
                Poll::Pending
            }
        }
    }

    /// A request that had its turn was sent.
    pub(crate) fn sent(&mut self, id: RequestId, packet_id: PacketId) {
        let Some(slot) = self.slot(id) else { return };
        if let State::Granted { bytes } = slot.state {
            slot.state = State::Sent { packet_id };
            self.granted -= 1;
            self.granted_bytes -= bytes;
            self.sent += 1;
        }
    }

    /// The caller does not wait any more. A request that was sent stays until its response or its deadline, so that
    /// its correlation data is not used again before; unless `withdraw` says that it certainly is not executed.
    pub(crate) fn forget(
        &mut self,
        id: RequestId,
        withdraw: impl FnOnce(RequestId, PacketId) -> bool,
    ) {
        let Some(slot) = self.slot(id) else { return };
        slot.waker = None;
        match slot.state {
            State::Sent { packet_id } if !withdraw(id, packet_id) => {
                slot.state = State::Abandoned;
            }
            _ => self.give_up(id),
        }
    }

    /// Ends a request that is not sent, and that nobody waits for.
    pub(crate) fn give_up(&mut self, id: RequestId) {
        self.leave(id);
        self.free(id);
    }

    /// The correlation data of a request.
    pub(crate) fn correlation(&self, id: RequestId) -> [u8; 16] {
        let mut data = [0; 16];
        data[..8].copy_from_slice(&self.origin);
        data[8..12].copy_from_slice(&id.generation.to_be_bytes());
        data[12..].copy_from_slice(&id.index.to_be_bytes());
        data
    }

    /// A response arrived; whether a request waited for it.
    pub(crate) fn respond(
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

    /// The broker answered a PUBLISH that carried a request; `resent` if an earlier connection carried it as well.
    pub(crate) fn acknowledged(
        &mut self,
        id: RequestId,
        reason: ReasonCode,
        text: Option<&str>,
        resent: bool,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let (kind, what) = if reason == ReasonCode::NO_MATCHING_SUBSCRIBERS {
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
        // The refusal is of this delivery, not of one before it; and these two codes do not say that nothing was done.
        let outcome = match reason {
            _ if resent => Outcome::Unknown,
            ReasonCode::UNSPECIFIED_ERROR | ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR => {
                Outcome::Unknown
            }
            _ => Outcome::NotDone,
        };
        let mut failure = Failure::new(kind, outcome, format!("{what}: {reason}{text}"));
        failure.mqtt_reason = Some(reason);
        self.complete(id, Completion::Failed(failure), wakers)
    }

    /// What is known about a request that ends without having been sent this time.
    pub(crate) fn unsent_outcome(&mut self, id: RequestId) -> Outcome {
        match self.slot(id) {
            Some(slot) if slot.repeated => Outcome::Unknown,
            _ => Outcome::NotDone,
        }
    }

    /// Ends a request; `false` if it has ended.
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
                self.leave(id);
                self.free(id);
            }
            State::Queued { .. } | State::Granted { .. } | State::Sent { .. } => {
                self.leave(id);
                if let Some(slot) = self.slot(id) {
                    slot.state = State::Done(completion);
                    wakers.extend(slot.waker.take());
                }
            }
        }
        true
    }

    /// Ends the requests whose deadline has passed; how many. `connected` goes into their error. `withdraw` takes back what
    /// was sent, and says whether it certainly is not executed.
    pub(crate) fn expire(
        &mut self,
        now_ms: u64,
        connected: bool,
        wakers: &mut Vec<Waker>,
        mut withdraw: impl FnMut(RequestId, PacketId) -> bool,
    ) -> usize {
        if now_ms < self.earliest_ms {
            return 0;
        }
        let mut expired = 0;
        self.earliest_ms = NEVER;
        for index in 0..self.deadlines.len() {
            if self.deadlines[index] > now_ms {
                self.earliest_ms = self.earliest_ms.min(self.deadlines[index]);
                continue;
            }
            let id = self.id_at(index);
            let is_sent = match self.slots[index].state {
                State::Queued { .. } | State::Granted { .. } => false,
                State::Sent { packet_id } => !withdraw(id, packet_id),
                _ => true,
            };
            let (outcome, reason) = match (is_sent, connected) {
                (true, _) => (Outcome::Unknown, "no response came"),
                (false, true) => (Outcome::NotDone, "its turn to be sent did not come"),
                (false, false) => (Outcome::NotDone, "there was no connection to the broker"),
            };
            let failure = Failure::new(ErrorKind::TimedOut, outcome, reason);
            self.complete(id, Completion::Failed(failure), wakers);
            expired += 1;
        }
        expired
    }

    /// When [`expire`](Self::expire) is to be called.
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        (self.earliest_ms != NEVER).then_some(self.earliest_ms)
    }

    /// Gives queued requests their turns, as far as there is room.
    pub(crate) fn grant(&mut self, room: Room, wakers: &mut Vec<Waker>) {
        while let Some(&id) = self.queue.front() {
            if let Some(&State::Queued { bytes }) = self.slot(id).map(|slot| &slot.state) {
                if !self.fits(bytes, room) {
                    return;
                }
                self.queued -= 1;
                let granted = self.grant_one(bytes);
                if let Some(slot) = self.slot(id) {
                    slot.state = granted;
                    wakers.extend(slot.waker.take());
                }
            }
            self.queue.pop_front();
        }
    }

    /// Ends all requests and refuses new ones. `withdraw` as for [`expire`](Self::expire).
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
                State::Queued { .. } | State::Granted { .. } => Outcome::NotDone,
                State::Sent { packet_id } if withdraw(id, packet_id) => Outcome::NotDone,
                State::Sent { .. } | State::Abandoned => Outcome::Unknown,
                State::Free | State::Done(_) => continue,
            };
            self.complete(id, Completion::Failed(failure(outcome)), wakers);
        }
    }

    /// Requests that wait for a response.
    pub(crate) fn in_flight(&self) -> usize {
        self.sent
    }
    /// Requests that wait for their turn.
    pub(crate) fn queued(&self) -> usize {
        self.queued + self.granted
    }

    fn fits(&self, bytes: usize, room: Room) -> bool {
        let buffered = room.buffered_bytes + self.granted_bytes;
        let unsent = room.unsent_bytes + self.granted_bytes;
        self.granted < room.publishes
            && unsent < room.max_unsent_bytes
            && self.sent + self.granted < self.max_sent
            && (buffered == 0 || buffered.saturating_add(bytes) <= room.max_buffered_bytes)
    }

    fn grant_one(&mut self, bytes: usize) -> State {
        self.granted += 1;
        self.granted_bytes += bytes;
        State::Granted { bytes }
    }

    fn id_at(&self, index: usize) -> RequestId {
        RequestId {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            generation: self.slots[index].generation,
        }
    }

    fn slot(&mut self, id: RequestId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.index as usize)?;
        (slot.generation == id.generation && !matches!(slot.state, State::Free)).then_some(slot)
    }

    /// Takes a request out of the counts of its state, and its deadline away.
    fn leave(&mut self, id: RequestId) {
        self.deadlines[id.index as usize] = NEVER;
        match self.slots[id.index as usize].state {
            State::Queued { .. } => {
                self.queued -= 1;
                // Many requests that ended while they were queued must not pile up behind one that waits.
                if self.queue.len() > 2 * self.queued + 64 {
                    let slots = &self.slots;
                    self.queue.retain(|other| {
                        let slot = &slots[other.index as usize];
                        *other != id
                            && slot.generation == other.generation
                            && matches!(slot.state, State::Queued { .. })
                    });
                }
            }
            State::Granted { bytes } => {
                self.granted -= 1;
                self.granted_bytes -= bytes;
            }
            State::Sent { .. } | State::Abandoned => self.sent -= 1,
            State::Free | State::Done(_) => {}
        }
        if self.queued + self.granted + self.sent == 0 {
            self.earliest_ms = NEVER;
        }
    }

    fn free(&mut self, id: RequestId) {
        let slot = &mut self.slots[id.index as usize];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slot.waker = None;
        self.free.push(id.index);
    }
}
