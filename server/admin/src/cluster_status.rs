//! The parts of the status about the clock, a shared engine and a broker.
use serde_json::{Value, json};
use statestored_broker::hub::{BrokerMetrics, ClockMetrics};
use statestored_store::keyspace::{EngineMetrics, RequestKind, RequestResult};
use statestored_store::service::ClockSkew;

/// Describes the wall clock of this machine.
pub(super) fn clock(metrics: &ClockMetrics) -> Value {
    let suspected = metrics.suspected_skew().map(|skew| match skew {
        ClockSkew::Behind => "behind",
        ClockSkew::Ahead => "ahead",
    });
    let [ahead, behind] = metrics.skewed;
    json!({
        "suspected": suspected,
        "versions_ahead_ms": metrics.version_ahead_ms,
        "timestamps_ahead": ahead,
        "timestamps_behind": behind,
        "steps": metrics.steps,
    })
}

/// Describes an engine that servers share.
pub(super) fn engine(metrics: &EngineMetrics) -> Value {
    let count = |result| {
        let counts = RequestKind::ALL.iter();
        counts.map(|kind| metrics.count(*kind, result)).sum::<u64>()
    };
    let results = RequestResult::ALL.iter();
    let results = results.map(|result| (result.name().to_owned(), json!(count(*result))));
    let members = metrics.members;
    let members = members
        .map(|(configured, avoided)| json!({ "configured": configured, "avoided": avoided }));
    json!({
        "members": members,
        "is_available": metrics.problem.is_none(),
        "is_watched": metrics.is_watched,
        "in_flight": metrics.in_flight,
        "requests": results.collect::<serde_json::Map<_, _>>(),
        "eventual_cache_hits": metrics.eventual_cache_hits,
        "confirmed_cache_hits": metrics.confirmed_cache_hits,
        "reversions": metrics.reversions,
        "versions_ahead_ms": metrics.versions_ahead_ms,
        "clock_ahead_ms": metrics.clock_ahead_ms,
    })
}

/// Describes the broker that a server is attached to.
pub(super) fn broker(metrics: &BrokerMetrics) -> Value {
    json!({
        "is_attached": metrics.is_attached,
        "is_failing": metrics.is_failing,
        "attachments": metrics.attach_count,
        "queued_messages": metrics.queued_messages,
        "refused_messages": metrics.refused_messages,
        "unmatched_notifications": metrics.unmatched_notifications,
        "unverified_requests": metrics.unverified_requests,
        "lost_probes": metrics.lost_probes,
    })
}
