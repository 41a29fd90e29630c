//! Private keys that are encrypted with a password, in a build that cannot decrypt them.
use super::{KEY_FILE, pem_source};
use crate::settings::PemSource;
use crate::transport::error::TransportError;
use rustls::pki_types::PrivateKeyDer;
use std::path::Path;
use zeroize::Zeroizing;

pub(super) fn decrypt(
    source: PemSource<'_>,
    _pem: &str,
    _password_file: &Path,
) -> Result<Zeroizing<PrivateKeyDer<'static>>, TransportError> {
    let problem = "is encrypted, which this build cannot open (feature `encrypted-keys`); take the password off with `openssl pkcs8`";
    Err(pem_source::error(KEY_FILE, source, problem))
}
