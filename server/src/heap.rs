//! The heap of the process, as far as the server can influence it.
use std::fmt::Debug;

/// The allocator of a program that consists of one server.
///
/// A program that uses its memory for other purposes as well passes no heap to the server. The server then neither measures the
/// process nor moves its entries.
pub trait Heap: Debug + Send + Sync {
    /// Returns whether the system has refused an allocation since the reserve was last complete.
    fn is_exhausted(&self) -> bool;

    /// Returns the bytes of the complete reserve, which is not resident.
    fn reserve_bytes(&self) -> u64;

    /// Returns whether the system would allow an allocation of `bytes` bytes now, without the reserve.
    fn can_allocate(&self, bytes: u64) -> bool;

    /// Returns the bytes of the reserve that have not been given up.
    fn remaining_reserve_bytes(&self) -> u64;

    /// Completes the reserve, as far as the system allows it. Returns whether it is complete.
    fn refill(&self) -> bool;

    /// Returns free pages to the system. Other allocations wait meanwhile, which takes milliseconds.
    fn trim(&self);
}
