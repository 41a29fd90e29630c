//! Watches of prefixes: 1,000 watchers of 100 keys each, and a writer that changes 10,000 keys a second. Peers are etcd's watches of
//! prefixes, the notifications of Redis's keyspace, and the watches of NATS KV.
//!
//! Each watcher has a connection, and each change has one watcher. The time is that from the request to the notification.

mod change_log;
mod clients;
mod keyspace;
mod lines;
mod nats;
mod sockets;

use crate::{
    load::run_measured,
    mqtt::Mqtt,
    plan::{BenchmarkPlan, thread_per_core},
    process::{DataFolder, Server, open_files},
    table::{Column, RowId, Table},
};
use change_log::{KEYS, MAX_UNDER_WAY, RATE, WATCHERS};
use clients::ClientWatchers;
use keyspace::Keyspace;
use nats::Nats;
use sockets::{SocketWatchers, WatchWire};

/// Further files that this process needs.
const OTHER_FILES: usize = 128;
/// Number of rows besides those in memory for each build.
const OTHER_ROWS: usize = 5;

/// The columns of the numbers that [`run_measured`] returns.
const COLUMNS: [Column; 5] = [
    Column::new("changes/s", "", 0),
    Column::new("notified after, p50", " µs", 0),
    Column::new("p99", " µs", 0),
    Column::new("clients' CPU per change", " µs", 2),
    Column::new("server CPU per change", " µs", 2),
];

/// Measures and prints, if the process may open that many files.
pub fn measure(plan: &BenchmarkPlan) {
    let title = format!("{WATCHERS} watchers of {KEYS} keys by prefix");
    let builds = plan.builds();
    let needed = (builds.len() + OTHER_ROWS) * (WATCHERS + 1) + OTHER_FILES;
    let allowed = open_files();
    if allowed < needed {
        println!("\n### {title}\n");
        println!("Not measured: {allowed} files may be open, {needed} are needed (`ulimit -n`).");
        return;
    }
    let folders = ["durable", "etcd", "nats"].map(DataFolder::new);
    let in_memory = plan.in_memory();
    let durable = builds[0].durable(folders[0].path());
    let for_clients = builds[0].in_memory(&[]);
    let redis = Server::redis();
    let etcd = Server::etcd(folders[1].path());
    let nats = Server::nats(folders[2].path());
    // The runtime ends, with its clients, before the servers do.
    let runtime = &thread_per_core();
    let (for_clients, etcd) = (&for_clients, &etcd);

    let mut table = Table::new(&COLUMNS);
    let mut own = Vec::new();
    for (mark, server) in &in_memory {
        let name = format!("statestored in memory, bare sockets{mark}");
        own.push(socket_row(&mut table, plan, name, server, mqtt));
    }
    let name = "statestored with durable storage, bare sockets".to_owned();
    let durable_row = socket_row(&mut table, plan, name, &durable, mqtt);
    let watchers = runtime.block_on(ClientWatchers::connect_own(for_clients.port));
    let clients_row = table.row("statestored in memory, own clients", move || {
        run_measured(for_clients, || runtime.block_on(watchers.run(plan.time)))
    });
    let name = "Redis keyspace notifications, without values, bare sockets".to_owned();
    let redis_row = socket_row(&mut table, plan, name, &redis, |_| Keyspace);
    let peers = runtime.block_on(ClientWatchers::connect_etcd(etcd.port));
    let etcd_row = table.row("etcd, which syncs, clients of etcd", move || {
        run_measured(etcd, || runtime.block_on(peers.run(plan.time)))
    });
    let nats_row = nats.as_ref().map(|nats| {
        let name = "NATS KV in memory, bare sockets".to_owned();
        socket_row(&mut table, plan, name, nats, Nats::new)
    });
    table.ratio("statestored in memory / Redis", own[0], redis_row);
    table.ratio(
        "statestored with durable storage / etcd",
        durable_row,
        etcd_row,
    );
    table.ratio("own clients / clients of etcd", clients_row, etcd_row);
    if let Some(nats_row) = nats_row {
        table.ratio("statestored in memory / NATS", own[0], nats_row);
    }
    if let [now, before] = own[..] {
        table.ratio("now / before", now, before);
    }
    table.print(&title, plan.rounds);
    println!(
        "\nThe writer changes {RATE} keys a second, as long as at most {MAX_UNDER_WAY} changes are under way. A server with a lower \
         rate sustains no more."
    );
    if nats.is_none() {
        println!("NATS KV is not measured: there is no nats-server in PATH.");
    }
}

fn mqtt(number: usize) -> Mqtt {
    Mqtt::new("watcher", number)
}

/// Adds a row of watchers and a writer on bare sockets.
fn socket_row<'a, W: WatchWire + 'a>(
    table: &mut Table<'a>,
    plan: &'a BenchmarkPlan,
    name: String,
    server: &'a Server,
    wire: impl FnMut(usize) -> W,
) -> RowId {
    let mut watchers = SocketWatchers::connect(server.port, wire);
    table.row(name, move || {
        run_measured(server, || watchers.run(plan.time))
    })
}
