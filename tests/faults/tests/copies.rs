//! How much memory a large value takes on its way.
#![allow(clippy::unwrap_used)]

use allocation_counter::measure;
use faults::{direct, store, within};
use statestore::Client;
use tokio::runtime::Builder;

#[test]
fn a_value_is_copied_once_when_sent_and_never_when_received() {
    const BYTES: usize = 500_000;
    const REST: usize = 64 * 1024;
    // The store has a thread of its own; the client runs on the thread of the test, whose allocations are counted.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (_server, address) = store();
    let client = runtime.block_on(async {
        let client = Client::connect(direct(address)).await.unwrap();
        // Makes one-time allocations.
        client.set("small", "v").await.unwrap();
        client.get("small").await.unwrap();
        client
    });
    let value = vec![7; BYTES];
    // A single copy, into the packet.
    let set = measure(|| {
        let set = within(client.set("k", &value));
        runtime.block_on(set).unwrap();
    });
    assert!(set.bytes_total < (BYTES + REST) as u64, "SET: {set:?}");
    // The buffer of the packet; the value is a part of it.
    let mut entry = None;
    let get = measure(|| {
        let get = within(client.get("k"));
        entry = runtime.block_on(get).unwrap();
    });
    assert_eq!(entry.unwrap().value, value);
    assert!(get.bytes_total < (BYTES + 2 * REST) as u64, "GET: {get:?}");
}
