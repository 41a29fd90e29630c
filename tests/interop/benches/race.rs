//! The vendor's client and our own race: SET and GET of 100 bytes against one server, in turns.
//!
//! `STATESTORED_BIN=target/release/statestored cargo bench --manifest-path tests/interop/Cargo.toml`
use azure_iot_operations_services::state_store;
use interop::{GUARD, Server, Vendor};
use statestore::{Client, Settings};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const VALUE: [u8; 100] = [b'v'; 100];

/// What both clients can do.
trait Racer: Send + Sync + 'static {
    fn set(&self, key: &[u8]) -> impl Future<Output = ()> + Send;
    fn get(&self, key: &[u8]) -> impl Future<Output = ()> + Send;
}

impl Racer for Arc<state_store::Client> {
    async fn set(&self, key: &[u8]) {
        let (key, value) = (key.to_vec(), VALUE.to_vec());
        let options = state_store::SetOptions::default();
        let set = state_store::Client::set(self, key, value, GUARD, None, options).await;
        assert!(set.expect("SET").response);
    }
    async fn get(&self, key: &[u8]) {
        let got = state_store::Client::get(self, key.to_vec(), GUARD).await;
        assert!(got.expect("GET").response.is_some());
    }
}

impl Racer for Client {
    async fn set(&self, key: &[u8]) {
        assert!(
            Client::set(self, key, VALUE)
                .await
                .expect("SET")
                .is_applied()
        );
    }
    async fn get(&self, key: &[u8]) {
        assert!(Client::get(self, key).await.expect("GET").is_some());
    }
}

/// Requests per second, and the median latency, of `in_flight` tasks that each wait for their answers.
async fn race(racer: impl Racer + Clone, in_flight: u32, operations: u32) -> (f64, Duration) {
    let began = Instant::now();
    let tasks: Vec<_> = (0..in_flight)
        .map(|task| {
            let racer = racer.clone();
            tokio::spawn(async move {
                let key = format!("key/{task}").into_bytes();
                let mut latencies = Vec::new();
                for operation in 0..operations / in_flight {
                    let began = Instant::now();
                    if operation % 2 == 0 {
                        racer.set(&key).await;
                    } else {
                        racer.get(&key).await;
                    }
                    latencies.push(began.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.expect("no panic"));
    }
    let elapsed = began.elapsed();
    latencies.sort_unstable();
    let rate = f64::from(u32::try_from(latencies.len()).expect("few")) / elapsed.as_secs_f64();
    (rate, latencies[latencies.len() / 2])
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let settings = Settings::new("127.0.0.1", server.port());
    let ours = Client::connect(settings)
        .await
        .expect("the server accepts us");

    println!("in flight | vendor: req/s, p50 | ours: req/s, p50 | ours / vendor: req/s, p50");
    for (in_flight, operations) in [(1, 20_000), (64, 200_000), (256, 200_000)] {
        race(vendor.store.clone(), in_flight, operations / 10).await;
        let (vendor_rate, vendor_p50) = race(vendor.store.clone(), in_flight, operations / 4).await;
        race(ours.clone(), in_flight, operations / 10).await;
        let (our_rate, our_p50) = race(ours.clone(), in_flight, operations).await;
        println!(
            "{in_flight:>9} | {vendor_rate:>8.0} {vendor_p50:>10.1?} | {our_rate:>8.0} {our_p50:>10.1?} | \
             {:.1}x {:.2}x",
            our_rate / vendor_rate,
            our_p50.as_secs_f64() / vendor_p50.as_secs_f64(),
        );
    }
}
