//! Our client.
use crate::broker::VALUE;
use crate::figures::{Figures, Stopwatch, runtime};
use statestore::{Client, Settings};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

/// `in_flight` tasks that each wait for their response before they send again.
pub(crate) fn run(broker: SocketAddr, in_flight: usize, pairs: usize) -> Figures {
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime(), async move {
        let settings = Settings::new(broker.ip().to_string(), broker.port());
        let client = Client::connect(settings).await.unwrap();
        let left = Rc::new(Cell::new(pairs));
        let stopwatch = Stopwatch::start();
        let tasks: Vec<_> = (0..in_flight)
            .map(|_| {
                let (client, left) = (client.clone(), left.clone());
                tokio::task::spawn_local(async move {
                    let mut latencies = Vec::new();
                    while left.get() > 0 {
                        left.set(left.get() - 1);
                        // Every sixteenth, so that reading the clock does not count.
                        let start = (left.get() % 16 == 0).then(Instant::now);
                        client.set("key", VALUE).await.unwrap();
                        latencies.extend(start.map(|start| start.elapsed()));
                    }
                    latencies
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
