//! TLS settings: the trusted authorities and the identity of the client.
use super::Settings;
#[cfg(feature = "tls")]
use rustls::ClientConfig;
use std::path::PathBuf;
#[cfg(feature = "tls")]
use std::sync::Arc;

/// TLS settings besides the broker's address. The files are PEM and are read for each connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsSettings {
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) cert_file: Option<PathBuf>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) key_password_file: Option<PathBuf>,
    pub(crate) server_name: Option<String>,
    #[cfg(feature = "tls")]
    pub(crate) config: Option<Arc<ClientConfig>>,
}

impl Settings {
    /// Sets whether the connection uses TLS (default: no; yes with `mqtts` URLs and from the environment). Requires the feature
    /// `tls` of this crate, which the default feature `ring` includes.
    ///
    /// The cryptography is the [`CryptoProvider`](rustls::crypto::CryptoProvider) that the program has installed as the default
    /// of its process. Without one, it is that of `ring`, with the feature of that name. Without either, connecting fails with
    /// [`ErrorKind::InvalidSettings`](crate::ErrorKind::InvalidSettings).
    #[must_use]
    pub fn tls(mut self, tls: bool) -> Self {
        self.tls_enabled = tls;
        self
    }

    /// Sets the file with the authorities that are trusted to sign the broker's certificate (default: those of the operating
    /// system).
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.ca_file = Some(path.into());
        self
    }

    /// Sets the file with the client's certificate, followed by intermediate certificates, if any. Requires a
    /// [`key_file`](Self::key_file).
    #[must_use]
    pub fn cert_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.cert_file = Some(path.into());
        self
    }

    /// Sets the file with the private key of the client's certificate: RSA, ECDSA or Ed25519, as PKCS#8, PKCS#1 or SEC1.
    #[must_use]
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.key_file = Some(path.into());
        self
    }

    /// Sets the file with the password of an encrypted PKCS#8 key. One line end at its end is not part of the password. A key
    /// that is not encrypted does not need it.
    #[must_use]
    pub fn key_password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.key_password_file = Some(path.into());
        self
    }

    /// Sets the name or address that the broker's certificate must contain (default: the host name).
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }
}

#[cfg(feature = "tls")]
impl Settings {
    /// Sets the complete TLS configuration, for keys in hardware, a custom verifier, or certain algorithms. The configuration
    /// then determines the trusted authorities and the client's certificate, so it excludes the files of these settings. The
    /// [`server_name`](Self::server_name) still applies.
    ///
    /// ```
    /// use statestore::{Settings, rustls};
    /// use std::sync::Arc;
    ///
    /// # #[cfg(feature = "ring")]
    /// # fn example(provider: rustls::crypto::CryptoProvider) -> Result<(), rustls::Error> {
    /// let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
    ///     .with_protocol_versions(&[&rustls::version::TLS13])?
    ///     .with_root_certificates(rustls::RootCertStore::empty())
    ///     .with_no_client_auth();
    /// let settings = Settings::new("broker.local", 8883).tls(true).rustls_config(Arc::new(config));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn rustls_config(mut self, config: impl Into<Arc<ClientConfig>>) -> Self {
        self.tls.config = Some(config.into());
        self
    }
}

impl TlsSettings {
    /// Checks that the settings do not contradict each other.
    pub(super) fn check(&self, enabled: bool) -> Result<(), String> {
        if !enabled {
            return match self.first_set() {
                Some(name) => Err(format!(
                    "`{name}` is set, but the connection does not use TLS; use `mqtts` or leave it away"
                )),
                None => Ok(()),
            };
        }
        if !cfg!(feature = "tls") {
            return Err("this program was built without TLS (the feature `tls`)".to_owned());
        }
        #[cfg(feature = "tls")]
        if let (Some(_), Some(name)) = (&self.config, self.first_file()) {
            return Err(format!(
                "`{name}` and `rustls_config` are both set; `rustls_config` has the trusted authorities and the certificate of the client"
            ));
        }
        match (&self.cert_file, &self.key_file) {
            (Some(_), None) => Err("`cert_file` is set and `key_file` is not".to_owned()),
            (None, Some(_)) => Err("`key_file` is set and `cert_file` is not".to_owned()),
            (None, None) if self.key_password_file.is_some() => {
                Err("`key_password_file` is set and `key_file` is not".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn first_set(&self) -> Option<&'static str> {
        #[cfg(feature = "tls")]
        if self.config.is_some() {
            return Some("rustls_config");
        }
        let name = self.server_name.as_ref().map(|_| "server_name");
        self.first_file().or(name)
    }

    fn first_file(&self) -> Option<&'static str> {
        [
            ("ca_file", self.ca_file.is_some()),
            ("cert_file", self.cert_file.is_some()),
            ("key_file", self.key_file.is_some()),
            ("key_password_file", self.key_password_file.is_some()),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}
