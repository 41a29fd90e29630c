//! Explanations of TLS failures for messages.
use crate::error::ErrorKind;
use crate::transport::error::TransportError;
use rustls::{AlertDescription, CertificateError, Error as RustlsError};
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

/// Settings that an explanation refers to.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) server_name: String,
    /// The file or setting with the trusted authorities, unless they are those of the system.
    pub(super) authorities: Option<String>,
    /// The file or setting with the client's certificate.
    pub(super) certificate: Option<String>,
}

/// Returns the TLS error inside an I/O error, if there is one.
pub(super) fn tls_error(error: &io::Error) -> Option<&RustlsError> {
    error.get_ref()?.downcast_ref()
}

impl Context {
    /// Explains why the handshake failed.
    pub(super) fn explain(&self, error: &io::Error) -> TransportError {
        match tls_error(error) {
            Some(error) => self.explain_tls(error),
            None if error.kind() == io::ErrorKind::UnexpectedEof => TransportError::new(
                ErrorKind::Unreachable,
                "the broker closed the connection during the TLS handshake; it may not speak TLS on this port",
            ),
            None => TransportError::new(
                ErrorKind::Unreachable,
                format!("the connection broke during the TLS handshake: {error}"),
            ),
        }
    }

    pub(super) fn explain_tls(&self, error: &RustlsError) -> TransportError {
        match error {
            RustlsError::InvalidCertificate(problem) => {
                let source = io::Error::new(io::ErrorKind::InvalidData, error.clone());
                TransportError::new(ErrorKind::Untrusted, self.explain_certificate(problem))
                    .with_source(source)
            }
            RustlsError::AlertReceived(alert) => self.alert(*alert),
            RustlsError::InvalidMessage(_) => TransportError::new(
                ErrorKind::ConnectionRefused,
                "the broker does not speak TLS on this port",
            ),
            error => {
                TransportError::new(ErrorKind::ConnectionRefused, format!("TLS failed: {error}"))
            }
        }
    }

    /// Explains why the broker's certificate is rejected.
    fn explain_certificate(&self, error: &CertificateError) -> String {
        let certificate = "the broker's certificate";
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                match &self.authorities {
                    Some(authorities) => format!(
                        "{certificate} is not signed by an authority in {authorities}; give the certificate of the authority that signed it, \
                         or the certificate itself if it is self-signed"
                    ),
                    None => format!(
                        "{certificate} is not signed by an authority that this system knows; name a CA file if the broker has its own"
                    ),
                }
            }
            CertificateError::Expired => format!("{certificate} has expired"),
            CertificateError::ExpiredContext { time, not_after } => {
                let ago = time.as_secs().saturating_sub(not_after.as_secs());
                format!(
                    "{certificate} expired {} ago, or the clock of this machine is wrong",
                    approximate(Duration::from_secs(ago))
                )
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("{certificate} is not valid yet, or the clock of this machine is wrong")
            }
            CertificateError::NotValidForName => {
                format!("{certificate} is not made out to `{}`", self.server_name)
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                const SHOWN: usize = 5;
                let mut text = format!("{certificate} is not made out to `{}`", self.server_name);
                for (index, name) in presented.iter().take(SHOWN).enumerate() {
                    let before = if index == 0 { " but to" } else { "," };
                    let _ = write!(text, "{before} {}", name_without_type(name));
                }
                if presented.len() > SHOWN {
                    text.push_str(", ...");
                }
                text.push_str("; set the server name if that is right");
                text
            }
            error => format!(
                "{certificate} is not acceptable: {}",
                describe_rejection(error)
            ),
        }
    }

    /// Explains a TLS alert from the broker.
    fn alert(&self, alert: AlertDescription) -> TransportError {
        use AlertDescription as Alert;
        let (kind, reason) = match (alert, &self.certificate) {
            (Alert::CertificateRequired | Alert::NoCertificate, _)
            | (Alert::HandshakeFailure | Alert::BadCertificate, None) => (
                ErrorKind::NotAuthenticated,
                format!(
                    "the broker refused the TLS handshake ({alert:?}): it may demand a client certificate; name a certificate file and a key file. \
                     {SUPPORTED_KEYS}"
                ),
            ),
            (Alert::HandshakeFailure, Some(_)) => (
                ErrorKind::ConnectionRefused,
                format!("the broker refused the TLS handshake ({alert:?}). {SUPPORTED_KEYS}"),
            ),
            (
                Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::DecryptError,
                Some(certificate),
            ) => (
                ErrorKind::NotAuthenticated,
                format!(
                    "the broker does not accept the client certificate in `{certificate}` ({alert:?})"
                ),
            ),
            (Alert::UnrecognisedName, _) => (
                ErrorKind::ConnectionRefused,
                format!("the broker does not answer for `{}`", self.server_name),
            ),
            (alert, _) => (
                ErrorKind::ConnectionRefused,
                format!("the broker refused the TLS handshake ({alert:?})"),
            ),
        };
        TransportError::new(kind, reason)
    }
}

/// Advice for a broker whose key type the client does not support: such a broker sends an alert without further details.
const SUPPORTED_KEYS: &str = "Or the broker's certificate has a key of another kind than RSA, P-256, P-384 and Ed25519, such as P-521";

/// Returns the name of a certificate, which rustls prints as `DnsName("localhost")`, without its type.
fn name_without_type(shown: &str) -> &str {
    let name = shown.split_once('(').map_or(shown, |(_, name)| name);
    name.trim_end_matches(')').trim_matches('"')
}

/// Describes the rejection of a certificate, with advice.
fn describe_rejection(error: &CertificateError) -> String {
    let text = error.to_string();
    // Errors of webpki have no description and appear in debug format.
    let has = |name: &str| text.contains(name);
    if has("CaUsedAsEndEntity") {
        return "it is a certificate of an authority, which a broker cannot show; have that authority sign a certificate for the broker, \
                or make a self-signed one without CA:TRUE (openssl: -addext basicConstraints=critical,CA:FALSE)"
            .to_owned();
    }
    if has("UnsupportedCertVersion") {
        return "it is of X.509 version 1; make one of version 3, with a subjectAltName".to_owned();
    }
    match error {
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "its signature or its key is of a kind that is not supported, such as SHA-1, P-521 or Ed448; sign with SHA-256 or better, and use \
             RSA of 2,048 bits or more, P-256, P-384 or Ed25519"
                .to_owned()
        }
        CertificateError::BadEncoding => "it is not well-formed".to_owned(),
        CertificateError::Revoked => "it is revoked".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not for servers; its extended key usage lacks serverAuth".to_owned()
        }
        CertificateError::UnhandledCriticalExtension => {
            "it has a critical extension that is not supported".to_owned()
        }
        _ => text,
    }
}

/// Formats a duration in its largest whole unit.
fn approximate(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}
