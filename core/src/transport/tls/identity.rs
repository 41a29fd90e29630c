//! The client's own certificate and private key.
use super::encrypted_key::decrypt;
use super::root_store::{certificates, pem_problem};
use super::{KEY_FILE, crypto_provider, pem_source};
use crate::settings::{PemSource, TlsSettings};
use crate::transport::error::TransportError;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error as RustlsError, InconsistentKeys};
use std::path::Path;
use std::str;
use zeroize::Zeroizing;

/// Description of the file with the client's certificate, for errors.
const CERT_FILE: &str = "certificate file";
const MAX_KEY_BYTES: usize = 1 << 20;

const ENCRYPTED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Reads the certificate and the key, if the settings name them, and checks that they belong together.
pub(super) fn load(
    settings: &TlsSettings,
    provider: &CryptoProvider,
) -> Result<Option<SingleCertAndKey>, TransportError> {
    let (Some(cert), Some(key)) = (settings.certificate(), settings.key()) else {
        return Ok(None);
    };
    let chain = certificates(CERT_FILE, cert)?;
    let der = private_key(key, settings.key_password_file.as_deref())?;
    match certified(chain, provider, &der) {
        Ok(identity) => Ok(Some(SingleCertAndKey::from(identity))),
        Err(RustlsError::InconsistentKeys(_)) => {
            let certificate = pem_source::name(cert);
            let problem = format!("does not match the first certificate in `{certificate}`");
            Err(pem_source::error(KEY_FILE, key, problem))
        }
        Err(RustlsError::InvalidCertificate(error)) => {
            let problem = format!("begins with a certificate that cannot be used: {error}");
            Err(pem_source::error(CERT_FILE, cert, problem))
        }
        Err(error) => {
            let problem =
                format!("holds a key that cannot be used (RSA, ECDSA and Ed25519 can): {error}");
            Err(pem_source::error(KEY_FILE, key, problem))
        }
    }
}

/// Like [`CertifiedKey::from_der`], but the caller keeps the key and overwrites it.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    provider: &CryptoProvider,
    der: &Zeroizing<PrivateKeyDer<'static>>,
) -> Result<CertifiedKey, RustlsError> {
    let identity = CertifiedKey::new(chain, crypto_provider::private_key(provider, der)?);
    match identity.keys_match() {
        Ok(()) | Err(RustlsError::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(identity),
        Err(error) => Err(error),
    }
}

/// Reads a private key from a PEM text: PKCS#8 (plain or encrypted), PKCS#1 or SEC1.
fn private_key(
    source: PemSource<'_>,
    password_file: Option<&Path>,
) -> Result<Zeroizing<PrivateKeyDer<'static>>, TransportError> {
    let bytes = pem_source::read(KEY_FILE, source, MAX_KEY_BYTES)?;
    let text = str::from_utf8(&bytes).unwrap_or_default();
    if let Some(pem) = encrypted_section(text) {
        let Some(password_file) = password_file else {
            let problem = "is encrypted, and no key password file is given";
            return Err(pem_source::error(KEY_FILE, source, problem));
        };
        return decrypt(source, pem, password_file);
    }
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        let problem = "is encrypted in OpenSSL's old format; convert it with `openssl pkcs8 -topk8 -v2 aes-256-cbc`";
        return Err(pem_source::error(KEY_FILE, source, problem));
    }
    let key = PrivateKeyDer::from_pem_slice(&bytes).map(Zeroizing::new);
    key.map_err(|error| {
        let problem = match (error, bytes.first()) {
            (pem::Error::NoItemsFound, Some(0x30)) => {
                "is DER, not PEM; convert it with `openssl pkey -inform der`".to_owned()
            }
            (pem::Error::NoItemsFound, _) => {
                "contains no private key (no line like `-----BEGIN PRIVATE KEY-----`)".to_owned()
            }
            (error, _) => pem_problem(&error),
        };
        pem_source::error(KEY_FILE, source, problem)
    })
}

/// Returns the section of an encrypted key. Certificates or comments may precede and follow it.
fn encrypted_section(text: &str) -> Option<&str> {
    let begin = text.find(ENCRYPTED_BEGIN)?;
    let length = text[begin..].find(ENCRYPTED_END)? + ENCRYPTED_END.len();
    Some(&text[begin..begin + length])
}
