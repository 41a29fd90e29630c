//! Requests of operators. If servers share an engine, their outcomes come later.
use super::Hub;
use bytes::BytesMut;
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Command, Hlc};
use statestored_access::Principal;
use statestored_common::ClockReading;
use statestored_store::service::{Outcome, Request, RequestEnvelope, RequestProgress, Ticket};
use std::collections::BTreeMap;

/// The client id of operators.
const OPERATOR: &str = "operator";

/// Longest time that a request may wait for its execution, in milliseconds.
const REQUEST_TIMEOUT_MS: u64 = 4_000;

/// Maximum number of requests that are remembered; the oldest is forgotten when another one comes.
const MAX_REQUESTS: usize = 4_096;

/// Requests whose outcome was not taken, and the outcomes that came.
#[derive(Debug, Default)]
pub(super) struct OperatorRequests(BTreeMap<Ticket, Option<Outcome>>);

impl OperatorRequests {
    fn insert(&mut self, ticket: Ticket) {
        if self.0.len() >= MAX_REQUESTS {
            self.0.pop_first();
        }
        self.0.insert(ticket, None);
    }

    /// Keeps an outcome if an operator asked for it, and returns it if not.
    pub(super) fn store_outcome(&mut self, ticket: Ticket, outcome: Outcome) -> Option<Outcome> {
        match self.0.get_mut(&ticket) {
            Some(kept) => {
                *kept = Some(outcome);
                None
            }
            None => Some(outcome),
        }
    }
}

impl Hub {
    /// Returns whether the entries are in an engine that servers share.
    pub fn uses_shared_engine(&self) -> bool {
        self.service.engine_metrics().is_some()
    }

    /// Executes a request of an operator, with or without a fencing token. Its timestamp is the time of this server.
    pub fn submit_for_operator(
        &mut self,
        command: &Command,
        fence: Option<Hlc>,
        now: ClockReading,
    ) -> RequestProgress {
        let mut payload = BytesMut::new();
        command.encode(&mut payload);
        // A key that its client asked to keep stays kept.
        let persist = matches!(command, Command::Set { key, .. } if self.service.is_kept(key));
        let envelope = RequestEnvelope {
            request: Request {
                client: &OPERATOR.into(),
                principal: &Principal::default(),
                rights: None,
                correlation: OPERATOR.as_bytes(),
                payload: &payload.freeze(),
                properties: RequestProperties {
                    timestamp: Some(Hlc::new(now.wall_ms, 0, OPERATOR)),
                    fencing_token: fence.map(Ok),
                    persist,
                },
                may_be_redelivered: false,
            },
            deadline_ms: Some(now.mono_ms + REQUEST_TIMEOUT_MS),
            has_capacity: true,
            max_reply_bytes: usize::MAX,
            is_shared: false,
        };
        let reception = self.service.submit(&envelope, now);
        if let RequestProgress::Pending(ticket) = &reception {
            self.operator_requests.insert(*ticket);
        }
        self.notify_watchers(None, now);
        self.process_outcomes(now);
        self.settle(now);
        reception
    }

    /// Returns the outcome of an operator's request, once it has come.
    pub fn take_operator_outcome(&mut self, ticket: Ticket) -> Option<Outcome> {
        let requests = &mut self.operator_requests.0;
        match requests.get(&ticket) {
            Some(None) => None,
            Some(Some(_)) => requests.remove(&ticket).flatten(),
            // The request was forgotten.
            None => Some(Outcome::Unknown),
        }
    }
}
