//! Permission for single allocations of a size that a client determines.
use std::fmt::Debug;

/// Largest allocation that needs no permission while at least half of the heap's reserve is left, in bytes.
const SMALL_BYTES: usize = 2 << 20;

/// Largest allocation that needs no permission while less than half of the reserve is left, in bytes.
const SMALL_SCARCE_BYTES: usize = 64 << 10;

/// Bytes that stay free for everything else, such as the stack of a thread, which the reserve cannot serve.
const MARGIN_BYTES: u64 = 4 << 20;

/// The decision whether the process can hold a large packet or value.
///
/// Memory is compared with its limits ten times a second, and several clients can exceed them in between. Each large allocation therefore
/// needs permission.
#[derive(Debug, Default)]
pub struct LargeAllocations {
    process: Option<Box<dyn ProcessMemory>>,
}

/// The memory of a process that has no other uses for it.
pub trait ProcessMemory: Debug + Send {
    /// Returns the bytes of the heap's complete reserve.
    fn reserve_bytes(&self) -> u64;

    /// Returns the bytes of the reserve that have not been given up.
    fn remaining_reserve_bytes(&self) -> u64;

    /// Returns whether the system would allow an allocation of `bytes` bytes now, without the reserve.
    fn can_allocate(&self, bytes: u64) -> bool;

    /// Returns the bytes of resident memory that no file backs.
    fn anonymous_bytes(&self) -> u64;

    /// Returns the bytes of memory that the process may use.
    fn available_bytes(&self) -> u64;
}

impl LargeAllocations {
    /// Creates the decision by the memory of this process.
    pub fn new(process: Box<dyn ProcessMemory>) -> Self {
        Self {
            process: Some(process),
        }
    }

    /// Returns whether `bytes` bytes can be allocated and kept, without the reserve.
    pub(crate) fn allows(&self, bytes: usize) -> bool {
        bytes <= SMALL_SCARCE_BYTES || self.has_memory(bytes, bytes, 0)
    }

    /// Returns whether the process can hold two more copies of bytes that it has: one to keep and one to send.
    pub(crate) fn allows_copies(&self, bytes: usize) -> bool {
        bytes <= SMALL_SCARCE_BYTES || self.has_memory(bytes, 2 * bytes, 0)
    }

    /// Returns whether `bytes` bytes can be allocated until they are sent. Half of the reserve may be used.
    pub(crate) fn allows_output(&self, bytes: usize) -> bool {
        bytes <= SMALL_SCARCE_BYTES || self.has_memory(bytes, bytes, 2)
    }

    /// Returns whether the system has memory for `needed` bytes, of which one allocation takes `bytes`.
    ///
    /// The reserve divided by `divisor` may be used as well; with 0, no part of it.
    fn has_memory(&self, bytes: usize, needed: usize, divisor: u64) -> bool {
        let Some(process) = &self.process else {
            return true;
        };
        let reserve = process.reserve_bytes();
        let is_scarce = process.remaining_reserve_bytes() < reserve / 2;
        if bytes <= SMALL_BYTES && !is_scarce {
            return true;
        }
        if bytes > SMALL_BYTES && is_scarce {
            return false;
        }
        let lent = reserve.checked_div(divisor).unwrap_or(0);
        let needed = (needed as u64).saturating_sub(lent) + MARGIN_BYTES;
        let in_use = process.anonymous_bytes() + reserve;
        in_use + needed <= process.available_bytes() && process.can_allocate(needed)
    }
}
