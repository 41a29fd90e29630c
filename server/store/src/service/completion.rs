//! Completion of requests, at once or later.
use super::Service;
use super::pending::PendingRequest;
use super::replay_cache::{ReplaySlot, RequestId};
use super::request::{
    CommitIndex, NotExecutedReason, Outcome, ReplyEnvelope, Request, RequestProgress, RevealedState,
};
use super::request_meter::{RequestTimer, Verb};
use crate::keyspace::{Completion, Ticket, rules};
use statestore_protocol::{Command, Hlc, Reply};
use statestored_common::ClockReading;

impl Service {
    pub(super) fn complete_at_once(
        &mut self,
        end: Completion,
        command: Command,
        id: Option<RequestId>,
        request: &Request<'_>,
    ) -> RequestProgress {
        match end {
            Completion::Answered { reply, version } => {
                self.meter.count_transaction(&command, &reply);
                let mut response = self.envelope(reply, version, command);
                if let Some(id) = id {
                    response.replay_number = self.replay.remember(request.client, id, &response);
                }
                self.complete_with(response)
            }
            Completion::Expired => self.complete(Outcome::Refused(NotExecutedReason::Expired)),
            Completion::Unavailable => {
                self.complete(Outcome::Refused(NotExecutedReason::Unavailable))
            }
            Completion::Unknown => {
                if let Some(id) = id {
                    self.replay.remember_unknown(request.client, id);
                }
                self.complete(Outcome::Unknown)
            }
        }
    }

    /// Advances the keyspace, and takes over the requests that have ended.
    pub(super) fn advance_by(&mut self, most: usize, now: ClockReading) {
        self.keyspace.advance(most, now, &mut self.changes);
        if !self.changes.ended.is_empty() {
            self.process_ended();
        }
    }

    #[inline(never)]
    fn process_ended(&mut self) {
        let mut ended = std::mem::take(&mut self.changes.ended);
        for (ticket, end) in ended.drain(..) {
            if let Some(waiting) = self.pending_requests.remove(ticket) {
                let PendingRequest {
                    command,
                    replay_slot: place,
                    watcher,
                    timer: measured,
                    followers,
                } = waiting;
                let has_begun = matches!(
                    &end,
                    Completion::Answered {
                        reply: Reply::Ok,
                        ..
                    }
                );
                match (watcher.filter(|_| !has_begun), &command) {
                    (Some(watcher), Command::Watch { key }) => {
                        self.unwatch(&watcher, key);
                    }
                    (Some(watcher), Command::WatchPattern { pattern }) => {
                        self.unwatch_pattern(&watcher, pattern);
                    }
                    _ => {}
                }
                let verb = Verb::of(&command);
                let outcome = self.complete_pending(ticket, command, place.as_ref(), end);
                self.count(&outcome);
                if !self.record_outcome(verb, measured, &outcome)
                    && let Some(measured) = measured
                {
                    self.meter.record_released(measured);
                }
                self.pending_requests
                    .put_outcome(ticket, followers, outcome);
            }
        }
        self.changes.ended = ended;
    }

    fn complete_pending(
        &mut self,
        ticket: Ticket,
        command: Command,
        place: Option<&ReplaySlot>,
        end: Completion,
    ) -> Outcome {
        match end {
            Completion::Answered { reply, version } => {
                self.meter.count_transaction(&command, &reply);
                let mut response = self.envelope(reply, version, command);
                response.replay_number =
                    place.and_then(|place| self.replay.fill(place, ticket, &response));
                Outcome::Replied(response)
            }
            Completion::Expired | Completion::Unavailable => {
                if let Some(place) = place {
                    self.replay.forget_pending(place, ticket);
                }
                Outcome::Refused(if end == Completion::Unavailable {
                    NotExecutedReason::Unavailable
                } else {
                    NotExecutedReason::Expired
                })
            }
            Completion::Unknown => {
                if let Some(place) = place {
                    self.replay.fill_unknown(place, ticket);
                }
                Outcome::Unknown
            }
        }
    }

    pub(super) fn complete_with(&mut self, response: ReplyEnvelope) -> RequestProgress {
        self.complete(Outcome::Replied(response))
    }

    /// Returns the response to a command, with the commit that it waits for.
    fn envelope(
        &mut self,
        reply: Reply,
        version: Option<rules::Version>,
        command: Command,
    ) -> ReplyEnvelope {
        ReplyEnvelope {
            commit_index: self.awaited_commit(&reply, command),
            version: version.map(Hlc::store_version),
            reply,
            replay_number: None,
        }
    }

    /// Returns the commit that the reply to a command waits for.
    pub(super) fn awaited_commit(&mut self, reply: &Reply, command: Command) -> CommitIndex {
        let revealed = RevealedState::revealed_by(reply, command);
        self.commits
            .index_revealing(&revealed, &self.changes.writes)
    }

    pub(super) fn complete(&mut self, outcome: Outcome) -> RequestProgress {
        self.count(&outcome);
        RequestProgress::Complete(outcome)
    }

    /// Counts an outcome. Returns whether it waits for a commit. If so, a request that was taken at a known time is
    /// measured until that commit is durable.
    pub(super) fn record_outcome(
        &mut self,
        verb: Verb,
        taken: Option<RequestTimer>,
        outcome: &Outcome,
    ) -> bool {
        self.meter.count_outcome(verb, outcome);
        let commit = match outcome {
            Outcome::Replied(response) if response.commit_index > 0 => response.commit_index,
            _ => return false,
        };
        if let Some(measured) = taken {
            self.commits.register_timer(commit, measured);
        }
        true
    }

    fn count(&mut self, outcome: &Outcome) {
        let statistics = &mut self.outcome_metrics;
        *match outcome {
            Outcome::Replied(_) => &mut statistics.executed,
            Outcome::Refused(NotExecutedReason::Expired) => &mut statistics.expired,
            Outcome::Refused(NotExecutedReason::NoCapacity | NotExecutedReason::Unavailable) => {
                &mut statistics.refused
            }
            Outcome::Unknown => &mut statistics.unknown,
        } += 1;
    }
}
