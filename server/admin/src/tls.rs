//! The metrics of certificates and TLS handshakes.
use super::app_state::AppState;
use super::exposition::Exposition;
use super::exposition::MetricType::{Counter, Gauge};
use statestored_listeners::certificate_expiry_s;

impl AppState {
    /// Appends the metrics.
    pub(super) async fn tls_metrics(&self, text: &mut Exposition) {
        let status = &self.tls_status;
        text.family(
            "statestored_certificate_expiry_timestamp_seconds",
            Gauge,
            "When the certificate of a listener, or towards an engine or broker, expires, since the Unix epoch.",
        );
        for (listener, expiry_s) in status.expiries() {
            text.sample(&[("listener", listener)], expiry_s);
        }
        for (peer, expiry_s) in self.client_certificate_expiries().await {
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

    /// Reads when the certificates expire that this server presents as a client. A file that cannot be read is left out.
    async fn client_certificate_expiries(&self) -> Vec<(&'static str, i64)> {
        let files = self.tls_status.client_certificates.clone();
        if files.is_empty() {
            return Vec::new();
        }
        let read = move || {
            let expiries = files.into_iter().filter_map(|(peer, path)| {
                let expiry_s = certificate_expiry_s(&path).ok()??;
                Some((peer, expiry_s))
            });
            expiries.collect()
        };
        self.file_limiter.run(read).await.unwrap_or_default()
    }
}
