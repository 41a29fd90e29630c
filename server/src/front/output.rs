//! The bytes that wait to be sent on one connection.
use bytes::{Buf, BytesMut};
use std::collections::VecDeque;

/// From here on, output waits until the write `sequence` is durable.
#[derive(Debug)]
struct Hold {
    /// Offset in the stream of all output of the connection.
    start: u64,
    sequence: u64,
    /// PUBACKs between this hold and the next one.
    acknowledgements: u32,
}

/// Encoded packets in the order in which they leave.
///
/// A packet that tells of a write that is not durable yet is held, and so is all that follows it.
#[derive(Debug, Default)]
pub(crate) struct Output {
    buffer: BytesMut,
    /// Offset of the first byte of `buffer` in the stream.
    start: u64,
    /// Rising in both fields.
    holds: VecDeque<Hold>,
    /// PUBACKs before the first hold, and all.
    free_acknowledgements: u32,
    acknowledgements: u32,
}

impl Output {
    /// Where to append a packet that may leave once the write `hold` is durable; 0 is durable.
    pub(crate) fn writer(&mut self, hold: u64) -> &mut BytesMut {
        if hold > self.holds.back().map_or(0, |last| last.sequence) {
            let start = self.start + self.buffer.len() as u64;
            self.holds.push_back(Hold {
                start,
                sequence: hold,
                acknowledgements: 0,
            });
        }
        &mut self.buffer
    }

    /// Counts a PUBACK that was just appended.
    pub(crate) fn count_acknowledgement(&mut self) {
        self.acknowledgements += 1;
        match self.holds.back_mut() {
            Some(hold) => hold.acknowledgements += 1,
            None => self.free_acknowledgements += 1,
        }
    }

    /// PUBACKs that the client cannot have seen, since they are still here.
    pub(crate) fn acknowledgements(&self) -> u32 {
        self.acknowledgements
    }

    /// Bytes here, held ones included.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes that may leave now.
    pub(crate) fn releasable(&self) -> usize {
        match self.holds.front() {
            // The difference is a part of the buffer.
            #[allow(clippy::cast_possible_truncation)]
            Some(hold) => (hold.start - self.start) as usize,
            None => self.buffer.len(),
        }
    }

    /// All writes up to `durable` are durable.
    pub(crate) fn release(&mut self, durable: u64) {
        while self
            .holds
            .front()
            .is_some_and(|hold| hold.sequence <= durable)
        {
            if let Some(hold) = self.holds.pop_front() {
                self.free_acknowledgements += hold.acknowledgements;
            }
        }
    }

    /// Moves what may leave now to the end of `to`.
    pub(crate) fn take(&mut self, to: &mut BytesMut) {
        let count = self.releasable();
        self.start += count as u64;
        self.acknowledgements -= self.free_acknowledgements;
        self.free_acknowledgements = 0;
        if to.is_empty() && count == self.buffer.len() {
            // The two buffers change places, so that nothing is copied or allocated.
            to.clear();
            std::mem::swap(to, &mut self.buffer);
        } else {
            to.extend_from_slice(&self.buffer[..count]);
            self.buffer.advance(count);
        }
    }

    /// Forgets what is held: the connection ends before it may be told.
    pub(crate) fn drop_held(&mut self) {
        self.buffer.truncate(self.releasable());
        self.holds.clear();
        self.acknowledgements = self.free_acknowledgements;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(output: &mut Output) -> Vec<u8> {
        let mut to = BytesMut::new();
        output.take(&mut to);
        to.to_vec()
    }

    #[test]
    fn held_output_and_all_behind_it_waits() {
        let mut output = Output::default();
        output.writer(0).extend_from_slice(b"a");
        output.count_acknowledgement();
        output.writer(3).extend_from_slice(b"b");
        output.count_acknowledgement();
        output.writer(0).extend_from_slice(b"c");
        output.writer(3).extend_from_slice(b"d");
        output.writer(4).extend_from_slice(b"e");
        output.count_acknowledgement();
        assert_eq!(
            (output.len(), output.releasable(), output.acknowledgements()),
            (5, 1, 3)
        );
        assert_eq!(taken(&mut output), b"a");
        assert_eq!(output.acknowledgements(), 2);
        output.release(2);
        assert_eq!(taken(&mut output), b"");
        output.release(3);
        assert_eq!(taken(&mut output), b"bcd");
        assert_eq!(output.acknowledgements(), 1);
        output.release(9);
        assert_eq!(taken(&mut output), b"e");
        output.writer(0).extend_from_slice(b"f");
        assert_eq!(taken(&mut output), b"f");
    }

    #[test]
    fn held_output_can_be_dropped() {
        let mut output = Output::default();
        output.writer(0).extend_from_slice(b"ab");
        output.writer(1).extend_from_slice(b"cd");
        output.drop_held();
        output.writer(0).extend_from_slice(b"!");
        assert_eq!(taken(&mut output), b"ab!");
    }

    #[test]
    fn output_is_appended_to_what_was_not_sent_yet() {
        let mut output = Output::default();
        output.writer(0).extend_from_slice(b"b");
        let mut to = BytesMut::from(&b"a"[..]);
        output.take(&mut to);
        assert_eq!(&to[..], b"ab");
    }
}
