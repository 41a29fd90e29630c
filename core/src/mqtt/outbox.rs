//! Bytes on their way out, and the PUBLISHes among them that must be kept until they are acknowledged.
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Collects packets, hands them out in batches, and keeps each batch for as long as a PUBLISH in it may have to be sent
/// again. A packet is written once and never copied.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// The batch that grows.
    pending: BytesMut,
    pending_kept: u32,
    pending_kept_bytes: usize,
    /// Number of the batch that grows.
    current: u64,
    /// The batches before it, without a gap. Those with nothing to keep are empty.
    batches: VecDeque<Batch>,
    kept_bytes: usize,
}

#[derive(Debug)]
struct Batch {
    bytes: Bytes,
    kept: u32,
}

/// Where a kept packet is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) batch: u64,
    start: usize,
    end: usize,
}

/// New batches begin in a buffer of this size, in bytes.
const CHUNK: usize = 64 * 1024;

impl Outbox {
    /// The batch that grows: append whole packets.
    pub(super) fn pending(&mut self) -> &mut BytesMut {
        if self.pending.capacity() - self.pending.len() < 1024 {
            self.pending.reserve(CHUNK);
        }
        &mut self.pending
    }
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
    /// Number of the batch that grows.
    pub(super) fn current(&self) -> u64 {
        self.current
    }
    /// Bytes that are kept. What only waits to be taken, such as an acknowledgement, does not count: it goes without
    /// leaving a trace, and nobody would look again whether there is room.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.pending_kept_bytes + self.kept_bytes
    }

    /// Keeps the packet that begins at `start` of the pending batch and ends it.
    pub(super) fn keep(&mut self, start: usize) -> Place {
        self.pending_kept += 1;
        self.pending_kept_bytes += self.pending.len() - start;
        Place {
            batch: self.current,
            start,
            end: self.pending.len(),
        }
    }

    /// Everything that is to be written now.
    pub(super) fn take(&mut self) -> Bytes {
        if self.pending.is_empty() {
            return Bytes::new();
        }
        let bytes = self.pending.split().freeze();
        let kept = std::mem::take(&mut self.pending_kept);
        self.pending_kept_bytes = 0;
        if kept > 0 {
            self.kept_bytes += bytes.len();
            self.batches.push_back(Batch {
                bytes: bytes.clone(),
                kept,
            });
        } else if !self.batches.is_empty() {
            self.batches.push_back(Batch {
                bytes: Bytes::new(),
                kept: 0,
            });
        }
        self.current += 1;
        bytes
    }

    /// The bytes of a kept packet; none if it was released.
    pub(super) fn packet(&self, place: Place) -> Bytes {
        let batch = self.index(place).and_then(|index| self.batches.get(index));
        match batch {
            Some(batch) if place.end <= batch.bytes.len() => {
                batch.bytes.slice(place.start..place.end)
            }
            _ => Bytes::new(),
        }
    }

    /// Keeps a packet no longer. Once for each [`keep`](Self::keep).
    pub(super) fn release(&mut self, place: Place) {
        if place.batch == self.current {
            self.pending_kept -= 1;
            self.pending_kept_bytes -= place.end - place.start;
            return;
        }
        let Some(batch) = self
            .index(place)
            .and_then(|index| self.batches.get_mut(index))
        else {
            return;
        };
        batch.kept -= 1;
        if batch.kept == 0 {
            self.kept_bytes -= batch.bytes.len();
            batch.bytes = Bytes::new();
            while self.batches.front().is_some_and(|batch| batch.kept == 0) {
                self.batches.pop_front();
            }
        }
    }

    fn index(&self, place: Place) -> Option<usize> {
        let first = self.current - self.batches.len() as u64;
        usize::try_from(place.batch.checked_sub(first)?).ok()
    }
}
