//! Private keys that are encrypted with a password.
use super::{KEY_FILE, pem_source};
use crate::settings::PemSource;
use crate::transport::error::TransportError;
use crate::transport::file;
use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument, der, pkcs5};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

const MAX_PASSWORD_BYTES: usize = 65_535;

pub(super) fn decrypt(
    source: PemSource<'_>,
    pem: &str,
    password_file: &Path,
) -> Result<Zeroizing<PrivateKeyDer<'static>>, TransportError> {
    let password = file::read_secret("key password file", password_file, MAX_PASSWORD_BYTES)?;
    let malformed = |error: &dyn fmt::Display| {
        pem_source::error(
            KEY_FILE,
            source,
            format!("is not a well-formed key: {error}"),
        )
    };
    let (_, document) = SecretDocument::from_pem(pem).map_err(|error| malformed(&error))?;
    let unsupported = |error: &dyn fmt::Display| {
        let problem = format!(
            "is encrypted in a way that is not supported ({error}); convert it with `openssl pkcs8 -topk8 -v2 aes-256-cbc`"
        );
        pem_source::error(KEY_FILE, source, problem)
    };
    let key = match EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()) {
        Ok(key) => key,
        Err(pkcs8::Error::Asn1(error))
            if matches!(error.kind(), der::ErrorKind::OidUnknown { .. }) =>
        {
            return Err(unsupported(&error));
        }
        Err(error) => return Err(malformed(&error)),
    };
    match key.decrypt(&*password) {
        Ok(document) => {
            let der = PrivatePkcs8KeyDer::from(document.as_bytes().to_vec());
            Ok(Zeroizing::new(der.into()))
        }
        Err(pkcs8::Error::EncryptedPrivateKey(
            error @ (pkcs5::Error::UnsupportedAlgorithm { .. } | pkcs5::Error::NoPbes1CryptSupport),
        )) => Err(unsupported(&error)),
        // A wrong password causes bad padding, or rarely a malformed document.
        Err(_) => {
            let problem = "does not open the key; the password is wrong or the key is damaged";
            let description = "password in the key password file";
            Err(TransportError::file(description, password_file, problem))
        }
    }
}
