//! The allocator of the process: the system's, with a reserve for refused allocations.
#![allow(
    unsafe_code,
    reason = "an allocator and the C library's settings of it have no safe interface"
)]
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Number of blocks of the reserve, which are released one by one.
const BLOCKS: usize = 8;

/// Number of smaller pieces in which the size of the reserve has to be free besides it: most of the next allocations are smaller than
/// a block.
const FREE_BLOCKS: usize = 128;

/// Largest reserve in bytes: a few of the largest packets.
const MAX_RESERVE_BYTES: u64 = 48 << 20;

/// The system's allocator with a reserve.
///
/// When the system refuses an allocation, blocks of the reserve are released until the allocation succeeds.
/// [`is_exhausted`](statestored::Heap::is_exhausted) reports it, and the server then refuses requests that take more memory. Only an
/// allocation that fails without any reserve ends the process.
pub(crate) struct ReservingAllocator {
    blocks: [AtomicPtr<u8>; BLOCKS],
    /// Bytes of each block; 0 without a reserve.
    block_bytes: AtomicUsize,
    is_exhausted: AtomicBool,
}

impl ReservingAllocator {
    pub(crate) const fn new() -> Self {
        Self {
            blocks: [const { AtomicPtr::new(null_mut()) }; BLOCKS],
            block_bytes: AtomicUsize::new(0),
            is_exhausted: AtomicBool::new(false),
        }
    }

    /// Sets the system's allocator up, and allocates a reserve, for a process that may use `available_bytes` of memory.
    pub(crate) fn set_up(&self, available_bytes: u64) {
        set_options();
        let reserve_bytes = (available_bytes / 4).min(MAX_RESERVE_BYTES);
        let block_bytes = usize::try_from(reserve_bytes).unwrap_or(0) / BLOCKS;
        self.block_bytes.store(block_bytes, Ordering::Release);
        if !statestored::Heap::refill(self) {
            tracing::warn!(
                reserve_bytes,
                "the system does not allow a reserve of memory"
            );
        }
    }

    fn layout(&self) -> Option<Layout> {
        let bytes = self.block_bytes.load(Ordering::Acquire);
        Layout::array::<u8>(bytes).ok().filter(|it| it.size() > 0)
    }

    /// Returns whether as many bytes as the reserve has are free besides it, in smaller pieces.
    fn has_free_blocks(&self) -> bool {
        let bytes = self.block_bytes.load(Ordering::Acquire) / (FREE_BLOCKS / BLOCKS);
        let Some(layout) = Layout::array::<u8>(bytes).ok().filter(|it| it.size() > 0) else {
            return true;
        };
        // SAFETY: the size is not 0.
        let pieces = [(); FREE_BLOCKS].map(|()| unsafe { System.alloc(layout) });
        for piece in pieces.iter().filter(|piece| !piece.is_null()) {
            // SAFETY: allocated above with this layout.
            unsafe { System.dealloc(*piece, layout) };
        }
        pieces.iter().all(|piece| !piece.is_null())
    }

    /// Repeats an allocation that the system has refused, and releases a block of the reserve before each attempt.
    #[cold]
    fn retry_allocation(&self, allocate: impl Fn() -> *mut u8) -> *mut u8 {
        let Some(layout) = self.layout() else {
            return null_mut();
        };
        self.is_exhausted.store(true, Ordering::Release);
        for block in &self.blocks {
            let reserved = block.swap(null_mut(), Ordering::AcqRel);
            if !reserved.is_null() {
                // SAFETY: `refill` has allocated it with this layout, which never changes after the first block, and the swap has
                // given it to this thread alone.
                unsafe { System.dealloc(reserved, layout) };
            }
            let memory = allocate();
            if !memory.is_null() {
                return memory;
            }
        }
        null_mut()
    }
}

impl fmt::Debug for ReservingAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReservingAllocator")
            .field("block_bytes", &self.block_bytes)
            .field("is_exhausted", &self.is_exhausted)
            .finish_non_exhaustive()
    }
}

// SAFETY: every block of memory comes from `System` and goes back to it with the layout of the caller. The contract of `System`
// therefore holds for this allocator as well.
unsafe impl GlobalAlloc for ReservingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the same.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() {
            // SAFETY: as above.
            return self.retry_allocation(|| unsafe { System.alloc(layout) });
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the same.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if memory.is_null() {
            // SAFETY: as above.
            return self.retry_allocation(|| unsafe { System.alloc_zeroed(layout) });
        }
        memory
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's contract is the same.
        let moved = unsafe { System.realloc(memory, layout, size) };
        if moved.is_null() {
            // SAFETY: as above; a refused call has left the block as it was.
            return self.retry_allocation(|| unsafe { System.realloc(memory, layout, size) });
        }
        moved
    }
}

impl statestored::Heap for ReservingAllocator {
    fn is_exhausted(&self) -> bool {
        self.is_exhausted.load(Ordering::Relaxed)
    }

    fn reserve_bytes(&self) -> u64 {
        (self.block_bytes.load(Ordering::Relaxed) * BLOCKS) as u64
    }

    fn remaining_reserve_bytes(&self) -> u64 {
        let blocks = self.blocks.iter();
        let left = blocks.filter(|block| !block.load(Ordering::Relaxed).is_null());
        (self.block_bytes.load(Ordering::Relaxed) * left.count()) as u64
    }

    fn can_allocate(&self, bytes: u64) -> bool {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let Some(layout) = Layout::array::<u8>(bytes).ok().filter(|it| it.size() > 0) else {
            return bytes == 0;
        };
        // SAFETY: the size is not 0.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() {
            return false;
        }
        // SAFETY: allocated above with this layout.
        unsafe { System.dealloc(memory, layout) };
        true
    }

    fn refill(&self) -> bool {
        let Some(layout) = self.layout() else {
            return true;
        };
        for block in &self.blocks {
            if !block.load(Ordering::Acquire).is_null() {
                continue;
            }
            // SAFETY: the size is not 0.
            let reserved = unsafe { System.alloc(layout) };
            if reserved.is_null() {
                return false;
            }
            let put =
                block.compare_exchange(null_mut(), reserved, Ordering::AcqRel, Ordering::Acquire);
            if put.is_err() {
                // SAFETY: allocated above with this layout, and not shared.
                unsafe { System.dealloc(reserved, layout) };
            }
        }
        // Without free memory besides the reserve, the next request would exhaust it again.
        if self.is_exhausted.load(Ordering::Acquire) && !self.has_free_blocks() {
            return false;
        }
        self.is_exhausted.store(false, Ordering::Release);
        true
    }

    fn trim(&self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: the call has no precondition.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

/// Sets the allocator to one arena for all threads, so that memory freed by a thread is not kept for it alone. Large blocks are
/// allocated outside of it.
fn set_options() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (option, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_THRESHOLD, 1 << 20),
        (libc::M_TRIM_THRESHOLD, 2 << 20),
    ] {
        // SAFETY: these are options of this C library, with values in their ranges.
        if unsafe { libc::mallopt(option, value) } == 0 {
            tracing::debug!(
                option,
                value,
                "the C library does not know an option of its allocator"
            );
        }
    }
}
