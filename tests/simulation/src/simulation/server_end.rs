//! The server's end of a connection.
use crate::broker::Peer;
use crate::wire_monitor;
use bytes::{Bytes, BytesMut};
use statestored_broker::hub::ConnectionId;
use std::collections::{HashMap, VecDeque};

/// The server's end of a connection.
#[derive(Debug, Default)]
pub(crate) struct ServerEnd {
    pub(super) connection: Option<ConnectionId>,
    /// The peer of the broker at this end, as long as the broker knows of no end.
    pub(crate) peer: Option<Peer>,
    /// The CONNECT, until it is complete.
    pub(super) connect_packet: BytesMut,
    pub(super) has_connect: bool,
    pub(super) has_connack: bool,
    pub(super) input: BytesMut,
    /// Input that the hub took, up to the last whole packet.
    pub(super) taken: BytesMut,
    /// The Message Expiry, in milliseconds, of each PUBLISH that arrived and was not offered to the hub.
    pub(super) lifetimes: VecDeque<u64>,
    /// Expiry time of each PUBLISH that was offered to the hub and not taken.
    pub(super) expiries: VecDeque<u64>,
    /// The keys of the requests, by their correlation data.
    pub(super) requests: HashMap<Box<[u8]>, TakenRequest>,
    pub(super) output: BytesMut,
    /// Whether everything was sent, including the end of the stream.
    pub(super) is_lingering: bool,
    pub(crate) wire: wire_monitor::WireMonitor,
}

/// A request about one key, which the hub has taken.
#[derive(Debug, Clone)]
pub(crate) struct TakenRequest {
    pub(super) key: Bytes,
    /// Number of changes that had been reported before the request. `None` for a request that had been taken before, because its
    /// answer may be an old one.
    pub(super) changes_before: Option<usize>,
}

impl ServerEnd {
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some() || self.peer.is_some()
    }
}
