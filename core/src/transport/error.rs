//! Errors of transports.
use crate::error::ErrorKind;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Reason why a transport could not be established, or failed.
#[derive(Debug, Clone)]
pub(crate) struct TransportError {
    /// Kind of the error: [`ErrorKind::InvalidSettings`] for an unusable file, [`ErrorKind::Untrusted`] for the broker's
    /// certificate, [`ErrorKind::NotAuthenticated`] for the client's own.
    pub(crate) kind: ErrorKind,
    /// Description of the problem and, where possible, its solution. Never contains a secret.
    pub(crate) reason: String,
    /// Error of the system or of TLS, if there is one.
    pub(crate) source: Option<Arc<io::Error>>,
}

impl TransportError {
    pub(crate) fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            source: None,
        }
    }

    pub(crate) fn with_source(mut self, source: io::Error) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the error for an unusable file of the settings. `description` names its purpose, such as "CA file".
    pub(crate) fn file(description: &str, path: &Path, problem: impl fmt::Display) -> Self {
        let reason = format!("the {description} `{}` {problem}", path.display());
        Self::new(ErrorKind::InvalidSettings, reason)
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
