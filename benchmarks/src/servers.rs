//! Server against server: the same load from bare sockets for `statestored` and Redis. Where there are many connections, clients
//! of this project take part as well.

use crate::{
    load::{self, COLUMNS, run_measured},
    mqtt::Mqtt,
    own_client::OwnClient,
    plan::{BenchmarkPlan, one_thread},
    raw_load::RawLoad,
    redis::{self, Resp},
    table::Table,
};

const KEYS: u64 = 1000;

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    for (connections, in_flight) in [(1, 64), (1, 256), (50, 1), (500, 1)] {
        shape(plan, connections, in_flight);
    }
}

fn shape(plan: &BenchmarkPlan, connections: usize, in_flight: usize) {
    let runtime = one_thread();
    let servers = plan.in_memory();
    let redis = redis::start_filled(KEYS);
    let mix = plan.mix(in_flight, KEYS);

    let mut table = Table::new(&COLUMNS);
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    for (mark, server) in &servers {
        let runtime = &runtime;
        let clients = runtime.block_on(OwnClient::connect_all(
            server.port,
            "bench-own",
            connections,
        ));
        runtime.block_on(load::fill(&clients[0], 0..KEYS));
        let mut raw = RawLoad::connect(server.port, connections, |number| {
            Mqtt::new("bench", number)
        });
        bare.push(table.row(format!("statestored{mark}"), move || {
            run_measured(server, || raw.run(mix))
        }));
        own.push(
            table.row(format!("statestored{mark}, own clients"), move || {
                run_measured(server, || runtime.block_on(load::run(&clients, mix)))
            }),
        );
    }
    let mut raw = RawLoad::connect(redis.port, connections, |_| Resp);
    let redis = table.row("Redis", move || run_measured(&redis, || raw.run(mix)));
    table.ratio("statestored / Redis", bare[0], redis);
    table.ratio("own clients / Redis", own[0], redis);
    for (name, rows) in [("now / before", bare), ("own clients, now / before", own)] {
        if let [now, before] = rows[..] {
            table.ratio(name, now, before);
        }
    }
    let title = match connections {
        1 => format!("Bare sockets, one connection, {in_flight} in flight"),
        _ => format!("Bare sockets, {connections} connections, {in_flight} in flight on each"),
    };
    table.print(&title, plan.rounds);
}
