//! A direction of the connection between the server and the broker.
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// A direction of the connection.
#[derive(Debug, Default)]
pub(super) struct TrunkPipe {
    /// Bytes in flight, with their arrival times.
    pub(super) pieces: VecDeque<(u64, Bytes)>,
    pub(super) last_ms: u64,
    /// Bytes that arrived and were not taken.
    pub(super) rest: BytesMut,
}

impl TrunkPipe {
    /// Takes the bytes that have arrived by now.
    pub(super) fn arrive(&mut self, now_ms: u64) -> BytesMut {
        let mut arrived = BytesMut::new();
        while self
            .pieces
            .front()
            .is_some_and(|(at_ms, _)| *at_ms <= now_ms)
            && let Some((_, piece)) = self.pieces.pop_front()
        {
            arrived.extend_from_slice(&piece);
        }
        self.rest.extend_from_slice(&arrived);
        arrived
    }
}
