//! TLS of connections on which this server is the client.
use super::{TlsError, authorities, certified_key};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::sign::SingleCertAndKey;
use std::path::Path;
use std::sync::Arc;

/// Creates a configuration that trusts certificates of these authorities, and shows this certificate with its key.
/// Blocks until the files are read.
///
/// # Errors
/// A file cannot be read or parsed, or the key belongs to another certificate.
pub fn client_tls(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::setup)?
        .with_root_certificates(authorities(ca)?);
    let mut config = match identity {
        Some((certificate, key)) => {
            let identity = certified_key(certificate, key)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
        None => builder.with_no_client_auth(),
    };
    // A renewed certificate takes effect with the next connection.
    config.resumption = Resumption::disabled();
    Ok(config)
}
