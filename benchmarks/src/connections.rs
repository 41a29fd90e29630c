//! Server against server as the number of connections grows, with one request in flight on each, from bare sockets.

use crate::{
    load::{self, COLUMNS, run_measured},
    mqtt::Mqtt,
    own_client::OwnClient,
    plan::{BenchmarkPlan, one_thread},
    process::{Server, open_files},
    raw_load::RawLoad,
    redis::{self, Resp},
    socket::Wire,
    table::Table,
};
use std::cell::Cell;

const KEYS: u64 = 1000;
const COUNTS: [usize; 5] = [1, 10, 100, 1_000, 10_000];
/// Connections and sessions of earlier rounds may still exist.
const LIMITS: [&str; 4] = ["--max-connections", "19000", "--max-sessions", "10000000"];
/// Further files that this process needs.
const OTHER_FILES: usize = 64;
const TITLE: &str = "Bare sockets, 1 in flight on each, by number of connections";

/// Measures and prints, for as many connections as the process may open. Each round opens its own connections, so that only those
/// of one row exist at a time.
pub fn measure(plan: &BenchmarkPlan) {
    let redis = &redis::start_filled(KEYS);
    let builds = plan.builds();
    let servers: Vec<_> = builds
        .iter()
        .map(|build| (build.mark, build.in_memory(&LIMITS)))
        .collect();
    for (_, server) in &servers {
        one_thread().block_on(async {
            load::fill(&OwnClient::connect(server.port, "bench-own").await, 0..KEYS).await;
        });
    }
    // Each connection has a client id of its own: the server would repeat former answers to a client of a former round.
    let clients = &Cell::new(0);
    let client = move |_| Mqtt::new("bench", clients.replace(clients.get() + 1));

    let allowed = open_files();
    let mut table = Table::new(&COLUMNS);
    for connections in COUNTS {
        if connections + OTHER_FILES > allowed {
            println!(
                "\n{connections} connections are not measured: {allowed} files may be open (`ulimit -n`)."
            );
            continue;
        }
        let mut rows = Vec::new();
        for (mark, server) in &servers {
            let name = format!("statestored{mark}, {connections} connections");
            rows.push(table.row(name, move || round(plan, server, connections, client)));
        }
        let name = format!("Redis, {connections} connections");
        let peer = table.row(name, move || round(plan, redis, connections, |_| Resp));
        let name = format!("statestored / Redis, {connections} connections");
        table.ratio(name, rows[0], peer);
        if let [now, before] = rows[..] {
            let name = format!("now / before, {connections} connections");
            table.ratio(name, now, before);
        }
    }
    table.print(TITLE, plan.rounds);
}

/// Runs a round with this number of new connections.
fn round<W: Wire>(
    plan: &BenchmarkPlan,
    server: &Server,
    connections: usize,
    wire: impl FnMut(usize) -> W,
) -> Vec<f64> {
    let mut raw = RawLoad::connect(server.port, connections, wire);
    run_measured(server, || raw.run(plan.mix(1, KEYS)))
}
