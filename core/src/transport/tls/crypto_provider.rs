//! The cryptography of TLS.
use crate::transport::error::TransportError;
use rustls::Error as RustlsError;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Returns the provider that the program has installed, or that of `ring` if it is compiled in.
pub(super) fn current() -> Result<Arc<CryptoProvider>, TransportError> {
    match CryptoProvider::get_default() {
        Some(installed) => Ok(installed.clone()),
        None => built_in(),
    }
}

#[cfg(feature = "ring")]
#[expect(clippy::unnecessary_wraps, reason = "without `ring` it is an error")]
fn built_in() -> Result<Arc<CryptoProvider>, TransportError> {
    Ok(Arc::new(rustls::crypto::ring::default_provider()))
}

#[cfg(not(feature = "ring"))]
fn built_in() -> Result<Arc<CryptoProvider>, TransportError> {
    let reason = "there is no cryptography for TLS: install a provider for the process \
        (`rustls::crypto::CryptoProvider::install_default`), give a `rustls_config`, or build with the feature `ring`";
    let kind = crate::error::ErrorKind::InvalidSettings;
    Err(TransportError::new(kind, reason))
}

/// Loads a private key into the provider. The caller overwrites the original; an installed provider is responsible for its own
/// copy.
pub(super) fn private_key(
    provider: &CryptoProvider,
    der: &Zeroizing<PrivateKeyDer<'static>>,
) -> Result<Arc<dyn SigningKey>, RustlsError> {
    // Borrows the key instead of copying it.
    #[cfg(feature = "ring")]
    if CryptoProvider::get_default().is_none() {
        return rustls::crypto::ring::sign::any_supported_type(der);
    }
    provider.key_provider.load_private_key(der.clone_key())
}
