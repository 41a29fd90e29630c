//! A server, and two servers, over a Redis. The peers are a client of Redis, and bare sockets to the same Redis.

use crate::{
    load::{self, LoadResult, Target, VALUE, Workload, micros},
    mqtt::Mqtt,
    own_client::OwnClient,
    plan::{BenchmarkPlan, one_thread},
    process::Server,
    raw_load::RawLoad,
    redis::{Resp, start_filled},
    table::{Column, RowId, Table},
};
use redis::{Client, aio::MultiplexedConnection, cmd};
use std::{path::Path, slice, sync::Arc, time::Duration};
use tokio::runtime::Runtime;

const KEYS: u64 = 10_000;

const COLUMNS: [Column; 6] = [
    load::COLUMNS[0],
    load::COLUMNS[1],
    load::COLUMNS[2],
    load::COLUMNS[3],
    Column::new("servers' CPU per request", " µs", 2),
    Column::new("Redis's CPU per request", " µs", 2),
];

/// A client of Redis that batches waiting requests on one connection, as statestored does.
struct RedisClient(MultiplexedConnection);

impl RedisClient {
    async fn connect(port: u16) -> Arc<Self> {
        let client = Client::open(format!("redis://127.0.0.1:{port}")).expect("a URL");
        let connection = client.get_multiplexed_async_connection().await;
        Arc::new(Self(connection.expect("redis answers")))
    }
}

impl Target for RedisClient {
    async fn set(&self, key: &[u8], value: &[u8]) {
        let mut connection = self.0.clone();
        let mut set = cmd("SET");
        let answer = set.arg(key).arg(value).query_async(&mut connection).await;
        let () = answer.expect("set");
    }

    async fn get(&self, key: &[u8]) {
        let mut connection = self.0.clone();
        let answer = cmd("GET").arg(key).query_async(&mut connection).await;
        let value: Vec<u8> = answer.expect("get");
        assert_eq!(value.len(), VALUE.len());
    }
}

/// Servers of a build: one over a store of its own, and two over another store, because each server follows all changes of its
/// store.
struct ServerSet<'a> {
    mark: &'a str,
    alone: Server,
    both: [Server; 2],
}

impl<'a> ServerSet<'a> {
    fn new(mark: &'a str, binary: &Path, redis: &Server, number: usize) -> Self {
        let over = |store| {
            let below = format!("?prefix={store}-{number}");
            Server::with_engine(binary, "redis", redis, &below)
        };
        Self {
            mark,
            alone: over("alone"),
            both: [over("both"), over("both")],
        }
    }
}

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    let redis = start_filled(KEYS);
    let builds = plan.builds();
    let nodes: Vec<_> = builds
        .iter()
        .enumerate()
        .map(|(number, build)| ServerSet::new(build.mark, &build.binary, &redis, number))
        .collect();
    let runtime = one_thread();
    runtime.block_on(async {
        for ServerSet { alone, both, .. } in &nodes {
            for server in [alone, &both[0]] {
                let client = OwnClient::connect(server.port, "bench-fill").await;
                load::fill(&client, 0..KEYS).await;
            }
        }
    });
    for (in_flight, set_percentage, what) in [
        (256, 0, "GET"),
        (256, 100, "SET"),
        (256, 50, "half GET, half SET"),
        (64, 50, "half GET, half SET"),
        (1, 0, "GET"),
        (1, 100, "SET"),
    ] {
        let mix = Workload {
            set_percentage,
            ..plan.mix(in_flight, KEYS)
        };
        let title = format!("Over a Redis, {in_flight} in flight, {what}");
        table(plan, &title, (&runtime, &redis), &nodes, mix);
    }
}

fn table<'a>(
    plan: &BenchmarkPlan,
    title: &str,
    (runtime, redis): (&'a Runtime, &'a Server),
    nodes: &'a [ServerSet<'a>],
    mix: Workload,
) {
    let mut table = Table::new(&COLUMNS);
    let direct = runtime.block_on(RedisClient::connect(redis.port));
    let client = table.row("client of Redis", move || {
        let clients = [Arc::clone(&direct)];
        run_measured(&[], redis, || runtime.block_on(load::run(&clients, mix)))
    });
    let mut raw = RawLoad::connect(redis.port, 1, |_| Resp);
    let bare = table.row("Redis, bare sockets", move || {
        run_measured(&[], redis, || raw.run(mix))
    });
    let mut ones: Vec<[RowId; 2]> = Vec::new();
    for ServerSet { mark, alone, both } in nodes {
        let own = runtime.block_on(OwnClient::connect(alone.port, "bench-own"));
        let one_own = table.row(format!("own client, statestored{mark}"), move || {
            let clients = [Arc::clone(&own)];
            run_measured(slice::from_ref(alone), redis, || {
                runtime.block_on(load::run(&clients, mix))
            })
        });
        let mut raw = RawLoad::connect(alone.port, 1, |number| Mqtt::new("bench", number));
        let one = table.row(format!("statestored{mark}, bare sockets"), move || {
            run_measured(slice::from_ref(alone), redis, || raw.run(mix))
        });
        ones.push([one_own, one]);
        if mix.in_flight > 1 {
            // The load is shared: each node has half of it.
            let half = Workload {
                in_flight: mix.in_flight / 2,
                ..mix
            };
            let ports = both.iter().map(|server| server.port);
            let mut raw = RawLoad::connect_each(ports, |number| Mqtt::new("bench-both", number));
            let both = table.row(format!("two statestored{mark}, bare sockets"), move || {
                run_measured(both, redis, || raw.run(half))
            });
            table.ratio(format!("two statestored{mark} / one"), both, one);
        }
        table.ratio(
            format!("own client{mark} / client of Redis"),
            one_own,
            client,
        );
        table.ratio(
            format!("statestored{mark} / Redis, bare sockets"),
            one,
            bare,
        );
    }
    if let [now, before] = ones[..] {
        table.ratio("own client, now / before", now[0], before[0]);
        table.ratio("bare sockets, now / before", now[1], before[1]);
    }
    table.print(title, plan.rounds);
}

/// Returns the result of a loop, and its cost for these servers and for Redis.
fn run_measured(nodes: &[Server], redis: &Server, run: impl FnOnce() -> LoadResult) -> Vec<f64> {
    let cpu = || nodes.iter().map(Server::cpu).sum::<Duration>();
    let before = cpu();
    let mut requests = 0;
    let mut numbers = load::run_measured(redis, || {
        let done = run();
        requests = done.latencies.len();
        done
    });
    let own = micros(cpu().saturating_sub(before)) / requests as f64;
    numbers.insert(COLUMNS.len() - 2, own);
    numbers
}
