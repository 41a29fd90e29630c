//! Resident memory while a store is filled three times with ever larger values; only a few values of each stage stay. The
//! remaining values lie between free areas that are too small for the next values. Redis, with its allocator, is the peer.

use crate::{
    load::key,
    own_client::OwnClient,
    plan::{BenchmarkPlan, thread_per_core},
    process::Server,
    redis,
    table::{Column, Table},
};
use std::sync::Arc;

/// Memory fluctuates little.
const MOST_ROUNDS: usize = 3;
/// Bytes and number of the values of each stage.
const STAGES: [(usize, u64); 3] = [(100, 400_000), (5_000, 9_000), (100_000, 450)];
/// Number of values of a stage for each one that stays.
const KEPT: u64 = 24;
/// Number of concurrent requests.
const BATCH: usize = 250;

const COLUMNS: [Column; 2] = [
    Column::new("resident at most / after the first stage", "", 2),
    Column::new("resident at most", " MiB", 0),
];

/// Sets or deletes a key, in pieces of [`BATCH`].
pub enum WriteStep<'a> {
    /// SET with this value.
    Set(&'a [u8]),
    /// DEL.
    Del,
}

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    let builds = plan.builds();
    let runtime = &thread_per_core();
    let mut table = Table::new(&COLUMNS);
    let mut rows = Vec::new();
    for build in &builds {
        let row = table.row(format!("statestored{}", build.mark), move || {
            let server = build.in_memory(&[]);
            let client = runtime.block_on(OwnClient::connect(server.port, "bench-fragmentation"));
            measure_resident(&server, |step, keys| {
                runtime.block_on(run_step(&client, step, keys));
            })
        });
        rows.push(row);
    }
    let peer = table.row("Redis", || {
        let server = Server::redis();
        measure_resident(&server, |step, keys| {
            redis::run_step(server.port, step, keys);
        })
    });
    table.ratio("statestored / Redis", rows[0], peer);
    let title =
        "Memory while a store is filled with 100 bytes, 5 kB and 100 kB, of which one in 24 stays";
    table.print(title, plan.rounds.min(MOST_ROUNDS));
}

/// Fills a server stage by stage; returns its numbers for [`COLUMNS`].
fn measure_resident(server: &Server, mut run_step: impl FnMut(&WriteStep<'_>, &[u64])) -> Vec<f64> {
    let mut stages = Vec::new();
    let mut next = 0;
    for (value_bytes, count) in STAGES {
        let value = vec![b'v'; value_bytes];
        let keys: Vec<u64> = (next..next + count).collect();
        next += count;
        for keys in keys.chunks(BATCH) {
            run_step(&WriteStep::Set(&value), keys);
        }
        stages.push(server.resident_bytes() as f64);
        let gone: Vec<u64> = keys.into_iter().filter(|it| it % KEPT != 0).collect();
        for keys in gone.chunks(BATCH) {
            run_step(&WriteStep::Del, keys);
        }
    }
    let most = stages.iter().copied().fold(0.0, f64::max);
    vec![most / stages[0], most / f64::from(1 << 20)]
}

async fn run_step(client: &Arc<OwnClient>, step: &WriteStep<'_>, keys: &[u64]) {
    let value = match step {
        WriteStep::Set(value) => Some(Arc::from(*value)),
        WriteStep::Del => None,
    };
    let requests = keys.iter().map(|&i| {
        let (client, value): (_, Option<Arc<[u8]>>) = (client.clone(), value.clone());
        tokio::spawn(async move {
            match value {
                Some(value) => drop(client.0.set(&key(i)[..], &value[..]).await.expect("set")),
                None => drop(client.0.del(&key(i)[..]).await.expect("del")),
            }
        })
    });
    for request in requests.collect::<Vec<_>>() {
        request.await.expect("no request fails");
    }
}
