//! Certificates that this server presents as a client, to an engine or a broker.
use super::certificate_expiry_s;
use super::expiry::{self, ExpiryStage};
use std::future::pending;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Maximum interval at which the files are read.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// Interval at which the log repeats a warning.
const WARNING_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// Certificates that this server presents as a client, with the expiry that [`monitor`](Self::monitor) has read last. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct PresentedCertificates(Arc<Vec<PresentedCertificate>>);

#[derive(Debug)]
struct PresentedCertificate {
    /// Name of the server that receives it.
    peer: &'static str,
    file: PathBuf,
    /// Time of the expiry, in seconds since 1970; `None` before the first reading, or if the file cannot be read.
    expiry_s: Mutex<Option<i64>>,
}

/// The last line of the log about a certificate.
#[derive(Debug, Clone, Copy)]
struct Warning {
    expiry_s: i64,
    stage: ExpiryStage,
    at: Instant,
}

impl PresentedCertificates {
    /// Creates the certificates in these files, by the server that receives them. Nothing is read yet.
    pub fn new(files: impl IntoIterator<Item = (&'static str, PathBuf)>) -> Self {
        let certificates = files.into_iter().map(|(peer, file)| PresentedCertificate {
            peer,
            file,
            expiry_s: Mutex::default(),
        });
        Self(Arc::new(certificates.collect()))
    }

    /// Returns the times at which they expire, in seconds since 1970, by the server that receives them. A file that cannot be read is
    /// left out.
    pub fn expiries(&self) -> Vec<(&'static str, i64)> {
        let expiries = self.0.iter();
        expiries
            .filter_map(|it| Some((it.peer, it.expiry_s()?)))
            .collect()
    }

    /// Reads the files again and again, and logs certificates that have expired or will expire soon. Does not end.
    pub async fn monitor(self) {
        let mut warnings = vec![None; self.0.len()];
        while !self.0.is_empty() {
            let certificates = self.clone();
            // Reading can be slow.
            if spawn_blocking(move || certificates.read()).await.is_err() {
                break;
            }
            let now_s = expiry::now_s();
            for (certificate, warning) in self.0.iter().zip(&mut warnings) {
                certificate.warn(warning, now_s);
            }
            sleep(self.next_reading(now_s)).await;
        }
        pending::<()>().await;
    }

    fn read(&self) {
        for certificate in &*self.0 {
            let expiry_s = certificate_expiry_s(&certificate.file).ok().flatten();
            let known = certificate.expiry_s.lock();
            *known.unwrap_or_else(PoisonError::into_inner) = expiry_s;
        }
    }

    /// Returns the time until the next reading: the next expiry, or the interval.
    fn next_reading(&self, now_s: i64) -> Duration {
        let expiries = self.0.iter().filter_map(PresentedCertificate::expiry_s);
        let left = expiries.filter_map(|end_s| u64::try_from(end_s.saturating_sub(now_s)).ok());
        let next = left.filter(|left_s| *left_s > 0).min();
        next.map_or(READ_INTERVAL, |left_s| {
            READ_INTERVAL.min(Duration::from_secs(left_s))
        })
    }
}

impl PresentedCertificate {
    fn expiry_s(&self) -> Option<i64> {
        *self.expiry_s.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a new stage of the certificate at once, and the same one at intervals.
    fn warn(&self, last: &mut Option<Warning>, now_s: i64) {
        let Some(expiry_s) = self.expiry_s() else {
            return;
        };
        let stage = ExpiryStage::of(expiry_s, now_s);
        let is_known = last.is_some_and(|last| {
            (last.expiry_s, last.stage) == (expiry_s, stage) && last.at.elapsed() < WARNING_INTERVAL
        });
        if is_known {
            return;
        }
        *last = Some(Warning {
            expiry_s,
            stage,
            at: Instant::now(),
        });
        let (file, peer) = (self.file.display(), self.peer);
        match stage {
            ExpiryStage::Valid => {}
            ExpiryStage::ExpiresSoon => {
                let days = expiry::days_left(expiry_s, now_s);
                tracing::warn!(%file, peer, days, "the certificate of this server for its engine or broker will expire soon");
            }
            ExpiryStage::Expired => {
                tracing::error!(%file, peer, "the certificate of this server for its engine or broker has expired: connections fail");
            }
        }
    }
}
