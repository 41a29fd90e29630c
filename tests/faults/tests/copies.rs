//! How much memory a large value takes on its way. Alone in its file, because the allocator counts for all tests in it.
#![allow(clippy::unwrap_used)]

use faults::{direct, store, within};
use statestore::Client;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts what each thread allocates. The store has a thread of its own; the client runs on the thread of the test.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // Not while a thread ends.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + bytes));
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps what the trait demands.
        unsafe { System.alloc(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller keeps what the trait demands.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps what the trait demands.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

async fn allocated<T>(future: impl Future<Output = T>) -> (usize, T) {
    let before = ALLOCATED.get();
    let output = within(future).await;
    (ALLOCATED.get() - before, output)
}

#[tokio::test]
async fn a_value_is_copied_once_when_sent_and_not_when_received() {
    const BYTES: usize = 500_000;
    let (_server, address) = store();
    let client = Client::connect(direct(address)).await.unwrap();
    let value = vec![7; BYTES];
    // What is made once.
    client.set("small", "v").await.unwrap();
    client.get("small").await.unwrap();

    // One copy, into the packet.
    let (bytes, set) = allocated(client.set("k", &value)).await;
    set.unwrap();
    assert!(bytes < BYTES + 64 * 1024, "SET: {bytes} bytes");
    // A buffer that grows to the size of the packet; the value is a part of it.
    let (bytes, entry) = allocated(client.get("k")).await;
    assert_eq!(entry.unwrap().unwrap().value, value);
    assert!(bytes < 3 * BYTES, "GET: {bytes} bytes");
}
