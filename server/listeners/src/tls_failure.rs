//! Reasons why TLS handshakes fail.
use rustls::{AlertDescription, CertificateError, Error};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reason why a TLS handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsFailure {
    /// The client reports that the server's certificate has expired.
    ServerCertificateExpired,
    /// The client does not know the authority of the server's certificate.
    ServerCertificateUnknown,
    /// The client rejects the server's certificate for another reason.
    ServerCertificateRejected,
    /// The client sent no certificate, but must.
    ClientCertificateMissing,
    /// The certificate of the client has expired.
    ClientCertificateExpired,
    /// The certificate of the client was revoked.
    ClientCertificateRevoked,
    /// The certificate of the client is not valid for another reason.
    ClientCertificateInvalid,
    /// Client and server have no version or algorithm of TLS in common.
    Incompatible,
    /// The client closed the connection.
    Closed,
    /// Another reason, such as bytes that are no TLS.
    Other,
}

impl TlsFailure {
    /// All reasons, in the order of [`TlsFailureCounts`].
    const ALL: [Self; 10] = [
        Self::ServerCertificateExpired,
        Self::ServerCertificateUnknown,
        Self::ServerCertificateRejected,
        Self::ClientCertificateMissing,
        Self::ClientCertificateExpired,
        Self::ClientCertificateRevoked,
        Self::ClientCertificateInvalid,
        Self::Incompatible,
        Self::Closed,
        Self::Other,
    ];

    /// Returns its name in metrics.
    fn name(self) -> &'static str {
        match self {
            Self::ServerCertificateExpired => "server_certificate_expired",
            Self::ServerCertificateUnknown => "server_certificate_unknown",
            Self::ServerCertificateRejected => "server_certificate_rejected",
            Self::ClientCertificateMissing => "client_certificate_missing",
            Self::ClientCertificateExpired => "client_certificate_expired",
            Self::ClientCertificateRevoked => "client_certificate_revoked",
            Self::ClientCertificateInvalid => "client_certificate_invalid",
            Self::Incompatible => "incompatible",
            Self::Closed => "closed",
            Self::Other => "other",
        }
    }

    /// Returns the reason that an error of a handshake gives.
    pub(crate) fn of(error: &io::Error) -> Self {
        let cause = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Error>());
        match cause {
            Some(Error::AlertReceived(alert)) => Self::of_alert(*alert),
            Some(Error::NoCertificatesPresented) => Self::ClientCertificateMissing,
            Some(Error::InvalidCertificate(problem)) => match problem {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    Self::ClientCertificateExpired
                }
                CertificateError::Revoked => Self::ClientCertificateRevoked,
                _ => Self::ClientCertificateInvalid,
            },
            Some(Error::PeerIncompatible(_)) => Self::Incompatible,
            Some(_) => Self::Other,
            None => match error.kind() {
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe => Self::Closed,
                _ => Self::Other,
            },
        }
    }

    fn of_alert(alert: AlertDescription) -> Self {
        match alert {
            AlertDescription::CertificateExpired => Self::ServerCertificateExpired,
            AlertDescription::UnknownCA => Self::ServerCertificateUnknown,
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown => Self::ServerCertificateRejected,
            AlertDescription::HandshakeFailure
            | AlertDescription::ProtocolVersion
            | AlertDescription::InsufficientSecurity => Self::Incompatible,
            AlertDescription::CloseNotify | AlertDescription::UserCanceled => Self::Closed,
            _ => Self::Other,
        }
    }
}

/// Numbers of failed TLS handshakes by reason, shared by threads.
#[derive(Debug, Clone, Default)]
pub struct TlsFailureCounts(Arc<[AtomicU64; TlsFailure::ALL.len()]>);

impl TlsFailureCounts {
    /// Counts one more handshake that failed for this reason.
    pub(crate) fn count(&self, failure: TlsFailure) {
        self.0[failure as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the names of all reasons, with the numbers.
    pub fn read(&self) -> [(&'static str, u64); TlsFailure::ALL.len()] {
        TlsFailure::ALL.map(|failure| {
            let count = self.0[failure as usize].load(Ordering::Relaxed);
            (failure.name(), count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_in_declaration_order() {
        let counts = TlsFailureCounts::default();
        for (at, failure) in TlsFailure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, at, "{}", failure.name());
            counts.count(failure);
        }
        assert!(counts.read().iter().all(|(_, count)| *count == 1));
    }

    #[test]
    fn an_alert_of_the_client_is_about_the_certificate_of_the_server() {
        let of = |error| TlsFailure::of(&io::Error::new(io::ErrorKind::InvalidData, error));
        let alert = Error::AlertReceived(AlertDescription::CertificateExpired);
        assert_eq!(of(alert), TlsFailure::ServerCertificateExpired);
        let expired = Error::InvalidCertificate(CertificateError::Expired);
        assert_eq!(of(expired), TlsFailure::ClientCertificateExpired);
        assert_eq!(of(Error::DecryptError), TlsFailure::Other);
        let closed = TlsFailure::of(&io::ErrorKind::UnexpectedEof.into());
        assert_eq!(closed, TlsFailure::Closed);
    }
}
