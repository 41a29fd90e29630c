//! Requests of operators. If servers share an engine, their outcomes come later.
use super::Hub;
use crate::access::Principal;
use crate::clock::Now;
use crate::service::{Envelope, Outcome, Reception, Request, Ticket};
use bytes::BytesMut;
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Command, Hlc};
use std::collections::BTreeMap;

/// The client id of operators.
const OPERATOR: &str = "operator";

/// Longest time that a request may wait for its execution, in milliseconds.
const PATIENCE_MS: u64 = 4_000;

/// Maximum number of requests that are remembered; the oldest is forgotten when another one comes.
const MOST: usize = 4_096;

/// Requests whose outcome was not taken, and the outcomes that came.
#[derive(Debug, Default)]
pub(super) struct OperatorRequests(BTreeMap<Ticket, Option<Outcome>>);

impl OperatorRequests {
    fn begin(&mut self, ticket: Ticket) {
        if self.0.len() >= MOST {
            self.0.pop_first();
        }
        self.0.insert(ticket, None);
    }

    /// Keeps an outcome if an operator asked for it, and returns it if not.
    pub(super) fn put(&mut self, ticket: Ticket, outcome: Outcome) -> Option<Outcome> {
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
    pub(crate) fn is_over_an_engine(&self) -> bool {
        self.service.engine().is_some()
    }

    /// Executes a request of an operator, with or without a fencing token.
    pub(crate) fn ask_for_operator(
        &mut self,
        command: &Command,
        fence: Option<Hlc>,
        now: Now,
    ) -> Reception {
        let mut payload = BytesMut::new();
        command.encode(&mut payload);
        let envelope = Envelope {
            request: Request {
                client: &OPERATOR.into(),
                principal: &Principal::default(),
                rights: None,
                correlation: OPERATOR.as_bytes(),
                payload: &payload.freeze(),
                properties: RequestProperties {
                    fencing_token: fence.map(Ok),
                    ..RequestProperties::default()
                },
                may_return: false,
            },
            deadline_ms: Some(now.mono_ms + PATIENCE_MS),
            has_room: true,
            is_shared: false,
        };
        let reception = self.service.ask(&envelope, now);
        if let Reception::Later(ticket) = &reception {
            self.operator_requests.begin(*ticket);
        }
        self.tell_watchers(None, now);
        self.tell_outcomes(now);
        self.settle(now);
        reception
    }

    /// Returns the outcome of an operator's request, once it has come.
    pub(crate) fn take_operator_outcome(&mut self, ticket: Ticket) -> Option<Outcome> {
        let requests = &mut self.operator_requests.0;
        match requests.get(&ticket) {
            Some(None) => None,
            Some(Some(_)) => requests.remove(&ticket).flatten(),
            // The request was forgotten.
            None => Some(Outcome::Unknown),
        }
    }
}
