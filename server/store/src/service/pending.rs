//! Pending requests: requests that the keyspace has not ended yet.
use super::replay_cache::ReplaySlot;
use super::request::Outcome;
use super::request_meter::RequestTimer;
use crate::keyspace::{ByTicket, Ticket};
use statestore_protocol::Command;
use std::collections::VecDeque;
use std::sync::Arc;

/// A request that the keyspace has not ended yet.
#[derive(Debug)]
pub(super) struct PendingRequest {
    /// The command of the request.
    pub(super) command: Command,
    /// Slot in which the answer is remembered, if it is to be remembered.
    pub(super) replay_slot: Option<ReplaySlot>,
    /// The watching client, if the command begins a watch.
    pub(super) watcher: Option<Arc<str>>,
    /// Verb and arrival time of the request, if it is measured.
    pub(super) timer: Option<RequestTimer>,
    /// Tickets of redeliveries of this request, which get the same outcome.
    pub(super) followers: Vec<Ticket>,
}

/// All pending requests, and the outcomes that have not been taken yet.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    /// Number of the next ticket.
    next: u64,
    requests: ByTicket<PendingRequest>,
    outcomes: VecDeque<(Ticket, Outcome)>,
}

impl PendingRequests {
    /// Returns the next ticket, which is not used up unless [`insert`](Self::insert) follows.
    pub(super) fn next_ticket(&self) -> Ticket {
        Ticket(self.next)
    }

    /// Registers a request that did not end at once, under the next [ticket](Self::next_ticket).
    pub(super) fn insert(&mut self, request: PendingRequest) -> Ticket {
        let ticket = self.take_ticket();
        self.requests.insert(ticket, request);
        ticket
    }

    /// Registers a redelivery of a pending request. Returns a ticket for the redelivery, or `None` if the former
    /// request has ended.
    pub(super) fn follow(&mut self, former: Ticket) -> Option<Ticket> {
        let follower = self.next_ticket();
        self.requests.get_mut(&former)?.followers.push(follower);
        Some(self.take_ticket())
    }

    pub(super) fn take_ticket(&mut self) -> Ticket {
        let ticket = self.next_ticket();
        self.next += 1;
        ticket
    }

    /// Removes a request that has ended; `None` if it is not pending.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<PendingRequest> {
        self.requests.remove(&ticket)
    }

    /// Queues the outcome of a request, for the request and its redeliveries.
    pub(super) fn put_outcome(&mut self, ticket: Ticket, followers: Vec<Ticket>, outcome: Outcome) {
        let count = 1 + followers.len();
        let tickets = std::iter::once(ticket).chain(followers);
        self.outcomes
            .extend(tickets.zip(std::iter::repeat_n(outcome, count)));
    }

    pub(super) fn take_outcome(&mut self) -> Option<(Ticket, Outcome)> {
        self.outcomes.pop_front()
    }
}
