//! Control of the process's memory beyond what is counted. Compacts entries when the heap has holes. Refuses growth
//! before the process exceeds the promised memory, or when the system refuses an allocation.
use super::Driver;
use super::process_memory::MeasuredMemory;
use crate::available_memory::MemoryLimits;
use crate::heap::Heap;
use crate::resident_memory::{MemoryUsage, ResidentMemory};
use statestored_broker::LargeAllocations;
use statestored_broker::hub::Hub;
use statestored_common::ClockReading;
use statestored_storage::Committer;
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes of input after which resident memory is read again, and the maximum time until then after any input.
const CHECK_BYTES: usize = 4 << 20;
const CHECK_MS: u64 = 100;

/// Memory that the process may have beyond its budgets; `docs/server.md` promises it.
const ALLOWANCE_BYTES: u64 = 64 << 20;

/// Distance to the limit at which growth is refused, since the next check comes later. Growth is allowed again when
/// resident memory has dropped by as much.
const MARGIN_BYTES: u64 = 8 << 20;

/// Size of the threads' stacks, which limits of private memory count in full.
const STACK_BYTES: u64 = 16 << 20;

/// Size of the heap's holes that is tolerated besides an eighth of the counted memory, and the maximum of that eighth.
const FRAGMENTATION_BYTES: u64 = 16 << 20;
const MAX_PROPORTIONAL_FRAGMENTATION_BYTES: u64 = 128 << 20;

/// Time between two slices of a pass over the entries, and between two passes while memory is short.
const SLICE_MS: u64 = 1;
const PASS_MS: u64 = 1_000;

/// Amount that sessions and connections may always hold, however short memory is, so that requests still get their
/// answers.
const MIN_SESSION_BYTES: usize = 8 << 20;

/// Monitor of the memory of a process that has no other uses for it.
#[derive(Debug)]
pub(super) struct MemoryMonitor {
    heap: &'static dyn Heap,
    resident: ResidentMemory,
    limits: MemoryLimits,
    /// The configured budgets.
    max_entry_bytes: u64,
    max_session_bytes: u64,
    last_check_ms: u64,
    /// Bytes of input since the last check; at least 1 if there was any.
    unchecked_bytes: usize,
    /// Whether a pass over the entries is in progress.
    is_relocating: bool,
    last_slice_ms: u64,
    /// The task that returns free pages to the system after a pass.
    trim: Option<JoinHandle<()>>,
    last_pass_ms: u64,
    /// Bytes that the last pass could not give back.
    unreclaimed_bytes: u64,
    /// Limit of the sessions while memory is short, and whether a pass has ended since.
    shortage: Option<MemoryShortage>,
}

#[derive(Debug)]
struct MemoryShortage {
    session_limit: usize,
    has_passed: bool,
}

impl MemoryMonitor {
    fn is_due(&self, now_ms: u64) -> bool {
        self.unchecked_bytes >= CHECK_BYTES
            || (self.is_pending() && now_ms >= self.last_check_ms + CHECK_MS)
    }

    /// Returns whether another check is due without further input.
    fn is_pending(&self) -> bool {
        self.unchecked_bytes > 0 || self.trim.is_some() || self.shortage.is_some()
    }

    /// Returns when the next step is due.
    fn next_ms(&self, now_ms: u64) -> Option<u64> {
        if self.is_relocating {
            return Some(now_ms.max(self.last_slice_ms + SLICE_MS));
        }
        self.is_pending().then_some(self.last_check_ms + CHECK_MS)
    }

    /// Compares resident memory with counted memory.
    fn check(&mut self, hub: &mut Hub, committer: &Committer, now: ClockReading) {
        self.last_check_ms = now.mono_ms;
        self.unchecked_bytes = 0;
        let resident = self.resident.read().unwrap_or_default();
        let size = hub.service().size();
        let storage_bytes = committer.memory_bytes(size.keys);
        let counted = size.bytes + hub.held_bytes() as u64 + storage_bytes;
        let budgets = self.max_entry_bytes.max(size.bytes) + self.max_session_bytes + storage_bytes;
        let limit = budgets.saturating_add(ALLOWANCE_BYTES - MARGIN_BYTES);
        let is_exhausted = self.heap.is_exhausted() && !self.heap.refill();
        let is_over =
            |margin| resident.bytes + margin > limit || self.is_near_limits(resident, margin);
        if is_exhausted || is_over(0) {
            self.handle_shortage(hub, now);
        } else if self.shortage.is_some() && !is_over(MARGIN_BYTES) {
            self.shortage = None;
            hub.set_memory_short(None, now);
            tracing::info!("there is memory again: the store takes larger entries");
        }
        let holes = resident.anonymous_bytes.saturating_sub(counted);
        if self.trim.take_if(|trim| trim.is_finished()).is_some() {
            self.unreclaimed_bytes = holes;
        }
        self.unreclaimed_bytes = self.unreclaimed_bytes.min(holes);
        let proportional = (counted / 8).min(MAX_PROPORTIONAL_FRAGMENTATION_BYTES);
        let has_holes = holes > self.unreclaimed_bytes + FRAGMENTATION_BYTES + proportional;
        let is_urgent = self.shortage.is_some() && now.mono_ms >= self.last_pass_ms + PASS_MS;
        if self.trim.is_none() && (has_holes || is_urgent) {
            self.is_relocating = true;
        }
    }

    /// Returns whether the process has nearly reached its own limit of memory.
    fn is_at_limit(&self) -> bool {
        let resident = self.resident.read();
        resident.is_some_and(|resident| self.is_near_limits(resident, 0))
    }

    /// Returns whether the process has nearly reached the system's limits of memory, the reserve aside. Address space
    /// that the heap keeps unused does not count: later allocations use it.
    fn is_near_limits(&self, resident: MemoryUsage, margin: u64) -> bool {
        let in_use = resident.anonymous_bytes + self.heap.reserve_bytes() + MARGIN_BYTES + margin;
        let data = in_use + STACK_BYTES;
        let address_space = data + resident.virtual_bytes.saturating_sub(resident.data_bytes);
        let exceeds = |bytes, limit: Option<u64>| limit.is_some_and(|limit| bytes > limit);
        in_use > self.limits.available
            || exceeds(data, self.limits.data)
            || exceeds(address_space, self.limits.address_space)
    }

    /// Handles a shortage of memory: nothing may grow. If that does not help within the time of a pass, sessions have
    /// to give memory back.
    fn handle_shortage(&mut self, hub: &mut Hub, now: ClockReading) {
        let held = hub.held_bytes();
        let session_limit = match &self.shortage {
            None => {
                tracing::warn!(
                    "the process has no memory left: SETs that make the store larger are refused until there is some again; \
                     lower --max-bytes or --max-session-bytes, or allow the process more memory"
                );
                held
            }
            Some(shortage) if shortage.has_passed => shortage.session_limit.min(held) / 8 * 7,
            Some(shortage) => shortage.session_limit,
        };
        let session_limit = session_limit.max(MIN_SESSION_BYTES);
        self.shortage = Some(MemoryShortage {
            session_limit,
            has_passed: false,
        });
        hub.set_memory_short(Some(session_limit), now);
    }

    /// Compacts the next entries. At the end of the pass, free pages go back to the system.
    fn relocate(&mut self, hub: &mut Hub, now: ClockReading) {
        self.last_slice_ms = now.mono_ms;
        self.is_relocating = hub.relocate();
        if self.is_relocating {
            return;
        }
        self.last_pass_ms = now.mono_ms;
        if let Some(shortage) = &mut self.shortage {
            shortage.has_passed = true;
        }
        let heap = self.heap;
        self.trim = Some(spawn_blocking(|| heap.trim()));
    }
}

impl Driver {
    /// Enables the monitor of the process's memory.
    pub(crate) fn with_heap(
        self,
        heap: Option<&'static dyn Heap>,
        max_entry_bytes: u64,
        max_session_bytes: usize,
    ) -> Self {
        if let Some(heap) = heap {
            let mut hub = self.hub.borrow_mut();
            let memory = Box::new(MeasuredMemory::new(heap));
            hub.set_large_allocations(LargeAllocations::new(memory));
        }
        let monitor = heap.map(|heap| MemoryMonitor {
            heap,
            resident: ResidentMemory::open(),
            limits: MemoryLimits::read(),
            max_entry_bytes,
            max_session_bytes: max_session_bytes as u64,
            last_check_ms: 0,
            unchecked_bytes: 0,
            is_relocating: false,
            last_slice_ms: 0,
            trim: None,
            last_pass_ms: 0,
            unreclaimed_bytes: 0,
            shortage: None,
        });
        self.memory_monitor.replace(monitor);
        self
    }

    /// Sets the budgets.
    pub(super) fn set_budgets(&self, max_entry_bytes: u64, max_session_bytes: usize) {
        if let Some(memory) = &mut *self.memory_monitor.borrow_mut() {
            memory.max_entry_bytes = max_entry_bytes;
            memory.max_session_bytes = max_session_bytes as u64;
        }
    }

    /// Records input, or another event that takes or frees memory. If the system has refused an allocation meanwhile,
    /// nothing grows from the next request on.
    pub(super) fn record_input(&self, bytes: usize, now: ClockReading) {
        let mut memory = self.memory_monitor.borrow_mut();
        let Some(memory) = &mut *memory else { return };
        let before = memory.unchecked_bytes;
        memory.unchecked_bytes = before + bytes.max(1);
        let is_much = memory.unchecked_bytes >= CHECK_BYTES;
        let is_short = memory.shortage.is_none()
            && (memory.heap.is_exhausted() || is_much && memory.is_at_limit());
        if is_short {
            memory.handle_shortage(&mut self.hub.borrow_mut(), now);
        }
        if is_short || is_much || before == 0 {
            self.maintenance_wake.notify_one();
        }
    }

    /// Does the steps that are due. Returns when the next one is due.
    pub(super) fn watch_memory(&self, committer: &Committer) -> Option<u64> {
        let mut memory = self.memory_monitor.borrow_mut();
        let memory = memory.as_mut().filter(|_| !self.is_poisoned.get())?;
        let now = self.clock.now();
        let is_due = memory.is_due(now.mono_ms);
        if is_due {
            memory.check(&mut self.hub.borrow_mut(), committer, now);
        }
        if memory.is_relocating && now.mono_ms >= memory.last_slice_ms + SLICE_MS {
            memory.relocate(&mut self.hub.borrow_mut(), now);
        }
        if is_due {
            // Sessions may have been evicted.
            self.wake_tasks(None);
        }
        memory.next_ms(now.mono_ms)
    }
}
