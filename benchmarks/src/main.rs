//! Measures what `docs/performance.md` states, each figure with its peer in the same run.
//!
//! `scripts/bench system` builds the server and runs it.

mod load;
mod own;
mod process;
mod redis;
mod vendor;

use clap::{Parser, ValueEnum};
use load::{Figures, Mix};
use own::Own;
use process::Server;
use std::{sync::Arc, time::Instant};
use tokio::runtime::Builder;
use vendor::Vendor;

#[derive(Parser)]
#[command(about = "Measures statestored and the client with their peers; prints Markdown tables")]
struct Arguments {
    /// What to measure.
    #[arg(value_enum, default_value = "all")]
    what: What,
    /// Requests of one run of our client.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Runs of each row; the median one is printed.
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum What {
    /// Everything below.
    All,
    /// Our client and the vendor's, 1, 64 and 256 in flight.
    Clients,
    /// Durable storage against memory.
    Durable,
    /// One million keys: resident bytes against Redis, SCAN while SETs go on.
    Million,
    /// Cost per operation from 1,000 to 1,000,000 keys.
    Flat,
}

fn main() {
    let arguments = Arguments::parse();
    let wants = |what| arguments.what == What::All || arguments.what == what;
    let one_thread = &mut Builder::new_current_thread();
    let many_threads = &mut Builder::new_multi_thread();
    if wants(What::Clients) {
        run(one_thread, clients(&arguments, "one thread"));
        run(many_threads, clients(&arguments, "a thread per core"));
    }
    if wants(What::Durable) {
        run(many_threads, durable(&arguments));
    }
    if wants(What::Flat) {
        run(many_threads, flat(&arguments));
    }
    if wants(What::Million) {
        run(many_threads, million());
    }
}

/// Runs one measurement on a runtime of its own.
fn run(runtime: &mut Builder, measurement: impl Future<Output = ()>) {
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(measurement);
}

/// The run with the median throughput.
async fn median<F: Future<Output = Figures>>(runs: usize, mut run: impl FnMut() -> F) -> Figures {
    let mut figures = Vec::new();
    for _ in 0..runs.max(1) {
        figures.push(run().await);
    }
    figures.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    figures.swap_remove(figures.len() / 2)
}

fn row(name: &str, f: &Figures) {
    println!(
        "| {name} | {:.0} | {:.0} µs | {:.0} µs | {:.2} µs |",
        f.per_second,
        f.p50.as_nanos() as f64 / 1000.0,
        f.p99.as_nanos() as f64 / 1000.0,
        f.client_cpu.as_nanos() as f64 / 1000.0,
    );
}

fn heading(title: &str) {
    println!(
        "\n### {title}\n\n| | req/s | p50 | p99 | client CPU per request |\n| --- | --- | --- | --- | --- |"
    );
}

async fn clients(arguments: &Arguments, threads: &str) {
    heading(&format!(
        "Clients with {threads} against `statestored --storage memory`, half GET, half SET, 100-byte values"
    ));
    let server = Server::statestored(&process::statestored_binary(), None, &[]);
    let own = Arc::new(Own::connect(server.port, "bench-own").await);
    let vendor = Arc::new(Vendor::connect(server.port, "bench-vendor"));
    let mut ratios = Vec::new();
    for in_flight in [1, 64, 256] {
        // The slower client and the depth of one get fewer requests for about the same time.
        let requests = if in_flight == 1 {
            arguments.requests / 20
        } else {
            arguments.requests
        };
        let mix = Mix {
            in_flight,
            requests,
            sets_of_100: 50,
            keys: 1000,
        };
        let slow = Mix {
            requests: requests / 8,
            ..mix
        };
        let ours = median(arguments.runs, || load::run(own.clone(), mix)).await;
        let theirs = median(arguments.runs, || load::run(vendor.clone(), slow)).await;
        row(&format!("own client, {in_flight} in flight"), &ours);
        row(&format!("vendor's client, {in_flight} in flight"), &theirs);
        ratios.push(format!(
            "{in_flight} in flight: {:.1}x the vendor's req/s, {:.2}x its p50",
            ours.per_second / theirs.per_second,
            ours.p50.as_secs_f64() / theirs.p50.as_secs_f64()
        ));
    }
    println!("\n{}", ratios.join("; "));
}

async fn durable(arguments: &Arguments) {
    heading("Durable storage against memory, 256 in flight, 100-byte values");
    for sets_of_100 in [50, 100] {
        let mix = Mix {
            in_flight: 256,
            requests: arguments.requests,
            sets_of_100,
            keys: 10_000,
        };
        let memory = Server::statestored(&process::statestored_binary(), None, &[]);
        let client = Arc::new(Own::connect(memory.port, "bench-memory").await);
        let in_memory = median(arguments.runs, || load::run(client.clone(), mix)).await;
        let dir = std::env::temp_dir().join(format!("statestore-bench-{}", std::process::id()));
        let on_disk = {
            let durable = Server::statestored(&process::statestored_binary(), Some(&dir), &[]);
            let client = Arc::new(Own::connect(durable.port, "bench-durable").await);
            median(arguments.runs, || load::run(client.clone(), mix)).await
        };
        std::fs::remove_dir_all(&dir).expect("the data folder is ours");
        row(&format!("memory, {sets_of_100} % SET"), &in_memory);
        row(&format!("durable, {sets_of_100} % SET"), &on_disk);
        println!(
            "| ratio | {:.2} | | | |",
            on_disk.per_second / in_memory.per_second
        );
    }
}

async fn fill(client: &Arc<Own>, from: u64, keys: u64) {
    let next = Arc::new(std::sync::atomic::AtomicU64::new(from));
    let tasks: Vec<_> = (0..256)
        .map(|_| {
            let (client, next) = (client.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if i >= keys {
                        return;
                    }
                    client.0.set(load::key(i), load::VALUE).await.expect("set");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no SET fails");
    }
}

async fn flat(arguments: &Arguments) {
    heading("Cost per operation by number of keys, 64 in flight, half GET, half SET");
    let server = Server::statestored(
        &process::statestored_binary(),
        None,
        &["--max-keys", "2000000"],
    );
    let client = Arc::new(Own::connect(server.port, "bench-flat").await);
    let mut filled = 0;
    for keys in [1_000, 10_000, 100_000, 1_000_000] {
        fill(&client, filled, keys).await;
        filled = keys;
        let mix = Mix {
            in_flight: 64,
            requests: arguments.requests,
            sets_of_100: 50,
            keys,
        };
        let cpu = server.cpu();
        let figures = median(arguments.runs, || load::run(client.clone(), mix)).await;
        let server_cpu = (server.cpu() - cpu).as_nanos() as f64
            / 1000.0
            / (arguments.requests * arguments.runs.max(1) as u64) as f64;
        row(
            &format!("{keys} keys (server CPU {server_cpu:.2} µs per request)"),
            &figures,
        );
    }
}

async fn million() {
    const KEYS: u64 = 1_000_000;
    println!("\n### One million keys of 16 bytes with 100-byte values\n");
    let redis = Server::redis();
    let before = redis.resident_bytes();
    redis::load(redis.port, KEYS);
    let redis_per_key = (redis.resident_bytes() - before) as f64 / KEYS as f64;

    let server = Server::statestored(
        &process::statestored_binary(),
        None,
        &["--max-keys", "2000000"],
    );
    let client = Arc::new(Own::connect(server.port, "bench-million").await);
    let before = server.resident_bytes();
    let start = Instant::now();
    fill(&client, 0, KEYS).await;
    let loaded = start.elapsed();
    let own_per_key = (server.resident_bytes() - before) as f64 / KEYS as f64;
    println!("| | resident bytes per key |\n| --- | --- |");
    println!("| Redis | {redis_per_key:.0} |\n| statestored | {own_per_key:.0} |");
    println!("| ratio | {:.2} |", own_per_key / redis_per_key);
    println!(
        "\nLoaded through the protocol in {:.1} s.",
        loaded.as_secs_f64()
    );

    let writers = {
        let client = client.clone();
        tokio::spawn(async move {
            load::run(
                client,
                Mix {
                    in_flight: 32,
                    requests: u64::from(u32::MAX),
                    sets_of_100: 100,
                    keys: KEYS,
                },
            )
            .await
        })
    };
    let (mut pages, mut keys, mut longest) = (0u64, 0u64, std::time::Duration::ZERO);
    let start = Instant::now();
    let mut scan = client.0.scan("*");
    loop {
        let asked = Instant::now();
        let Some(page) = scan.next_page().await.expect("scan") else {
            break;
        };
        longest = longest.max(asked.elapsed());
        pages += 1;
        keys += page.len() as u64;
    }
    writers.abort();
    assert_eq!(keys, KEYS, "a scan returns each key once");
    println!(
        "SCAN of all keys while 32 writers go on: {pages} pages in {:.1} s, slowest page {:.1} ms.",
        start.elapsed().as_secs_f64(),
        longest.as_secs_f64() * 1000.0
    );
}
