//! The metrics of `/metrics`: their names, types and help texts.
use super::ServerState;
use super::app_state::AppState;
use super::attached::broker;
use super::clock::clock;
use super::engine;
use super::exposition::{Exposition, ExpositionFormat, MetricType};
use super::limits::limits;
use super::media_type::accepts;
use super::process::Process;
use super::reply::{self, Reply};
use super::request_authorizer::AccessLevel;
use super::response_body::ResponseBody;
use crate::config::{AdminConfig, MetricNames};
use MetricType::{Counter, Gauge};
use hyper::StatusCode;
use hyper::http::request::Parts;
use statestored_broker::hub::{HubMetrics, MetricsSnapshot, RefusalCause};
use statestored_common::histogram::{LATENCY_BOUNDS, SIZE_BOUNDS};
use statestored_storage::metrics::StorageMetricsSnapshot;
use statestored_store::service::{RESULTS, RequestMetrics, Verb};

/// Space of the disk that holds the data, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiskSpace {
    pub(super) free: u64,
    pub(super) size: u64,
}

impl AppState {
    pub(super) async fn metrics(&self, parts: &Parts, rights: AccessLevel) -> Reply {
        let form = if accepts(parts, "application/openmetrics-text") {
            ExpositionFormat::OpenMetrics
        } else {
            ExpositionFormat::Prometheus
        };
        let metrics = self.read_metrics().await.ok();
        let mut text = Exposition::new(form);
        if self.config.names != MetricNames::Deployed {
            own_server_metrics(&mut text, metrics.as_ref());
            if let Some(metrics) = &metrics {
                own_metrics(&mut text, metrics);
                // As with lists, local users see names of users and prefixes of keys only if they may read all keys.
                let shows_owners = rights >= AccessLevel::Full || metrics.allows_anonymous;
                self.quota_metrics(&mut text, shows_owners).await;
            }
            self.tls_metrics(&mut text);
            self.reload_metrics(&mut text);
            if let Some(reading) = self.storage() {
                storage(&mut text, &reading);
            }
            if let Some(space) = self.disk_space().await {
                disk(&mut text, space);
            }
            self.http_metrics(&mut text);
        }
        if self.config.names != MetricNames::Own
            && let Some(metrics) = &metrics
        {
            deployed_metrics(&mut text, metrics, &self.config);
        }
        Process::read().append_to(&mut text);
        let whole = ResponseBody::Full(text.finish().into());
        reply::content(StatusCode::OK, form.content_type(), whole)
    }

    /// Returns the counters of the storage, if it is on disk.
    pub(super) fn storage(&self) -> Option<StorageMetricsSnapshot> {
        self.data_dir()?;
        match self.server_state() {
            ServerState::Serving(metrics) => Some(metrics.snapshot()),
            ServerState::Loading | ServerState::Stopping => None,
        }
    }

    /// Returns the space of the disk that holds the data.
    pub(super) async fn disk_space(&self) -> Option<DiskSpace> {
        let path = self.data_dir()?.to_path_buf();
        let look = move || rustix::fs::statvfs(&path);
        let found = self.disk_limiter.run(look).await?.ok()?;
        Some(DiskSpace {
            free: found.f_bavail * found.f_frsize,
            size: found.f_blocks * found.f_frsize,
        })
    }

    fn http_metrics(&self, text: &mut Exposition) {
        text.family(
            "statestored_http_requests_total",
            Counter,
            "Requests to this port by path and status.",
        );
        for ((path, status), count) in &*self.responses.borrow() {
            text.sample(&[("path", path), ("status", &status.to_string())], count);
        }
        text.family(
            "statestored_http_connections_refused_total",
            Counter,
            "Connections to this port closed since there were too many.",
        )
        .sample(&[], self.refused_connections.get());
    }
}

fn own_server_metrics(text: &mut Exposition, metrics: Option<&MetricsSnapshot>) {
    text.family(
        "statestored_build_info",
        Gauge,
        "1, with the version of the server.",
    )
    .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    text.family(
        "statestored_serving",
        Gauge,
        "1 while clients are served; most other metrics are missing otherwise.",
    )
    .sample(&[], u8::from(metrics.is_some()));
}

fn own_metrics(text: &mut Exposition, metrics: &MetricsSnapshot) {
    requests(text, &metrics.requests);
    counters(text, &metrics.hub);
    gauges(text, &metrics.hub);
    text.family("statestored_watches", Gauge, "Watches of all clients.")
        .sample(&[], metrics.watches);
    // Unknown over a shared engine.
    if let Some(expired) = metrics.expired_keys {
        text.family(
            "statestored_expired_keys_total",
            Counter,
            "Keys that expired.",
        )
        .sample(&[], expired);
    }
    text.family(
        "statestored_read_only",
        Gauge,
        "1 while entries cannot be changed since the disk is full.",
    )
    .sample(&[], u8::from(metrics.shortages.disk_full));
    text.family(
        "statestored_memory_short",
        Gauge,
        "1 while the store may not grow since the process has no more memory.",
    )
    .sample(&[], u8::from(metrics.shortages.memory));
    clock(text, metrics);
    limits(text, &metrics.limits);
    if let Some(metrics) = &metrics.broker {
        broker(text, metrics);
    }
    if let Some(metrics) = &metrics.engine {
        engine::engine(text, metrics);
    }
    text.family(
        "statestored_connections_closed_total",
        Counter,
        "Connections of clients that ended, by reason.",
    );
    for (reason, count) in metrics.end_counts.read() {
        text.sample(&[("reason", reason)], count);
    }
    text.family(
        "statestored_refusals_total",
        Counter,
        "Rejected clients and requests, by cause.",
    );
    for (cause, count) in RefusalCause::ALL.iter().zip(metrics.refusals.counts) {
        text.sample(&[("cause", cause.name())], count);
    }
}

fn requests(text: &mut Exposition, requests: &RequestMetrics) {
    text.family(
        "statestored_requests_total",
        Counter,
        "Requests to the store by verb and result.",
    );
    for (verb, counts) in Verb::ALL.iter().zip(&requests.counts) {
        for (result, count) in RESULTS.iter().zip(counts) {
            // The first result is always shown, the others once they have occurred.
            if *count > 0 || *result == RESULTS[0] {
                text.sample(&[("verb", verb.name()), ("result", result)], count);
            }
        }
    }
    text.family(
        "statestored_request_duration_seconds",
        MetricType::Histogram,
        "Time in the server, from reading a request until its response may be sent.",
    );
    for (verb, times) in Verb::ALL.iter().zip(&requests.latencies) {
        text.histogram(&[("verb", verb.name())], &LATENCY_BOUNDS, times, 1e-6);
    }
    text.family(
        "statestored_insertions_total",
        Counter,
        "SETs that created a key.",
    )
    .sample(&[], requests.insertions);
    text.family(
        "statestored_transaction_operations_total",
        Counter,
        "Executed operations of TXNs.",
    );
    text.sample(&[("verb", Verb::Set.name())], requests.transacted_sets);
    text.sample(&[("verb", Verb::Del.name())], requests.transacted_dels);
}

fn counters(text: &mut Exposition, metrics: &HubMetrics) {
    let all: [(&'static str, u64, &str); 11] = [
        (
            "statestored_requests_unanswerable_total",
            metrics.requests_refused,
            "Requests not executed since they had no response topic, correlation data, QoS 1, or room for the response.",
        ),
        (
            "statestored_responses_total",
            metrics.responses,
            "Responses handed to a connection or a session.",
        ),
        (
            "statestored_notifications_total",
            metrics.notifications,
            "Notifications handed to a connection or a session.",
        ),
        (
            "statestored_messages_total",
            metrics.messages,
            "Messages that clients published to ordinary topics.",
        ),
        (
            "statestored_connections_opened_total",
            metrics.connections_opened,
            "Connections of clients that were accepted.",
        ),
        (
            "statestored_connections_failed_total",
            metrics.connections_failed,
            "Connections closed with an error of the client.",
        ),
        (
            "statestored_logins_refused_total",
            metrics.logins_refused,
            "Logins rejected for a wrong password, proof or token, also over open connections.",
        ),
        (
            "statestored_sessions_evicted_total",
            metrics.sessions_evicted,
            "Sessions ended to make room for others.",
        ),
        (
            "statestored_messages_refused_total",
            metrics.messages_refused,
            "Messages rejected since the client may not publish to that topic.",
        ),
        (
            "statestored_subscriptions_refused_total",
            metrics.subscriptions_refused,
            "Subscriptions rejected since the client may not receive messages of these topics.",
        ),
        (
            "statestored_pauses_total",
            metrics.pauses,
            "Times that reading from a connection paused because of a rate limit.",
        ),
    ];
    for (name, value, help) in all {
        text.family(name, Counter, help).sample(&[], value);
    }
    text.family(
        "statestored_deliveries_dropped_total",
        Counter,
        "Deliveries that did not reach their client, by reason.",
    );
    for (reason, value) in [
        ("full", metrics.dropped_full),
        ("too_large", metrics.dropped_too_large),
        ("expired", metrics.dropped_expired),
        ("no_session", metrics.dropped_no_session),
    ] {
        text.sample(&[("reason", reason)], value);
    }
}

fn gauges(text: &mut Exposition, metrics: &HubMetrics) {
    // Unknown over a shared engine.
    let known: [(&'static str, Option<u64>, &str); 2] = [
        (
            "statestored_keys",
            metrics.keys,
            "Keys, including expired ones that are not removed yet.",
        ),
        (
            "statestored_entry_bytes",
            metrics.entry_bytes,
            "Memory of the entries.",
        ),
    ];
    for (name, value, help) in known {
        if let Some(value) = value {
            text.family(name, Gauge, help).sample(&[], value);
        }
    }
    let all: [(&'static str, u64, &str); 5] = [
        (
            "statestored_connections",
            metrics.connections,
            "Connections of clients.",
        ),
        (
            "statestored_sessions",
            metrics.sessions,
            "Sessions, with a connection or without.",
        ),
        (
            "statestored_held_bytes",
            metrics.held_bytes,
            "Memory of sessions and connections, with their queues.",
        ),
        (
            "statestored_hashing_bytes",
            metrics.hashing_bytes,
            "Memory of the slots that hash passwords, kept for the next one.",
        ),
        (
            "statestored_requests_under_way",
            metrics.requests_pending,
            "Requests without an outcome yet.",
        ),
    ];
    for (name, value, help) in all {
        text.family(name, Gauge, help).sample(&[], value);
    }
}

fn storage(text: &mut Exposition, reading: &StorageMetricsSnapshot) {
    text.family(
        "statestored_commit_writes",
        MetricType::Histogram,
        "Writes that became durable together; the count is that of the commits.",
    )
    .histogram(&[], &SIZE_BOUNDS, &reading.batches, 1.0);
    text.family(
        "statestored_sync_duration_seconds",
        MetricType::Histogram,
        "Time that syncing the log to the disk took.",
    )
    .histogram(&[], &LATENCY_BOUNDS, &reading.syncs, 1e-6);
    text.family(
        "statestored_written_bytes_total",
        Counter,
        "Bytes appended to the log.",
    )
    .sample(&[], reading.written_bytes);
    for (name, value, help) in [
        (
            "statestored_waiting_bytes",
            reading.waiting_bytes,
            "Writes that wait for the disk.",
        ),
        (
            "statestored_log_bytes",
            reading.log_bytes,
            "Length of the logs that are not merged.",
        ),
        (
            "statestored_base_bytes",
            reading.base_bytes,
            "Length of the merged data file.",
        ),
        (
            "statestored_merging",
            u64::from(reading.is_merging),
            "1 while data files are merged.",
        ),
    ] {
        text.family(name, Gauge, help).sample(&[], value);
    }
    text.family(
        "statestored_merges_total",
        Counter,
        "Merges of data files that ended, by result.",
    )
    .sample(&[("result", "ok")], reading.merges)
    .sample(&[("result", "failed")], reading.failed_merges);
    #[expect(clippy::cast_precision_loss, reason = "a time in milliseconds")]
    text.family(
        "statestored_merge_seconds",
        Gauge,
        "Time that the last merge took.",
    )
    .sample(&[], reading.merge_ms as f64 / 1e3);
    text.family(
        "statestored_previous_run_crashed",
        Gauge,
        "1 if the previous run crashed.",
    )
    .sample(&[], u8::from(reading.has_crashed));
}

fn disk(text: &mut Exposition, space: DiskSpace) {
    text.family(
        "statestored_disk_free_bytes",
        Gauge,
        "Usable space on the disk of the data.",
    )
    .sample(&[], space.free);
    text.family(
        "statestored_disk_size_bytes",
        Gauge,
        "Size of the disk of the data.",
    )
    .sample(&[], space.size);
}

/// Appends the counters of the deployed state store, of all requests, refused ones included.
fn deployed_metrics(text: &mut Exposition, metrics: &MetricsSnapshot, config: &AdminConfig) {
    let requests = |verb: Verb| metrics.requests.counts[verb as usize].iter().sum::<u64>();
    let RequestMetrics {
        insertions,
        transacted_sets,
        transacted_dels,
        ..
    } = metrics.requests;
    let labels = [
        ("namespace", config.namespace.as_str()),
        ("backend_chain", config.backend_chain.as_str()),
    ];
    for (name, value, help) in [
        (
            "aio_broker_state_store_insertions",
            insertions,
            "SETs that created a key.",
        ),
        (
            "aio_broker_state_store_modifications",
            (requests(Verb::Set) + transacted_sets).saturating_sub(insertions),
            "All other SETs.",
        ),
        (
            "aio_broker_state_store_deletions",
            requests(Verb::Del) + requests(Verb::Vdel) + transacted_dels,
            "DELs and VDELs.",
        ),
        (
            "aio_broker_state_store_retrievals",
            requests(Verb::Get),
            "GETs.",
        ),
        (
            "aio_broker_state_store_keynotify_requests",
            requests(Verb::Keynotify),
            "KEYNOTIFYs.",
        ),
        (
            "aio_broker_state_store_notifications_sent",
            metrics.hub.notifications,
            "Notifications handed to a connection or a session.",
        ),
    ] {
        text.family(name, Counter, help).sample(&labels, value);
    }
}
