//! Our client.
use crate::broker::VALUE;
use crate::run_metrics::{RunMetrics, Stopwatch, runtime};
use statestore::{Client, Settings};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// `in_flight` tasks that each wait for their response before they send again.
pub(crate) fn run(broker: SocketAddr, in_flight: usize, pairs: usize) -> RunMetrics {
    runtime().block_on(async move {
        let settings = Settings::new(broker.ip().to_string(), broker.port());
        let client = Client::connect(settings).await.unwrap();
        let begun = Arc::new(AtomicUsize::new(0));
        let stopwatch = Stopwatch::start();
        let tasks: Vec<_> = (0..in_flight)
            .map(|_| {
                let (client, begun) = (client.clone(), begun.clone());
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    loop {
                        let number = begun.fetch_add(1, Ordering::Relaxed);
                        if number >= pairs {
                            return latencies;
                        }
                        // Every sixteenth, so that reading the clock does not count.
                        let start = number.is_multiple_of(16).then(Instant::now);
                        client.set("key", VALUE).await.unwrap();
                        latencies.extend(start.map(|start| start.elapsed()));
                    }
                })
            })
            .collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.unwrap());
        }
        let figures = stopwatch.stop(pairs, latencies);
        client.close().await;
        figures
    })
}
