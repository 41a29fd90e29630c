//! Memory of packets that were acknowledged, for the copies of those that are sent next.

/// Maximum number of buffers that are kept for all sessions together.
const MAX_BUFFERS: usize = 512;
/// Maximum size of a kept buffer, in bytes.
const MAX_BUFFER_BYTES: usize = 1024;
/// Bytes by which the memory of a copy may exceed twice its length.
const SLACK_BYTES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct PacketBufferPool(Vec<Vec<u8>>);

impl PacketBufferPool {
    /// Returns a copy of a packet.
    pub(super) fn copy(&mut self, packet: &[u8]) -> Vec<u8> {
        let most = 2 * packet.len() + SLACK_BYTES;
        match self.0.pop() {
            Some(mut spare) if (packet.len()..=most).contains(&spare.capacity()) => {
                spare.clear();
                spare.extend_from_slice(packet);
                spare
            }
            _ => packet.to_vec(),
        }
    }

    /// Keeps the memory of a copy that is not needed any more.
    pub(super) fn release(&mut self, packet: Vec<u8>) {
        if self.0.len() < MAX_BUFFERS && packet.capacity() <= MAX_BUFFER_BYTES {
            self.0.push(packet);
        }
    }
}
