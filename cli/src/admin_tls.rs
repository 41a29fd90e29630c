//! TLS of the HTTP port of a server.
use crate::failure::Failure;
use clap::Args;
use statestore::rustls::{
    self, AlertDescription as Alert, CertificateError, ClientConfig, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Options of TLS for the HTTP port of a server.
#[derive(Debug, Clone, Args)]
pub(crate) struct AdminTls {
    /// File with the certificate authorities of the HTTP port, in PEM, for https [default: those of this system]
    #[arg(
        id = "admin_ca_file",
        long = "ca-file",
        global = true,
        value_name = "FILE",
        env = "STATESTORE_ADMIN_CA_FILE"
    )]
    authorities: Option<PathBuf>,
    /// File with a certificate to show to the HTTP port, in PEM, with --key-file
    #[arg(
        id = "admin_cert_file",
        long = "cert-file",
        global = true,
        value_name = "FILE",
        env = "STATESTORE_ADMIN_CERT_FILE"
    )]
    certificate: Option<PathBuf>,
    /// File with the private key of --cert-file, in PEM, without a password
    #[arg(
        id = "admin_key_file",
        long = "key-file",
        global = true,
        value_name = "FILE",
        env = "STATESTORE_ADMIN_KEY_FILE"
    )]
    key: Option<PathBuf>,
}

impl AdminTls {
    /// Returns whether no option is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.authorities.is_none() && self.certificate.is_none() && self.key.is_none()
    }

    /// Returns the settings of connections. The files are read for each connection, so that renewed ones take effect.
    pub(crate) async fn connector(&self) -> Result<TlsConnector, Failure> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::usage(format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(self.roots().await?);
        let config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key_file)) => {
                let chain = certificates(certificate).await?;
                let text = read(key_file).await?;
                let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
                    unusable(
                        key_file,
                        "it contains no private key in PEM without a password",
                    )
                })?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| unusable(key_file, &error.to_string()))?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(Failure::usage("--cert-file and --key-file need each other")),
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    async fn roots(&self) -> Result<RootCertStore, Failure> {
        let mut roots = RootCertStore::empty();
        let Some(path) = &self.authorities else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                let problem =
                    "this system has no certificate authorities: name a file with --ca-file";
                return Err(Failure::usage(problem));
            }
            return Ok(roots);
        };
        for certificate in certificates(path).await? {
            roots
                .add(certificate)
                .map_err(|error| unusable(path, &error.to_string()))?;
        }
        Ok(roots)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = tokio::fs::read(path).await;
    bytes.map_err(|error| Failure::file("read", path, &error))
}

/// Reads all certificates of a file, at least one.
async fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let text = read(path).await?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unusable(path, "it contains no certificate in PEM")),
    }
}

fn unusable(path: &Path, problem: &str) -> Failure {
    Failure::usage(format!("cannot use file '{}': {problem}", path.display()))
}

/// Completes a handshake with the server at `host`, which is a name or an IP address without brackets.
///
/// # Errors
/// The reason, with advice.
pub(crate) async fn connect(
    connector: &TlsConnector,
    host: &str,
    stream: TcpStream,
) -> Result<Box<TlsStream<TcpStream>>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connected = connector.connect(name, stream).await;
    connected.map(Box::new).map_err(|error| explain(&error))
}

/// Describes an error with its causes, and advice for those of TLS.
pub(crate) fn explain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut advice = None;
    let mut next = Some(error);
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        let tls = cause
            .downcast_ref::<io::Error>()
            .and_then(|error| error.get_ref()?.downcast_ref::<rustls::Error>());
        advice = advice.or(tls.and_then(advice_for));
        next = cause.source();
    }
    match advice {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    }
}

fn advice_for(error: &rustls::Error) -> Option<&'static str> {
    Some(match error {
        rustls::Error::InvalidMessage(_) => "the server may not use TLS on this port: try http://",
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "name the file of its authority with --ca-file",
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "ask for it by a name in its certificate",
        rustls::Error::AlertReceived(Alert::CertificateRequired | Alert::NoCertificate) => {
            "show a certificate with --cert-file and --key-file"
        }
        rustls::Error::AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => "the server does not accept the certificate of --cert-file",
        _ => return None,
    })
}
