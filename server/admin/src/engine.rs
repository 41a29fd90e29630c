//! The metrics of a shared engine, which stores the entries.
use super::exposition::Exposition;
use super::exposition::MetricType::{Counter, Gauge};
use statestored_store::keyspace::{EngineMetrics, EngineProblem, RequestKind, RequestResult};

/// Appends the metrics.
pub(super) fn engine(text: &mut Exposition, engine: &EngineMetrics) {
    text.family(
        "statestored_engine_requests_total",
        Counter,
        "Requests to the engine that has the entries, by kind and result.",
    );
    for kind in RequestKind::ALL {
        for result in RequestResult::ALL {
            let labels = [("kind", kind.name()), ("result", result.name())];
            text.sample(&labels, engine.count(kind, result));
        }
    }
    text.family(
        "statestored_engine_requests_under_way",
        Gauge,
        "Requests to the engine whose answers are still to come.",
    )
    .sample(&[], engine.in_flight);
    text.family(
        "statestored_engine_remembered_total",
        Counter,
        "Eventual reads that were answered from what the server knew, without the engine.",
    )
    .sample(&[], engine.eventual_cache_hits);
    text.family(
        "statestored_engine_confirmed_total",
        Counter,
        "Reads that were answered from what the server knew, once the engine had said how far it is.",
    )
    .sample(&[], engine.confirmed_cache_hits);
    text.family(
        "statestored_engine_watched",
        Gauge,
        "1 while all changes of the engine are known as they come.",
    )
    .sample(&[], u8::from(engine.is_watched));
    text.family(
        "statestored_engine_away",
        Gauge,
        "1 while the engine does not answer.",
    )
    .sample(
        &[],
        u8::from(engine.problem == Some(EngineProblem::Unavailable)),
    );
    if let Some((configured, avoided)) = engine.members {
        text.family(
            "statestored_engine_members",
            Gauge,
            "Members of the engine in the configuration.",
        )
        .sample(&[], configured);
        text.family(
            "statestored_engine_members_avoided",
            Gauge,
            "Members of the engine that receive no requests because they do not answer.",
        )
        .sample(&[], avoided);
    }
    text.family(
        "statestored_engine_reversions_total",
        Counter,
        "How often the engine went on from an earlier state, and may have lost what was acknowledged last.",
    )
    .sample(&[], engine.reversions);
    text.family(
        "statestored_engine_versions_ahead_seconds",
        Gauge,
        "By how much the latest version is ahead of the clock of this machine.",
    )
    .sample(&[], engine.versions_ahead_ms / 1_000);
    text.family(
        "statestored_engine_clock_ahead_seconds",
        Gauge,
        "By about how much the clock of this machine is ahead of most others.",
    )
    .sample(&[], engine.clock_ahead_ms / 1_000);
    text.family(
        "statestored_engine_clock_refused",
        Gauge,
        "1 while changes are refused because the clock of this machine is ahead, or may be.",
    )
    .sample(
        &[],
        u8::from(engine.problem == Some(EngineProblem::ClockAhead)),
    );
}
