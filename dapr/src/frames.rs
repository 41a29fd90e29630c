//! Boundaries of HTTP/2 frames (RFC 9113, sections 4.1 and 6.7).

/// Length of a frame header in bytes; the header starts with the length of the payload.
const HEADER_LEN: usize = 9;

/// Header of a PING acknowledgement: eight bytes follow, type 6, flag ACK, no stream.
const ACKNOWLEDGEMENT: [u8; HEADER_LEN] = [0, 0, 8, 6, 1, 0, 0, 0, 0];

/// Whether the bytes are the acknowledgement of a single PING.
pub(crate) fn is_acknowledgement(bytes: &[u8]) -> bool {
    bytes.len() == HEADER_LEN + 8 && bytes.starts_with(&ACKNOWLEDGEMENT)
}

/// Position of a byte stream within its frames.
#[derive(Debug, Default)]
pub(crate) struct FrameTracker {
    header: [u8; HEADER_LEN],
    /// Number of header bytes that have passed.
    header_len: usize,
    /// Number of payload bytes that are still to pass.
    payload_left: usize,
    longest: usize,
}

impl FrameTracker {
    /// Advances by further bytes of the stream.
    pub(crate) fn advance(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.header_len < HEADER_LEN {
                let count = bytes.len().min(HEADER_LEN - self.header_len);
                let (header, rest) = bytes.split_at(count);
                self.header[self.header_len..self.header_len + count].copy_from_slice(header);
                self.header_len += count;
                bytes = rest;
                if self.header_len == HEADER_LEN {
                    let [high, middle, low, ..] = self.header;
                    self.payload_left = u32::from_be_bytes([0, high, middle, low]) as usize;
                    self.longest = self.longest.max(self.payload_left);
                }
            }
            let count = bytes.len().min(self.payload_left);
            self.payload_left -= count;
            bytes = &bytes[count..];
            if self.header_len == HEADER_LEN && self.payload_left == 0 {
                self.header_len = 0;
            }
        }
    }

    /// Whether the last frame has passed completely.
    pub(crate) fn is_at_boundary(&self) -> bool {
        self.header_len == 0
    }

    /// Returns the length of the longest frame since the last [`reset_longest`](Self::reset_longest), without its header.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Forgets the lengths of the frames that have begun so far.
    pub(crate) fn reset_longest(&mut self) {
        self.longest = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(len: usize) -> Vec<u8> {
        let [_, high, middle, low] = u32::try_from(len).unwrap().to_be_bytes();
        let header = [high, middle, low, 0, 0, 0, 0, 0, 1];
        // The content of a frame looks like a header, but is none.
        let rest = ACKNOWLEDGEMENT.iter().copied().cycle().take(len);
        header.into_iter().chain(rest).collect()
    }

    #[test]
    fn frame_boundaries_are_tracked_for_any_fragmentation() {
        let lengths = [0, 1, 8, 300, 70_000, 0];
        let frames: Vec<_> = lengths.into_iter().map(frame).collect();
        let stream = frames.concat();
        let mut ends = Vec::new();
        for frame in &frames {
            ends.push(ends.last().unwrap_or(&0) + frame.len());
        }
        for at_a_time in [1, 2, 9, 10, 17, 4096, stream.len()] {
            let mut place = FrameTracker::default();
            let mut passed = 0;
            for piece in stream.chunks(at_a_time) {
                place.advance(piece);
                passed += piece.len();
                assert_eq!(place.is_at_boundary(), ends.contains(&passed), "{passed}");
            }
            assert_eq!(place.longest(), 70_000);
            place.reset_longest();
            place.advance(&frame(5));
            assert_eq!(place.longest(), 5);
        }
    }

    #[test]
    fn only_a_single_acknowledgement_is_recognized() {
        let one = [&ACKNOWLEDGEMENT[..], b"12345678"].concat();
        assert!(is_acknowledgement(&one));
        assert!(!is_acknowledgement(&one[..16]));
        assert!(!is_acknowledgement(&one.repeat(2)));
        let mut ping = one;
        ping[4] = 0;
        assert!(!is_acknowledgement(&ping));
    }
}
