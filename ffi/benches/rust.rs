//! What the C library is compared with: the same load through the Rust client. `cargo bench -p statestore-ffi --bench rust -- URL [REQUESTS]`
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_precision_loss)]

use statestore_core::{Client, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

const KEYS: u64 = 1000;

fn key(number: u64) -> String {
    format!("key-{:012}", number.wrapping_mul(2_654_435_761) % KEYS)
}

/// One row, and the median.
fn report(name: &str, in_flight: usize, mut latencies: Vec<Duration>, elapsed: Duration) {
    latencies.sort_unstable();
    let micros = |index: usize| latencies[index].as_nanos() as f64 / 1e3;
    println!(
        "| {name}, {in_flight} in flight | {:.0} | {:.1} µs | {:.1} µs |",
        latencies.len() as f64 / elapsed.as_secs_f64(),
        micros(latencies.len() / 2),
        micros(latencies.len() - 1 - latencies.len() / 100)
    );
}

async fn run(name: &str, client: &Client, in_flight: usize, requests: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let tasks: Vec<_> = (0..in_flight)
        .map(|_| {
            let (client, next) = (client.clone(), Arc::clone(&next));
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return latencies;
                    }
                    let key = key(number);
                    let sent = Instant::now();
                    client.get(key).await.unwrap().unwrap();
                    latencies.push(sent.elapsed());
                }
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.unwrap());
    }
    report(name, in_flight, latencies, began.elapsed());
}

/// One request after the other on the thread of `block_on`, as a blocking call is.
async fn run_one(name: &str, client: &Client, requests: u64) {
    let began = Instant::now();
    let mut latencies = Vec::new();
    for number in 0..requests {
        let key = key(number);
        let sent = Instant::now();
        client.get(key).await.unwrap().unwrap();
        latencies.push(sent.elapsed());
    }
    report(name, 1, latencies, began.elapsed());
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    // `cargo test --benches` and the like run this without an argument.
    let Some(url) = arguments.next() else { return };
    let requests = arguments
        .next()
        .map_or(200_000, |text| text.parse().unwrap());
    let runtimes = [
        ("Rust, tokio's default runtime", Builder::new_multi_thread()),
        (
            "Rust, a runtime of one thread",
            Builder::new_current_thread(),
        ),
    ];
    for (name, mut builder) in runtimes {
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let settings = Settings::from_url(&url).unwrap();
            let client = Client::connect(settings).await.unwrap();
            run(name, &client, 256, requests).await;
            run_one(name, &client, requests / 10).await;
            client.close().await;
        });
    }
}
