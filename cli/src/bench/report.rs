//! The output of the benchmark.
use super::{latency::LatencySummary, phase_metrics::PhaseMetrics, workload_mix::Verb};
use crate::message;
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// The whole result, also in the form that `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) settings: Settings,
    /// The phase that set each key once, if it was necessary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fill: Option<PhaseReport>,
    /// The measured phase.
    pub(crate) load: PhaseReport,
    /// The phase that deleted each key, unless the keys were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clean_up: Option<PhaseReport>,
}

/// The options of the run.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) connections: u32,
    pub(crate) threads: usize,
    pub(crate) in_flight: u32,
    pub(crate) mix: String,
    pub(crate) keys: u64,
    pub(crate) value_bytes: usize,
    pub(crate) seed: u64,
}

/// The results of a phase.
#[derive(Debug, Serialize)]
pub(crate) struct PhaseReport {
    /// Operations that succeeded.
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) operations_per_second: f64,
    /// GETs and DELs that found no key.
    pub(crate) absent: u64,
    /// Failed operations by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Latencies of each verb, and of all together.
    pub(crate) latency: BTreeMap<&'static str, LatencySummary>,
}

impl From<&PhaseMetrics> for PhaseReport {
    fn from(metrics: &PhaseMetrics) -> Self {
        let mut all = metrics.latencies[0].clone();
        metrics.latencies[1..].iter().for_each(|part| all.add(part));
        let mut latency = BTreeMap::new();
        for verb in Verb::ALL {
            latency.extend(
                metrics.latencies[verb as usize]
                    .summary()
                    .map(|summary| (verb.name(), summary)),
            );
        }
        latency.extend(all.summary().map(|summary| ("all", summary)));
        let operations = all.count();
        let seconds = metrics.elapsed.as_secs_f64();
        Self {
            operations,
            seconds,
            operations_per_second: if operations == 0 {
                0.0
            } else {
                as_f64(operations) / seconds
            },
            absent: metrics.absent,
            errors: metrics.errors.clone(),
            latency,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings {
            connections,
            threads,
            in_flight,
            mix,
            keys,
            value_bytes,
            ..
        } = &self.settings;
        writeln!(
            f,
            "connections {connections} on {threads} threads, in flight {in_flight} on each, mix {mix}, keys {keys}, \
             value bytes {value_bytes}"
        )?;
        let phases = [
            ("fill", self.fill.as_ref()),
            ("load", Some(&self.load)),
            ("clean up", self.clean_up.as_ref()),
        ];
        for (name, phase) in phases {
            if let Some(phase) = phase {
                writeln!(f, "{name:10}{phase}")?;
            }
        }
        if !self.load.latency.is_empty() {
            writeln!(
                f,
                "\n{:12}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}",
                "latency, µs", "count", "p50", "p90", "p99", "p99.9", "max"
            )?;
        }
        for (verb, summary) in &self.load.latency {
            let LatencySummary {
                count,
                p50_us,
                p90_us,
                p99_us,
                p99_9_us,
                max_us,
                ..
            } = summary;
            writeln!(
                f,
                "{verb:12}{count:>10}{p50_us:>11.1}{p90_us:>11.1}{p99_us:>11.1}{p99_9_us:>11.1}{max_us:>11.1}"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for PhaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in {:.3} s, {:.0} per second",
            message::count(self.operations, "operation"),
            self.seconds,
            self.operations_per_second
        )?;
        if self.absent > 0 {
            write!(f, ", {} of absent keys", self.absent)?;
        }
        for (kind, count) in &self.errors {
            write!(f, ", {count} failed ({kind})")?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "no run does 2^53 operations")]
fn as_f64(count: u64) -> f64 {
    count as f64
}
