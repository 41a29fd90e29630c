//! One million keys: SCAN during SETs in a single run, and the time to read all keys with their values.

use crate::{
    initial_state,
    load::{self, Workload},
    own_client::OwnClient,
    plan::{BenchmarkPlan, thread_per_core},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const KEYS: u64 = 1_000_000;

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    println!("\n### SCAN of one million keys");
    let server = plan.builds()[0].in_memory(&[]);
    // The runtime ends, with its writers, before the server does.
    let runtime = thread_per_core();
    runtime.block_on(async {
        let client = OwnClient::connect(server.port, "bench-million").await;
        load::fill(&client, 0..KEYS).await;
        scan(client).await;
    });
    initial_state::measure(plan, &runtime, &server, KEYS);
}

async fn scan(client: Arc<OwnClient>) {
    const WRITERS: Workload = Workload {
        in_flight: 32,
        // The writers run until they are stopped.
        time: Duration::MAX,
        set_percentage: 100,
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
