//! Certificates that this server presents, and TLS handshakes that failed.
use statestored_listeners::{ActiveTls, BoundAddress, TlsFailureCounts};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Certificates that this server presents to clients, an engine or a broker, and its failed handshakes.
#[derive(Debug)]
pub struct TlsStatus {
    tls: ActiveTls,
    /// Listeners with TLS, as in `--listen`.
    pub(super) listeners: Vec<String>,
    /// Files with certificates that this server presents as a client, by the peer.
    pub(super) client_certificates: Vec<(&'static str, PathBuf)>,
    pub(super) failures: TlsFailureCounts,
}

impl TlsStatus {
    /// Creates the status of the listeners that have TLS, with the certificate `tls` and these counts of failures.
    pub fn new(tls: ActiveTls, listeners: &[BoundAddress], failures: TlsFailureCounts) -> Self {
        let listeners = listeners.iter().filter(|listener| listener.has_tls());
        Self {
            tls,
            listeners: listeners.map(BoundAddress::to_string).collect(),
            client_certificates: Vec::new(),
            failures,
        }
    }

    /// Adds the files with certificates that this server presents as a client, by the peer.
    #[must_use]
    pub fn with_client_certificates(
        mut self,
        certificates: impl IntoIterator<Item = (&'static str, PathBuf)>,
    ) -> Self {
        self.client_certificates.extend(certificates);
        self
    }

    /// Returns the time at which the certificate of the listeners expires, in seconds since 1970; `None` without TLS.
    pub(super) fn listener_expiry_s(&self) -> Option<i64> {
        if self.listeners.is_empty() {
            return None;
        }
        self.tls.get()?.expiry_s()
    }

    /// Returns the seconds until the certificate of the listeners expires, negative ones after it; `None` without TLS.
    pub(super) fn listener_seconds_left(&self) -> Option<i64> {
        Some(self.listener_expiry_s()?.saturating_sub(now_s()))
    }
}

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
