//! Durable storage against memory, and the limit of the disk.

use crate::{
    disk,
    load::{self, COLUMNS, Workload, run_measured},
    own_client::OwnClient,
    plan::{BenchmarkPlan, thread_per_core},
    process::DataFolder,
    table::Table,
};
const KEYS: u64 = 10_000;
const IN_FLIGHT: usize = 256;

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    for (name, set_percentage) in [("half GET, half SET", 50), ("SET only", 100)] {
        let mix = Workload {
            set_percentage,
            ..plan.mix(IN_FLIGHT, KEYS)
        };
        let title = format!("Durable storage against memory, {IN_FLIGHT} in flight, {name}");
        storages(plan, &title, mix);
    }
    disk::measure(plan);
}

fn storages(plan: &BenchmarkPlan, title: &str, mix: Workload) {
    let runtime = &thread_per_core();
    // The folders are dropped after the servers.
    let (mut folders, mut servers) = (Vec::new(), Vec::new());
    for (number, build) in plan.builds().iter().enumerate() {
        let folder = DataFolder::new(&number.to_string());
        servers.push((format!("memory{}", build.mark), build.in_memory(&[])));
        servers.push((
            format!("durable{}", build.mark),
            build.durable(folder.path()),
        ));
        folders.push(folder);
    }
    let mut table = Table::new(&COLUMNS);
    let mut rows = Vec::new();
    for (name, server) in &servers {
        let client = runtime.block_on(OwnClient::connect(server.port, "bench-durable"));
        runtime.block_on(load::fill(&client, 0..KEYS));
        rows.push(table.row(name, move || {
            run_measured(server, || {
                runtime.block_on(load::run(std::slice::from_ref(&client), mix))
            })
        }));
    }
    table.ratio("durable / memory", rows[1], rows[0]);
    if let [memory, durable, memory_before, durable_before] = rows[..] {
        table.ratio(
            "durable / memory, server before",
            durable_before,
            memory_before,
        );
        table.ratio("memory, now / before", memory, memory_before);
        table.ratio("durable, now / before", durable, durable_before);
    }
    table.print(title, plan.rounds);
    drop(servers);
    drop(folders);
}
