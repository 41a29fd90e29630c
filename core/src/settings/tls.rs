//! TLS settings: the trusted authorities and the identity of the client.
use super::Settings;
use bytes::Bytes;
#[cfg(feature = "tls")]
use rustls::ClientConfig;
use std::fmt;
#[cfg(feature = "tls")]
use std::path::Path;
use std::path::PathBuf;
#[cfg(feature = "tls")]
use std::sync::Arc;

/// PEM text in memory, which may contain a private key.
#[derive(Clone)]
pub(crate) struct Pem(Bytes);

impl fmt::Debug for Pem {
    /// Omits the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Source of certificates or of a private key.
#[cfg(feature = "tls")]
#[derive(Debug, Clone, Copy)]
pub(crate) enum PemSource<'a> {
    /// The path of a file.
    File(&'a Path),
    /// The name of a setting, and its text.
    Memory(&'static str, &'a Pem),
}

#[cfg(feature = "tls")]
impl<'a> PemSource<'a> {
    fn new(file: Option<&'a PathBuf>, name: &'static str, pem: Option<&'a Pem>) -> Option<Self> {
        match file {
            Some(path) => Some(Self::File(path)),
            None => pem.map(|pem| Self::Memory(name, pem)),
        }
    }
}

#[cfg(feature = "tls")]
impl Pem {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// TLS settings besides the broker's address. The files are PEM and are read for each connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsSettings {
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) cert_file: Option<PathBuf>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) key_password_file: Option<PathBuf>,
    pub(crate) ca_pem: Option<Pem>,
    pub(crate) cert_pem: Option<Pem>,
    pub(crate) key_pem: Option<Pem>,
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

    /// Sets the authorities that are trusted to sign the broker's certificate, as PEM text in memory. Excludes
    /// [`ca_file`](Self::ca_file).
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Bytes>) -> Self {
        self.tls.ca_pem = Some(Pem(pem.into()));
        self
    }

    /// Sets the client's certificate as PEM text in memory, followed by intermediate certificates, if any. Excludes
    /// [`cert_file`](Self::cert_file). A renewed certificate requires a new client.
    #[must_use]
    pub fn cert_pem(mut self, pem: impl Into<Bytes>) -> Self {
        self.tls.cert_pem = Some(Pem(pem.into()));
        self
    }

    /// Sets the private key of the client's certificate as PEM text in memory, in a format of [`key_file`](Self::key_file),
    /// which it excludes. [`key_password_file`](Self::key_password_file) applies to an encrypted key.
    #[must_use]
    pub fn key_pem(mut self, pem: impl Into<Bytes>) -> Self {
        self.tls.key_pem = Some(Pem(pem.into()));
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
    /// then determines the trusted authorities and the client's certificate, so it excludes the files and PEM texts of these
    /// settings. The [`server_name`](Self::server_name) still applies.
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
        if let (Some(_), Some(name)) = (&self.config, self.first_material()) {
            return Err(format!(
                "`{name}` and `rustls_config` are both set; `rustls_config` has the trusted authorities and the certificate of the client"
            ));
        }
        let twins = [
            ("ca_file", &self.ca_file, "ca_pem", &self.ca_pem),
            ("cert_file", &self.cert_file, "cert_pem", &self.cert_pem),
            ("key_file", &self.key_file, "key_pem", &self.key_pem),
        ];
        for (file_name, file, pem_name, pem) in twins {
            if file.is_some() && pem.is_some() {
                let reason =
                    format!("`{file_name}` and `{pem_name}` are both set; give one of them");
                return Err(reason);
            }
        }
        let has_cert = self.cert_file.is_some() || self.cert_pem.is_some();
        let has_key = self.key_file.is_some() || self.key_pem.is_some();
        let (given, needed) = match (has_cert, has_key) {
            (true, false) if self.cert_pem.is_some() => ("cert_pem", "key_pem"),
            (true, false) => ("cert_file", "key_file"),
            (false, true) if self.key_pem.is_some() => ("key_pem", "cert_pem"),
            (false, true) => ("key_file", "cert_file"),
            (false, false) if self.key_password_file.is_some() => ("key_password_file", "key_file"),
            _ => return Ok(()),
        };
        Err(format!("`{given}` is set and `{needed}` is not"))
    }

    /// Returns the trusted authorities, unless they are those of the operating system.
    #[cfg(feature = "tls")]
    pub(crate) fn authorities(&self) -> Option<PemSource<'_>> {
        PemSource::new(self.ca_file.as_ref(), "ca_pem", self.ca_pem.as_ref())
    }

    /// Returns the client's certificate.
    #[cfg(feature = "tls")]
    pub(crate) fn certificate(&self) -> Option<PemSource<'_>> {
        PemSource::new(self.cert_file.as_ref(), "cert_pem", self.cert_pem.as_ref())
    }

    /// Returns the private key of the client's certificate.
    #[cfg(feature = "tls")]
    pub(crate) fn key(&self) -> Option<PemSource<'_>> {
        PemSource::new(self.key_file.as_ref(), "key_pem", self.key_pem.as_ref())
    }

    fn first_set(&self) -> Option<&'static str> {
        #[cfg(feature = "tls")]
        if self.config.is_some() {
            return Some("rustls_config");
        }
        let name = self.server_name.as_ref().map(|_| "server_name");
        self.first_material().or(name)
    }

    fn first_material(&self) -> Option<&'static str> {
        [
            ("ca_file", self.ca_file.is_some()),
            ("cert_file", self.cert_file.is_some()),
            ("key_file", self.key_file.is_some()),
            ("key_password_file", self.key_password_file.is_some()),
            ("ca_pem", self.ca_pem.is_some()),
            ("cert_pem", self.cert_pem.is_some()),
            ("key_pem", self.key_pem.is_some()),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}
