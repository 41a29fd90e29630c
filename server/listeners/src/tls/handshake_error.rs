//! Messages for failed TLS handshakes, with their remedies.
use rustls::{AlertDescription, CertificateError, Error, OtherError};
use std::io;

/// Replaces an error that only names a detail of the implementation with advice. `ca_option` is the option with the authorities of
/// clients.
pub(crate) fn with_advice(error: io::Error, ca_option: &str) -> io::Error {
    let cause = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let Some(cause) = cause else {
        return error;
    };
    if is_of_version_1(cause) {
        let problem = format!("the client's certificate, or one behind it, is {VERSION_1}");
        return io::Error::new(error.kind(), problem);
    }
    if let Error::InvalidCertificate(CertificateError::UnknownIssuer) = cause {
        let problem = format!(
            "the client's certificate is not signed by an authority of {ca_option}, or it was sent without those in between"
        );
        return io::Error::new(error.kind(), problem);
    }
    match advice(cause) {
        Some(advice) => io::Error::new(error.kind(), advice),
        None => error,
    }
}

/// Description of a certificate of version 1, which `openssl x509 -req` makes without extensions.
pub(super) const VERSION_1: &str = "of X.509 version 1, which is not supported: make it one of version 3 (openssl x509 -req -extfile FILE, \
                                    where FILE may hold `basicConstraints = CA:FALSE`)";

/// Returns whether an error is about a certificate of version 1. The library has no variant of its own for that.
pub(super) fn is_of_version_1(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(CertificateError::Other(OtherError(other)))
            if other.to_string() == "UnsupportedCertVersion"
    )
}

fn advice(error: &Error) -> Option<&'static str> {
    let problem = match error {
        Error::InvalidCertificate(problem) => problem,
        Error::AlertReceived(alert) => return advice_for_alert(*alert),
        _ => return None,
    };
    Some(match problem {
        CertificateError::Other(OtherError(other)) => match other.to_string().as_str() {
            "CaUsedAsEndEntity" => {
                "the client's certificate is one of an authority (CA:TRUE), which is not accepted of a client: sign one of its own for it"
            }
            "RequiredEkuNotFoundContext" | "RequiredEkuNotFound" => {
                "the client's certificate is not for clients: its extended key usage lacks clientAuth"
            }
            _ => return None,
        },
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the client's certificate, or one between it and its authority, has a key or signature that is not supported: RSA of 2048 to 8192 \
             bits, ECDSA over P-256 or P-384, and Ed25519 are"
        }
        _ => return None,
    })
}

/// Returns the meaning of an alert by which a client rejects the server's certificate.
fn advice_for_alert(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateExpired => {
            "the client rejects the server's certificate, since it has expired: renew it, or set the clock of the client"
        }
        AlertDescription::UnknownCA => {
            "the client does not know the authority of the server's certificate: give the client the authority's certificate"
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown => {
            "the client rejects the server's certificate: look at the names in it, and at the client's log"
        }
        _ => return None,
    })
}
