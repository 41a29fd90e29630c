//! Bytes on their way out, and the PUBLISHes among them that must be kept until they are acknowledged.
use bytes::{Bytes, BytesMut};
use std::ops::Range;

/// Collects packets, hands them out in batches, and keeps each batch for as long as a PUBLISH in it may have to be sent
/// again. A packet is written once, and copied only if one before it is withdrawn.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// The batch that grows.
    pending: BytesMut,
    pending_kept: u32,
    pending_kept_bytes: usize,
    /// Ranges of the growing batch that are not to be handed out.
    withdrawn: Vec<Range<usize>>,
    /// Where the batch that grows is going to be kept.
    current_batch: u32,
    /// Batches with kept packets. Each has its own slot, so a batch that stays long does not delay the others.
    batches: Vec<Batch>,
    free: Vec<u32>,
    kept_bytes: usize,
    /// The batch that was handed out last.
    last: Option<TakenBatch>,
    /// Bytes of it that the transport did not take yet.
    unwritten: usize,
}

#[derive(Debug, Default)]
struct Batch {
    bytes: Bytes,
    kept: u32,
}

#[derive(Debug)]
struct TakenBatch {
    batch: u32,
    len: usize,
    /// In the order of their places.
    withdrawn: Vec<Range<usize>>,
}

/// Where a kept packet is.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketLocation {
    batch: u32,
    start: usize,
    end: usize,
}

/// New batches begin in a buffer of this size, in bytes.
const CHUNK: usize = 64 * 1024;

impl Outbox {
    /// Returns the growing batch, to which whole packets are appended.
    pub(super) fn pending(&mut self) -> &mut BytesMut {
        if self.pending.capacity() - self.pending.len() < 1024 {
            self.pending.reserve(CHUNK);
        }
        &mut self.pending
    }
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
    /// Bytes of the batch that grows.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }
    /// Returns the number of kept bytes. Other bytes that wait for the transport, such as acknowledgements, do not
    /// count: nothing reports when they are gone, so no caller would check for room again.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.pending_kept_bytes + self.kept_bytes
    }
    /// Bytes that the transport did not take yet.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.pending.len() + self.unwritten
    }

    /// Keeps the packet that begins at `start` of the pending batch and ends it.
    pub(super) fn keep(&mut self, start: usize) -> PacketLocation {
        self.pending_kept += 1;
        self.pending_kept_bytes += self.pending.len() - start;
        PacketLocation {
            batch: self.current_batch,
            start,
            end: self.pending.len(),
        }
    }

    /// Takes all bytes to write now. The previous bytes must have been written.
    pub(super) fn take(&mut self) -> Bytes {
        if self.pending.is_empty() {
            return Bytes::new();
        }
        let batch = self.current_batch;
        let mut withdrawn = std::mem::take(&mut self.withdrawn);
        withdrawn.sort_unstable_by_key(|gap| gap.start);
        let bytes = self.close_batch();
        let output = without(&bytes, &withdrawn);
        self.unwritten = output.len();
        self.last = Some(TakenBatch {
            batch,
            len: output.len(),
            withdrawn,
        });
        output
    }

    /// Records that the transport took `bytes` more bytes.
    pub(super) fn written(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }

    /// Records the loss of the transport. Bytes that it did not take are kept, but as packets, not as a stream.
    pub(super) fn disconnected(&mut self) {
        self.withdrawn.clear();
        self.close_batch();
        self.last = None;
        self.unwritten = 0;
    }

    /// Returns whether the present transport took all of a kept packet.
    pub(super) fn is_written(&self, place: PacketLocation) -> bool {
        if place.batch == self.current_batch {
            return false;
        }
        match &self.last {
            Some(last) if last.batch == place.batch => {
                let before = |gap: &&Range<usize>| gap.start < place.start;
                let gaps = last.withdrawn.iter().take_while(before);
                let end = place.end - gaps.map(Range::len).sum::<usize>();
                end <= last.len - self.unwritten
            }
            _ => true,
        }
    }

    /// Returns whether a kept packet waits in the batch that grows.
    pub(super) fn is_pending(&self, place: PacketLocation) -> bool {
        place.batch == self.current_batch
    }

    /// Does not hand out a kept packet that [is pending](Self::is_pending). It is still to be released.
    pub(super) fn withdraw(&mut self, place: PacketLocation) {
        self.withdrawn.push(place.start..place.end);
    }

    /// Returns the bytes of a kept packet; none if it was released.
    pub(super) fn packet(&self, place: PacketLocation) -> Bytes {
        match self.batches.get(place.batch as usize) {
            Some(batch) if place.end <= batch.bytes.len() => {
                batch.bytes.slice(place.start..place.end)
            }
            _ => Bytes::new(),
        }
    }

    /// Keeps a packet no longer. Once for each [`keep`](Self::keep).
    pub(super) fn release(&mut self, place: PacketLocation) {
        if place.batch == self.current_batch {
            self.pending_kept -= 1;
            self.pending_kept_bytes -= place.end - place.start;
            return;
        }
        let Some(batch) = self.batches.get_mut(place.batch as usize) else {
            return;
        };
        batch.kept -= 1;
        if batch.kept == 0 {
            self.kept_bytes -= batch.bytes.len();
            batch.bytes = Bytes::new();
            self.free.push(place.batch);
        }
    }

    /// Ends the batch that grows, and keeps it if there is something to keep.
    fn close_batch(&mut self) -> Bytes {
        let bytes = self.pending.split().freeze();
        let kept = std::mem::take(&mut self.pending_kept);
        self.pending_kept_bytes = 0;
        if kept > 0 {
            let index = self.current_batch as usize;
            if self.batches.len() <= index {
                self.batches.resize_with(index + 1, Batch::default);
            }
            self.kept_bytes += bytes.len();
            self.batches[index] = Batch {
                bytes: bytes.clone(),
                kept,
            };
            // No more than 65,535 batches have something to keep.
            let next = u32::try_from(self.batches.len()).unwrap_or(u32::MAX);
            self.current_batch = self.free.pop().unwrap_or(next);
        }
        bytes
    }
}

/// Returns `bytes` without these ranges, which are in ascending order.
fn without(bytes: &Bytes, gaps: &[Range<usize>]) -> Bytes {
    if gaps.is_empty() {
        return bytes.clone();
    }
    let mut rest = BytesMut::with_capacity(bytes.len());
    let mut from = 0;
    for gap in gaps {
        rest.extend_from_slice(&bytes[from..gap.start]);
        from = gap.end;
    }
    rest.extend_from_slice(&bytes[from..]);
    rest.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_packet_does_not_delay_the_release_of_later_ones() {
        let mut outbox = Outbox::default();
        let send = |outbox: &mut Outbox| {
            outbox.pending().extend_from_slice(b"packet");
            let place = outbox.keep(0);
            let taken = outbox.take();
            outbox.written(taken.len());
            place
        };
        let stays = send(&mut outbox);
        for _ in 0..10_000 {
            let place = send(&mut outbox);
            outbox.release(place);
        }
        assert_eq!(outbox.buffered_bytes(), 6);
        assert!(outbox.batches.len() <= 3, "{}", outbox.batches.len());
        assert_eq!(&outbox.packet(stays)[..], b"packet");
    }

    #[test]
    fn bytes_are_counted_until_their_packet_is_released() {
        let mut outbox = Outbox::default();
        let counts = |outbox: &Outbox| (outbox.buffered_bytes(), outbox.unsent_bytes());
        outbox.pending().extend_from_slice(b"acknowledged");
        let first = outbox.keep(0);
        outbox.pending().extend_from_slice(b"withdrawn");
        let second = outbox.keep(12);
        outbox.pending().extend_from_slice(b"late");
        let third = outbox.keep(21);
        assert_eq!(counts(&outbox), (25, 25));
        outbox.withdraw(second);
        outbox.release(second);
        assert_eq!(counts(&outbox), (16, 25));
        assert_eq!(&outbox.take()[..], b"acknowledgedlate");
        assert_eq!(counts(&outbox), (25, 16), "it is kept as a whole");
        outbox.pending().extend_from_slice(b"next");
        assert_eq!(counts(&outbox), (25, 20));
        // The transport has all of a packet when it has its last byte.
        for (bytes, has) in [
            (11, [false; 2]),
            (1, [true, false]),
            (3, [true, false]),
            (1, [true; 2]),
        ] {
            outbox.written(bytes);
            let handed = [first, third].map(|place| outbox.is_written(place));
            assert_eq!(handed, has, "{} left", outbox.unsent_bytes());
        }
        outbox.release(first);
        assert_eq!(counts(&outbox), (25, 4));
        assert_eq!(&outbox.packet(third)[..], b"late");
        outbox.release(third);
        assert_eq!(counts(&outbox), (0, 4));
        assert_eq!(&outbox.packet(third)[..], b"");
    }

    #[test]
    fn a_packet_released_before_take_is_not_counted() {
        let mut outbox = Outbox::default();
        outbox.pending().extend_from_slice(b"some");
        let first = outbox.keep(0);
        outbox.pending().extend_from_slice(b"more");
        let second = outbox.keep(4);
        outbox.release(first);
        outbox.release(second);
        assert_eq!((outbox.pending_kept, outbox.buffered_bytes()), (0, 0));
        outbox.take();
        assert_eq!((outbox.batches.len(), outbox.buffered_bytes()), (0, 0));
    }
}
