//! Whom to trust, and who the client is, in TLS.
use super::Settings;
#[cfg(feature = "tls")]
use rustls::ClientConfig;
use std::path::PathBuf;
#[cfg(feature = "tls")]
use std::sync::Arc;

/// What TLS needs besides the broker's address. The files are PEM and are read anew for each connection.
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
    /// Whether the connection is TLS (default: no; yes with `mqtts` URLs and from the environment). It needs the
    /// feature `tls` of this crate, which comes with `ring` by default.
    ///
    /// The cryptography is that of the [`CryptoProvider`](rustls::crypto::CryptoProvider) which the program has installed as the
    /// default of its process; if there is none, `ring`'s, with the feature of that name. Without either, connecting fails
    /// with [`ErrorKind::InvalidSettings`](crate::ErrorKind::InvalidSettings).
    #[must_use]
    pub fn tls(mut self, tls: bool) -> Self {
        self.tls_enabled = tls;
        self
    }

    /// The certificates of the authorities that may have signed the broker's certificate (default: those of the
    /// operating system).
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.ca_file = Some(path.into());
        self
    }

    /// The client's certificate, followed by the intermediate ones, if there are any. It needs a
    /// [`key_file`](Self::key_file).
    #[must_use]
    pub fn cert_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.cert_file = Some(path.into());
        self
    }

    /// The private key of the client's certificate: RSA, ECDSA or Ed25519, as PKCS#8, PKCS#1 or SEC1.
    #[must_use]
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.key_file = Some(path.into());
        self
    }

    /// A file that holds the password of an encrypted PKCS#8 key. One line end at its end does not belong to the
    /// password. A key that is not encrypted does not need it.
    #[must_use]
    pub fn key_password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.key_password_file = Some(path.into());
        self
    }

    /// The name or address to which the broker's certificate must be made out (default: the host name).
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }
}

#[cfg(feature = "tls")]
impl Settings {
    /// TLS exactly as this configuration says, for keys in hardware, a verifier of the program's own, or certain algorithms.
    /// Trust and the client's certificate are the configuration's affair then: it excludes the files of these settings. The
    /// [`server_name`](Self::server_name) still counts.
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
    /// Whether the settings go together.
    pub(super) fn check(&self, enabled: bool) -> Result<(), String> {
        if !enabled {
            return match self.first_given() {
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
                "`{name}` and `rustls_config` are both set; the configuration says whom to trust and who the client is"
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

    fn first_given(&self) -> Option<&'static str> {
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
