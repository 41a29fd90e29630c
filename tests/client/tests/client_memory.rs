//! How much memory the client takes for what it does and for what it keeps.
#![allow(clippy::unwrap_used)]

#[path = "../../../core/benches/client/broker.rs"]
mod null_broker;

use allocation_counter::{AllocationInfo, measure};
use null_broker::VALUE;
use statestore::{Client, Settings};
use statestored::{RunningServer, config::Config};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Measures the allocations of `work` on this thread, where the client runs. Servers have threads of their own.
fn allocated(runtime: &Runtime, work: impl Future<Output = ()>) -> AllocationInfo {
    measure(|| runtime.block_on(work))
}

#[test]
fn requests_allocate_only_their_values() {
    const COUNT: u64 = 2_000;
    let runtime = runtime();
    let broker = null_broker::start();
    let settings = Settings::new(broker.ip().to_string(), broker.port());
    let client = runtime.block_on(Client::connect(settings)).unwrap();
    let sets = async || {
        for _ in 0..COUNT {
            client.set("key", VALUE).await.unwrap();
        }
    };
    let gets = async || {
        for _ in 0..COUNT {
            client.get("key").await.unwrap();
        }
    };
    // Buffers grow to their size once; from then on there is a new one for many requests.
    runtime.block_on(sets());
    let few = COUNT / 20;
    let setting = allocated(&runtime, sets());
    assert!(setting.count_total < few, "SET: {setting:?}");
    let getting = allocated(&runtime, gets());
    assert!(getting.count_total < COUNT + few, "GET: {getting:?}");

    let mut observer = runtime.block_on(client.observe("key")).unwrap();
    let mut notifications = async || {
        for _ in 0..COUNT {
            client.set("key", VALUE).await.unwrap();
            observer.next().await.unwrap();
        }
    };
    runtime.block_on(notifications());
    // Key and value of the notification.
    let notified = allocated(&runtime, notifications());
    assert!(notified.count_total < 2 * COUNT + few, "{notified:?}");
}

#[test]
fn a_kept_value_retains_at_most_twice_its_size() {
    const SIZE: usize = 24 * 1024;
    const COUNT: usize = 100;
    let runtime = runtime();
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let settings = Settings::from_url(&server.url()).unwrap();
    let client = runtime.block_on(Client::connect(settings)).unwrap();
    runtime.block_on(async {
        client.set("kept", vec![1; SIZE]).await.unwrap();
        client.set("other", vec![2; SIZE]).await.unwrap();
        client.get("kept").await.unwrap();
    });
    let mut values = Vec::with_capacity(COUNT);
    let by_values = allocated(&runtime, async {
        for _ in 0..COUNT {
            let kept = client.get("kept").await.unwrap().unwrap();
            client.get("other").await.unwrap();
            client.get("other").await.unwrap();
            values.push(kept.value);
        }
    });
    let kept = usize::try_from(by_values.bytes_current).unwrap();
    assert!(kept < 2 * SIZE * COUNT, "values: {by_values:?}");

    let mut keys = Vec::with_capacity(COUNT);
    let by_keys = allocated(&runtime, async {
        for _ in 0..COUNT {
            let mut scan = client.scan("kept");
            keys.extend(scan.next().await.unwrap());
        }
    });
    assert!(by_keys.bytes_current < 64 * 1024, "keys: {by_keys:?}");
}

#[test]
fn a_large_value_is_read_into_a_buffer_of_its_size() {
    const SIZE: usize = 10 << 20;
    let runtime = runtime();
    let mut config = Config::in_memory();
    config.limits.max_packet_bytes = u32::try_from(2 * SIZE).unwrap();
    let server = RunningServer::start(config).unwrap();
    let settings = Settings::from_url(&server.url()).unwrap();
    let client = runtime.block_on(Client::connect(settings)).unwrap();
    runtime
        .block_on(client.set("large", vec![3; SIZE]))
        .unwrap();
    let reading = allocated(&runtime, async {
        let value = client.get("large").await.unwrap().unwrap().value;
        assert!(value.len() == SIZE && value.iter().all(|byte| *byte == 3));
    });
    let most = (SIZE + 256 * 1024) as u64;
    assert!(reading.bytes_total < most, "{reading:?}");
    // Nor is it kept afterwards.
    let after = allocated(&runtime, async {
        client.get("absent").await.unwrap();
        client.get("absent").await.unwrap();
    });
    assert!(after.bytes_max < 256 * 1024, "{after:?}");
}
