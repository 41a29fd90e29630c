//! Results of a reload.
use super::ServerStopped;

/// Result of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadReport {
    /// Number of users; `None` if there are none, or they come from no file.
    pub users: Option<usize>,
    /// Number of disconnected clients. Their user was removed or has another password, the key of their token was removed, or the
    /// policy no longer allows their subscriptions or watches.
    pub disconnected: usize,
    /// Names of options that were changed since the start, and take effect at the next start only.
    pub needs_restart: Vec<String>,
}

/// Reason why a reload over HTTP failed. The former configuration stays in force.
#[derive(Debug, thiserror::Error)]
pub enum ReloadFailure {
    /// The configuration is rejected, for this reason.
    #[error("{0}")]
    Rejected(String),
    /// The server has stopped.
    #[error(transparent)]
    Stopped(#[from] ServerStopped),
}
