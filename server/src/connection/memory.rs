//! A pool of output buffers that connections share.
use bytes::BytesMut;

/// Minimum capacity of a lent buffer, in bytes: room for a usual answer.
const LEAST_BYTES: usize = 512;
/// Maximum capacity of all pooled buffers together, in bytes.
const MOST_BYTES: usize = 256 * 1024;

/// A stack of empty buffers for the connections that produce output next. With many connections, these few buffers stay
/// in the processor's caches, where a buffer for each connection would not. An idle connection has none.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffers: Vec<BytesMut>,
    /// Capacity of all buffers.
    bytes: usize,
}

impl Memory {
    /// Gives memory to a buffer that has none.
    pub(crate) fn lend(&mut self, buffer: &mut BytesMut) {
        if buffer.capacity() > 0 {
            return;
        }
        *buffer = match self.buffers.pop() {
            Some(lent) => {
                self.bytes -= lent.capacity();
                lent
            }
            None => BytesMut::with_capacity(LEAST_BYTES),
        };
    }

    /// Takes the memory of an empty buffer.
    pub(crate) fn take_back(&mut self, buffer: &mut BytesMut) {
        let mut buffer = std::mem::take(buffer);
        if buffer.try_reclaim(LEAST_BYTES) && self.bytes + buffer.capacity() <= MOST_BYTES {
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;

    #[test]
    fn what_was_written_out_of_a_buffer_is_lent_again() {
        let mut memory = Memory::default();
        let mut buffer = BytesMut::new();
        memory.lend(&mut buffer);
        let at = buffer.as_ptr();
        for _ in 0..10 {
            buffer.extend_from_slice(&[1; LEAST_BYTES]);
            buffer.advance(LEAST_BYTES);
            memory.take_back(&mut buffer);
            assert_eq!((buffer.capacity(), memory.bytes), (0, LEAST_BYTES));
            memory.lend(&mut buffer);
            assert_eq!((buffer.as_ptr(), memory.bytes), (at, 0));
        }
    }

    #[test]
    fn what_is_too_small_or_too_much_is_not_kept() {
        let mut memory = Memory::default();
        for bytes in [0, 1, LEAST_BYTES - 1, MOST_BYTES + 1] {
            memory.take_back(&mut BytesMut::with_capacity(bytes));
            assert_eq!(memory.bytes, 0, "{bytes}");
        }
        memory.take_back(&mut BytesMut::with_capacity(MOST_BYTES));
        memory.take_back(&mut BytesMut::with_capacity(LEAST_BYTES));
        assert_eq!((memory.bytes, memory.buffers.len()), (MOST_BYTES, 1));
    }

    #[test]
    fn a_buffer_with_memory_keeps_it() {
        let mut memory = Memory::default();
        memory.take_back(&mut BytesMut::with_capacity(LEAST_BYTES));
        let mut buffer = BytesMut::with_capacity(10);
        let at = buffer.as_ptr();
        memory.lend(&mut buffer);
        assert_eq!((buffer.as_ptr(), memory.bytes), (at, LEAST_BYTES));
    }
}
