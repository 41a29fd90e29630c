//! Servers over an etcd of one member, with a client of etcd as peer.

use crate::{
    load::{self, COLUMNS, LoadResult, Target, VALUE, Workload, run_measured},
    own_client::OwnClient,
    plan::{BenchmarkPlan, thread_per_core},
    process::{DataFolder, Server},
    table::Table,
};
use etcd_client::{Client, Compare, CompareOp, KvClient, Txn, TxnOp};
use std::sync::Arc;
use tokio::runtime::Runtime;

const KEYS: u64 = 10_000;

/// A client of etcd. A SET is a transaction by itself: a compare and a put.
struct EtcdClient(KvClient);

impl EtcdClient {
    async fn connect(port: u16) -> Arc<Self> {
        let client = Client::connect([format!("http://127.0.0.1:{port}")], None).await;
        Arc::new(Self(client.expect("etcd answers").kv_client()))
    }
}

fn name(key: &[u8]) -> Vec<u8> {
    [b"direct/", key].concat()
}

impl Target for EtcdClient {
    async fn set(&self, key: &[u8], value: &[u8]) {
        let name = name(key);
        // The compare has the form of one with an earlier read; it always succeeds.
        let compare = Compare::mod_revision(name.clone(), CompareOp::Greater, -1);
        let put = TxnOp::put(name, value, None);
        let txn = Txn::new().when([compare]).and_then([put]);
        let answer = self.0.clone().txn(txn).await.expect("set");
        assert!(answer.succeeded());
    }

    async fn get(&self, key: &[u8]) {
        let answer = self.0.clone().get(name(key), None).await.expect("get");
        assert_eq!(
            answer.kvs().first().map(|it| it.value().len()),
            Some(VALUE.len())
        );
    }
}

/// Measures and prints.
pub fn measure(plan: &BenchmarkPlan) {
    let runtime = &thread_per_core();
    let folder = DataFolder::new("etcd");
    let etcd = Server::etcd(folder.path());
    let builds = plan.builds();
    let nodes: Vec<_> = builds
        .iter()
        .flat_map(|build| ["", "second "].map(|which| (which, build)))
        .map(|(which, build)| {
            (
                which,
                build.mark,
                Server::with_engine(&build.binary, "etcd", &etcd, ""),
            )
        })
        .collect();
    let first = &nodes[0].2;
    runtime.block_on(async {
        load::fill(&EtcdClient::connect(etcd.port).await, 0..KEYS).await;
        load::fill(&OwnClient::connect(first.port, "bench-fill").await, 0..KEYS).await;
    });
    for (in_flight, set_percentage, what) in [
        (1, 0, "GET"),
        (1, 100, "SET"),
        (64, 100, "SET"),
        (256, 0, "GET"),
        (256, 100, "SET"),
        (256, 50, "half GET, half SET"),
    ] {
        let mix = Workload {
            set_percentage,
            ..plan.mix(in_flight, KEYS)
        };
        let title = format!("Over an etcd of one member, {in_flight} in flight, {what}");
        table(plan, &title, runtime, &etcd, &nodes, mix);
    }
    drop(nodes);
    drop(etcd);
}

fn table(
    plan: &BenchmarkPlan,
    title: &str,
    runtime: &Runtime,
    etcd: &Server,
    nodes: &[(&str, &str, Server)],
    mix: Workload,
) {
    let mut table = Table::new(&COLUMNS);
    let direct = runtime.block_on(EtcdClient::connect(etcd.port));
    let peer = table.row("client of etcd", move || {
        run_measured(etcd, || run(runtime, &[Arc::clone(&direct)], mix))
    });
    let mut own = Vec::new();
    for (which, mark, server) in nodes.iter().filter(|(which, ..)| which.is_empty()) {
        let client = runtime.block_on(OwnClient::connect(server.port, "bench-own"));
        let row = table.row(format!("own client, {which}statestored{mark}"), move || {
            run_measured(server, || run(runtime, &[Arc::clone(&client)], mix))
        });
        table.ratio(format!("statestored{mark} / client of etcd"), row, peer);
        own.push(row);
    }
    if let [now, before] = own[..] {
        table.ratio("now / before", now, before);
    }
    // The load is shared: each node has half of it.
    let (one, other) = (&nodes[0].2, &nodes[1].2);
    if mix.in_flight > 1 {
        let half = Workload {
            in_flight: mix.in_flight / 2,
            ..mix
        };
        let clients = runtime.block_on(async {
            let one = OwnClient::connect(one.port, "bench-one").await;
            [one, OwnClient::connect(other.port, "bench-other").await]
        });
        let two = table.row("own clients, two statestored", move || {
            let before = other.cpu();
            let mut requests = 0;
            let mut numbers = run_measured(one, || {
                let done = run(runtime, &clients, half);
                requests = done.latencies.len();
                done
            });
            let more = other.cpu().saturating_sub(before);
            if let Some(cpu) = numbers.last_mut() {
                *cpu += load::micros(more) / requests as f64;
            }
            numbers
        });
        table.ratio("two statestored / one", two, own[0]);
    }
    table.print(title, plan.rounds);
}

fn run<T: Target>(runtime: &Runtime, targets: &[Arc<T>], mix: Workload) -> LoadResult {
    runtime.block_on(load::run(targets, mix))
}
