//! The memory of this process, for the hub's decisions on large allocations.
use crate::available_memory::available_memory;
use crate::heap::Heap;
use crate::resident_memory::ResidentMemory;
use statestored_broker::ProcessMemory;

/// Memory as reported by the allocator and the system.
#[derive(Debug)]
pub(super) struct MeasuredMemory {
    heap: &'static dyn Heap,
    resident: ResidentMemory,
    available_bytes: u64,
}

impl MeasuredMemory {
    pub(super) fn new(heap: &'static dyn Heap) -> Self {
        Self {
            heap,
            resident: ResidentMemory::open(),
            available_bytes: available_memory(),
        }
    }
}

impl ProcessMemory for MeasuredMemory {
    fn reserve_bytes(&self) -> u64 {
        self.heap.reserve_bytes()
    }

    fn remaining_reserve_bytes(&self) -> u64 {
        self.heap.remaining_reserve_bytes()
    }

    fn can_allocate(&self, bytes: u64) -> bool {
        self.heap.can_allocate(bytes)
    }

    fn anonymous_bytes(&self) -> u64 {
        self.resident.read().unwrap_or_default().anonymous_bytes
    }

    fn available_bytes(&self) -> u64 {
        self.available_bytes
    }
}
