//! `statestore bench`.
mod benchmark_plan;
mod keys;
mod latency;
mod phase_metrics;
mod progress;
mod report;
mod worker;
mod workload_mix;

use crate::{
    byte_size, duration, exit::Exit, failure::Failure, global_options::GlobalOptions,
    output::Output,
};
use benchmark_plan::{BenchPhase, BenchmarkPlan, Limit};
use clap::{Args, value_parser};
use keys::{Keys, MAX_KEYS};
use phase_metrics::PhaseMetrics;
use progress::Progress;
use report::{PhaseReport, Report, Settings};
use std::time::{Duration, Instant};
use worker::WorkerPool;
use workload_mix::{Verb, WorkloadMix};

/// Maximum length of a value in an MQTT packet.
const MAX_VALUE_BYTES: u32 = 268_435_455;

/// Measure a store under load
///
/// Runs a closed loop: each of --in-flight lanes sends its next operation after the response to the last one. If the mix has
/// GETs, sets every key once before the measurement. Deletes the keys at the end. Keys with the prefix are overwritten: do
/// not use a prefix that has keys.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    /// Operations in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..=65_535))]
    in_flight: u32,
    /// Number of connections, on one thread for each core
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Number of operations; 0 only fills the keys
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    ops: u64,
    /// Duration in seconds, or such as 2m, instead of a number of operations
    #[arg(long, value_name = "DURATION", conflicts_with = "ops", value_parser = duration::parse_seconds)]
    seconds: Option<u64>,
    /// Operations with their weights: get, set, del
    #[arg(long, default_value = "get=80,set=20")]
    mix: WorkloadMix,
    /// Bytes of each value, or such as 4KiB
    #[arg(long, value_name = "SIZE", default_value_t = 100, value_parser = byte_size::parse::<MAX_VALUE_BYTES>)]
    value_bytes: u32,
    /// Number of keys; operations are evenly distributed over them at random
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..=MAX_KEYS))]
    keys: u64,
    /// Prefix of the keys; ten digits follow
    #[arg(long, value_name = "TEXT", default_value = "bench:")]
    key_prefix: String,
    /// Seed of the operations and values
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep the keys in the store
    #[arg(long)]
    keep: bool,
}

const EXAMPLES: &str = "\
Examples:
  statestore bench                                100,000 operations, 80 % of them GETs
  statestore bench --in-flight 1 --ops 20000      the latency of one operation at a time
  statestore bench --mix set=100 --value-bytes 4096 --seconds 10
  statestore bench --connections 8 --in-flight 32 --json
  statestore bench --keys 1000000 --ops 0 --keep  fill a store with a million keys";

impl Bench {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let plan = self.plan(global.timeout);
        let mut workers = WorkerPool::start(global, &plan, self.connections).await?;
        let settings = Settings {
            connections: self.connections,
            threads: workers.threads(),
            in_flight: self.in_flight,
            mix: self.mix.to_string(),
            keys: self.keys,
            value_bytes: plan.value.len(),
            seed: self.seed,
        };
        let mut fill = None;
        if self.mix.contains(Verb::Get) || self.ops == 0 {
            let metrics = self.each(Verb::Set, "fill", &mut workers, &plan).await?;
            if metrics.gave_up {
                let text =
                    "the store stopped answering while its keys were filled; nothing was measured";
                return Err(Failure::new(metrics.exit, text));
            }
            fill = Some(metrics);
        }
        let load = self.load(&mut workers, &plan).await?;
        let mut clean_up = None;
        if !self.keep && !load.gave_up {
            let deleted = self.each(Verb::Del, "clean up", &mut workers, &plan);
            clean_up = Some(deleted.await?);
        }
        let report = Report {
            settings,
            fill: fill.as_ref().map(PhaseReport::from),
            load: PhaseReport::from(&load),
            clean_up: clean_up.as_ref().map(PhaseReport::from),
        };
        let text = if global.json {
            serde_json::to_string(&report).expect("a report is always JSON") + "\n"
        } else {
            report.to_string()
        };
        Output::stdout().print(text.as_bytes()).await?;
        let phases = fill.iter().chain([&load]).chain(&clean_up);
        let failed = phases
            .map(|metrics| metrics.exit)
            .find(|exit| *exit != Exit::Done);
        Ok(failed.unwrap_or(Exit::Done))
    }

    fn plan(&self, timeout: Duration) -> BenchmarkPlan {
        let mut value = vec![0; self.value_bytes as usize];
        fastrand::Rng::with_seed(self.seed).fill(&mut value);
        BenchmarkPlan {
            keys: Keys::new(&self.key_prefix, self.keys),
            value: value.into(),
            in_flight: self.in_flight,
            timeout,
            seed: self.seed,
            progress: Progress::default(),
        }
    }

    async fn each(
        &self,
        verb: Verb,
        title: &'static str,
        workers: &mut WorkerPool,
        plan: &BenchmarkPlan,
    ) -> Result<PhaseMetrics, Failure> {
        plan.progress.reset();
        let work = workers.run(BenchPhase::Each(verb), plan);
        progress::show(title, self.keys, || plan.progress.count(), work).await
    }

    async fn load(
        &self,
        workers: &mut WorkerPool,
        plan: &BenchmarkPlan,
    ) -> Result<PhaseMetrics, Failure> {
        plan.progress.reset();
        let Some(seconds) = self.seconds else {
            let work = workers.run(
                BenchPhase::Random(self.mix, Limit::Operations(self.ops)),
                plan,
            );
            return progress::show("load", self.ops, || plan.progress.count(), work).await;
        };
        let started = Instant::now();
        let work = workers.run(
            BenchPhase::Random(self.mix, Limit::Time(Duration::from_secs(seconds))),
            plan,
        );
        progress::show(
            "load, seconds",
            seconds,
            || started.elapsed().as_secs(),
            work,
        )
        .await
    }
}
