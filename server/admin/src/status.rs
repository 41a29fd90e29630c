//! The status as a JSON document, for the page and for `statestore top`.
use super::app_state::AppState;
use super::cluster_status;
use super::health::Reason;
use super::history::Reading;
use super::process::Process;
use serde_json::{Value, json};
use statestored_broker::hub::MetricsSnapshot;
use statestored_common::histogram::LATENCY_BOUNDS;
use statestored_store::service::Verb;
use std::time::{SystemTime, UNIX_EPOCH};

impl AppState {
    /// Returns the current status of the server.
    pub(super) async fn status(&self) -> Value {
        let metrics = self.read_metrics().await;
        let (reasons, metrics) = match &metrics {
            Ok(metrics) => (Reason::unready_reasons(metrics), Some(metrics)),
            Err(reason) => (vec![*reason], None),
        };
        let warnings = metrics.map(|metrics| self.warnings(metrics));
        let warnings = warnings.unwrap_or_default();
        let storage = self.storage();
        let space = self.disk_space().await;
        let process = Process::read();
        json!({
            "now_ms": now_ms(),
            "version": env!("CARGO_PKG_VERSION"),
            "started_s": process.start_seconds,
            "reasons": reasons,
            "warnings": warnings,
            "is_open": metrics.map(|metrics| metrics.allows_anonymous),
            "has_token": !self.config.tokens.is_empty(),
            "watches": metrics.map(|metrics| metrics.watches),
            "counts": metrics.map(counts),
            "requests": metrics.map(requests),
            "time_bounds_us": LATENCY_BOUNDS,
            "storage": storage.map(|storage| json!({
                "commits": storage.batches.total(),
                "writes": storage.batches.sum,
                "syncs": latency(&storage.syncs),
                "written_bytes": storage.written_bytes,
                "waiting_bytes": storage.waiting_bytes,
                "log_bytes": storage.log_bytes,
                "base_bytes": storage.base_bytes,
                "is_merging": storage.is_merging,
                "merges": storage.merges,
                "failed_merges": storage.failed_merges,
                "merge_ms": storage.merge_ms,
                "previous_run_crashed": storage.has_crashed,
            })),
            "clock": metrics.map(|metrics| cluster_status::clock(&metrics.clock)),
            "engine": metrics.and_then(|metrics| metrics.engine.as_ref()).map(cluster_status::engine),
            "broker": metrics.and_then(|metrics| metrics.broker.as_ref()).map(cluster_status::broker),
            "disk": space.map(|space| json!({ "free": space.free, "size": space.size })),
            "process": {
                "cpu_s": process.cpu_seconds,
                "resident_bytes": process.resident_bytes,
                "open_fds": process.open_fds,
                "max_fds": process.max_fds,
            },
        })
    }

    /// Returns the metrics for a sample of the history; `None` if the server does not serve or answer.
    pub(super) async fn reading(&self) -> Option<Reading> {
        let metrics = self.read_metrics().await.ok()?;
        let space = self.disk_space().await;
        Some(Reading {
            at_ms: now_ms(),
            refused: metrics.refusals.counts.iter().sum(),
            requests: metrics.requests,
            hub: metrics.hub,
            storage: self.storage(),
            disk_free: space.map(|space| space.free),
            resident_bytes: Process::read().resident_bytes,
        })
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

fn counts(metrics: &MetricsSnapshot) -> Value {
    let hub = &metrics.hub;
    let refused: u64 = metrics.refusals.counts.iter().sum();
    json!({
        "keys": hub.keys,
        "entry_bytes": hub.entry_bytes,
        "connections": hub.connections,
        "sessions": hub.sessions,
        "held_bytes": hub.held_bytes,
        "notifications": hub.notifications,
        "messages": hub.messages,
        "refused": refused,
    })
}

/// Returns, for each verb, the number of requests, how many of them ended with "ok", and their latencies.
fn requests(metrics: &MetricsSnapshot) -> Value {
    let verbs = Verb::ALL.iter().zip(&metrics.requests.counts);
    let verbs = verbs.zip(&metrics.requests.latencies);
    verbs
        .map(|((verb, counts), latencies)| {
            let total: u64 = counts.iter().sum();
            let value = json!({ "total": total, "ok": counts[0], "times": latency(latencies) });
            (verb.name().to_owned(), value)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn latency(histogram: &statestored_common::histogram::Histogram) -> Value {
    json!({ "counts": histogram.counts, "sum_us": histogram.sum })
}
