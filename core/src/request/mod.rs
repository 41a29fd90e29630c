//! Requests and their responses: correlation, deadlines, queue and outcomes.
//!
//! This module performs no I/O. The [`Exchange`] joins an MQTT [`Session`](statestore_protocol::mqtt::session::Session) with
//! the [`Ledger`] of requests. Every request ends exactly once.

mod acknowledgements;
mod coalesced;
mod exchange;
mod ledger;
mod outgoing;
mod packed;
mod sending;

pub(crate) use acknowledgements::PATIENCE_MS;
pub(crate) use exchange::{Exchange, Message, Received};
pub(crate) use ledger::{Again, Completion, Ledger, Look, RequestId, Room, Submission, Turn};
pub(crate) use outgoing::Outgoing;
pub(crate) use packed::Packed;

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
