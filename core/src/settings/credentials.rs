//! What the client shows the broker inside of MQTT: a user name and password, or a Kubernetes service account token.
use super::Settings;
use crate::transport::{TransportError, file};
use bytes::Bytes;
use std::fmt;
use std::path::{Path, PathBuf};

/// The authentication method of a service account token (MQTT 5, section 4.12; the token is the authentication data).
pub(crate) const SAT_METHOD: &str = "K8S-SAT";

/// MQTT has no longer binary data.
const MAX_BYTES: usize = 65_535;

/// Where the credentials come from.
#[derive(Clone, Default)]
pub(crate) struct CredentialSources {
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Bytes>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) sat_file: Option<PathBuf>,
}

/// The credentials of one CONNECT.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Bytes>,
    /// Method and data of the enhanced authentication.
    pub(crate) authentication: Option<(String, Bytes)>,
}

impl Settings {
    /// The user name.
    #[must_use]
    pub fn user_name(mut self, user_name: impl Into<String>) -> Self {
        self.credentials.user_name = Some(user_name.into());
        self
    }

    /// The password: any bytes.
    #[must_use]
    pub fn password(mut self, password: impl Into<Bytes>) -> Self {
        self.credentials.password = Some(password.into());
        self
    }

    /// A file that holds the password. It is read anew for each connection. One line end at its end does not belong to
    /// the password; everything else does.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials.password_file = Some(path.into());
        self
    }

    /// A file that holds a Kubernetes service account token: the client authenticates with the method `K8S-SAT`
    /// (MQTT 5, section 4.12) and the token, without one line end at its end, as data. It excludes a user name and a
    /// password.
    ///
    /// The file is read anew for each connection, and watched: when the token changes, the client authenticates again
    /// over the connection that it has. Linux tells of a change at once; elsewhere it is noticed within 30 seconds.
    #[must_use]
    pub fn sat_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials.sat_file = Some(path.into());
        self
    }
}

impl CredentialSources {
    /// Whether the sources go together.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.password.is_some() && self.password_file.is_some() {
            return Err("there is a password and a password file; give one of them");
        }
        let password = self.password.is_some() || self.password_file.is_some();
        if self.sat_file.is_some() && (self.user_name.is_some() || password) {
            return Err(
                "there is a service account token file and a user name or password; give one of them",
            );
        }
        Ok(())
    }

    /// Whether [`read`](Self::read) reads files.
    pub(crate) fn has_files(&self) -> bool {
        self.password_file.is_some() || self.sat_file.is_some()
    }

    /// The credentials as they are now. This blocks if they are in files.
    pub(crate) fn read(&self) -> Result<Credentials, TransportError> {
        let password = match &self.password_file {
            Some(path) => Some(file::read_secret("password file", path, MAX_BYTES)?.into()),
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

/// Reads a service account token. This blocks.
pub(crate) fn read_token(path: &Path) -> Result<Bytes, TransportError> {
    let token = file::read_secret("service account token file", path, MAX_BYTES)?;
    Ok(token.into())
}

impl fmt::Debug for CredentialSources {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialSources")
            .field("user_name", &self.user_name)
            .field("password", &self.password.is_some())
            .field("password_file", &self.password_file)
            .field("sat_file", &self.sat_file)
            .finish()
    }
}

impl fmt::Debug for Credentials {
    /// Without the password and the token.
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
