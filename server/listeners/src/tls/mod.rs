//! TLS 1.2 and 1.3, by rustls.
mod client;
mod error;
mod expiry;
mod handshake_error;
mod identity;
mod key_kind;
mod presented;
mod renewal;
mod tls_files;

pub use client::client_tls;
pub use error::TlsError;
use expiry::ExpiryStage;
use handshake_error::VERSION_1;
pub(super) use handshake_error::with_advice;
pub(super) use identity::identity;
use identity::subject_and_expiry;
use key_kind::key_kind;
pub use presented::PresentedCertificates;
pub use renewal::renew;
pub use tls_files::{ClientCertificates, TlsFiles};

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use tls_files::{FileStamp, certificates, private_key, revocation_lists};

/// Protocols negotiated in the handshake (ALPN): plain MQTT, or HTTP for WebSocket.
const MQTT: &[u8] = b"mqtt";
const HTTP: &[u8] = b"http/1.1";

/// A certificate with its key, and the authorities of clients, as read from files.
#[derive(Debug, Clone)]
pub struct Tls(Arc<LoadedTls>);

#[derive(Debug)]
struct LoadedTls {
    files: TlsFiles,
    /// States of the files when they were read.
    file_stamps: Vec<FileStamp>,
    /// Subjects and expiry times of the server's certificate and the other ones of its chain, in seconds since 1970.
    certificate_expiries: Vec<(String, i64)>,
    mqtt: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files. Blocks until they are read.
    ///
    /// # Errors
    /// A file cannot be read or parsed, or the key belongs to another certificate.
    pub fn read(files: TlsFiles) -> Result<Self, TlsError> {
        // Taken before the files are read, so that a concurrent change is noticed.
        let stamps = tls_files::file_stamps(&files);
        let mqtt = server_config(&files)?;
        let chain = certificates(&files.certificate)?;
        let ends = chain.iter().filter_map(subject_and_expiry).collect();
        let mut http = mqtt.clone();
        http.alpn_protocols = vec![HTTP.into()];
        Ok(Self(Arc::new(LoadedTls {
            files,
            file_stamps: stamps,
            certificate_expiries: ends,
            mqtt: Arc::new(mqtt),
            http: Arc::new(http),
        })))
    }

    /// Returns the time at which the first certificate of the server's chain expires, in seconds since 1970.
    pub fn expiry_s(&self) -> Option<i64> {
        let expiries = self.0.certificate_expiries.iter();
        expiries.map(|(_, end_s)| *end_s).min()
    }

    /// Returns how near each certificate of the server's chain is to its expiry.
    fn expiry_stages(&self, now_s: i64) -> Vec<ExpiryStage> {
        let expiries = self.0.certificate_expiries.iter();
        expiries
            .map(|(_, end_s)| ExpiryStage::of(*end_s, now_s))
            .collect()
    }

    /// Logs certificates of the server's chain that have expired or will expire soon.
    fn warn_about_expiry(&self, now_s: i64) {
        let file = self.0.files.certificate.display();
        for (number, (subject, end_s)) in self.0.certificate_expiries.iter().enumerate() {
            let days = expiry::days_left(*end_s, now_s);
            match (number, ExpiryStage::of(*end_s, now_s)) {
                (_, ExpiryStage::Valid) => {}
                (0, ExpiryStage::Expired) => {
                    tracing::error!(%file, "the server's certificate has expired: clients do not trust it");
                }
                (0, ExpiryStage::ExpiresSoon) => {
                    tracing::warn!(%file, days, "the server's certificate will expire soon");
                }
                (_, ExpiryStage::Expired) => {
                    tracing::error!(%file, %subject, "a certificate between the server's and its authority has expired: clients do not trust the server's");
                }
                (_, ExpiryStage::ExpiresSoon) => {
                    tracing::warn!(%file, %subject, days, "a certificate between the server's and its authority will expire soon");
                }
            }
        }
    }

    /// Returns whether clients need a certificate.
    pub(crate) fn requires_client_certificates(&self) -> bool {
        let files = &self.0.files;
        files.client_ca.is_some() && files.client_certificates == ClientCertificates::Required
    }

    /// Returns whether both are from the same reading of the files.
    fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the configuration of a handshake, which MQTT or WebSocket follows.
    pub(super) fn config(&self, has_websocket: bool) -> Arc<ServerConfig> {
        Arc::clone(if has_websocket {
            &self.0.http
        } else {
            &self.0.mqtt
        })
    }
}

/// The TLS configuration in force.
#[derive(Debug, Clone)]
pub struct ActiveTls(Arc<RwLock<Option<Tls>>>);

impl ActiveTls {
    /// Creates the configuration; `None` is no TLS.
    pub fn new(tls: Option<Tls>) -> Self {
        Self(Arc::new(RwLock::new(tls)))
    }

    /// Returns the configuration; `None` is no TLS.
    pub fn get(&self) -> Option<Tls> {
        // The value is always consistent.
        let tls = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tls.clone()
    }

    /// Replaces the configuration, for new connections.
    pub fn set(&self, tls: Tls) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(tls);
    }

    /// Replaces `former` with `tls`, unless a reload has replaced it meanwhile. Returns whether it did.
    fn replace(&self, former: &Tls, tls: Tls) -> bool {
        let mut in_force = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_former = in_force.as_ref().is_some_and(|it| it.ptr_eq(former));
        if is_former {
            *in_force = Some(tls);
        }
        is_former
    }
}

/// Returns the time at which the first certificate in a file expires, in seconds since 1970. Blocks until the file is read.
///
/// # Errors
/// The file cannot be read, or has no certificate in PEM.
fn certificate_expiry_s(path: &Path) -> Result<Option<i64>, TlsError> {
    let chain = certificates(path)?;
    let expiries = chain.iter().filter_map(subject_and_expiry);
    Ok(expiries.map(|(_, end_s)| end_s).min())
}

fn server_config(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(default_provider());
    let identity = certified_key(&files.certificate, &files.key)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::setup)?;
    let builder = match client_verifier(files, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    config.alpn_protocols = vec![MQTT.into()];
    // The key of tickets is new with each reading of the files. A client that other files exclude has to show its
    // certificate again.
    config.ticketer = Ticketer::new().map_err(TlsError::setup)?;
    // A client has one connection at a time.
    config.send_tls13_tickets = 1;
    Ok(config)
}

/// Reads the server's certificate and key.
fn certified_key(certificate: &Path, key_file: &Path) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(certificate)?;
    let key = private_key(key_file)?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(|error| {
        let kind = chain.first().and_then(key_kind);
        let kind = kind.map_or_else(
            || error.to_string(),
            |kind| format!("that of the certificate is {kind}"),
        );
        let problem = format!(
            "holds a key that cannot be used ({kind}): make one of RSA with 2048 to 4096 bits, ECDSA over P-256 or P-384, or Ed25519"
        );
        TlsError::file(key_file, problem)
    })?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(identity)
        }
        Err(rustls::Error::InconsistentKeys(_)) => {
            let certificate = certificate.display();
            let problem = format!("is not the key of the first certificate in {certificate}");
            Err(TlsError::file(key_file, problem))
        }
        Err(error) => {
            let problem = if handshake_error::is_of_version_1(&error) {
                format!("begins with a certificate {VERSION_1}")
            } else {
                format!("begins with a certificate that cannot be used: {error}")
            };
            Err(TlsError::file(certificate, problem))
        }
    }
}

/// Creates the verifier of clients' certificates; `None` if clients are not asked for one.
fn client_verifier(
    files: &TlsFiles,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let demanded = files.client_certificates;
    let Some(ca) = files
        .client_ca
        .as_deref()
        .filter(|_| demanded != ClientCertificates::Off)
    else {
        return Ok(None);
    };
    let roots = Arc::new(authorities(ca)?);
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    if let Some(crl) = &files.client_crl {
        // Certificates of authorities without a list count as not revoked.
        builder = builder
            .with_crls(revocation_lists(crl)?)
            .allow_unknown_revocation_status();
    }
    if demanded == ClientCertificates::Optional {
        builder = builder.allow_unauthenticated();
    }
    let verifier = builder.build().map_err(|error| {
        let crl = files.client_crl.as_deref().unwrap_or(ca);
        TlsError::file(crl, format!("cannot be used: {error}"))
    })?;
    Ok(Some(verifier))
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            TlsError::file(
                path,
                format!("has a certificate that is not an authority: {error}"),
            )
        })?;
    }
    Ok(roots)
}
