//! Speed of the client by itself: SETs of 100 bytes against a broker that answers at once and stores nothing. Other
//! clients run in the same benchmark.
//!
//! ```text
//! cargo bench -p statestore --bench client -- [throughput] [latency]
//! ```
//!
//! A client runs on one thread, whose CPU time is in the last column; the broker has a thread of its own. All rows of a
//! table take part in each round, in turns, so that other load of the machine affects all of them alike. A cell is the
//! median of the rounds, with the lowest and the highest. A ratio is that of two rows within a round.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

mod broker;
mod own_client;
mod raw_socket;
mod request;
mod results;
mod rumqttc_client;
mod run_metrics;
mod spread;
mod table;

use run_metrics::RunMetrics;
use table::{Column, Table};

const ROUNDS: usize = 9;

fn main() {
    let parts: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wants("throughput") {
        throughput();
    }
    if wants("latency") {
        latency();
    }
}

const COLUMNS: [Column; 4] = [
    Column::new("pairs/s", "", 0),
    Column::new("p50", " µs", 1),
    Column::new("p99", " µs", 1),
    Column::new("CPU per pair", " µs", 2),
];

fn columns(figures: &RunMetrics) -> Vec<f64> {
    vec![
        figures.pairs_per_second(),
        figures.percentile(50),
        figures.percentile(99),
        figures.cpu_per_pair(),
    ]
}

fn throughput() {
    // Each for about as long.
    const OWN_PAIRS: usize = 300_000;
    const PEER_PAIRS: usize = 75_000;
    const RAW_PAIRS: usize = 1_000_000;
    let broker = broker::start();
    for in_flight in [64, 256, 1024] {
        let mut table = Table::new(&COLUMNS);
        let own = table.row("own client", || {
            columns(&own_client::run(broker, in_flight, OWN_PAIRS))
        });
        let peer = table.row("rumqttc's loop", || {
            columns(&rumqttc_client::run(broker, in_flight, PEER_PAIRS))
        });
        let bare = table.row("blocking socket", || {
            columns(&raw_socket::pipelined(broker, in_flight, RAW_PAIRS))
        });
        table.ratio("own client / rumqttc's loop", own, peer);
        table.ratio("blocking socket / rumqttc's loop", bare, peer);
        table.print(&format!("{in_flight} requests in flight"), ROUNDS);
    }
}

fn latency() {
    const PAIRS: usize = 10_000;
    let broker = broker::start();
    let mut table = Table::new(&COLUMNS);
    let blocking = table.row("blocking socket", || {
        columns(&raw_socket::blocking(broker, PAIRS))
    });
    let tokio = table.row("tokio's socket", || {
        columns(&raw_socket::tokio(broker, PAIRS))
    });
    let own = table.row("own client", || columns(&own_client::run(broker, 1, PAIRS)));
    let peer = table.row("rumqttc's loop", || {
        columns(&rumqttc_client::run(broker, 1, PAIRS))
    });
    table.ratio("own client / blocking socket", own, blocking);
    table.ratio("own client / tokio's socket", own, tokio);
    table.ratio("own client / rumqttc's loop", own, peer);
    table.print("One request in flight", ROUNDS);
}
