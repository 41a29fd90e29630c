//! A request of the ledger: its id, its state and its result.
use super::super::{EncodedRequest, Failure, ResendPolicy};
use statestore_protocol::mqtt::{PacketId, Publish};
use std::task::Waker;

/// Id of a request: its slot, and its generation among the requests that used the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId {
    pub(in crate::request) index: u32,
    pub(in crate::request) generation: u32,
}

/// Result of a request.
#[derive(Debug)]
pub(crate) enum Completion {
    Response {
        publish: Publish,
        /// Whether an earlier session may have executed the request as well.
        repeated: bool,
    },
    Failed(Failure),
}

/// State of a request.
#[derive(Debug)]
pub(super) enum State {
    Free,
    /// Queued, with its approximate size in bytes.
    Queued {
        bytes: usize,
        /// Encoding; `None` until it is [supplied](super::RequestTable::supply), which happens at once.
        packed: Option<Box<EncodedRequest>>,
    },
    /// Lost with its session, harmless, and allowed to be overtaken. It is queued again when its caller, which was woken,
    /// encodes it again.
    AwaitingEncoding,
    /// At its turn, and being sent.
    Granted,
    /// Waiting for its response.
    Sent {
        packet_id: PacketId,
    },
    /// Sent, without a waiting caller.
    Abandoned,
    Done(Completion),
}

/// Storage of a request, reused after its end.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) generation: u32,
    /// Number of requests added before it.
    pub(super) number: u64,
    pub(super) state: State,
    pub(super) resend_policy: ResendPolicy,
    /// Whether a lost session may have executed it.
    pub(super) repeated: bool,
    /// Number of times that it was sent.
    pub(super) attempts: u16,
    /// Encoding of a request that may be sent again in another session despite the risk.
    pub(super) kept_encoding: Option<Box<EncodedRequest>>,
    pub(super) waker: Option<Waker>,
}
