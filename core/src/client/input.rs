//! Bytes that were read and are not handled yet.
use bytes::{BufMut, BytesMut};
use statestore_protocol::mqtt::announced_len;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Capacity for one read, in bytes.
const READ_SIZE: usize = 64 * 1024;
/// Maximum size of a value that is copied out of the buffer, in bytes.
///
/// A longer value arrives in a packet with a buffer of its own, or in one of at most twice [`READ_SIZE`]. So a value keeps at most
/// twice its size alive, whatever arrived before and after it.
pub(super) const MAX_COPIED: usize = READ_SIZE;

/// A buffer for arriving packets.
#[derive(Debug)]
pub(super) struct Input {
    bytes: BytesMut,
    max_packet_bytes: u32,
    /// Whether the buffer was allocated for one large packet.
    is_large: bool,
}

impl Input {
    pub(super) fn new() -> Self {
        Self {
            bytes: BytesMut::with_capacity(READ_SIZE),
            max_packet_bytes: 0,
            is_large: false,
        }
    }

    /// Sets the maximum size of a packet for which a buffer is allocated.
    pub(super) fn set_max_packet_bytes(&mut self, bytes: u32) {
        self.max_packet_bytes = bytes;
    }

    /// Returns the unhandled bytes, which are consumed from the front.
    pub(super) fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Reads once. Returns the number of bytes, which is 0 at the end of the stream.
    pub(super) fn poll_read(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let capacity = self.reserve();
        let mut buffer = (&mut self.bytes).limit(capacity);
        pin!(io.read_buf(&mut buffer)).poll(context)
    }

    /// Reserves capacity for a read. Returns the maximum number of bytes to read.
    fn reserve(&mut self) -> usize {
        let announced = announced_len(&self.bytes, self.max_packet_bytes);
        if let Some(size) = announced.filter(|size| *size > READ_SIZE.max(self.bytes.len())) {
            // One allocation for the packet alone: it is not copied while it grows, and keeps no other bytes alive.
            if !self.is_large {
                let mut large = BytesMut::with_capacity(size);
                large.put_slice(&self.bytes);
                self.bytes = large;
                self.is_large = true;
            }
            return size - self.bytes.len();
        }
        if self.is_large {
            let mut usual = BytesMut::with_capacity(READ_SIZE + self.bytes.len());
            usual.put_slice(&self.bytes);
            self.bytes = usual;
            self.is_large = false;
        } else if self.bytes.capacity() - self.bytes.len() < READ_SIZE / 4 {
            self.bytes.reserve(READ_SIZE);
        }
        self.bytes.capacity() - self.bytes.len()
    }
}
