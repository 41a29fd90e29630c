//! The client of this project on one connection, with the vendor's client and Redis's protocol on a bare socket as peers.

use crate::{
    load::{self, COLUMNS, run_measured},
    own_client::OwnClient,
    plan::{BenchmarkPlan, one_thread, thread_per_core},
    raw_load::RawLoad,
    redis::{self, Resp},
    table::Table,
    vendor_client::VendorClient,
};
use tokio::runtime::Runtime;

const KEYS: u64 = 1000;

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    for threads in ["one thread", "a thread per core"] {
        for in_flight in [1, 4, 16, 64, 256] {
            let title = format!("{in_flight} in flight on one connection, clients with {threads}");
            // A runtime for each table: the work of the vendor's session after its server has gone is not measured.
            let runtime = match threads {
                "one thread" => one_thread(),
                _ => thread_per_core(),
            };
            depth(plan, &title, &runtime, in_flight);
        }
    }
}

fn depth(plan: &BenchmarkPlan, title: &str, runtime: &Runtime, in_flight: usize) {
    // The vendor's client has to be created and dropped inside a runtime.
    let _inside = runtime.enter();
    let servers = plan.in_memory();
    let redis = redis::start_filled(KEYS);
    let mix = plan.mix(in_flight, KEYS);

    let mut table = Table::new(&COLUMNS);
    let mut own = Vec::new();
    for (mark, server) in &servers {
        let client = runtime.block_on(OwnClient::connect(server.port, "bench-own"));
        runtime.block_on(load::fill(&client, 0..KEYS));
        own.push(table.row(format!("own client{mark}"), move || {
            run_measured(server, || {
                runtime.block_on(load::run(std::slice::from_ref(&client), mix))
            })
        }));
    }
    let (_, server) = &servers[0];
    let vendor = VendorClient::connect(server.port, "bench-vendor");
    let vendor = table.row("vendor's client", move || {
        run_measured(server, || {
            runtime.block_on(load::run(std::slice::from_ref(&vendor), mix))
        })
    });
    let mut raw = RawLoad::connect(redis.port, 1, |_| Resp);
    let redis = table.row("Redis, bare socket", move || {
        run_measured(&redis, || raw.run(mix))
    });
    table.ratio("own client / vendor's", own[0], vendor);
    table.ratio("own client / Redis", own[0], redis);
    if let [now, before] = own[..] {
        table.ratio("now / before", now, before);
    }
    table.print(title, plan.rounds);
}
