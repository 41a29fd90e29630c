//! A closed loop of N requests in flight, the same for each client under measurement.

use hdrhistogram::Histogram;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// One measured run.
#[derive(Debug)]
pub struct Figures {
    /// Requests completed per second.
    pub per_second: f64,
    /// Median latency.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// CPU of this process (client and load loop) per request.
    pub client_cpu: Duration,
}

/// The state store as the loop sees it.
pub trait Target: Send + Sync + 'static {
    /// SET; panics on failure.
    fn set(&self, key: &[u8], value: &[u8]) -> impl Future<Output = ()> + Send;
    /// GET; panics on failure.
    fn get(&self, key: &[u8]) -> impl Future<Output = ()> + Send;
}

/// What the loop sends.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// Tasks that each wait for their answer before the next request.
    pub in_flight: usize,
    /// Requests in all.
    pub requests: u64,
    /// Of 100 requests, how many are SETs.
    pub sets_of_100: u64,
    /// Keys are drawn from so many.
    pub keys: u64,
}

/// The `i`-th key: 16 bytes.
pub fn key(i: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    let digits = format!("{i:012}");
    key[4..].copy_from_slice(digits.as_bytes());
    key
}

/// The value of every SET: 100 bytes.
pub const VALUE: [u8; 100] = [b'v'; 100];

/// Spreads consecutive numbers over the keys.
fn scatter(i: u64) -> u64 {
    (i ^ (i >> 31))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
}

/// Runs the mix against `target`.
pub async fn run<T: Target>(target: Arc<T>, mix: Mix) -> Figures {
    let next = Arc::new(AtomicU64::new(0));
    let cpu = crate::process::own_cpu();
    let start = Instant::now();
    let tasks: Vec<_> = (0..mix.in_flight)
        .map(|_| {
            let (target, next) = (target.clone(), next.clone());
            tokio::spawn(async move {
                let mut latencies =
                    Histogram::<u64>::new_with_max(60_000_000_000, 3).expect("bounds");
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= mix.requests {
                        return latencies;
                    }
                    let r = scatter(i);
                    let key = key(r % mix.keys);
                    let sent = Instant::now();
                    if (r >> 40) % 100 < mix.sets_of_100 {
                        target.set(&key, &VALUE).await;
                    } else {
                        target.get(&key).await;
                    }
                    latencies.saturating_record(sent.elapsed().as_nanos() as u64);
                }
            })
        })
        .collect();
    let mut latencies = Histogram::<u64>::new_with_max(60_000_000_000, 3).expect("bounds");
    for task in tasks {
        latencies
            .add(task.await.expect("no request fails"))
            .expect("same bounds");
    }
    let elapsed = start.elapsed();
    Figures {
        per_second: mix.requests as f64 / elapsed.as_secs_f64(),
        p50: Duration::from_nanos(latencies.value_at_quantile(0.5)),
        p99: Duration::from_nanos(latencies.value_at_quantile(0.99)),
        client_cpu: (crate::process::own_cpu() - cpu)
            / u32::try_from(mix.requests).expect("few enough"),
    }
}
