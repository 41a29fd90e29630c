//! What the C library is compared with: the same load through the Rust client. `cargo bench -p statestore-ffi --bench rust -- URL [REQUESTS]`
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_precision_loss)]

use statestore_core::{Client, Settings};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

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

async fn run(client: &Client, in_flight: usize, requests: u64) {
    let next = Rc::new(Cell::new(0));
    let tasks = LocalSet::new();
    let began = Instant::now();
    let running: Vec<_> = (0..in_flight)
        .map(|_| {
            let (client, next) = (client.clone(), Rc::clone(&next));
            tasks.spawn_local(async move {
                let mut latencies = Vec::new();
                loop {
                    let number = next.replace(next.get() + 1);
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
    tasks.await;
    let elapsed = began.elapsed();
    let mut latencies = Vec::new();
    for task in running {
        latencies.extend(task.await.unwrap());
    }
    report("Rust, get", in_flight, latencies, elapsed);
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::connect(Settings::from_url(&url).unwrap())
            .await
            .unwrap();
        run(&client, 256, requests).await;
        run(&client, 1, requests / 10).await;
        client.close().await;
    });
}
