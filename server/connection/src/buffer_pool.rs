//! A pool of output buffers that connections share.
use bytes::BytesMut;

/// Minimum capacity of a lent buffer, in bytes: room for a usual answer.
const MIN_BUFFER_BYTES: usize = 512;
/// Maximum capacity of all pooled buffers together, in bytes.
const MAX_POOL_BYTES: usize = 256 * 1024;

/// A stack of empty buffers for the connections that produce output next. With many connections, these few buffers stay
/// in the processor's caches, where a buffer for each connection would not. An idle connection has none.
#[derive(Debug, Default)]
pub struct BufferPool {
    buffers: Vec<BytesMut>,
    /// Capacity of all buffers.
    bytes: usize,
}

impl BufferPool {
    /// Gives memory to a buffer that has none.
    pub(crate) fn acquire(&mut self, buffer: &mut BytesMut) {
        if buffer.capacity() > 0 {
            return;
        }
        *buffer = match self.buffers.pop() {
            Some(lent) => {
                self.bytes -= lent.capacity();
                lent
            }
            None => BytesMut::with_capacity(MIN_BUFFER_BYTES),
        };
    }

    /// Takes the memory of an empty buffer.
    pub(crate) fn release(&mut self, buffer: &mut BytesMut) {
        let mut buffer = std::mem::take(buffer);
        if buffer.try_reclaim(MIN_BUFFER_BYTES) && self.bytes + buffer.capacity() <= MAX_POOL_BYTES
        {
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
    fn a_drained_buffer_is_reused() {
        let mut memory = BufferPool::default();
        let mut buffer = BytesMut::new();
        memory.acquire(&mut buffer);
        let at = buffer.as_ptr();
        for _ in 0..10 {
            buffer.extend_from_slice(&[1; MIN_BUFFER_BYTES]);
            buffer.advance(MIN_BUFFER_BYTES);
            memory.release(&mut buffer);
            assert_eq!((buffer.capacity(), memory.bytes), (0, MIN_BUFFER_BYTES));
            memory.acquire(&mut buffer);
            assert_eq!((buffer.as_ptr(), memory.bytes), (at, 0));
        }
    }

    #[test]
    fn small_and_excess_buffers_are_dropped() {
        let mut memory = BufferPool::default();
        for bytes in [0, 1, MIN_BUFFER_BYTES - 1, MAX_POOL_BYTES + 1] {
            memory.release(&mut BytesMut::with_capacity(bytes));
            assert_eq!(memory.bytes, 0, "{bytes}");
        }
        memory.release(&mut BytesMut::with_capacity(MAX_POOL_BYTES));
        memory.release(&mut BytesMut::with_capacity(MIN_BUFFER_BYTES));
        assert_eq!((memory.bytes, memory.buffers.len()), (MAX_POOL_BYTES, 1));
    }

    #[test]
    fn a_buffer_with_capacity_is_not_replaced() {
        let mut memory = BufferPool::default();
        memory.release(&mut BytesMut::with_capacity(MIN_BUFFER_BYTES));
        let mut buffer = BytesMut::with_capacity(10);
        let at = buffer.as_ptr();
        memory.acquire(&mut buffer);
        assert_eq!((buffer.as_ptr(), memory.bytes), (at, MIN_BUFFER_BYTES));
    }
}
