//! Why there is no connection.
use crate::error::ErrorKind;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Why a transport could not be set up, or broke.
#[derive(Debug, Clone)]
pub(crate) struct TransportError {
    /// [`ErrorKind::InvalidSettings`] is a file that cannot be used; [`ErrorKind::Untrusted`] is the broker's
    /// certificate; [`ErrorKind::NotAuthenticated`] is the client's own.
    pub(crate) kind: ErrorKind,
    /// What is wrong and, where that helps, what to do. Never holds a secret.
    pub(crate) reason: String,
    /// The error of the system, or of TLS, if there was one.
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

    /// A file that the settings name cannot be used. `what` names its purpose: "CA file".
    pub(crate) fn file(what: &str, path: &Path, problem: impl fmt::Display) -> Self {
        let reason = format!("the {what} `{}` {problem}", path.display());
        Self::new(ErrorKind::InvalidSettings, reason)
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
