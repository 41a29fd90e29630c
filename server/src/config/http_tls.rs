//! Options of TLS on the HTTP port.
use crate::config_error::ConfigError;
use clap::Args;
use statestored_admin::HttpAddress;
use statestored_listeners::{ClientCertificates, Tls, TlsFiles};
use std::path::PathBuf;

/// Options of TLS on the HTTP port.
#[derive(Debug, Args)]
pub(super) struct HttpTlsOptions {
    /// File with the certificate of the HTTP port and its intermediate certificates, in PEM, for https
    #[arg(
        id = "http_tls_cert",
        long = "http-tls-cert",
        value_name = "FILE",
        requires = "http_tls_key"
    )]
    certificate: Option<PathBuf>,

    /// File with the private key of --http-tls-cert, in PEM
    #[arg(
        id = "http_tls_key",
        long = "http-tls-key",
        value_name = "FILE",
        requires = "http_tls_cert"
    )]
    key: Option<PathBuf>,

    /// File with certificate authorities, in PEM, one of which must have signed the certificate of each HTTP client
    #[arg(
        id = "http_tls_client_ca",
        long = "http-tls-client-ca",
        value_name = "FILE",
        requires = "http_tls_cert"
    )]
    client_ca: Option<PathBuf>,
}

impl HttpTlsOptions {
    /// Returns whether no option is given.
    pub(super) fn is_empty(&self) -> bool {
        self.certificate.is_none()
    }

    /// Reads the files, if `address` has TLS.
    pub(super) fn into_tls(self, address: &HttpAddress) -> Result<Option<Tls>, ConfigError> {
        match (self.certificate, self.key, address.has_tls()) {
            (Some(certificate), Some(key), true) => {
                let client_certificates = match &self.client_ca {
                    Some(_) => ClientCertificates::Required,
                    None => ClientCertificates::Off,
                };
                Ok(Some(Tls::read(TlsFiles {
                    certificate,
                    key,
                    client_ca: self.client_ca,
                    client_certificates,
                    client_crl: None,
                })?))
            }
            (None, _, false) => Ok(None),
            (_, _, true) => Err(ConfigError::Options(format!(
                "{address} needs a certificate: name files with --http-tls-cert and --http-tls-key"
            ))),
            (Some(_), _, false) => Err(ConfigError::Options(format!(
                "{address} has no TLS: use --http https://{} with --http-tls-cert",
                address.authority()
            ))),
        }
    }
}
