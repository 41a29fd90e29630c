//! Memory of packets that were acknowledged, for the copies of those that are sent next.

/// So many are kept for all sessions together.
const MOST: usize = 512;
/// None that is larger.
const MAX_BYTES: usize = 1024;
/// A copy takes no more memory than twice its bytes and this.
const SLACK_BYTES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Spares(Vec<Vec<u8>>);

impl Spares {
    /// A copy.
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

    /// A copy that is not needed any more.
    pub(super) fn put(&mut self, packet: Vec<u8>) {
        if self.0.len() < MOST && packet.capacity() <= MAX_BYTES {
            self.0.push(packet);
        }
    }
}
