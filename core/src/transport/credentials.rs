//! Credentials sent over MQTT: a user name and password, or a Kubernetes service account token.
use super::error::TransportError;
use super::file;
use crate::settings::CredentialSources;
use bytes::Bytes;
use std::fmt;
use std::path::Path;

/// Authentication method of a service account token (MQTT 5, section 4.12; the token is the authentication data).
const SAT_METHOD: &str = "K8S-SAT";

/// Maximum length of binary data in MQTT, in bytes.
const MAX_BYTES: usize = 65_535;

/// The credentials of one CONNECT.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Bytes>,
    /// Method and data of the enhanced authentication.
    pub(crate) authentication: Option<(String, Bytes)>,
}

impl CredentialSources {
    /// Returns the current credentials. Blocks if they are in files.
    pub(crate) fn read(&self) -> Result<Credentials, TransportError> {
        let password = match &self.password_file {
            Some(path) => {
                let password = file::read_secret("password file", path, MAX_BYTES)?;
                Some(Bytes::from_owner(password))
            }
            None => self.password.clone(),
        };
        let authentication = match &self.sat_file {
            Some(path) => Some((SAT_METHOD.to_owned(), read_token(path)?)),
            None => None,
        };
        Ok(Credentials {
            user_name: self.user_name.clone(),
            password,
            authentication,
        })
    }
}

/// Reads a service account token. Blocks.
pub(crate) fn read_token(path: &Path) -> Result<Bytes, TransportError> {
    let token = file::read_secret("service account token file", path, MAX_BYTES)?;
    Ok(Bytes::from_owner(token))
}

impl fmt::Debug for Credentials {
    /// Omits the password and the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user_name", &self.user_name)
            .field("password", &self.password.is_some())
            .field(
                "authentication",
                &self.authentication.as_ref().map(|(method, _)| method),
            )
            .finish()
    }
}
