//! The ledger of requests: a slab of slots, the queue of requests that cannot be sent yet, and all deadlines.
mod completion;
mod recovery;
mod slot;
#[cfg(test)]
mod tests;

pub(crate) use slot::{Completion, RequestId};

use super::{EncodedRequest, Failure, ResendPolicy};
use crate::error::{ErrorKind, Outcome};
use slot::{Slot, State};
use statestore_protocol::mqtt::PacketId;
use std::collections::VecDeque;
use std::task::Waker;

/// A request to add.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRequest {
    /// Approximate size of the request, in bytes.
    pub(crate) bytes: usize,
    pub(crate) resend_policy: ResendPolicy,
    /// Whether the request may wait in the queue.
    pub(crate) may_wait: bool,
    pub(crate) deadline_ms: u64,
}

/// Whether a request may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Granted,
    Queued,
}

/// Free capacity of the session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendCapacity {
    pub(crate) publishes: usize,
    /// Number of bytes that wait to be written.
    pub(crate) unsent_bytes: usize,
    pub(crate) max_unsent_bytes: usize,
    /// Number of bytes that wait to be written or acknowledged.
    pub(crate) buffered_bytes: usize,
    pub(crate) max_buffered_bytes: usize,
}

/// State of a request, as seen by its caller.
#[derive(Debug)]
pub(crate) enum RequestStatus {
    /// The request has ended, and its slot is freed.
    Completed(Completion),
    Pending,
    /// The encoding must be [supplied](RequestTable::supply).
    NeedsEncoding,
}

const NEVER: u64 = u64::MAX;

/// All requests that have not ended, or whose result was not read yet.
///
/// A request is found by indexing with its correlation data. Deadlines are stored in a separate array, which is searched when
/// the earliest one may have passed. Requests usually end long before their deadline, and then need no search.
#[derive(Debug)]
pub(crate) struct RequestTable {
    /// Prefix that distinguishes the correlation data of this ledger from others.
    origin: [u8; 8],
    slots: Vec<Slot>,
    /// Deadline of each slot's request, in milliseconds; [`NEVER`] if no request is under way in it.
    deadlines: Vec<u64>,
    /// Lower bound of all deadlines.
    earliest_deadline_ms: u64,
    free: Vec<u32>,
    /// Number of requests added so far.
    submitted: u64,
    /// Queued requests in their order; entries that are no longer queued are skipped.
    queue: VecDeque<RequestId>,
    queued: usize,
    awaiting_encoding: usize,
    sent: usize,
    max_sent: usize,
    max_queued: usize,
    closed: Option<Failure>,
    /// Wakers to wake when the last request ends.
    idle_wakers: Vec<Waker>,
}

impl RequestTable {
    pub(crate) fn new(origin: [u8; 8], max_sent: usize, max_queued: usize) -> Self {
        Self {
            origin,
            slots: Vec::new(),
            deadlines: Vec::new(),
            earliest_deadline_ms: NEVER,
            free: Vec::new(),
            submitted: 0,
            queue: VecDeque::new(),
            queued: 0,
            awaiting_encoding: 0,
            sent: 0,
            max_sent,
            max_queued,
            closed: None,
            idle_wakers: Vec::new(),
        }
    }

    /// Adds a request. With [`Admission::Granted`], send it or [discard](Self::discard) it at once; otherwise [supply](Self::supply) its
    /// encoding.
    pub(crate) fn submit(
        &mut self,
        submission: NewRequest,
        capacity: SendCapacity,
        waker: &Waker,
    ) -> Result<(RequestId, Admission), Failure> {
        let NewRequest {
            bytes,
            resend_policy,
            may_wait: waits,
            deadline_ms,
        } = submission;
        if let Some(failure) = &self.closed {
            return Err(failure.clone());
        }
        let admission = if self.queued == 0 && self.fits(bytes, capacity) {
            Admission::Granted
        } else {
            Admission::Queued
        };
        if admission == Admission::Queued && self.queued >= self.max_queued {
            let reason = "the maximum number of requests already waits";
            return Err(Failure::new(ErrorKind::QueueFull, Outcome::NotDone, reason));
        }
        if admission == Admission::Queued && !waits {
            let reason = "it cannot be sent at once";
            return Err(Failure::new(ErrorKind::QueueFull, Outcome::NotDone, reason));
        }
        let state = match admission {
            Admission::Granted => State::Granted,
            Admission::Queued => State::Queued {
                bytes,
                packed: None,
            },
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                number: 0,
                state: State::Free,
                resend_policy,
                repeated: false,
                attempts: 0,
                kept_encoding: None,
                waker: None,
            });
            self.deadlines.push(NEVER);
            // Fewer than 2^32 requests fit into memory.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut self.slots[index as usize];
        slot.number = self.submitted;
        self.submitted += 1;
        slot.state = state;
        slot.resend_policy = resend_policy;
        slot.repeated = false;
        slot.attempts = 0;
        slot.kept_encoding = None;
        slot.waker = Some(waker.clone());
        let id = RequestId {
            index,
            generation: slot.generation,
        };
        if admission == Admission::Queued {
            self.queued += 1;
            self.queue.push_back(id);
        }
        self.deadlines[index as usize] = deadline_ms;
        self.earliest_deadline_ms = self.earliest_deadline_ms.min(deadline_ms);
        Ok((id, admission))
    }

    /// Returns the state of a request, with its result if it has ended.
    pub(crate) fn poll(&mut self, id: RequestId, waker: &Waker) -> RequestStatus {
        let Some(slot) = self.slot(id) else {
            let reason = "it was polled after its end";
            let failure = Failure::new(ErrorKind::Closed, Outcome::Unknown, reason);
            return RequestStatus::Completed(Completion::Failed(failure));
        };
        if let State::Done(_) = slot.state {
            return match std::mem::replace(&mut slot.state, State::Free) {
                State::Done(completion) => {
                    self.free(id);
                    RequestStatus::Completed(completion)
                }
                _ => RequestStatus::Pending,
            };
        }
        match &mut slot.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        match slot.state {
            State::Queued { packed: None, .. } | State::AwaitingEncoding => {
                RequestStatus::NeedsEncoding
            }
            _ => RequestStatus::Pending,
        }
    }

    /// Supplies the encoding of a waiting request.
    pub(crate) fn supply(&mut self, id: RequestId, packed: Box<EncodedRequest>) {
        let Some(slot) = self.slot(id) else { return };
        match &mut slot.state {
            State::Queued { packed: place, .. } => *place = Some(packed),
            state @ State::AwaitingEncoding => {
                // It was sent before, so it does not count against the limit.
                *state = State::Queued {
                    bytes: 0,
                    packed: Some(packed),
                };
                self.awaiting_encoding -= 1;
                self.queued += 1;
                self.queue.push_front(id);
            }
            _ => {}
        }
    }

    /// Keeps the encoding of a request that may be sent again in another session despite the risk.
    pub(crate) fn keep_encoding(&mut self, id: RequestId, packed: Box<EncodedRequest>) {
        if let Some(slot) = self.slot(id)
            && slot.resend_policy == ResendPolicy::Risky
        {
            slot.kept_encoding = Some(packed);
        }
    }

    /// Records that a request was sent in its turn.
    pub(crate) fn sent(&mut self, id: RequestId, packet_id: PacketId) {
        let Some(slot) = self.slot(id) else { return };
        if let State::Granted = slot.state {
            slot.state = State::Sent { packet_id };
            slot.attempts = slot.attempts.saturating_add(1);
            self.sent += 1;
        }
    }

    /// Returns how often a request was sent, each time as a new one.
    pub(crate) fn attempts(&self, id: RequestId) -> u32 {
        let slot = self.slots.get(id.index as usize);
        slot.filter(|slot| slot.generation == id.generation)
            .map_or(0, |slot| slot.attempts.into())
    }

    /// Returns the correlation data of a request.
    pub(crate) fn correlation(&self, id: RequestId) -> [u8; 16] {
        let mut data = [0; 16];
        data[..8].copy_from_slice(&self.origin);
        data[8..12].copy_from_slice(&id.generation.to_be_bytes());
        data[12..].copy_from_slice(&id.index.to_be_bytes());
        data
    }

    /// Returns the time of the next call of [`expire`](Self::expire).
    pub(crate) fn wake_at_ms(&self) -> Option<u64> {
        (self.earliest_deadline_ms != NEVER).then_some(self.earliest_deadline_ms)
    }

    /// Takes the next request to send, with its deadline, if there is capacity for it. It must be sent or completed at once.
    pub(crate) fn pop_ready(
        &mut self,
        capacity: SendCapacity,
    ) -> Option<(RequestId, Box<EncodedRequest>, u64)> {
        while let Some(&id) = self.queue.front() {
            let waits = match self.slot(id).map(|slot| &slot.state) {
                Some(State::Queued { packed: None, .. }) => return None,
                Some(State::Queued { bytes, .. }) => Some(*bytes),
                _ => None,
            };
            if waits.is_some_and(|bytes| !self.fits(bytes, capacity)) {
                return None;
            }
            self.queue.pop_front();
            if waits.is_none() {
                continue;
            }
            self.queued -= 1;
            let deadline_ms = self.deadlines[id.index as usize];
            let slot = self.slot(id)?;
            if let State::Queued {
                packed: Some(packed),
                ..
            } = std::mem::replace(&mut slot.state, State::Granted)
            {
                return Some((id, packed, deadline_ms));
            }
        }
        None
    }

    /// Returns the number of requests that wait for a response.
    pub(crate) fn in_flight(&self) -> usize {
        self.sent
    }
    /// Returns the number of requests that wait for their turn.
    pub(crate) fn queued(&self) -> usize {
        self.queued + self.awaiting_encoding
    }

    /// Returns whether no request is under way; if one is, `waker` is woken when the last one ends.
    pub(crate) fn poll_idle(&mut self, waker: &Waker) -> bool {
        let is_idle = self.is_idle();
        if !is_idle && !self.idle_wakers.iter().any(|known| known.will_wake(waker)) {
            self.idle_wakers.push(waker.clone());
        }
        is_idle
    }

    fn is_idle(&self) -> bool {
        self.sent == 0 && self.queued() == 0
    }

    /// Moves the wakers of [`poll_idle`](Self::poll_idle) to `wakers`, if no request is under way.
    pub(crate) fn wake_if_idle(&mut self, wakers: &mut Vec<Waker>) {
        if !self.idle_wakers.is_empty() && self.is_idle() {
            wakers.append(&mut self.idle_wakers);
        }
    }

    /// Returns whether a request waits for its turn and was never sent.
    pub(crate) fn is_queued(&self, id: RequestId) -> bool {
        self.slots.get(id.index as usize).is_some_and(|slot| {
            slot.generation == id.generation
                && !slot.repeated
                && matches!(slot.state, State::Queued { .. })
        })
    }

    fn fits(&self, bytes: usize, capacity: SendCapacity) -> bool {
        let buffered = capacity.buffered_bytes;
        capacity.publishes > 0
            && capacity.unsent_bytes < capacity.max_unsent_bytes
            && self.sent < self.max_sent
            && (buffered == 0 || buffered.saturating_add(bytes) <= capacity.max_buffered_bytes)
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

    /// Removes a request from the counters of its state, and its deadline.
    fn remove_from_counts(&mut self, id: RequestId) {
        self.deadlines[id.index as usize] = NEVER;
        match self.slots[id.index as usize].state {
            State::Queued { .. } => {
                self.queued -= 1;
                // Queued requests that ended must not pile up behind one that waits.
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
            State::AwaitingEncoding => self.awaiting_encoding -= 1,
            State::Sent { .. } | State::Abandoned => self.sent -= 1,
            State::Granted | State::Free | State::Done(_) => {}
        }
        if self.queued + self.awaiting_encoding + self.sent == 0 {
            self.earliest_deadline_ms = NEVER;
        }
    }

    fn free(&mut self, id: RequestId) {
        let slot = &mut self.slots[id.index as usize];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slot.kept_encoding = None;
        slot.waker = None;
        self.free.push(id.index);
    }
}
