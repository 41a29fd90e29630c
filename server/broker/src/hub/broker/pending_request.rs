//! Pending requests through the broker, and where their responses go.
use super::watch_target::WatchTarget;
use crate::hub::pending::pending_bytes;
use statestore_protocol::mqtt::{CheckedTopic, OwnedTopic};
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use std::sync::Arc;

/// The data needed to respond to a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReturnAddress<'a> {
    pub(super) number: u64,
    pub(super) response_topic: CheckedTopic<'a>,
    pub(super) correlation_data: &'a [u8],
    /// Client and target of the watch, if the request came from the [log](super::group).
    pub(super) watch: Option<(&'a Arc<str>, &'a WatchTarget)>,
}

/// A request whose outcome comes later.
#[derive(Debug)]
pub(super) struct PendingRequest {
    number: u64,
    response_topic: OwnedTopic,
    correlation_data: Box<[u8]>,
    watch: Option<(Arc<str>, WatchTarget)>,
    _reservation: Reservation,
}

impl PendingRequest {
    /// Creates a pending request with a payload of this size.
    pub(super) fn new(to: ReturnAddress<'_>, payload_bytes: usize, budget: &MemoryBudget) -> Self {
        let bytes = pending_bytes(to.response_topic, to.correlation_data, payload_bytes);
        Self {
            number: to.number,
            response_topic: to.response_topic.into_owned(),
            correlation_data: to.correlation_data.into(),
            watch: to
                .watch
                .map(|(client, target)| (Arc::clone(client), target.clone())),
            _reservation: Reservation::new(budget, bytes),
        }
    }

    /// Returns the data needed to respond to it.
    pub(super) fn return_address(&self) -> ReturnAddress<'_> {
        ReturnAddress {
            number: self.number,
            response_topic: self.response_topic.get(),
            correlation_data: &self.correlation_data,
            watch: self.watch.as_ref().map(|(client, target)| (client, target)),
        }
    }
}
