//! Resident bytes by number of keys, with Redis as peer. Each round has servers of its own.

use crate::{
    load::{self, key},
    own_client::OwnClient,
    plan::{BenchmarkPlan, thread_per_core},
    process::Server,
    redis,
    table::{Column, Table},
};

/// Memory fluctuates little, and ten million keys take long.
const MOST_ROUNDS: usize = 3;
/// Numbers of keys; the last is the most that a server accepts by default.
pub const SIZES: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

const COLUMNS: [Column; 2] = [
    Column::new("resident bytes per key", "", 0),
    Column::new("resident, empty", " MiB", 1),
];

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    let builds = plan.builds();
    let runtime = &thread_per_core();
    let mut table = Table::new(&COLUMNS);
    for keys in SIZES {
        let mut rows = Vec::new();
        for build in &builds {
            let name = format!("statestored{}, {keys} keys", build.mark);
            rows.push(table.row(name, move || {
                let server = build.in_memory(&[]);
                measure_loaded(&server, keys, |port| {
                    runtime.block_on(async {
                        let client = OwnClient::connect(port, "bench-memory").await;
                        load::fill(&client, 0..keys).await;
                    });
                })
            }));
        }
        let peer = table.row(format!("Redis, {keys} keys"), move || {
            measure_loaded(&Server::redis(), keys, |port| redis::load(port, keys))
        });
        table.ratio(format!("statestored / Redis, {keys} keys"), rows[0], peer);
    }
    let title = format!(
        "Memory by number of keys of {} bytes with values of {} bytes",
        key(0).len(),
        load::VALUE.len()
    );
    table.print(&title, plan.rounds.min(MOST_ROUNDS));
}

/// Loads a server; returns its numbers for [`COLUMNS`].
fn measure_loaded(server: &Server, keys: u64, load: impl FnOnce(u16)) -> Vec<f64> {
    let before = server.resident_bytes();
    load(server.port);
    let more = server.resident_bytes().saturating_sub(before);
    vec![
        more as f64 / keys as f64,
        before as f64 / f64::from(1 << 20),
    ]
}
