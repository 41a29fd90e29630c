//! Allocations of the client for each request and notification in steady state, and for each observed key. Also the time
//! until all watches are renewed and read back after a lost connection.
//!
//! ```text
//! cargo bench -p client-tests --bench memory -- [requests] [watches]
//! ```
//!
//! Counted is what the client's thread allocates; broker and server have threads of their own.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

#[path = "../../../core/benches/client/broker.rs"]
mod broker;

use allocation_counter::measure;
use broker::VALUE;
use statestore::platform::{Connecting, Duplex, Platform, System, Task};
use statestore::{Client, Observer, Settings};
use statestored::RunningServer;
use statestored::config::Config;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

fn main() {
    let parts: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wants("requests") {
        requests();
    }
    if wants("watches") {
        watches();
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Prints what `work` allocates for each of its `count` requests, once it has been done before.
fn row(runtime: &Runtime, name: &str, count: u64, mut work: impl AsyncFnMut()) {
    runtime.block_on(work());
    let allocated = measure(|| runtime.block_on(work()));
    println!(
        "| {name} | {:.3} | {:.0} |",
        allocated.count_total as f64 / count as f64,
        allocated.bytes_total as f64 / count as f64,
    );
}

fn requests() {
    const COUNT: u64 = 20_000;
    const CONCURRENCY: u64 = 64;
    println!("\n### Allocations of the client\n\n| | allocations | bytes |\n| --- | --- | --- |");
    let runtime = runtime();
    let broker = broker::start();
    let settings = Settings::new(broker.ip().to_string(), broker.port());
    let client = runtime.block_on(Client::connect(settings)).unwrap();
    row(&runtime, "SET, one in flight", COUNT, async || {
        for _ in 0..COUNT {
            client.set("key", VALUE).await.unwrap();
        }
    });
    row(&runtime, "GET, one in flight", COUNT, async || {
        for _ in 0..COUNT {
            client.get("key").await.unwrap();
        }
    });
    row(&runtime, "SET, 64 in flight", COUNT, async || {
        let lanes: Vec<_> = (0..CONCURRENCY)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    for _ in 0..COUNT / CONCURRENCY {
                        client.set("key", VALUE).await.unwrap();
                    }
                })
            })
            .collect();
        for lane in lanes {
            lane.await.unwrap();
        }
    });
    let mut observer = runtime.block_on(client.observe("key")).unwrap();
    row(&runtime, "SET and its notification", COUNT, async || {
        for _ in 0..COUNT {
            client.set("key", VALUE).await.unwrap();
            observer.next().await.unwrap();
        }
    });
}

/// The machine as it is, with connections that can be cut.
#[derive(Debug, Clone)]
struct CuttablePlatform {
    broker: SocketAddr,
    last: Arc<Mutex<Option<std::net::TcpStream>>>,
}

impl CuttablePlatform {
    fn cut(&self) {
        let last = self.last.lock().unwrap().take().unwrap();
        last.shutdown(Shutdown::Both).unwrap();
    }
}

impl Platform for CuttablePlatform {
    fn wall_ms(&self) -> u64 {
        System.wall_ms()
    }
    fn random(&self) -> io::Result<u64> {
        System.random()
    }
    fn spawn(&self, task: Task) {
        System.spawn(task);
    }
    fn connect(&self) -> Option<Connecting> {
        let this = self.clone();
        Some(Box::pin(async move {
            let stream = tokio::net::TcpStream::connect(this.broker).await?;
            stream.set_nodelay(true)?;
            let stream = stream.into_std()?;
            *this.last.lock().unwrap() = Some(stream.try_clone()?);
            let stream = tokio::net::TcpStream::from_std(stream)?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        }))
    }
}

fn watches() {
    println!(
        "\n### Observed keys\n\n| keys | client's bytes per key | all renewed and read back after | per key |\n| --- | --- | --- | --- |"
    );
    let mut config = Config::in_memory();
    config.service.max_watches_per_client = 50_000;
    let server = RunningServer::start(config).unwrap();
    for keys in [1_000, 10_000, 50_000] {
        let runtime = runtime();
        let network = CuttablePlatform {
            broker: server.addresses()[0],
            last: Arc::default(),
        };
        // Cut again and again, it would soon wait longer and longer before it connects.
        let at_once = Duration::from_millis(1);
        let settings = Settings::new("127.0.0.1", network.broker.port())
            .reconnect_delay(at_once, at_once)
            .platform(network.clone());
        let client = runtime.block_on(Client::connect(settings)).unwrap();
        let names: Vec<_> = (0..keys)
            .map(|number| format!("key:{number:012}"))
            .collect();
        runtime.block_on(set(&client, &names));
        let mut observers = Vec::with_capacity(keys);
        let allocated = measure(|| runtime.block_on(observe(&client, &names, &mut observers)));
        let mut took = Vec::new();
        for _ in 0..5 {
            took.push(runtime.block_on(renewal(&client, &network, keys as u64)));
        }
        took.sort();
        let median = took[took.len() / 2].as_secs_f64();
        println!(
            "| {keys} | {} | {:.1} ms | {:.1} µs |",
            allocated.bytes_current / i64::try_from(keys).unwrap(),
            median * 1e3,
            median * 1e6 / keys as f64,
        );
        runtime.block_on(client.close());
    }
    server.stop().unwrap();
}

async fn set(client: &Client, names: &[String]) {
    for names in names.chunks(256) {
        let sets: Vec<_> = names
            .iter()
            .map(|name| {
                let (client, name) = (client.clone(), name.clone());
                tokio::spawn(async move { client.set(name, VALUE).await.unwrap() })
            })
            .collect();
        for set in sets {
            set.await.unwrap();
        }
    }
}

async fn observe(client: &Client, names: &[String], observers: &mut Vec<Observer>) {
    for names in names.chunks(256) {
        let begun: Vec<_> = names
            .iter()
            .map(|name| {
                let (client, name) = (client.clone(), name.clone());
                tokio::spawn(async move { client.observe(name).await.unwrap() })
            })
            .collect();
        for begun in begun {
            observers.push(begun.await.unwrap());
        }
    }
}

/// How long it takes from a cut until each key has been watched and read again.
async fn renewal(client: &Client, network: &CuttablePlatform, keys: u64) -> Duration {
    let before = client.counters();
    let started = Instant::now();
    network.cut();
    loop {
        let now = client.counters();
        if now.completed >= before.completed + 2 * keys {
            return started.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
