//! Renewal of certificates while the server runs.
use super::expiry::{self, ExpiryStage};
use super::{ActiveTls, Tls, TlsError, tls_files};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// Interval at which the files are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Interval at which the log repeats the warning of a certificate that expires.
const WARNING_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// The last look at the certificates for the log.
struct ExpiryReport {
    tls: Tls,
    stages: Vec<ExpiryStage>,
    at: Instant,
}

impl ExpiryReport {
    /// Logs the certificates that have expired or will expire soon.
    fn log(tls: Tls, now_s: i64) -> Self {
        tls.warn_about_expiry(now_s);
        Self {
            stages: tls.expiry_stages(now_s),
            at: Instant::now(),
            tls,
        }
    }

    /// Returns whether there are other certificates, one has expired since, or the report is old.
    fn is_outdated(&self, tls: &Tls, now_s: i64) -> bool {
        !self.tls.ptr_eq(tls)
            || self.stages != tls.expiry_stages(now_s)
            || self.at.elapsed() >= WARNING_INTERVAL
    }
}

/// Reads the files again whenever they have changed, and logs certificates when they expire. Ends if there is no TLS.
///
/// A change counts once the files have stayed the same for one interval, since several files are seldom written at the same
/// time. Invalid files change nothing.
pub async fn renew(in_force: ActiveTls) {
    let mut seen = None;
    let mut refused = None;
    let mut report: Option<ExpiryReport> = None;
    loop {
        if let Some(tls) = in_force.get() {
            let now_s = expiry::now_s();
            let is_known = report
                .as_ref()
                .is_some_and(|report| !report.is_outdated(&tls, now_s));
            if !is_known {
                report = Some(ExpiryReport::log(tls, now_s));
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Some(tls) = in_force.get() else {
            return;
        };
        let files = tls.0.files.clone();
        // Reading can be slow, and handshakes continue meanwhile.
        let Ok(stamps) = spawn_blocking(move || tls_files::file_stamps(&files)).await else {
            return;
        };
        if stamps == tls.0.file_stamps || refused.as_ref() == Some(&stamps) {
            seen = None;
        } else if seen.as_ref() == Some(&stamps) {
            seen = None;
            refused = Some(stamps);
            let files = tls.0.files.clone();
            match spawn_blocking(move || Tls::read(files)).await {
                Ok(read) => apply_renewal(&in_force, &tls, read),
                Err(_) => return,
            }
        } else {
            seen = Some(stamps);
        }
    }
}

fn apply_renewal(in_force: &ActiveTls, former: &Tls, read: Result<Tls, TlsError>) {
    match read {
        Ok(tls) => {
            // If not, a reload has replaced the configuration meanwhile, perhaps with other requirements for clients.
            if in_force.replace(former, tls) {
                tracing::info!("the certificates were read again");
            }
        }
        Err(error) => {
            tracing::error!("the former certificates stay in force: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClientCertificates, TlsFiles};
    use super::*;
    use rcgen::{KeyPair, generate_simple_self_signed};
    use std::path::Path;

    fn tls(folder: &Path, name: &str) -> Tls {
        let signed = generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let key: KeyPair = signed.signing_key;
        let (certificate, key_file) = (folder.join(name), folder.join(format!("{name}.key")));
        std::fs::write(&certificate, signed.cert.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        Tls::read(TlsFiles {
            certificate,
            key: key_file,
            client_ca: None,
            client_certificates: ClientCertificates::Off,
            client_crl: None,
        })
        .unwrap()
    }

    #[test]
    fn an_expiry_is_reported_when_it_happens() {
        let folder = tempfile::tempdir().unwrap();
        let [tls, other] = ["a", "b"].map(|name| tls(folder.path(), name));
        let end_s = tls.expiry_s().unwrap();
        let report = ExpiryReport::log(tls.clone(), end_s - 2);
        assert!(!report.is_outdated(&tls, end_s - 1));
        assert!(report.is_outdated(&tls, end_s));
        assert!(report.is_outdated(&other, end_s - 1));
    }

    #[test]
    fn a_renewal_read_before_a_reload_does_not_undo_it() {
        let folder = tempfile::tempdir().unwrap();
        let [former, again, reloaded] = ["a", "b", "c"].map(|name| tls(folder.path(), name));
        let is_in_force = |in_force: &ActiveTls, tls: &Tls| in_force.get().unwrap().ptr_eq(tls);
        let in_force = ActiveTls::new(Some(former.clone()));
        in_force.set(reloaded.clone());
        apply_renewal(&in_force, &former, Ok(again.clone()));
        assert!(is_in_force(&in_force, &reloaded));
        apply_renewal(&in_force, &reloaded, Ok(again.clone()));
        assert!(is_in_force(&in_force, &again));
    }
}
