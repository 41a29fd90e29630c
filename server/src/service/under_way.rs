//! Requests that the keyspace has not ended yet: who waits for what.
use super::meter::Measured;
use super::replay::Place;
use super::request::Outcome;
use crate::keyspace::{ByTicket, Ticket};
use statestore_protocol::Command;
use std::collections::VecDeque;
use std::sync::Arc;

/// What was asked of the keyspace under a ticket.
#[derive(Debug)]
pub(super) struct Waiting {
    /// What was asked.
    pub(super) command: Command,
    /// Where its answer is to be remembered.
    pub(super) place: Option<Place>,
    /// Who is to be told of the changes of a key, if that was asked.
    pub(super) watcher: Option<Arc<str>>,
    /// When it was asked, if it is measured.
    pub(super) measured: Option<Measured>,
    /// Requests that were the same again: they have its outcome, too.
    pub(super) followers: Vec<Ticket>,
}

/// All of them, and the outcomes that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// Of the next request that does not end at once.
    next: u64,
    waiting: ByTicket<Waiting>,
    outcomes: VecDeque<(Ticket, Outcome)>,
}

impl UnderWay {
    /// The ticket for what is asked next; it is not used up unless [`begin`](Self::begin) follows.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket(self.next)
    }

    /// What was asked under this [ticket](Self::ticket) did not end at once.
    pub(super) fn begin(
        &mut self,
        command: Command,
        place: Option<Place>,
        watcher: Option<Arc<str>>,
        measured: Option<Measured>,
    ) -> Ticket {
        let ticket = self.take_ticket();
        let waiting = Waiting {
            command,
            place,
            watcher,
            measured,
            followers: Vec::new(),
        };
        self.waiting.insert(ticket, waiting);
        ticket
    }

    /// The same request came again. It gets a ticket of its own, if the former one has not ended yet.
    pub(super) fn follow(&mut self, former: Ticket) -> Option<Ticket> {
        let follower = self.ticket();
        self.waiting.get_mut(&former)?.followers.push(follower);
        Some(self.take_ticket())
    }

    pub(super) fn take_ticket(&mut self) -> Ticket {
        let ticket = self.ticket();
        self.next += 1;
        ticket
    }

    /// Something has ended: what was asked, if it had not ended before.
    pub(super) fn end(&mut self, ticket: Ticket) -> Option<Waiting> {
        self.waiting.remove(&ticket)
    }

    /// What became of a request, and of those that were the same.
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
