//! Certificates that this server presents, and TLS handshakes that failed.
use statestored_listeners::{ActiveTls, BoundAddress, PresentedCertificates, TlsFailureCounts};
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Certificates that this server presents to clients, an engine or a broker, and its failed handshakes.
#[derive(Debug)]
pub struct TlsStatus {
    tls: ActiveTls,
    /// Listeners with TLS, as in `--listen`.
    listeners: Vec<String>,
    /// Addresses of the HTTP port, if it has TLS, and its certificate.
    http_port: Option<(Vec<String>, ActiveTls)>,
    /// Certificates that this server presents as a client.
    pub(super) presented: PresentedCertificates,
    pub(super) failures: TlsFailureCounts,
}

impl TlsStatus {
    /// Creates the status of the listeners that have TLS, with the certificate `tls` and these counts of failures.
    pub fn new(tls: ActiveTls, listeners: &[BoundAddress], failures: TlsFailureCounts) -> Self {
        let listeners = listeners.iter().filter(|listener| listener.has_tls());
        Self {
            tls,
            listeners: listeners.map(BoundAddress::to_string).collect(),
            http_port: None,
            presented: PresentedCertificates::default(),
            failures,
        }
    }

    /// Sets the certificates that this server presents as a client.
    #[must_use]
    pub fn with_presented(mut self, certificates: PresentedCertificates) -> Self {
        self.presented = certificates;
        self
    }

    /// Adds the certificate of the HTTP port, if it has TLS.
    pub(super) fn with_http_port(
        mut self,
        addresses: &[SocketAddr],
        tls: Option<ActiveTls>,
    ) -> Self {
        self.http_port = tls.map(|tls| {
            let names = addresses.iter().map(|address| format!("https://{address}"));
            (names.collect(), tls)
        });
        self
    }

    /// Returns the listeners with TLS, the HTTP port included, with the time at which their certificate expires, in seconds since 1970.
    pub(super) fn expiries(&self) -> Vec<(&str, i64)> {
        let expiry_s = |tls: &ActiveTls| tls.get()?.expiry_s();
        let http_port = self.http_port.iter().map(|(names, tls)| (names, tls));
        let groups = std::iter::once((&self.listeners, &self.tls)).chain(http_port);
        groups
            .filter_map(|(names, tls)| Some((names, expiry_s(tls)?)))
            .flat_map(|(names, expiry_s)| names.iter().map(move |name| (&**name, expiry_s)))
            .collect()
    }

    /// Returns the seconds until the first certificate of a listener expires, negative ones after it; `None` without TLS.
    pub(super) fn seconds_left(&self) -> Option<i64> {
        seconds_left(&self.expiries())
    }

    /// Returns the seconds until the first certificate expires that this server presents as a client, negative ones after it; `None`
    /// without such a certificate.
    pub(super) fn presented_seconds_left(&self) -> Option<i64> {
        seconds_left(&self.presented.expiries())
    }
}

fn seconds_left(expiries: &[(&str, i64)]) -> Option<i64> {
    let first = expiries.iter().map(|(_, expiry_s)| *expiry_s).min()?;
    Some(first.saturating_sub(now_s()))
}

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
