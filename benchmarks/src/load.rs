//! A closed loop of N requests in flight, the same for each client under measurement.

use crate::{process, process::Server, table::Column};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The columns of the numbers that [`run_measured`] returns.
pub const COLUMNS: [Column; 5] = [
    Column::new("req/s", "", 0),
    Column::new("p50", " µs", 0),
    Column::new("p99", " µs", 0),
    Column::new("client CPU per request", " µs", 2),
    Column::new("server CPU per request", " µs", 2),
];

/// The state store as the loop sees it.
pub trait Target: Send + Sync + 'static {
    /// SET; panics on failure.
    fn set(&self, key: &[u8], value: &[u8]) -> impl Future<Output = ()> + Send;
    /// GET; panics on failure.
    fn get(&self, key: &[u8]) -> impl Future<Output = ()> + Send;
}

/// The requests of a loop.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Number of tasks for each target; each task waits for its answer before the next request.
    pub in_flight: usize,
    /// Time after which no further request is sent.
    pub time: Duration,
    /// Number of SETs in 100 requests.
    pub set_percentage: u64,
    /// Number of keys to draw from.
    pub keys: u64,
}

/// A request of a [`Workload`].
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// SET or GET.
    pub is_set: bool,
    /// The key.
    pub key: [u8; 16],
}

impl Workload {
    /// Returns the `number`-th request: consecutive ones are spread over the keys.
    pub fn request(&self, number: u64) -> Request {
        let spread = (number ^ (number >> 31))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29);
        Request {
            is_set: (spread >> 40) % 100 < self.set_percentage,
            key: key(spread % self.keys),
        }
    }
}

/// Returns the `i`-th key: 16 bytes.
pub fn key(i: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    let mut rest = i;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The value of every SET: 100 bytes.
pub const VALUE: [u8; 100] = [b'v'; 100];

/// The result of a loop.
#[derive(Debug)]
pub struct LoadResult {
    /// Time from the first request to the last answer.
    pub elapsed: Duration,
    /// Latency of each request, in nanoseconds.
    pub latencies: Vec<u64>,
}

/// Returns the latency that this part of them stays below. There has to be at least one. Changes their order.
pub fn quantile(latencies: &mut [u64], part: f64) -> Duration {
    let at = (latencies.len() as f64 * part) as usize;
    let (_, latency, _) = latencies.select_nth_unstable(at.min(latencies.len() - 1));
    Duration::from_nanos(*latency)
}

/// Runs a loop against `server`, and returns its numbers for [`COLUMNS`].
pub fn run_measured(server: &Server, run: impl FnOnce() -> LoadResult) -> Vec<f64> {
    let before = (process::own_cpu(), server.cpu());
    let mut done = run();
    let after = (process::own_cpu(), server.cpu());
    let requests = done.latencies.len() as f64;
    let per_request = |from, to: Duration| micros(to.saturating_sub(from)) / requests;
    vec![
        requests / done.elapsed.as_secs_f64(),
        micros(quantile(&mut done.latencies, 0.5)),
        micros(quantile(&mut done.latencies, 0.99)),
        per_request(before.0, after.0),
        per_request(before.1, after.1),
    ]
}

/// Returns the time in microseconds.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Runs the mix against all targets.
pub async fn run<T: Target>(targets: &[Arc<T>], mix: Workload) -> LoadResult {
    let next = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = targets
        .iter()
        .flat_map(|target| std::iter::repeat_n(target, mix.in_flight))
        .map(|target| {
            let (target, next) = (target.clone(), next.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                let mut sent = Instant::now();
                while sent - start < mix.time {
                    let request = mix.request(next.fetch_add(1, Ordering::Relaxed));
                    if request.is_set {
                        target.set(&request.key, &VALUE).await;
                    } else {
                        target.get(&request.key).await;
                    }
                    let answered = Instant::now();
                    latencies.push((answered - sent).as_nanos() as u64);
                    sent = answered;
                }
                latencies
            })
        })
        .collect();
    let mut parts = Vec::new();
    for task in tasks {
        parts.push(task.await.expect("no request fails"));
    }
    LoadResult {
        elapsed: start.elapsed(),
        latencies: parts.concat(),
    }
}

/// Sets the keys with these numbers, each once.
pub async fn fill<T: Target>(target: &Arc<T>, keys: std::ops::Range<u64>) {
    let next = Arc::new(AtomicU64::new(keys.start));
    let tasks: Vec<_> = (0..256)
        .map(|_| {
            let (target, next) = (target.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= keys.end {
                        return;
                    }
                    target.set(&key(i), &VALUE).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no SET fails");
    }
}
