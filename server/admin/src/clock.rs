//! The metrics of the wall clock.
use super::exposition::Exposition;
use super::exposition::MetricType::{Counter, Gauge};
use statestored_broker::hub::MetricsSnapshot;
use statestored_store::service::ClockSkew;

/// Appends the metrics.
pub(super) fn clock(text: &mut Exposition, snapshot: &MetricsSnapshot) {
    text.family(
        "statestored_clock_skew_seconds",
        Gauge,
        "Median lead of clients' latest timestamps over this machine's clock.",
    );
    #[expect(clippy::cast_precision_loss, reason = "a time in milliseconds")]
    let difference_s = snapshot.timestamp_difference_ms.map(|it| it as f64 / 1e3);
    if let Some(difference_s) = difference_s {
        text.sample(&[], difference_s);
    }
    let metrics = &snapshot.clock;
    text.family(
        "statestored_clock_skewed_timestamps_total",
        Counter,
        "Timestamps of SETs and TXNs more than a minute ahead of this machine's clock, or behind it.",
    );
    for (direction, count) in ["ahead", "behind"].iter().zip(metrics.skewed) {
        text.sample(&[("direction", direction)], count);
    }
    text.family(
        "statestored_clock_suspect",
        Gauge,
        "1 while most timestamps of clients indicate a wrong clock, by its direction.",
    );
    for (direction, skew) in [("behind", ClockSkew::Behind), ("ahead", ClockSkew::Ahead)] {
        let is_so = metrics.suspected_skew() == Some(skew);
        text.sample(&[("direction", direction)], u8::from(is_so));
    }
    text.family(
        "statestored_clock_steps_total",
        Counter,
        "Times that the wall clock was set by a second or more.",
    )
    .sample(&[], metrics.steps);
    #[expect(clippy::cast_precision_loss, reason = "a time in milliseconds")]
    text.family(
        "statestored_version_ahead_seconds",
        Gauge,
        "Time by which the highest version is ahead of the wall clock.",
    )
    .sample(&[], metrics.version_ahead_ms as f64 / 1e3);
}
