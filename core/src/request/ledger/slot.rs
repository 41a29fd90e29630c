//! One request of the ledger: what names it, where it stands, how it ended.
use super::super::{Failure, Packed};
use statestore_protocol::mqtt::{PacketId, Publish};
use std::task::Waker;

/// Names one request: its slot, and which of the requests that used the slot it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId {
    pub(in crate::request) index: u32,
    pub(in crate::request) generation: u32,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Completion {
    Response {
        publish: Publish,
        /// An earlier session may have executed the request as well.
        repeated: bool,
    },
    Failed(Failure),
}

/// Whether a request is sent a second time, to another session, if what became of the first time is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    No,
    /// Twice is as good as once.
    Harmless,
    /// Even though it may be executed twice.
    Risky,
}

/// Where a request stands.
#[derive(Debug)]
pub(super) enum State {
    Free,
    /// Waits for its turn, about this many bytes long.
    Queued {
        bytes: usize,
        /// `None` until it is [supplied](super::Ledger::supply), which is at once.
        packed: Option<Box<Packed>>,
    },
    /// Was lost with its session, does no harm, and may be overtaken. It is queued again when its caller, who was woken, makes it
    /// anew.
    Recalled,
    /// Has its turn, and is being sent.
    Granted,
    /// Waits for its response.
    Sent {
        packet_id: PacketId,
    },
    /// Sent, and its caller does not wait any more.
    Abandoned,
    Done(Completion),
}

/// The place of a request, used again after its end.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) generation: u32,
    /// How many requests were entered before it.
    pub(super) number: u64,
    pub(super) state: State,
    pub(super) again: Again,
    /// A lost session may have executed it.
    pub(super) repeated: bool,
    /// How often it was sent.
    pub(super) attempts: u16,
    /// What was sent and may be sent again to another session, although that is risky.
    pub(super) kept: Option<Box<Packed>>,
    pub(super) waker: Option<Waker>,
}
