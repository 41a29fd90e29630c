//! Cost per operation by number of keys.

use crate::{
    load::{self, COLUMNS, run_measured},
    memory::SIZES,
    own_client::OwnClient,
    plan::{BenchmarkPlan, thread_per_core},
    table::Table,
};

const IN_FLIGHT: usize = 64;

/// Measures and prints: a server for each number of keys.
pub fn measure(plan: &BenchmarkPlan) {
    let runtime = &thread_per_core();
    let build = &plan.builds()[0];
    let servers = SIZES.map(|keys| (keys, build.in_memory(&[])));
    let mut table = Table::new(&COLUMNS);
    let rows = servers.each_ref().map(|(keys, server)| {
        let client = runtime.block_on(OwnClient::connect(server.port, "bench-flat"));
        runtime.block_on(load::fill(&client, 0..*keys));
        let mix = plan.mix(IN_FLIGHT, *keys);
        table.row(format!("{keys} keys"), move || {
            run_measured(server, || {
                runtime.block_on(load::run(std::slice::from_ref(&client), mix))
            })
        })
    });
    for (keys, row) in SIZES.iter().zip(rows).skip(1) {
        table.ratio(format!("{keys} keys / {} keys", SIZES[0]), row, rows[0]);
    }
    table.print(
        &format!("Cost per operation by number of keys, {IN_FLIGHT} in flight, half GET, half SET"),
        plan.rounds,
    );
}
