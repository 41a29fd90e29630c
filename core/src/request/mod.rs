//! Requests and their responses: correlation, deadlines, queue and outcomes.
//!
//! This module performs no I/O. The [`Exchange`] joins an MQTT [`Session`](statestore_protocol::mqtt::session::Session) with
//! the [`RequestTable`] of requests. Every request ends exactly once.

mod coalescing_index;
mod delayed_acks;
mod encoded_request;
mod exchange;
mod outgoing_request;
mod request_table;
mod retry;
mod sending;

pub(crate) use delayed_acks::MAX_ACK_DELAY_MS;
pub(crate) use encoded_request::EncodedRequest;
pub(crate) use exchange::{Exchange, Message, ReceivedBatch};
pub(crate) use outgoing_request::{OutgoingRequest, ResendPolicy};
pub(crate) use request_table::{
    Admission, Completion, NewRequest, RequestId, RequestStatus, RequestTable, SendCapacity,
};
pub use retry::Retry;

use crate::error::{ErrorKind, Outcome};
use statestore_protocol::mqtt::ReasonCode;
use std::borrow::Cow;

/// Reason why a request has no response.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) outcome: Outcome,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) mqtt_reason: Option<ReasonCode>,
}

impl Failure {
    pub(crate) fn new(
        kind: ErrorKind,
        outcome: Outcome,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            kind,
            outcome,
            reason: reason.into(),
            mqtt_reason: None,
        }
    }
}
