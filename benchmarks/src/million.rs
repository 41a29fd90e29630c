//! One million keys: resident bytes against Redis, SCAN while SETs go on. One run: memory does not fluctuate.

use crate::{
    load::{self, Mix},
    own::Own,
    plan::{Plan, thread_per_core},
    process::Server,
    redis,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const KEYS: u64 = 1_000_000;

/// Measures and prints.
pub fn measure(plan: &Plan) {
    println!("\n### One million keys of 16 bytes with 100-byte values\n");
    println!("| | resident bytes per key | loaded in |\n| --- | --- | --- |");
    let redis = Server::redis();
    let redis_per_key = row("Redis", &redis, || redis::load(redis.port, KEYS));
    drop(redis);

    // The server of this checkout comes last: it is the one that is scanned.
    for build in plan.builds().iter().rev() {
        let server = build.in_memory(&["--max-keys", "2000000"]);
        // Ends, with the writers in it, before the server does.
        let runtime = thread_per_core();
        let client = runtime.block_on(Own::connect(server.port, "bench-million"));
        let name = format!("statestored{}", build.mark);
        let per_key = row(&name, &server, || {
            runtime.block_on(load::fill(&client, 0..KEYS));
        });
        if build.mark.is_empty() {
            println!("| statestored / Redis | {:.2} | |", per_key / redis_per_key);
            runtime.block_on(scan(client));
        }
    }
}

/// Loads a server, prints what that took, and returns its resident bytes per key.
fn row(name: &str, server: &Server, load: impl FnOnce()) -> f64 {
    let before = server.resident_bytes();
    let start = Instant::now();
    load();
    let took = start.elapsed().as_secs_f64();
    let per_key = (server.resident_bytes() - before) as f64 / KEYS as f64;
    println!("| {name} | {per_key:.0} | {took:.1} s |");
    per_key
}

async fn scan(client: Arc<Own>) {
    const WRITERS: Mix = Mix {
        in_flight: 32,
        // Until they are stopped.
        time: Duration::MAX,
        sets_of_100: 100,
        keys: KEYS,
    };
    let writers = {
        let client = client.clone();
        tokio::spawn(async move { load::run(&[client], WRITERS).await })
    };
    let (mut pages, mut keys, mut longest) = (0u64, 0u64, Duration::ZERO);
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
        "\nSCAN of all keys while {} writers go on: {pages} pages in {:.1} s, slowest page {:.1} ms.",
        WRITERS.in_flight,
        start.elapsed().as_secs_f64(),
        longest.as_secs_f64() * 1000.0
    );
}
