//! Certificates that this server presents, and TLS handshakes that failed.
use super::app_state::AppState;
use super::exposition::Exposition;
use super::exposition::MetricType::{Counter, Gauge};
use super::health::Reason;
use crate::attached::AttachConfig;
use crate::storage_config::StorageConfig;
use statestored_listeners::{ActiveTls, BoundAddress, TlsFailureCounts, certificate_expiry_s};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Time before the expiry of a certificate from which on the server reports a warning.
const EXPIRY_WARNING_S: i64 = 14 * 24 * 3600;

const CERTIFICATE_EXPIRED: Reason = Reason {
    code: "certificate_expired",
    text: "the certificate of the listeners has expired: clients do not trust it",
};
const CERTIFICATE_EXPIRES: Reason = Reason {
    code: "certificate_expires",
    text: "the certificate of the listeners expires within 14 days: renew it",
};

/// Certificates that this server presents to clients, an engine or a broker, and its failed handshakes.
#[derive(Debug)]
pub(crate) struct TlsStatus {
    tls: ActiveTls,
    /// Listeners with TLS, as in `--listen`.
    listeners: Vec<String>,
    /// Files with certificates that this server presents as a client, by the peer.
    client_certificates: Vec<(&'static str, PathBuf)>,
    failures: TlsFailureCounts,
}

impl TlsStatus {
    pub(crate) fn new(
        tls: ActiveTls,
        listeners: &[BoundAddress],
        failures: TlsFailureCounts,
    ) -> Self {
        let listeners = listeners.iter().filter(|listener| listener.has_tls());
        Self {
            tls,
            listeners: listeners.map(BoundAddress::to_string).collect(),
            client_certificates: Vec::new(),
            failures,
        }
    }

    /// Adds the certificates that this server presents to an engine and to a broker.
    pub(crate) fn with_peers(
        mut self,
        storage: &StorageConfig,
        attach: Option<&AttachConfig>,
    ) -> Self {
        let (engine, tls) = match storage {
            StorageConfig::Etcd(config) => ("etcd", config.tls.as_ref()),
            StorageConfig::Redis(config) => ("redis", config.tls.as_ref()),
            StorageConfig::Memory | StorageConfig::Durable(_) => ("", None),
        };
        let of_engine = tls.and_then(|tls| tls.identity.as_ref());
        let of_engine = of_engine.map(|identity| (engine, identity));
        let of_broker = attach.and_then(|attach| attach.identity.as_ref());
        let of_broker = of_broker.map(|identity| ("broker", identity));
        for (peer, (certificate, _)) in of_engine.into_iter().chain(of_broker) {
            self.client_certificates.push((peer, certificate.clone()));
        }
        self
    }

    /// Returns the time at which the certificate of the listeners expires, in seconds since 1970; `None` without TLS.
    fn listener_expiry_s(&self) -> Option<i64> {
        if self.listeners.is_empty() {
            return None;
        }
        self.tls.get()?.expiry_s()
    }

    /// Returns a warning if the certificate of the listeners has expired, or will soon.
    pub(super) fn warning(&self) -> Option<Reason> {
        let left_s = self.listener_expiry_s()?.saturating_sub(now_s());
        match left_s {
            ..=0 => Some(CERTIFICATE_EXPIRED),
            ..EXPIRY_WARNING_S => Some(CERTIFICATE_EXPIRES),
            _ => None,
        }
    }
}

impl AppState {
    /// Appends the metrics.
    pub(super) async fn tls_metrics(&self, text: &mut Exposition) {
        let status = &self.tls_status;
        text.family(
            "statestored_certificate_expiry_timestamp_seconds",
            Gauge,
            "When the certificate of a listener, or the one for etcd, redis or the broker, expires, since the Unix epoch.",
        );
        if let Some(expiry_s) = status.listener_expiry_s() {
            for listener in &status.listeners {
                text.sample(&[("listener", listener.as_str())], expiry_s);
            }
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

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
