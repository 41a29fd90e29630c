//! Measures the figures of `docs/performance.md` and `notes/experiments.md`, each with its peer in the same run.
//!
//! `scripts/bench` builds the servers and runs it. There is a file for each measurement, and each of them makes tables. The rows
//! of a table are measured in turns, in short rounds, because the speed of a shared machine changes from minute to minute.

mod attached;
mod builds;
mod clients;
mod connections;
mod disk;
mod durable;
#[cfg(feature = "engines")]
mod etcd;
mod flat;
mod fragmentation;
mod idle;
mod initial_state;
mod load;
mod memory;
mod million;
mod mqtt;
#[cfg(feature = "engines")]
mod over_redis;
mod own_client;
#[cfg(feature = "engines")]
mod patterns;
mod plan;
mod process;
mod raw_load;
mod redis;
#[path = "../../core/benches/client/results.rs"]
mod results;
mod servers;
mod socket;
#[path = "../../core/benches/client/spread.rs"]
mod spread;
#[path = "../../core/benches/client/table.rs"]
mod table;
mod vendor_client;

use clap::{Parser, ValueEnum};
use plan::BenchmarkPlan;
use std::{path::PathBuf, time::Duration};

#[derive(Parser)]
#[command(
    about = "Measures statestored and the client with their peers; prints Markdown tables",
    long_about = "Measures statestored and the client with their peers; prints Markdown tables.\n\n\
        The rows of a table are measured in turns, round by round. A cell is the median of all rounds, with the lowest and \
        the highest. A ratio is that of two rows within a round."
)]
struct Arguments {
    /// What to measure.
    #[arg(value_enum, default_value = "all")]
    what: Vec<Benchmark>,
    /// Rounds of each row.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Length of a round; `builds` takes whole seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// Folder with `statestored` of another build, which then gets rows of its own, and for `builds` its `statestore`.
    #[arg(long, value_name = "DIR")]
    before: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Benchmark {
    /// Everything below.
    All,
    /// Our client, the vendor's and a bare socket to Redis: 1 to 256 in flight on one connection.
    Clients,
    /// statestored and Redis under the same load from bare sockets: one connection with 64 and 256 in flight, 50 and 500
    /// connections with one.
    Servers,
    /// The same from 1 to 10,000 connections with one request in flight on each.
    Connections,
    /// The server behind a Mosquitto, with a service that answers at once as peer. Only if it is named.
    Attached,
    /// Durable storage against memory, with what the disk allows beside it.
    Durable,
    /// 9,998 connections that watch one key.
    Idle,
    /// Cost per operation from 1,000 to 10,000,000 keys.
    Flat,
    /// Resident bytes from 1,000 to 10,000,000 keys, with Redis as peer.
    Memory,
    /// Resident bytes while ever larger values are set and most of them deleted, with Redis as peer.
    Fragmentation,
    /// One million keys: SCAN while SETs go on, and the time to read all with their values, with Redis as peer.
    Million,
    /// Client and server of the build in --before against those of this one, by `statestore bench`.
    Builds,
    /// One and two servers over an etcd of one member, with a client of etcd as peer. Only if it is named.
    #[cfg(feature = "engines")]
    Etcd,
    /// One and two servers over a Redis, with bare sockets to that Redis as peer. Only if it is named.
    #[cfg(feature = "engines")]
    Redis,
    /// 1,000 watchers of 100 keys each by prefix, with etcd, Redis and NATS KV as peers. Only if it is named.
    #[cfg(feature = "engines")]
    Patterns,
}

impl Benchmark {
    /// Whether the measurement is part of `all`.
    fn is_part_of_all(self, plan: &BenchmarkPlan) -> bool {
        match self {
            Self::Builds => plan.before.is_some(),
            Self::Attached => false,
            #[cfg(feature = "engines")]
            Self::Etcd | Self::Redis | Self::Patterns => false,
            _ => true,
        }
    }
}

type MeasureFn = fn(&BenchmarkPlan);

fn main() {
    let arguments = Arguments::parse();
    let plan = BenchmarkPlan {
        rounds: arguments.rounds.into(),
        time: Duration::from_secs_f64(arguments.seconds),
        statestored: process::statestored_binary(),
        before: arguments.before,
    };
    let measurements: &[(Benchmark, MeasureFn)] = &[
        (Benchmark::Clients, clients::measure),
        (Benchmark::Servers, servers::measure),
        (Benchmark::Connections, connections::measure),
        (Benchmark::Attached, attached::measure),
        (Benchmark::Durable, durable::measure),
        (Benchmark::Idle, idle::measure),
        (Benchmark::Flat, flat::measure),
        (Benchmark::Memory, memory::measure),
        (Benchmark::Fragmentation, fragmentation::measure),
        (Benchmark::Million, million::measure),
        (Benchmark::Builds, builds::measure),
        #[cfg(feature = "engines")]
        (Benchmark::Etcd, etcd::measure),
        #[cfg(feature = "engines")]
        (Benchmark::Redis, over_redis::measure),
        #[cfg(feature = "engines")]
        (Benchmark::Patterns, patterns::measure),
    ];
    for (what, measure) in measurements {
        let is_named = arguments.what.contains(what);
        let is_part_of_all = arguments.what.contains(&Benchmark::All) && what.is_part_of_all(&plan);
        if is_named || is_part_of_all {
            measure(&plan);
        }
    }
}
