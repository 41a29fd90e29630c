//! Measurements of a run.
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct RunMetrics {
    pub(crate) pairs: usize,
    pub(crate) elapsed: Duration,
    /// CPU time of the client's thread.
    pub(crate) cpu: Duration,
    /// Latencies of a sample of the pairs.
    pub(crate) latencies: Vec<Duration>,
}

impl RunMetrics {
    pub(crate) fn pairs_per_second(&self) -> f64 {
        self.pairs as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the latency below which this percentage of the pairs stays, in microseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        let at = latencies.len() * percent / 100;
        latencies
            .get(at)
            .map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e6)
    }

    pub(crate) fn cpu_per_pair(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.pairs as f64
    }
}

/// The time on the clock and on the CPU since a moment.
pub(crate) struct Stopwatch {
    started: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            cpu: cpu(),
        }
    }

    pub(crate) fn stop(&self, pairs: usize, latencies: Vec<Duration>) -> RunMetrics {
        RunMetrics {
            pairs,
            elapsed: self.started.elapsed(),
            cpu: cpu().saturating_sub(self.cpu),
            latencies,
        }
    }
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// A runtime on this thread.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}
