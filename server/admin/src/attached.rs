//! The metrics of a server behind another broker.
use super::exposition::Exposition;
use super::exposition::MetricType::{Counter, Gauge};
use statestored_broker::hub::BrokerMetrics;

/// Appends the metrics.
pub(super) fn broker(text: &mut Exposition, metrics: &BrokerMetrics) {
    text.family(
        "statestored_attached",
        Gauge,
        "1 while requests can come from the broker.",
    )
    .sample(&[], u8::from(metrics.is_attached));
    let counters = [
        (
            "statestored_attachments_total",
            "How often it became attached to the broker.",
            metrics.attach_count,
        ),
        (
            "statestored_attached_unwanted_total",
            "Notifications without a subscriber, after which the watches of the client ended.",
            metrics.unmatched_notifications,
        ),
        (
            "statestored_attached_refused_total",
            "Responses and notifications that the broker refused.",
            metrics.refused_messages,
        ),
        (
            "statestored_attached_unproven_total",
            "Requests that were not executed because the broker did not say, or not rightly, who sent them.",
            metrics.unverified_requests,
        ),
        (
            "statestored_attached_lost_probes_total",
            "Connections that ended because the broker did not deliver a message of the server to itself.",
            metrics.lost_probes,
        ),
    ];
    for (name, help, count) in counters {
        text.family(name, Counter, help).sample(&[], count);
    }
    text.family(
        "statestored_attached_waiting",
        Gauge,
        "Responses and notifications that wait for the broker.",
    )
    .sample(&[], metrics.queued_messages);
}
