//! The metrics of certificates and TLS handshakes.
use super::app_state::AppState;
use super::exposition::Exposition;
use super::exposition::MetricType::{Counter, Gauge};

impl AppState {
    /// Appends the metrics.
    pub(super) fn tls_metrics(&self, text: &mut Exposition) {
        let status = &self.tls_status;
        text.family(
            "statestored_certificate_expiry_timestamp_seconds",
            Gauge,
            "When the certificate of a listener, or towards an engine or broker, expires, since the Unix epoch.",
        );
        for (listener, expiry_s) in status.expiries() {
            text.sample(&[("listener", listener)], expiry_s);
        }
        for (peer, expiry_s) in status.presented.expiries() {
            text.sample(&[("listener", peer)], expiry_s);
        }
        text.family(
            "statestored_tls_handshakes_failed_total",
            Counter,
            "TLS handshakes that failed, by reason.",
        );
        for (reason, count) in status.failures.read() {
            text.sample(&[("reason", reason)], count);
        }
    }
}
