//! The trusted authorities.
use super::pem_source;
use crate::error::ErrorKind;
use crate::settings::PemSource;
use crate::transport::error::TransportError;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};

/// Maximum size of a PEM text with certificates, in bytes. A bundle of all public authorities has about 250 kB.
pub(super) const MAX_CERTIFICATES_BYTES: usize = 4 << 20;

/// Returns the authorities of the settings, or those of the operating system without any.
pub(super) fn load(authorities: Option<PemSource<'_>>) -> Result<RootCertStore, TransportError> {
    match authorities {
        Some(source) => from_source(source),
        None => from_system(),
    }
}

fn from_source(source: PemSource<'_>) -> Result<RootCertStore, TransportError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("CA file", source)? {
        roots.add(certificate).map_err(|error| {
            let problem = format!("holds a certificate that cannot be used: {error}");
            pem_source::error("CA file", source, problem)
        })?;
    }
    Ok(roots)
}

fn from_system() -> Result<RootCertStore, TransportError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems contain some certificates that are too old to be parsed; the others are used.
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let cause = match found.errors.first() {
        Some(error) => format!(" ({error})"),
        None => String::new(),
    };
    let reason = format!(
        "this system has no certificate authorities{cause}; install them (package `ca-certificates`) or name a CA file"
    );
    Err(TransportError::new(ErrorKind::InvalidSettings, reason))
}

/// Reads all certificates of a PEM text, in their order; at least one.
pub(super) fn certificates(
    description: &str,
    source: PemSource<'_>,
) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let bytes = pem_source::read(description, source, MAX_CERTIFICATES_BYTES)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| pem_source::error(description, source, pem_problem(&error)))?;
    if certificates.is_empty() {
        let problem = match bytes.first() {
            Some(0x30) => "is DER, not PEM; convert it with `openssl x509 -inform der`",
            _ => "contains no certificate (no line `-----BEGIN CERTIFICATE-----`)",
        };
        return Err(pem_source::error(description, source, problem));
    }
    Ok(certificates)
}

/// Describes the problem of a PEM text, without its content, which may be a key.
pub(super) fn pem_problem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => {
            "is cut off: it ends without a line `-----END ...-----`".to_owned()
        }
        pem::Error::Base64Decode(error) => format!("is not well-formed PEM: {error}"),
        _ => "is not well-formed PEM".to_owned(),
    }
}
