//! How fast the client is by itself: SETs of 100 bytes against a broker that answers at once and stores nothing, with its
//! peers in the same run.
//!
//! ```text
//! cargo bench -p statestore --bench client -- [throughput] [latency]
//! ```
//!
//! A client runs on one thread, whose CPU time is what the last column tells; the broker has a thread of its own. Each
//! row is the best of several runs, taken in turns, so that what else the machine does falls on all of them alike.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

mod broker;
mod figures;
mod own;
mod peer;
mod raw;
mod request;

use figures::Figures;

const RUNS: usize = 5;

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

fn heading(title: &str) {
    println!(
        "\n### {title}\n\n| | pairs/s | p50 | p99 | CPU per pair |\n| --- | --- | --- | --- | --- |"
    );
}

fn row(name: &str, figures: &Figures) {
    println!(
        "| {name} | {:.0} | {:.1} µs | {:.1} µs | {:.2} µs |",
        figures.pairs_per_second(),
        figures.percentile(50),
        figures.percentile(99),
        figures.cpu_per_pair(),
    );
}

/// The best of all figures by one of them, least first.
fn best(figures: Vec<Figures>, by: impl Fn(&Figures) -> f64) -> Figures {
    let mut figures = figures;
    figures.sort_by(|one, other| by(one).total_cmp(&by(other)));
    figures.swap_remove(0)
}

fn throughput() {
    let broker = broker::start();
    heading("Many requests in flight");
    for in_flight in [64, 256, 1024] {
        let (mut own, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            own.push(own::run(broker, in_flight, 500_000));
            peer.push(peer::run(broker, in_flight, 100_000));
        }
        let fastest = |figures| best(figures, |figures| -figures.pairs_per_second());
        row(&format!("own client, {in_flight}"), &fastest(own));
        row(&format!("rumqttc's loop, {in_flight}"), &fastest(peer));
    }
}

fn latency() {
    const PAIRS: usize = 20_000;
    let broker = broker::start();
    heading("One request in flight");
    let mut runs = [const { Vec::new() }; 4];
    for _ in 0..RUNS {
        runs[0].push(raw::blocking(broker, PAIRS));
        runs[1].push(raw::tokio(broker, PAIRS));
        runs[2].push(own::run(broker, 1, PAIRS));
        runs[3].push(peer::run(broker, 1, PAIRS));
    }
    let [blocking, tokio, own, peer] =
        runs.map(|runs| best(runs, |figures| figures.percentile(50)));
    row("blocking socket", &blocking);
    row("tokio's socket", &tokio);
    row("own client", &own);
    row("rumqttc's loop", &peer);
    println!(
        "\np50 of our client: {:.2} of the blocking socket's, {:.2} of tokio's socket's",
        own.percentile(50) / blocking.percentile(50),
        own.percentile(50) / tokio.percentile(50),
    );
}
